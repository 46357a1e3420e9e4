"""Templates and receipts, which alarm channels share."""

from __future__ import annotations

import html
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel_alarms import (
    ALARM_PLACEHOLDERS,
    Alarm,
    AlarmKind,
    AlarmReceipts,
    AlarmTemplate,
    alarm_values,
    checked_receivers,
)
from xwheel_devtools.testing import sample_alarm, sample_job, sample_run


def alarm_of(**changes: object) -> Alarm:
    given: dict[str, object] = {
        "id": 7,
        "kind": AlarmKind.FAILED,
        "at_ms": 1_790_000_000_123,
        "title": "t",
        "text": "x",
        "reason": "",
        "job": None,
        "group": None,
        "run": None,
    }
    return Alarm(**(given | changes))  # type: ignore[arg-type]


def test_names_are_replaced_and_other_braces_stay() -> None:
    template = AlarmTemplate('{"a": "{title}", "b": {}, "c": {"d": 1}, "e": {{count}}}')
    assert template.fill({"title": "T", "count": "3"}) == '{"a": "T", "b": {}, "c": {"d": 1}, "e": {3}}'
    assert template.names == {"title", "count"}


def test_values_are_escaped_once_and_not_looked_through() -> None:
    template = AlarmTemplate("<b>{title}</b>{reason}")
    assert template.fill({"title": "<{reason}>", "reason": "r"}, html.escape) == "<b>&lt;{reason}&gt;</b>r"


@pytest.mark.parametrize("text", ["{title.__class__}", "{title!r}", "{title[0]}", "{0}", "{__class__}", "{job.name}"])
def test_more_than_a_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no placeholder"):
        AlarmTemplate(text)


def test_a_format_is_plain_text() -> None:
    assert AlarmTemplate("{title:>999999999}").fill({"title": "T"}) == "{title:>999999999}"


def test_a_wrong_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"\{titlee\} is no placeholder; did you mean \{title\}\? known: id, kind,"):
        AlarmTemplate("{titlee}")
    with pytest.raises(ValueError, match=r"^\{number\} is no placeholder; known: "):
        AlarmTemplate("{number}")
    assert AlarmTemplate("{number}", ("number",)).fill({"number": "5"}) == "5"


class Canary:
    """Tells if a template reaches into a value."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"reached {name}")


PIECES = st.sampled_from(
    [
        "{title}",
        "{text}",
        "{",
        "}",
        "{{",
        "}}",
        "{title.__class__}",
        "{0}",
        "{title!r:^{count}}",
        "%s",
        "${title}",
        "{}",
    ]
)


@given(st.lists(PIECES | st.text(max_size=5), max_size=8).map("".join), st.text(), st.text())
def test_any_template_fills_or_is_refused_and_reaches_nothing(text: str, title: str, body: str) -> None:
    try:
        template = AlarmTemplate(text)
    except ValueError as error:
        refused = error
    else:
        values = {"title": title, "text": body, "count": "2"}
        expected = re.sub(r"\{(title|text|count)\}", lambda found: values[found[1]], text)
        assert template.fill(values) == expected
        # str.format would look into these; a plain look-up hands them to ``escape`` untouched
        canaries = dict.fromkeys(ALARM_PLACEHOLDERS, Canary())
        template.fill(canaries, lambda _: "")  # type: ignore[arg-type]
        return
    assert "is no placeholder" in str(refused)
    assert re.search(r"\{[^{}]*\}", text)


@given(st.text(), st.text(), st.integers())
def test_values_can_always_be_sent(title: str, reason: str, at_ms: int) -> None:
    values = alarm_values(alarm_of(title=title, reason=reason, at_ms=at_ms))
    assert set(values) == set(ALARM_PLACEHOLDERS)
    json.dumps(values, ensure_ascii=False).encode()
    AlarmTemplate("".join(f"{{{name}}}" for name in values)).fill(values).encode()


def test_values_have_the_time_in_utc_and_leave_shell_marks_alone() -> None:
    values = alarm_values(alarm_of(title="$(rm -rf /); `id` \ud800", at_ms=1_790_000_000_123))
    assert values["time"] == "2026-09-21 14:13:20 UTC"
    assert values["title"] == "$(rm -rf /); `id` ?"


@pytest.mark.parametrize(
    ("timezone", "shown"),
    [
        ("UTC", "2026-09-21 14:13:20 UTC"),
        ("Asia/Shanghai", "2026-09-21 22:13:20+08:00 Asia/Shanghai"),
        ("Asia/Kolkata", "2026-09-21 19:43:20+05:30 Asia/Kolkata"),
        ("Europe/Berlin", "2026-09-21 16:13:20+02:00 Europe/Berlin"),
        ("Mars/Olympus", "2026-09-21 14:13:20 UTC"),
    ],
)
def test_u25_times_are_those_of_the_jobs_zone(timezone: str, shown: str) -> None:
    alarm = sample_alarm(at_ms=1_790_000_000_123, job=sample_job(timezone=timezone))
    assert alarm_values(alarm)["time"] == shown


def test_values_hold_job_group_and_run() -> None:
    values = alarm_values(sample_alarm(job=sample_job(id=5, name="nightly {run_id}"), run=sample_run(id=77), count=3))
    assert AlarmTemplate("{group}/{job}/{job_id}/{run_id}/{count}").fill(values) == "shop/nightly {run_id}/5/77/3"


def test_receipts_leave_out_receivers_that_got_it_until_all_did() -> None:
    receipts = AlarmReceipts(limit=2)
    first, summary = alarm_of(), alarm_of(count=5)
    assert receipts.missing(first, ["a", "b", "a"]) == ["a", "b"]
    receipts.note(first, ["a"])
    assert receipts.missing(first, ["a", "b"]) == ["b"]
    assert receipts.missing(summary, ["a", "b"]) == ["a", "b"]
    receipts.forget(first)
    assert receipts.missing(first, ["a", "b"]) == ["a", "b"]
    for number in (1, 2, 3):
        receipts.note(alarm_of(id=number), ["a"])
    assert receipts.missing(alarm_of(id=1), ["a"]) == ["a"]
    assert receipts.missing(alarm_of(id=3), ["a"]) == []


def test_receivers_are_checked_each_once() -> None:
    def parse(text: str) -> str:
        return str(int(text))

    good, bad = checked_receivers(["7", "x", "07", "8"], parse)
    assert good == ["7", "8"]
    assert list(bad) == ["'x'"]
    assert "invalid literal" in bad["'x'"]
