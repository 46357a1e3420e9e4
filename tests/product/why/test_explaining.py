"""Verdicts of facts, without a database: the stages of a run, what took most, and what is not known."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from xwheel_why.audit import AuditAccess, AuditedDeed
from xwheel_why.explaining import explain
from xwheel_why.facts import AuditFacts, Facts, Holder, Naming, Waiting
from xwheel_why.of_runs import stages_of
from xwheel_why.words import moment, quoted, span, who

from tests.support.rows import NOW, make_job, make_run
from xwheel.model import BlockScope, Origin, Run, RunReason, RunState
from xwheel.model.versions import JobAction, JobVersion, definition_of

JOB = make_job(created_ms=NOW - 1000, next_fire_ms=NOW + 1000, enabled=True)


def version(
    revision: int = 1, action: str = JobAction.CREATE, at_ms: int = NOW - 1000, **definition: Any
) -> JobVersion:
    return JobVersion(
        job_id=1, revision=revision, at_ms=at_ms, actor_kind="account", actor="alice", action=action, reason="",
        glue_version=0, definition={**definition_of(JOB), **definition},
    )  # fmt: skip


def facts(**given: Any) -> Facts:
    then = version()
    known = {"now_ms": NOW + 60_000, "job": JOB, "then": then, "earlier": [then], "versions": [then], "job_then": JOB}
    return Facts(**{**known, "due_ms": NOW, **given})


def ran(**changes: Any) -> Run:
    at = {"created_ms": NOW - 4000, "dispatched_ms": NOW + 10, "accepted_ms": NOW + 20, "finished_ms": NOW + 5020}
    return make_run(5, **{"state": RunState.SUCCEEDED, **at, **changes})


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, [("dispatched", 10), ("accepted", 10), ("finished", 5000)]),
        # planned long after it was due, and sent before another one
        (
            {"created_ms": NOW + 3000, "due_ms": NOW + 3000, "dispatched_ms": NOW + 4000, "accepted_ms": NOW + 4001},
            [("planned", 3000), ("dispatched", 1000), ("accepted", 1), ("finished", 1019)],
        ),
        # jitter, and sent to its executor before it is due
        (
            {"due_ms": NOW + 700, "dispatched_ms": NOW + 500, "accepted_ms": NOW + 700, "finished_ms": NOW + 900},
            [("due", 700), ("finished", 200)],
        ),
        # it waited behind another run on its executor
        ({"started_ms": NOW + 3020}, [("dispatched", 10), ("accepted", 10), ("began", 3000), ("finished", 2000)]),
        # it was killed before its executor began it
        ({"started_ms": 0, "state": RunState.KILLED}, [("dispatched", 10), ("accepted", 10), ("finished", 5000)]),
        # refused: accepted by none
        (
            {"state": RunState.REFUSED, "accepted_ms": None, "finished_ms": NOW + 50},
            [("dispatched", 10), ("finished", 40)],
        ),
    ],
)
def test_stages_are_those_that_took_time(changes: dict[str, Any], wanted: list[tuple[str, int]]) -> None:
    found = stages_of(ran(**changes), NOW + 60_000)
    assert [(stage.name, stage.took_ms) for stage in found] == wanted
    assert all(stage.is_over for stage in found)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"state": RunState.PLANNED, "dispatched_ms": None, "accepted_ms": None, "finished_ms": None}, "dispatched"),
        ({"state": RunState.DISPATCHING, "accepted_ms": None, "finished_ms": None}, "accepted"),
        ({"state": RunState.RUNNING, "finished_ms": None}, "finished"),
        ({"state": RunState.RUNNING, "finished_ms": None, "reason": "waits:1767225600000"}, "began"),
    ],
)
def test_the_present_stage_of_an_open_run_is_not_over(changes: dict[str, Any], name: str) -> None:
    last = stages_of(ran(**changes), NOW + 60_000)[-1]
    assert (last.name, last.is_over, last.to_ms) == (name, False, NOW + 60_000)
    verdict = explain(facts(run=ran(**changes)))
    assert (verdict.cause, verdict.took_most) == (str(changes["state"]), name)


def test_a_late_run_says_which_stage_made_it_late() -> None:
    late = {"created_ms": NOW + 3000, "due_ms": NOW + 3000, "dispatched_ms": NOW + 4000, "accepted_ms": NOW + 4001}
    verdict = explain(facts(run=ran(reason=RunReason.MISFIRE, **late)))
    assert (verdict.cause, verdict.lateness_ms, verdict.took_most) == ("misfire", 4001, "planned")
    assert "began late, 4.0 s after its due time" in verdict.sentence
    assert "3.0 s of that passed before its row was planned" in verdict.sentence


def test_retries_and_recoveries_are_linked() -> None:
    retry = make_run(6, origin=Origin.RETRY, origin_key=5, root_id=5, attempt=2, state=RunState.SUCCEEDED)
    recovery = make_run(7, origin=Origin.RECOVERY, origin_key=6, root_id=5, attempt=3, state=RunState.RUNNING)
    shard = make_run(8, origin=Origin.SCHEDULE, root_id=5, shard_index=1, state=RunState.SUCCEEDED)
    first = ran(state=RunState.FAILED, shard_total=2, message="no disk")
    verdict = explain(facts(run=first, fire=[retry, recovery, shard]))
    assert (verdict.cause, [run.id for run in verdict.runs]) == ("failed", [6, 7, 8])
    for words in ("A retry followed: run 6", "A recovery followed: run 7", "1 other runs", "Its row says: no disk."):
        assert words in verdict.sentence
    assert explain(facts(run=retry)).facts["repeats_run_id"] == 5


def test_an_unknown_reason_of_a_newer_version_is_told_by_the_state() -> None:
    verdict = explain(facts(run=ran(state=RunState.FAILED, reason="sunspots")))
    assert (verdict.cause, verdict.facts["reason"]) == ("failed", "sunspots")
    verdict = explain(facts(run=ran(state=RunState.RUNNING, finished_ms=None, reason="idle:1767225600000")))
    assert verdict.cause == "running"


@pytest.mark.parametrize(
    ("access", "words"), [(AuditAccess.ABSENT, "not installed"), (AuditAccess.HIDDEN, "to its readers only")]
)
def test_without_the_audit_it_says_what_is_missing(access: AuditAccess, words: str) -> None:
    audit = AuditFacts(access=access, pauses_access=access)
    killed = ran(state=RunState.CANCELLED, reason=RunReason.KILLED_BY_USER)
    verdict = explain(facts(cancelled=[killed], audit=audit))
    assert (verdict.cause, "by" in verdict.facts) == ("killed_by_user", False)
    assert words in verdict.missing[0]
    skipped = make_run(5, state=RunState.SKIPPED, reason=RunReason.MISFIRE, skip_last_ms=NOW, skip_count=1)
    assert words in explain(facts(skip=skipped, audit=audit)).missing[0]
    paused = explain(facts(paused_since_ms=NOW, job=msgspec.structs.replace(JOB, next_fire_ms=NOW), audit=audit,
                           naming=Naming(is_named=True)))  # fmt: skip
    assert (paused.cause, words in paused.missing[0]) == ("schedules_paused", True)


def test_a_skip_row_that_counted_no_further_says_at_least() -> None:
    row = make_run(5, state=RunState.SKIPPED, reason=RunReason.MISFIRE, skip_last_ms=NOW + 5000, skip_count=1001)
    verdict = explain(facts(skip=row))
    assert "at least 1000 due times" in verdict.sentence
    assert (verdict.facts["count"], verdict.facts["is_at_least"]) == (1000, True)


def test_a_run_that_is_due_and_planned_says_what_it_waits_for() -> None:
    planned = make_run(5, state=RunState.PLANNED)
    free = Waiting(live_executors=2)
    verdict = explain(facts(run=planned, holder=Holder(partition=1), waiting=free))
    assert "No living node holds partition 1" in verdict.sentence
    assert "is planned and has waited 60.0 s to be sent" in verdict.sentence
    held = {"run": planned, "holder": Holder(partition=1, node="n", is_alive=True)}
    assert [row.table for row in explain(facts(**held, waiting=free)).evidence] == ["open_run"]
    none = explain(facts(**held, waiting=Waiting(live_executors=0)))
    assert (none.facts["live_executors"], "no live executor now." in none.sentence) == (0, True)
    full = explain(facts(**held, waiting=Waiting(live_executors=1, open_in_group=3, max_running=3)))
    assert "have 3 runs; its limit is 3." in full.sentence
    one = msgspec.structs.replace(JOB, block_scope=BlockScope.CLUSTER)
    blocked = explain(facts(**held, job=one, waiting=Waiting(live_executors=1, open_of_job=[4])))
    assert "Run 4 of the job is open" in blocked.sentence
    side_by_side = explain(facts(**held, waiting=Waiting(live_executors=1, open_of_job=[4])))
    assert "is open" not in side_by_side.sentence
    assert blocked.evidence[-1].key == "4"


def test_nothing_is_guessed_where_rows_are_silent() -> None:
    verdict = explain(facts(naming=Naming(is_named=True), is_searched=False))
    assert (verdict.kind, verdict.cause, len(verdict.missing)) == ("unknown", "unknown", 2)
    broken = facts(naming=Naming(error="no schedule type is called 'GONE'"), job_then=None)
    assert explain(broken).missing == ["the due times of the schedule: no schedule type is called 'GONE'"]


def test_words_are_of_one_line_and_not_endless() -> None:
    assert quoted("a\nb\x00c" + "d" * 500).startswith("a bcd")
    assert len(quoted("d" * 500)) == 200
    assert [span(ms) for ms in (5, 1500, 119_000, 120_000, 7_200_000, 10 * 86_400_000)] == [
        "5 ms", "1.5 s", "119.0 s", "2 minutes", "2 hours", "10 days",
    ]  # fmt: skip
    assert (moment(NOW), moment(NOW + 5)) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.005Z")
    assert who(None) == "somebody whose name is not kept"
    assert who(AuditedDeed(1, NOW, "run.kill", "", "node", "")) == "the node"
    assert who(AuditedDeed(1, NOW, "run.kill", "al\nice", "account", 'so "it" is')) == 'account al ice ("so "it" is")'
