"""The last gate before bytes leave: whose runs pass it, and what a COMMIT without an answer leaves behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.node import HandNode
from xwheel.model import RunState
from xwheel.storage.database.engine import CommitUnknownError, Connection


def execute(node: HandNode, statement: str) -> None:
    with node.db.write() as conn:
        conn.exec_driver_sql(statement)


@pytest.mark.parametrize("step", [-1, 1])
def test_n6_a_run_of_another_epoch_is_not_fenced(node: HandNode, step: int) -> None:
    """N6: its partition went elsewhere and came back; whoever adopted it there may have sent it."""
    job = node.job(enabled=False)
    taken = node.scheduler.management.run_now.run(job.id)
    node.adopt()
    execute(node, f"UPDATE run SET epoch = epoch + {step} WHERE id = {taken.id}")
    node.tick(20)
    assert node.sent == []
    assert [run.state for run in node.runs(job.id)] == [RunState.PLANNED]


@pytest.mark.parametrize("committed", [True, False])
def test_n7_after_an_unknown_commit_only_what_is_still_ours_is_sent(
    node: HandNode, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """N7: what was taken over meanwhile belongs to the taker, whether the COMMIT took effect or not."""
    kept, gone = node.job(enabled=False), node.job(enabled=False)
    mine, theirs = (
        node.scheduler.management.run_now.run(kept.id),
        node.scheduler.management.run_now.run(gone.id),
    )
    node.adopt()
    transaction = node.db.transaction
    broken: list[int] = []

    class _UndoneError(Exception):
        pass

    def cut(work: Callable[[Connection], Any], **options: Any) -> Any:
        if broken or work.__qualname__.split(".")[0] != "Fence":
            return transaction(work, **options)
        broken.append(1)

        def undone(conn: Connection) -> None:
            work(conn)
            if not committed:
                raise _UndoneError

        with contextlib.suppress(_UndoneError):
            transaction(undone)
        execute(
            node,
            f"UPDATE partition_lease SET owner = 'another', epoch = epoch + 1 "
            f"WHERE partition_lease.partition = {gone.id % 64}",
        )
        raise CommitUnknownError("the connection broke at COMMIT")

    monkeypatch.setattr(node.db, "transaction", cut)
    node.tick(20)
    assert broken
    assert [shard.run.id for parcel in node.sent for shard in parcel.shards] == [mine.id]
    assert {run.id: run.state for run in node.runs()} == {
        mine.id: RunState.DISPATCHING,
        theirs.id: RunState.DISPATCHING if committed else RunState.PLANNED,
    }
    node.answer()
    assert not any(node.scheduler.sending.pool.in_flight().values())
