"""A node that no longer holds a run decides nothing about it, whatever it has in memory."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.support.node import HandNode
from xwheel.model import Run, RunState
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.records import Outcome
from xwheel.storage.schema import tables

ADDRESS = "http://127.0.0.1:9001"


def change(node: HandNode, run: Run, **values: object) -> None:
    node.db.transaction(
        lambda conn: conn.execute(sa.update(tables.open_run).where(tables.open_run.c.id == run.id).values(**values))
    )


@pytest.mark.parametrize("claimed", [False, True])
@pytest.mark.parametrize("taken", [False, True])
def test_a_run_that_another_node_adopted_is_not_refused_by_the_one_before(
    node: HandNode, claimed: bool, taken: bool
) -> None:
    """Whether it has the whole run in memory, since it claimed it, or only its id."""
    node.scheduler.core.registry.remove("demo", ADDRESS)
    if claimed:
        node.job(schedule_conf="1")
        node.clock.advance(100)
        node.scheduler.planning.claim.step(node.clock.now_ms())
    else:
        node.scheduler.management.run_now.run(node.job(enabled=False).id)
        node.adopt()
    (run, *_) = node.runs()
    if taken:
        change(node, run, epoch=run.epoch + 1)
    node.tick(2000)
    after = next(item for item in node.runs() if item.id == run.id)
    wanted = (RunState.PLANNED, "") if taken else (RunState.REFUSED, "no_executor")
    assert (after.state, after.reason) == wanted


@pytest.mark.parametrize(
    ("state", "epoch", "status"),
    [
        (RunState.PLANNED, 3, OutcomeStatus.FINISHED),
        (RunState.PLANNED, 4, OutcomeStatus.UNKNOWN),
        (RunState.DISPATCHING, 3, OutcomeStatus.UNKNOWN),
    ],
)
def test_what_was_decided_before_a_send_counts_only_for_what_is_still_planned(
    node: HandNode, state: RunState, epoch: int, status: OutcomeStatus
) -> None:
    run = node.scheduler.management.run_now.run(node.job(enabled=False).id)
    change(node, run, state=state, epoch=epoch)
    decided = Outcome(run_id=run.id, state=RunState.REFUSED, reason="no_executor", epoch=3)
    assert node.scheduler.finishing.finisher.finish([decided]) == {run.id: status}
    (after,) = node.runs()
    assert after.state is (RunState.REFUSED if status is OutcomeStatus.FINISHED else state)


def test_a_run_that_comes_again_under_a_later_epoch_is_decided_about_under_that(node: HandNode) -> None:
    node.scheduler.core.registry.remove("demo", ADDRESS)
    run = node.scheduler.management.run_now.run(node.job(enabled=False).id)
    tick = node.scheduler.planning.tick
    node.adopt()
    (held,) = tick.inbox.take()
    tick.inbox.put([held])
    node.scheduler.core.lease.halt()  # it takes the run in, and does not fire it
    node.tick()
    node.scheduler.core.lease.step(node.clock.now_ms())
    epoch = held.epoch + 1
    change(node, run, epoch=epoch)
    tick.inbox.put([replace(held, epoch=epoch)])
    node.tick(20)
    (after,) = node.runs()
    assert (after.state, after.reason) == (RunState.REFUSED, "no_executor")
