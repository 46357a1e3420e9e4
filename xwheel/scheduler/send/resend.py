"""Ask again about sends that ended without an answer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

from msgspec.structs import replace

from xwheel.model import GlueVersion, RegisteredExecutor, Run, RunReason, RunState
from xwheel.ring import FAST
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.executors.registry import ExecutorRegistry, name_of
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.records import Outcome, Shard
from xwheel.scheduler.send.lane import Lanes
from xwheel.scheduler.send.parcels import BodyLimits, pack_again
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.scheduler.sources import Sources
from xwheel.storage import jobs, open_runs, runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.open_runs import Holder

logger = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Resender:
    """Settles rows that are still dispatching although their send must be over, such as after a crash.

    An xwheel executor is asked again with the same id, which its journal answers without a second run; once its
    instance is gone, the run is lost. A foreign executor is never asked twice: the run counts as running.
    """

    db: Database
    lease: Lease
    registry: ExecutorRegistry
    pool: TriggerPool
    body_limits: BodyLimits
    lanes: Lanes  # take parcels that have a place; these go through the fast one
    finisher: Finisher
    sources: Sources
    _: KW_ONLY
    answer_ms: int  # how long after a send it must have ended
    gone_ms: int  # how long an instance may be missing before its runs are lost
    check_after_ms: int  # age at which a running foreign run is asked about

    def settle(self, waiting: Sequence[Run], now_ms: int) -> None:
        """Settle dispatching runs that no lane has."""
        foreign = [run.id for run in waiting if not run.instance]
        if foreign:
            self.db.transaction(lambda conn: self._accept(conn, waiting, foreign, now_ms))
        lost: list[Outcome] = []
        missing: list[int] = []
        by_executor: dict[str, tuple[RegisteredExecutor, list[Run]]] = {}
        live = self.registry.by_name(now_ms)
        for run in waiting:
            if not run.instance or run.kill_requested:
                continue  # one that must end is asked about, not sent again
            holder = Holder(run.group_id, run.address or "", run.instance)
            executor = live.get(name_of(holder))
            if executor is not None:
                by_executor.setdefault(executor.address, (executor, []))[1].append(run)
                continue
            missing_ms = self.registry.missing_since(holder, now_ms)
            if now_ms - max(run.dispatched_ms or now_ms, missing_ms) > self.gone_ms:
                why = f"executor instance {run.instance} at {run.address} is gone and never answered"
                end = RunReason.INSTANCE_GONE
                lost.append(Outcome(run_id=run.id, state=RunState.LOST, reason=end, message=why))
            else:
                missing.append(run.id)
        if lost:
            self.finisher.finish(lost)
        if missing:
            self.db.transaction(lambda conn: self._put_off(conn, missing, now_ms + self.answer_ms))
        for executor, group in by_executor.values():
            self._ask_again(executor, group, now_ms)

    def _accept(self, conn: Connection, waiting: Sequence[Run], foreign: Sequence[int], now_ms: int) -> None:
        taken = runs.AcceptedRow(now_ms, now_ms + self.check_after_ms)
        accepted = runs.update_accepted(conn, dict.fromkeys(foreign, taken), now_ms)
        changes.note_accepted(conn, waiting, accepted, now_ms)

    def _ask_again(self, executor: RegisteredExecutor, group: Sequence[Run], now_ms: int) -> None:
        if not self.pool.acquire(FAST, executor.address, batch=True):
            return  # the check stays due: the next one tries again
        check_ms = now_ms + self.answer_ms
        shards: list[Shard] = []
        try:
            shards = self.db.transaction(lambda conn: self._lock(conn, executor, group, check_ms))
        finally:
            if not shards:
                self.pool.release(FAST, executor.address)
        if shards:
            count, first = len(shards), shards[0].run.id
            logger.info("%d runs without an answer go to %s again, first %d", count, executor.address, first)
            scripts = {shard.job.id: shard.job for shard in shards if shard.job.glue_version}
            sources: Mapping[int, GlueVersion] = {}
            if scripts:
                sources, left_out = self.sources.find(scripts.values())
                # at least one source came, so some go now; the others are due for this once more later
                shards = [shard for shard in shards if shard.job.id not in left_out]
            self.lanes.send(pack_again(FAST, self.body_limits.of(executor.address), shards, sources))

    def _put_off(self, conn: Connection, ids: Sequence[int], check_ms: int) -> None:
        locked = runs.lock_runs(conn, ids)
        waiting = [run.id for run in locked.values() if run.state is RunState.DISPATCHING]
        open_runs.update_checks(conn, [(run_id, check_ms) for run_id in waiting])

    def _lock(self, conn: Connection, executor: RegisteredExecutor, group: Sequence[Run], check_ms: int) -> list[Shard]:
        """Put the next check off under our lease; return what is still without an answer."""
        epochs = self.lease.lock(conn)
        locked = runs.lock_runs(conn, [run.id for run in group])
        waiting = [
            replace(run, address=executor.address, check_ms=check_ms)
            for _, run in sorted(locked.items())
            if run.state is RunState.DISPATCHING and run.partition in epochs
        ]
        open_runs.update_checks(conn, [(run.id, check_ms) for run in waiting])
        owners = jobs.get_jobs(conn, {run.job_id for run in waiting})
        return [Shard(run=run, job=owners[run.job_id], executor=executor) for run in waiting]
