"""Plans: what differs, in which order, and which references lead nowhere."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from xwheel_commands.yaml_files import YamlFileError, read_documents

from xwheel_jobs_as_code.checking import build_state
from xwheel_jobs_as_code.diff import Action, Change, Step, make_plan
from xwheel_jobs_as_code.state import JOB_DEFAULTS, GroupState, JobState, Ref, State

A, B = Ref("g", "a"), Ref("g", "b")
GROUP = GroupState(app_name="g", title="g", max_running=0)


def job(ref: Ref, *, enabled: bool = False, children: Any = None, job_id: int = 0, **values: Any) -> JobState:
    return JobState(
        ref=ref,
        values={**JOB_DEFAULTS, "handler": "h", **values},
        enabled=enabled,
        children=children or {},
        id=job_id,
        place=f"f:1: job {ref}",
    )


def state(*jobs: JobState, **more: Any) -> State:
    return State(groups={"g": GROUP}, jobs={item.ref: item for item in jobs}, **more)


def actions(steps: list[Step]) -> list[tuple[str, str]]:
    return [(step.action.value, step.name) for step in steps]


def test_the_same_needs_nothing() -> None:
    both = state(job(A, children={B: None}, enabled=True), job(B))
    assert make_plan(both, both) == []


def test_everything_is_made_before_anything_fires() -> None:
    want = state(job(A, children={B: "x"}, enabled=True), job(B), calendars={"c": {"weekdays": "SUN"}})
    assert actions(make_plan(want, State())) == [
        ("save-calendar", "c"),
        ("create-group", "g"),
        ("create", "g/a"),
        ("create", "g/b"),
        ("children", "g/a"),
        ("start", "g/a"),
    ]


def test_fields_are_told_old_and_new_and_a_left_out_anchor_stays() -> None:
    want, have = job(A, timeout_s=5), job(A, anchor_ms=7, job_id=1, param="x", enabled=True)
    stop, update = make_plan(state(want), state(have))
    assert stop.action is Action.STOP
    assert update.changes == (Change("param", "x", ""), Change("timeout_s", 0, 5))
    (step,) = make_plan(state(job(A, anchor_ms=8)), state(job(A, anchor_ms=7)))
    assert step.changes == (Change("anchor_ms", 7, 8),)


def test_a_policy_and_a_threshold_that_are_left_out_stay() -> None:
    """On a job that is there: a file written before the default changed must not change what happens."""
    have = job(A, job_id=1, misfire_policy="skip", misfire_threshold_ms=7)
    text = b"groups: [{app_name: g, jobs: [{name: a, handler: h%s}]}]"
    for named, changes in (
        (b"", []),
        (b", misfire_policy: fire_once", [Change("misfire_policy", "skip", "fire_once")]),
        (b", misfire_threshold_ms: null", [Change("misfire_threshold_ms", 7, None)]),
    ):
        (document,) = read_documents("f", BytesIO(text % named))
        want = build_state([("f", document)])
        assert [change for step in make_plan(want, state(have)) for change in step.changes] == changes
        (new,) = [step for step in make_plan(want, State()) if step.action is Action.CREATE]
        assert isinstance(new.want, JobState)
        assert new.want.values["misfire_policy"] == "fire_once"


def test_only_prune_deletes_and_only_in_groups_of_the_file() -> None:
    have = State(groups={"g": GROUP}, jobs={ref: job(ref, job_id=1) for ref in (A, B, Ref("other", "x"))})
    assert make_plan(state(job(A)), have) == []
    assert actions(make_plan(state(job(A)), have, prune=True)) == [("delete", "g/b")]


@pytest.mark.parametrize(
    ("want", "have", "prune", "message"),
    [
        (job(A, children={B: None}), state(), False, "job g/a: children: there is no job g/b; did you mean g/a"),
        (job(A, children={B: None}), state(job(B)), True, "--prune would delete it"),
        (job(A, calendar_require=["c"]), state(), False, "calendar_require: no calendar is called c"),
        (job(A), state(duplicates={A: (3, 4)}), False, r"2 jobs of the node are called g/a \(ids 3, 4\)"),
        (job(A, children={B: None}), state(duplicates={B: (3, 4)}), False, "2 jobs of the node are called g/b"),
        (job(A, children={A: "${result.g/b}"}), state(), False, "there is no job g/b"),
    ],
    ids=range(6),
)
def test_references_that_lead_nowhere_are_refused(want: JobState, have: State, prune: bool, message: str) -> None:
    with pytest.raises(YamlFileError, match=message):
        make_plan(state(want), have, prune=prune)


def test_references_lead_to_jobs_of_the_node_and_of_other_groups() -> None:
    other = Ref("o", "x/y")
    want = state(job(A, children={B: None, other: None}))
    assert actions(make_plan(want, state(job(A), job(B), others={other: 9}))) == [("children", "g/a")]


def test_glue_types_of_a_group_that_are_left_out_stay() -> None:
    have = GroupState(app_name="g", title="g", max_running=0, glue_types=("GLUE_GROOVY",), id=1)

    def plan(said: str) -> list[Step]:
        text = f"groups: [{{app_name: g{said}}}]".encode()
        documents = [("f", document) for document in read_documents("f", BytesIO(text))]
        return make_plan(build_state(documents), State(groups={"g": have}))

    assert plan("") == []
    assert plan(", glue_types: [GLUE_GROOVY]") == []
    (step,) = plan(", glue_types: []")
    assert (step.action, step.changes) == (Action.UPDATE_GROUP, (Change("glue_types", ("GLUE_GROOVY",), ()),))
    with pytest.raises(YamlFileError, match="glue_types"):
        plan(", glue_types: [a b]")
