"""Lost runs and what happens when they were not lost: at most one recovery, and no attempt next to another."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.node import HandNode
from xwheel.errors import FieldError
from xwheel.model import DeliveryPolicy, Origin, RetryBackoff, Run, RunState
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.records import Outcome
from xwheel.storage import runs
from xwheel.storage.database.engine import Connection
from xwheel.storage.schema import tables

Shape = list[tuple[Origin, int, RunState]]


def started(node: HandNode, **changes: Any) -> Run:
    """Return a run of a recovering job that an executor has."""
    job = node.job(enabled=False, **{"recover_lost": True, "max_retries": 1, **changes})
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    (run,) = node.answer()
    return run


def shape(node: HandNode) -> Shape:
    return [(run.origin, run.attempt, run.state) for run in sorted(node.runs(), key=lambda run: run.attempt)]


def test_a_lost_run_gets_one_recovery_run_and_no_second(node: HandNode) -> None:
    run = started(node)
    node.finish([run, run], RunState.LOST)
    node.finish([run], RunState.LOST)
    node.run_for(300)
    (recovery,) = node.answer()
    assert (recovery.origin_key, recovery.root_id, recovery.retries_left) == (run.id, run.root_id, 1)
    node.finish([recovery], RunState.LOST)
    node.run_for(300)
    assert node.sent == []
    assert shape(node) == [(Origin.API, 1, RunState.LOST), (Origin.RECOVERY, 2, RunState.LOST)]


def test_the_retry_of_a_recovery_run_is_not_recovered_again(node: HandNode) -> None:
    node.finish([started(node)], RunState.LOST)
    node.run_for(300)
    node.finish(node.answer(), RunState.FAILED)
    node.run_for(300)
    node.finish(node.answer(), RunState.LOST)
    assert shape(node) == [
        (Origin.API, 1, RunState.LOST),
        (Origin.RECOVERY, 2, RunState.FAILED),
        (Origin.RETRY, 3, RunState.LOST),
    ]


@pytest.mark.parametrize("changes", [{"recover_lost": False}, {"delivery": DeliveryPolicy.AT_MOST_ONCE}])
def test_nothing_follows_a_lost_run_unless_the_job_allows_it(node: HandNode, changes: dict[str, Any]) -> None:
    node.finish([started(node, **changes)], RunState.LOST)
    assert shape(node) == [(Origin.API, 1, RunState.LOST)]


def test_a_late_success_withdraws_the_planned_recovery(node: HandNode) -> None:
    run = started(node)
    node.finish([run], RunState.LOST)
    node.finish([run])
    node.run_for(300)
    assert node.sent == []
    assert shape(node) == [(Origin.API, 1, RunState.SUCCEEDED), (Origin.RECOVERY, 2, RunState.CANCELLED)]
    assert node.runs()[-1].reason == "late_outcome"


def test_a_late_failure_exchanges_the_planned_recovery_for_a_retry(node: HandNode) -> None:
    run = started(node)
    node.finish([run], RunState.LOST)
    node.finish([run], RunState.FAILED)
    node.finish([run], RunState.FAILED)
    assert sorted(shape(node)) == sorted(
        [
            (Origin.API, 1, RunState.FAILED),
            (Origin.RECOVERY, 2, RunState.CANCELLED),
            (Origin.RETRY, 2, RunState.PLANNED),
        ]
    )
    node.run_for(300)
    # the recovery run that was withdrawn did not use up the one that the shard may have
    node.finish(node.answer(), RunState.LOST)
    node.run_for(300)
    assert [parcel.shards[0].run.origin for parcel in node.sent] == [Origin.RECOVERY]


@pytest.mark.parametrize("late", [RunState.SUCCEEDED, RunState.FAILED])
def test_a_recovery_run_on_its_way_is_the_next_attempt(node: HandNode, late: RunState) -> None:
    run = started(node)
    node.finish([run], RunState.LOST)
    node.run_for(300)
    (recovery,) = node.answer()
    node.finish([run], late)
    assert shape(node) == [(Origin.API, 1, late), (Origin.RECOVERY, 2, RunState.RUNNING)]
    node.finish([recovery], RunState.FAILED)
    assert [row.origin for row in node.runs()].count(Origin.RETRY) == 1


def test_n27_a_recovery_run_that_is_sent_while_it_is_looked_for_goes_on(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(node)
    node.finish([run], RunState.LOST)
    found = runs.find_planned

    def sent_meanwhile(conn: Connection, identities: Any) -> list[int]:
        ids = found(conn, identities)
        change = sa.update(tables.open_run).where(tables.open_run.c.id.in_(ids))
        conn.execute(change.values(state=RunState.DISPATCHING, check_ms=node.clock.now_ms() + 5000))
        return ids

    monkeypatch.setattr(runs, "find_planned", sent_meanwhile)
    node.finish([run])
    assert shape(node) == [(Origin.API, 1, RunState.SUCCEEDED), (Origin.RECOVERY, 2, RunState.DISPATCHING)]


def test_a_late_outcome_corrects_only_once(node: HandNode) -> None:
    run = started(node)
    node.finish([run], RunState.LOST)
    finish = node.scheduler.finishing.finisher.finish
    assert finish([Outcome(run_id=run.id, state=RunState.SUCCEEDED)]) == {run.id: OutcomeStatus.FINISHED}
    assert finish([Outcome(run_id=run.id, state=RunState.FAILED)]) == {run.id: OutcomeStatus.REPEATED}
    assert finish([Outcome(run_id=run.id, state=RunState.LOST)]) == {run.id: OutcomeStatus.REPEATED}


def test_stopping_the_job_cancels_the_planned_recovery(node: HandNode) -> None:
    job = node.job(schedule_conf="1", recover_lost=True)
    node.run_for(1100)
    node.finish(node.answer(), RunState.LOST)
    node.scheduler.management.jobs.stop(job.id)
    node.run_for(2000)
    assert node.sent == []
    assert {run.reason for run in node.runs() if run.origin is Origin.RECOVERY} == {"stopped"}


def test_each_shard_is_recovered_by_itself(node: HandNode) -> None:
    node.register("http://127.0.0.1:9002", instance="i2")
    job = node.job(enabled=False, recover_lost=True, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    node.finish(node.answer(), RunState.LOST)
    recovered = [run for run in node.runs() if run.origin is Origin.RECOVERY]
    assert sorted((run.shard_index, run.shard_total) for run in recovered) == [(0, 2), (1, 2)]
    assert len({run.root_id for run in recovered}) == 1


@pytest.mark.parametrize("state", [RunState.CANCELLED, RunState.SKIPPED])
def test_a_planned_run_that_is_closed_gets_no_retry_and_a_delay_goes_on(node: HandNode, state: RunState) -> None:
    job = node.job(schedule_type="FIX_DELAY", schedule_conf="3s", max_retries=2, recover_lost=True)
    node.plan()
    (run,) = node.runs()
    assert run.state is RunState.PLANNED
    node.scheduler.finishing.finisher.finish([Outcome(run_id=run.id, state=state, reason="killed")])
    assert [row.state for row in node.runs()] == [state]
    assert node.load(job.id).next_fire_ms == node.clock.now_ms() + 3000


def test_a_list_without_delays_is_refused(node: HandNode) -> None:
    with pytest.raises(FieldError, match="retry_delays_ms"):
        node.job(enabled=False, retry_backoff=RetryBackoff.LIST)
    job = node.job(enabled=False, retry_backoff=RetryBackoff.LIST, retry_delays_ms=(5,))
    with pytest.raises(FieldError, match="retry_delays_ms"):
        node.scheduler.management.jobs.edit(job.id, {"retry_delays_ms": ()})
