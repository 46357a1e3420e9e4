"""The last gate before bytes leave: what is still planned under our lease becomes dispatching, in one transaction."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from xwheel.model import RegisteredExecutor, Run, RunState
from xwheel.scheduler.ports import GateView, LeaseView
from xwheel.scheduler.records import Fenced, Outcome, Routed, Shard
from xwheel.storage import runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import CommitUnknownError, Connection, Database

logger = logging.getLogger(__name__)

SHARD_MS = 10
"""How much longer the sends of a broadcast may take for each of its shards, since they wait for one another."""


class Fence:
    """Writes who gets which run.

    Stopped, edited and taken-over runs fall out here. A run for several executors becomes shard 0, and the other
    shards are inserted beside it. A connection that breaks at COMMIT leaves open whether it took effect: the rows are
    read, and what is there is sent, once.

    Args:
        db: The database.
        lease: Our partitions.
        gate: Decides about runs of groups with a limit and of jobs that block for the whole cluster.
        ensure_ids: Makes sure that so many run ids can be taken.
        take_ids: Gives run ids.
        answer_ms: How long after the fence a send must have ended.
    """

    def __init__(
        self,
        db: Database,
        lease: LeaseView,
        gate: GateView,
        ensure_ids: Callable[[int], None],
        take_ids: Callable[[int], list[int]],
        *,
        answer_ms: int,
    ) -> None:
        self._db = db
        self._lease = lease
        self._gate = gate
        self._ensure_ids = ensure_ids
        self._take_ids = take_ids
        self._answer_ms = answer_ms

    def pass_through(self, routed: Sequence[tuple[Routed, int]], now_ms: int) -> Fenced:
        """Fence runs that have a place.

        Args:
            routed: Runs with the revision of their job at the moment of reading.
            now_ms: The shared time.
        """
        if not routed:
            return Fenced()
        self._ensure_ids(sum(len(item.executors) - 1 for item, _ in routed))
        written = Fenced()

        def work(conn: Connection) -> Fenced:
            nonlocal written
            written = self._fence(conn, routed, now_ms)
            return written

        try:
            return self._db.transaction(work)
        except CommitUnknownError as error:
            kept = self._db.transaction(lambda conn: self._recall(conn, written))
            logger.warning(
                "the fence of %d runs, first %d, was %s: %s",
                len(routed),
                routed[0][0].run.id,
                "not committed and is done again" if kept is None else "committed",
                error,
            )
            return self._db.transaction(work) if kept is None else kept

    def _fence(self, conn: Connection, routed: Sequence[tuple[Routed, int]], now_ms: int) -> Fenced:
        epochs = self._lease.lock(conn)
        special = self._gate.concerns(item for item, _ in routed)
        limits = self._gate.lock(conn, special) if special else {}
        planned = runs.lock_planned(conn, [item.run.id for item, _ in routed])
        result = Fenced()
        ready: list[Routed] = []
        for item, revision in routed:
            partition, epoch, current = planned.get(item.run.id, (-1, -1, -1))
            if epochs.get(partition) != epoch:
                continue  # no longer planned, or no longer ours
            if current == runs.DELETED:
                result.closed.append(_orphan(item.run))
                continue
            if current != revision:
                result.changed.add(item.run.id)
                continue
            ready.append(item)
        if special:
            ready = self._ask_gate(conn, ready, {item.run.id for item in special}, limits, result)
        widest = max((len(item.executors) for item in ready), default=1)
        check_ms = now_ms + self._answer_ms + SHARD_MS * (widest - 1)
        for item in ready:
            result.shards.extend(self._expand(item, now_ms, check_ms))
        fenced = [
            runs.FencedRow(
                shard.run.id,
                shard.executor.address,
                shard.executor.instance,
                shard.run.shard_total,
                shard.executor.secret_id,
            )
            for shard in result.shards
            if shard.run.id in planned
        ]
        # planned by one who knew the job in another group: it goes to its executors of now
        moved = [item for item in ready if item.run.group_id != item.job.group_id]
        runs.update_groups(conn, [(item.run.id, item.job.group_id) for item in moved])
        runs.update_fenced(conn, fenced, now_ms=now_ms, check_ms=check_ms)
        changes.note(
            conn,
            (
                changes.change(shard.run, RunState.DISPATCHING, now_ms)
                for shard in result.shards
                if shard.run.id in planned
            ),
        )
        runs.insert_runs(conn, [shard.run for shard in result.shards if shard.run.id not in planned])
        return result

    def _recall(self, conn: Connection, written: Fenced) -> Fenced | None:
        """Return what was written if it is there, less what was taken from us meanwhile; None if nothing is.

        Waits for a COMMIT that is still under way: nobody but its transaction has these rows locked for long.
        """
        epochs = self._lease.lock(conn)
        rows = runs.lock_runs(conn, [shard.run.id for shard in written.shards])
        there = [shard for shard in written.shards if _is_written(shard.run, rows.get(shard.run.id))]
        if written.shards and not there:
            return None
        return dataclasses.replace(
            written, shards=[shard for shard in there if shard.run.partition in epochs]
        )

    def _ask_gate(
        self,
        conn: Connection,
        ready: Sequence[Routed],
        special: Collection[int],
        limits: Mapping[int, int],
        result: Fenced,
    ) -> list[Routed]:
        """Return who may go; the others are noted in the result."""
        asked = [item for item in ready if item.run.id in special]
        gated = self._gate.decide(conn, asked, limits)
        result.parked, result.kills = gated.parked, gated.kills
        result.closed += gated.closed
        return [item for item in ready if item.run.id not in special or item.run.id in gated.passed]

    def _expand(self, item: Routed, now_ms: int, check_ms: int) -> list[Shard]:
        """Return one dispatching row for each executor; a retried shard keeps its index and total."""
        total = len(item.executors) if len(item.executors) > 1 else item.run.shard_total
        ids = [item.run.id, *self._take_ids(len(item.executors) - 1)]
        return [
            Shard(
                run=self._dispatching(item, ids[index], index, total, executor, now_ms, check_ms),
                job=item.job,
                executor=executor,
            )
            for index, executor in enumerate(item.executors)
        ]

    def _dispatching(
        self,
        item: Routed,
        run_id: int,
        index: int,
        total: int,
        executor: RegisteredExecutor,
        now_ms: int,
        check_ms: int,
    ) -> Run:
        return replace(
            item.run,
            id=run_id,
            group_id=item.job.group_id,
            shard_index=index or item.run.shard_index,
            shard_total=total,
            state=RunState.DISPATCHING,
            address=executor.address,
            instance=executor.instance,
            secret_id=executor.secret_id,
            dispatched_ms=now_ms,
            check_ms=check_ms,
        )


def _orphan(run: Run) -> Outcome:
    message = f"job {run.job_id} was deleted while this run was written"
    return Outcome(run_id=run.id, state=RunState.CANCELLED, reason="deleted", message=message)


def _is_written(meant: Run, row: Run | None) -> bool:
    """Tell whether a row is as this fence wrote it: its time and executor are nobody else's."""
    return (
        row is not None
        and row.state is RunState.DISPATCHING
        and (row.dispatched_ms, row.address, row.instance)
        == (meant.dispatched_ms, meant.address, meant.instance)
    )
