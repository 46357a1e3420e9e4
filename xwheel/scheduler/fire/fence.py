"""The last step before bytes leave: what is still planned under our lease becomes dispatching, in one transaction."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass

from msgspec.structs import replace

from xwheel.model import Run, RunReason, RunState
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.fire.limits import RunLimits
from xwheel.scheduler.observers import Noted, Observers
from xwheel.scheduler.records import Batch, Routed, Shard
from xwheel.storage import runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import CommitUnknownError, Connection, Database
from xwheel.storage.run_ids import RunIds

logger = logging.getLogger(__name__)

# how much longer the sends of a broadcast may take for each of its shards, since they wait for one another
SHARD_MS = 10
# the same for runs of foreign executors, which may wait in the lane for those before them
TURN_MS = 3000


@dataclass(eq=False, repr=False)
class Fence:
    """Writes who gets which run.

    Stopped, edited and taken-over runs fall out here. A run for several executors becomes shard 0, and the other
    shards are inserted next to it. A connection that breaks at COMMIT leaves open whether it took effect: the rows are
    read, and what is there is sent, once.
    """

    db: Database
    lease: Lease
    limits: RunLimits
    run_ids: RunIds
    observers: Observers
    _: KW_ONLY
    answer_ms: int  # how long after the fence a send must have ended

    def pass_through(self, routed: Sequence[Routed], now_ms: int) -> Batch:
        """Fence runs that have a place; return what became of them.

        They come with their jobs as they were read; one whose job changed since comes back as changed.
        """
        if not routed:
            return Batch()
        self.run_ids.ensure(sum(len(item.executors) - 1 for item in routed))
        written = Batch()
        noted: Noted = ()

        def work(conn: Connection) -> Batch:
            nonlocal written, noted
            written = self._fence(conn, routed, now_ms)
            noted = self.observers.record_dispatched(conn, now_ms, written.shards)
            return written

        try:
            batch = self.db.transaction(work)
        except CommitUnknownError as error:
            kept = self.db.transaction(lambda conn: self._recall(conn, written))
            what = "not committed and is done again" if kept is None else "committed"
            text = "the fence of %d runs, first %d, was %s: %s"
            logger.warning(text, len(routed), routed[0].run.id, what, error)
            batch = self.db.transaction(work) if kept is None else kept
        self.observers.committed(noted)
        return batch

    def _fence(self, conn: Connection, routed: Sequence[Routed], now_ms: int) -> Batch:
        epochs = self.lease.lock(conn)
        special = self.limits.concerns(routed)
        limits = self.limits.lock(conn, special) if special else {}
        planned = runs.lock_planned(conn, [item.run.id for item in routed])
        result = Batch()
        ready: list[Routed] = []
        for item in routed:
            partition, epoch, revision = planned.get(item.run.id, (-1, -1, -1))
            if epochs.get(partition) != epoch:
                continue  # no longer planned, or no longer ours
            if revision == runs.DELETED:
                text = f"job {item.job.id} was deleted while this run was written"
                result.close(item.run, RunState.CANCELLED, RunReason.DELETED, text)
            elif revision != item.job.revision:
                result.changed.add(item.run.id)
            else:
                ready.append(item)
        if special:
            ids = {item.run.id for item in special}
            asked = [item for item in ready if item.run.id in ids]
            passed = {item.run.id for item in self.limits.decide(conn, asked, limits, result)}
            ready = [item for item in ready if item.run.id not in ids or item.run.id in passed]
        widest = max((len(item.executors) for item in ready), default=1)
        due_ms = max([now_ms, *(item.run.due_ms for item in ready)])  # what leaves early is not asked about before
        has_turns = any(item.executors[0].kind != "xwheel" for item in ready)
        check_ms = due_ms + self.answer_ms + SHARD_MS * (widest - 1) + TURN_MS * has_turns
        for item in ready:
            result.shards.extend(self._expand(item, now_ms, check_ms))
        locked = [shard for shard in result.shards if shard.run.id in planned]
        fenced = [
            runs.FencedRow(
                shard.run.id,
                shard.executor.address,
                shard.executor.instance,
                shard.run.shard_total,
                shard.executor.secret_id,
            )
            for shard in locked
        ]
        # planned by one who knew the job in another group: it goes to its executors of now
        moved = [item for item in ready if item.run.group_id != item.job.group_id]
        runs.update_groups(conn, [(item.run.id, item.job.group_id) for item in moved])
        runs.update_fenced(conn, fenced, now_ms=now_ms, check_ms=check_ms)
        changes.note(conn, (changes.change(shard.run, RunState.DISPATCHING, now_ms) for shard in locked))
        runs.insert_runs(conn, [shard.run for shard in result.shards if shard.run.id not in planned])
        return result

    def _recall(self, conn: Connection, written: Batch) -> Batch | None:
        """Return what was written if it is there, less what was taken from us meanwhile; None if nothing is.

        Waits for a COMMIT that is still under way: only its transaction has these rows locked for long.
        """
        epochs = self.lease.lock(conn)
        rows = runs.lock_runs(conn, [shard.run.id for shard in written.shards])
        there = [shard for shard in written.shards if _is_written(shard.run, rows.get(shard.run.id))]
        if written.shards and not there:
            return None
        return dataclasses.replace(written, shards=[shard for shard in there if shard.run.partition in epochs])

    def _expand(self, item: Routed, now_ms: int, check_ms: int) -> Iterator[Shard]:
        total = len(item.executors) if len(item.executors) > 1 else item.run.shard_total
        ids = [item.run.id, *self.run_ids.take(len(item.executors) - 1)]
        for index, executor in enumerate(item.executors):
            run = replace(
                item.run,
                id=ids[index],
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
            yield Shard(run=run, job=item.job, executor=executor, is_pinned=item.run.address is not None)


def _is_written(meant: Run, row: Run | None) -> bool:
    """Return whether a row is as this fence wrote it: no other writes the same time and executor."""
    if row is None or row.state is not RunState.DISPATCHING:
        return False
    wanted = (meant.dispatched_ms, meant.address, meant.instance)
    return (row.dispatched_ms, row.address, row.instance) == wanted
