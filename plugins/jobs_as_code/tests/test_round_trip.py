"""Whatever a job holds, its file reads back to the same."""

from __future__ import annotations

import io
import re
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from xwheel.api.schema.fields import VISIBLE
from xwheel.api.schema.messages import JobCreate
from xwheel.model import BlockScope, BlockStrategy, DeliveryPolicy, JoinMode, MisfirePolicy, RetryBackoff
from xwheel_commands.yaml_files import read_documents

from xwheel_jobs_as_code import writing
from xwheel_jobs_as_code.checking import build_state
from xwheel_jobs_as_code.diff import make_plan
from xwheel_jobs_as_code.state import JOB_FIELDS, GroupState, JobState, Ref, State
from xwheel_jobs_as_code.templates import named_in, to_ids, to_names

NASTY = [
    "yes", "on", "null", "~", "1e3", "0x10", "010", "2026-01-01", "12:30", "<<", "=", "- a", "a: b", "#", "'", '"',
    "&a", "*a", "!t", "|", ">", "%", "@", "`", "{", "[", "? a", " a", "a ", "\ta", "a\n", "\na", "a\n\n", "a\n\n b\n",
    "a\r\nb", "\x85", "\u2028", "\ufeff", "\x07", "\x1b[31m", "\U0001f600", "a\n---\nb", "a\n...\n", "x\n #y",
]  # fmt: skip
TEXT = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=60
) | st.text(" \n\t:#-'\"|>yes", max_size=20)  # fmt: skip
NAME = TEXT.filter(lambda text: bool(re.search(VISIBLE, text)))
TIME = st.integers(1, 253_402_300_799_999)
WORD = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,9}\Z")


@st.composite
def values(draw: st.DrawFn) -> dict[str, Any]:
    start = draw(st.none() | st.integers(1, 10**12))
    message = JobCreate(
        group_id=1,
        name="x",
        description=draw(TEXT),
        schedule_conf=draw(TEXT),
        anchor_ms=draw(TIME),
        start_ms=start,
        end_ms=None if start is None else start + draw(st.integers(1, 10**9)),
        misfire_policy=draw(st.sampled_from(MisfirePolicy)),
        misfire_threshold_ms=draw(st.none() | st.integers(0, 1000)),
        block_strategy=draw(st.sampled_from(BlockStrategy)),
        block_scope=draw(st.sampled_from(BlockScope)),
        handler=draw(NAME),
        param=draw(TEXT),
        max_retries=draw(st.integers(0, 9999)),
        retry_backoff=draw(st.sampled_from(RetryBackoff)),
        retry_delays_ms=tuple(draw(st.lists(st.integers(0, 1000), min_size=1, max_size=4))),
        delivery=draw(st.sampled_from(DeliveryPolicy)),
        recover_lost=draw(st.booleans()),
        join_mode=draw(st.sampled_from(JoinMode)),
        calendar_exclude=tuple(draw(st.lists(WORD, max_size=3))),
    )
    plain = msgspec.to_builtins(message)
    return {name: list(value) if isinstance(value := plain[name], tuple) else value for name in JOB_FIELDS}


def written(state: State) -> str:
    out = io.StringIO()
    writing.begin_groups(out, is_empty=not state.groups)
    for group in state.groups.values():
        mine = [job for job in state.jobs.values() if job.ref.app_name == group.app_name]
        writing.write_group(out, group, has_jobs=bool(mine))
        for job in mine:
            writing.write_job(out, job)
    writing.write_calendars(out, state.calendars.items())
    return out.getvalue()


def read(text: str) -> State:
    return build_state([("f", document) for document in read_documents("f", io.BytesIO(text.encode()))])


@given(NAME, NAME, TEXT, values(), values(), st.booleans(), st.none() | TEXT, st.dictionaries(WORD, TEXT, max_size=3))
def test_random_jobs_come_back(
    first: str, second: str, title: str, one: Any, two: Any, enabled: bool, param: str | None, days: Any
) -> None:
    a, b = Ref("g", first), Ref("1.5", second)
    state = State(
        groups={
            name: GroupState(app_name=name, title=title, max_running=3, glue_types=("GLUE_GROOVY", "no"))
            for name in ("g", "1.5", "true")
        },
        jobs={
            a: JobState(ref=a, values=one, enabled=enabled, children={b: param}),
            b: JobState(ref=b, values=two, enabled=not enabled),
        },
        calendars={"no": days, "5": {"dates": ["2026-01-01"]}},
    )
    text = written(state)
    found = read(text)
    # names of calendars that jobs use need not exist here
    names = frozenset({*one["calendar_exclude"], *two["calendar_exclude"]})
    actual = State(groups=state.groups, jobs=state.jobs, calendars=state.calendars, calendar_names=names)
    assert make_plan(found, actual, prune=True) == []
    assert written(found) == text
    yaml.safe_load(text)  # other readers can read it


@pytest.mark.parametrize("text", NASTY)
def test_other_readers_read_the_same_text(text: str) -> None:
    ref = Ref("g", "j")
    job = JobState(ref=ref, values={**_defaults(), "param": text}, enabled=False)
    group = GroupState(app_name="g", title="g", max_running=0)
    found = yaml.safe_load(written(State(groups={"g": group}, jobs={ref: job})))
    assert found["groups"][0]["jobs"][0]["param"] == text


def test_scripts_stand_as_blocks() -> None:
    ref = Ref("g", "j")
    job = JobState(ref=ref, values={**_defaults(), "param": "set -e\n  run: x\n\nend\n"}, enabled=False)
    group = GroupState(app_name="g", title="g", max_running=0)
    text = written(State(groups={"g": group}, jobs={ref: job}))
    assert "    param: |\n      set -e\n        run: x\n\n      end\n" in text


@given(NAME, st.integers(1, 10**15))
def test_templates_name_jobs_and_come_back(name: str, job_id: int) -> None:
    ref = Ref("g", name)
    text = f"$${{result.{job_id}}} ${{result.{job_id}}} ${{result.{job_id}:json}} ${{result}} $"
    spelled = to_names(text, lambda found: ref if found == job_id else None)
    assert named_in(spelled) == [ref, ref]
    assert to_ids(spelled, {ref: job_id}) == text


def _defaults() -> dict[str, Any]:
    plain = msgspec.to_builtins(JobCreate(group_id=1, name="x", handler="h"))
    return {name: list(v) if isinstance(v := plain[name], tuple) else v for name in JOB_FIELDS}
