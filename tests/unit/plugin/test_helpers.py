"""Templates and receipts, which alarm channels share."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel_devtools.testing import sample_alarm, sample_job, sample_run

from xwheel.plugin import (
    Alarm,
    AlarmKind,
    AlarmReceipts,
    AlarmTemplate,
    SecretMask,
    alarm_values,
    checked_receivers,
)
from xwheel.plugin.helpers import ALARM_PLACEHOLDERS


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


@pytest.mark.parametrize(
    "text", ["{title.__class__}", "{title!r}", "{title[0]}", "{0}", "{__class__}", "{job.name}"]
)
def test_more_than_a_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no placeholder"):
        AlarmTemplate(text)


def test_a_format_is_plain_text() -> None:
    assert AlarmTemplate("{title:>999999999}").fill({"title": "T"}) == "{title:>999999999}"


def test_a_wrong_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(
        ValueError, match=r"\{titlee\} is no placeholder; did you mean \{title\}\? known: id, kind,"
    ):
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


def test_values_hold_job_group_and_run() -> None:
    values = alarm_values(
        sample_alarm(job=sample_job(id=5, name="nightly {run_id}"), run=sample_run(id=77), count=3)
    )
    assert (
        AlarmTemplate("{group}/{job}/{job_id}/{run_id}/{count}").fill(values)
        == "shop/nightly {run_id}/5/77/3"
    )


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


def test_a_secret_is_hidden_in_every_spelling() -> None:
    secret = 's3cret/ with+odd "signs'
    mask = SecretMask([secret, "", "s3cret"])
    texts = [
        secret,
        "s3cret%2F%20with%2Bodd%20%22signs",
        "s3cret%2F+with%2Bodd+%22signs",
        json.dumps(secret)[1:-1],
    ]
    for text in texts:
        assert mask.hide(f"a {text} b") == "a *** b"
    assert mask.hide("a s3cret") == "a ***"
    assert mask.longest >= max(map(len, texts))
    assert (SecretMask([]).hide("abc"), SecretMask([]).longest) == ("abc", 0)


SECRET = 's3cret/ with+odd "signs€'
UNITS = [f"\\u{ord(one):04x}" for one in SECRET]
PERCENT = "".join(f"%{octet:02x}" for octet in SECRET.encode())
SPELLINGS = {
    "json": json.dumps(SECRET)[1:-1].replace("/", "\\/"),
    "json unicode": "".join(UNITS),
    "json unicode in capitals": "".join(UNITS).upper().replace("U", "u"),
    "json in json": json.dumps("".join(UNITS))[1:-1],
    "html": html.escape(SECRET),
    "html names": html.escape(SECRET).replace("€", "&euro;").replace("&", "&amp;"),
    "html numbers": "".join(f"&#{ord(one)};" for one in SECRET),
    "html hexadecimal": "".join(f"&#x{ord(one):04X};" for one in SECRET),
    "percent in small letters": PERCENT,
    "percent quoted again": PERCENT.replace("%", "%25"),
    "percent where it must be": quote(SECRET, safe="").lower(),
    "form in small letters": quote_plus(SECRET).lower(),
    "mixed": "".join([SECRET[:3], *UNITS[3:9], PERCENT[27:]]),
    "hexadecimal": SECRET.encode().hex().upper(),
}


@pytest.mark.parametrize("text", SPELLINGS.values(), ids=list(SPELLINGS))
def test_a_secret_is_hidden_as_formats_spell_it(text: str) -> None:
    """S18: as answers repeat it, in capitals or not, each character in its own way."""
    mask = SecretMask([SECRET])
    assert mask.hide(f"a|{text}|b") == "a|***|b"
    assert mask.longest >= len(text)
    assert mask.hide(text[:-9]) == text[:-9]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes])
def test_a_secret_is_hidden_in_base64(place: int, encode: Callable[[bytes], bytes]) -> None:
    """S18: wherever it begins among other octets, as after a name and a colon, and in lines."""
    mask = SecretMask([SECRET])
    for before, after in ((b"", b""), (b"n" * 60, b""), (b"", b"e" * 60), (b"somebody:", b"more")):
        whole = encode(b"-" * place + before + SECRET.encode() + after).decode()
        for text in (whole, whole.rstrip("="), whole.replace("\n", "\\n"), quote(whole, safe="")):
            said = mask.hide(text)
            assert "***" in said
            # what is left is of the others alone
            left = "".join(said.split("***")).replace("\\n", "").replace("%0A", "").replace("\n", "")
            assert len(re.sub(r"%3D|=", "", left)) <= (place + len(before) + len(after)) * 4 // 3 + 1


def test_what_is_no_secret_stays() -> None:
    mask = SecretMask([SECRET, "k" * 40, "\\" * 30 + "k"])
    for text in (
        "",
        "k" * 39,
        "\\" * 1000,
        "%" * 1000,
        "&#" * 1000,
        "%25" * 1000,
        "s3cret",
        "s3cret/ with+odd",
    ):
        assert mask.hide(text) == text


@given(st.text(min_size=1), st.text(), st.text())
def test_any_secret_is_hidden_and_any_text_is_read(secret: str, before: str, after: str) -> None:
    said = SecretMask([secret]).hide(f"{before}{secret}{after}")
    assert "***" in said
    assert secret not in said.replace("***", "") or secret in f"{before}{after}" or set(secret) & set("*")
