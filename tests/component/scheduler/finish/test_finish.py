"""Outcomes close runs once, and a late one corrects a lost run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.model import Origin, RunReason, RunState
from xwheel.scheduler.finish.finish import MESSAGE_LENGTH, OutcomeStatus
from xwheel.scheduler.records import Outcome
from xwheel.storage import open_runs, runs
from xwheel.storage.database.engine import Connection


def test_outcomes_are_told_apart(node: HandNode) -> None:
    job = node.job(enabled=False)
    first, second = (node.scheduler.management.run_now.run(job.id) for _ in range(2))
    node.run_for(300)
    node.answer()
    finish = node.scheduler.finishing.finisher.finish
    outcomes = [
        Outcome(run_id=second.id, state=RunState.FAILED, code=500, message="x" * 20_000),
        Outcome(run_id=first.id, state=RunState.SUCCEEDED, code=200),
        Outcome(run_id=first.id, state=RunState.FAILED, code=500),
        Outcome(run_id=999_999, state=RunState.SUCCEEDED),
    ]
    assert finish(outcomes) == {
        first.id: OutcomeStatus.FINISHED,
        second.id: OutcomeStatus.FINISHED,
        999_999: OutcomeStatus.UNKNOWN,
    }
    assert set(finish(outcomes[:3]).values()) == {OutcomeStatus.REPEATED}
    rows = {run.id: run for run in node.runs()}
    assert rows[first.id].state is RunState.SUCCEEDED
    assert len(rows[second.id].message) == MESSAGE_LENGTH


def test_a_callback_may_beat_the_reply(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.finish([run])
    at_ms = node.clock.now_ms()
    node.answer()
    (row,) = node.runs()
    assert (row.state, row.accepted_ms) == (RunState.SUCCEEDED, at_ms)


@pytest.mark.parametrize(
    ("off_ms", "began_ms"),
    [
        (0, 2000),
        # its clock is ahead: the run began as long before its end as it took
        (10**6, 6000),
        # its clock is behind: the run began after it was accepted
        (-(10**6), 0),
    ],
)
def test_a_run_began_when_its_executor_says_as_far_as_that_can_be(node: HandNode, off_ms: int, began_ms: int) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    at_ms = node.clock.now_ms()
    node.answer()
    node.clock.advance(9000)
    told_ms = at_ms + 2000 + off_ms
    node.scheduler.finishing.finisher.finish(
        [Outcome(run_id=run.id, state=RunState.SUCCEEDED, started_ms=told_ms, took_ms=3000)]
    )
    (row,) = node.runs()
    assert (row.accepted_ms, row.started_ms, row.finished_ms) == (at_ms, at_ms + began_ms, at_ms + 9000)
    assert row.began_ms == row.started_ms


@pytest.mark.parametrize(
    ("end", "never"),
    [
        ({"state": RunState.KILLED, "started_ms": 0}, True),
        ({"state": RunState.FAILED, "reason": RunReason.NOT_STARTED, "started_ms": 0}, True),
        # nothing is said of a run that was running
        ({"state": RunState.FAILED, "reason": RunReason.INTERRUPTED, "started_ms": 0}, False),
        ({"state": RunState.SUCCEEDED, "started_ms": 0}, False),
    ],
)
def test_a_run_that_its_executor_ended_before_it_began_never_began(
    node: HandNode, end: dict[str, Any], never: bool
) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    at_ms = node.clock.now_ms()
    node.answer()
    node.clock.advance(9000)
    node.scheduler.finishing.finisher.finish([Outcome(run_id=run.id, **end)])
    (row,) = node.runs()
    assert row.began_ms == (None if never else at_ms)


def test_a_run_that_waited_until_it_was_lost_never_began_unless_its_end_says_so(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer()
    node.clock.advance(9000)
    at_ms = node.clock.now_ms()
    found = [(run.id, at_ms, f"waits:{at_ms}", None)]
    node.db.transaction(lambda conn: open_runs.update_findings(conn, found))
    finish = node.scheduler.finishing.finisher.finish
    finish([Outcome(run_id=run.id, state=RunState.LOST, reason=RunReason.INSTANCE_GONE)])
    assert [(row.state, row.began_ms) for row in node.runs()] == [(RunState.LOST, None)]
    node.clock.advance(9000)
    finish([Outcome(run_id=run.id, state=RunState.SUCCEEDED, started_ms=at_ms + 1000, took_ms=2000)])
    assert [(row.state, row.began_ms) for row in node.runs()] == [(RunState.SUCCEEDED, at_ms + 1000)]


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.KILLED])
def test_a_run_of_an_executor_that_does_not_tell_began_when_it_was_accepted(node: HandNode, state: RunState) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    at_ms = node.clock.now_ms()
    node.answer()
    node.clock.advance(9000)
    node.scheduler.finishing.finisher.finish([Outcome(run_id=run.id, state=state)])
    (row,) = node.runs()
    assert (row.accepted_ms, row.started_ms, row.began_ms) == (at_ms, None, at_ms)


def test_a_planned_run_takes_no_outcome(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    verdicts = node.scheduler.finishing.finisher.finish([Outcome(run_id=run.id, state=RunState.SUCCEEDED)])
    assert verdicts == {run.id: OutcomeStatus.REPEATED}


def test_a_late_outcome_withdraws_the_retry_of_a_lost_run(node: HandNode) -> None:
    job = node.job(enabled=False)
    rows = [
        make_run(500, job_id=job.id, partition=job.partition, state=RunState.LOST, finished_ms=NOW),
        make_run(
            501,
            job_id=job.id,
            partition=job.partition,
            origin=Origin.RETRY,
            origin_key=500,
            due_ms=NOW + 90_000,
            attempt=2,
        ),
    ]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    node.finish([rows[0]])
    states = {run.id: (run.state, run.reason) for run in node.runs()}
    assert states == {500: (RunState.SUCCEEDED, ""), 501: (RunState.CANCELLED, "late_outcome")}


def test_more_than_five_hundred_outcomes_are_closed(node: HandNode) -> None:
    rows = [make_run(number, state=RunState.RUNNING) for number in range(1, 1202)]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    node.finish(rows)
    assert {run.state for run in node.runs()} == {RunState.SUCCEEDED}


def test_an_outcome_of_another_databases_run_closes_nothing(node: HandNode) -> None:
    job = node.job(enabled=False)
    run = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.answer()
    stranger = Outcome(run_id=run.id, state=RunState.FAILED, created_ms=run.created_ms - 1)
    assert node.scheduler.finishing.finisher.finish([stranger]) == {run.id: OutcomeStatus.UNKNOWN}
    own = Outcome(run_id=run.id, state=RunState.SUCCEEDED, created_ms=run.created_ms)
    assert node.scheduler.finishing.finisher.finish([own]) == {run.id: OutcomeStatus.FINISHED}


@pytest.mark.parametrize(("left", "wakes"), [(1, 1), (0, 0)])
def test_a_retry_is_adopted_at_once(node: HandNode, monkeypatch: pytest.MonkeyPatch, left: int, wakes: int) -> None:
    job = node.job(enabled=False, max_retries=1)
    row = make_run(
        500, job_id=job.id, partition=job.partition, state=RunState.RUNNING, origin=Origin.API, retries_left=left
    )
    node.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
    woken: list[int] = []
    monkeypatch.setattr(node.scheduler.finishing.finisher, "wake", lambda: woken.append(1))
    node.finish([row], RunState.FAILED)
    assert len(woken) == wakes


def test_a_late_outcome_leaves_a_recovery_run_that_was_sent_meanwhile(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = node.job(enabled=False)
    rows = [
        make_run(500, job_id=job.id, partition=job.partition, state=RunState.LOST, finished_ms=NOW),
        make_run(501, job_id=job.id, partition=job.partition, origin=Origin.RECOVERY, origin_key=500, attempt=2),
    ]
    node.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    find = runs.find_planned

    def sent_then(conn: Connection, identities: Sequence[runs.RunIdentity]) -> list[int]:
        found = find(conn, identities)
        runs.update_fenced(conn, [runs.FencedRow(501, "http://127.0.0.1:9001", "i", 1, None)], now_ms=NOW, check_ms=NOW)
        return found

    monkeypatch.setattr(runs, "find_planned", sent_then)
    node.finish([rows[0]])
    assert {run.id: run.state for run in node.runs()} == {500: RunState.SUCCEEDED, 501: RunState.DISPATCHING}


@pytest.mark.parametrize("instance", [None, "instance-1"])
def test_a_run_that_failed_as_its_kill_asked_is_killed(node: HandNode, instance: str | None) -> None:
    """A foreign executor has no instance."""
    row = make_run(500, state=RunState.RUNNING, instance=instance, kill_requested=True)
    node.db.transaction(lambda conn: runs.insert_runs(conn, [row]))
    node.finish([row], RunState.FAILED)
    assert [run.state for run in node.runs()] == [RunState.KILLED]
