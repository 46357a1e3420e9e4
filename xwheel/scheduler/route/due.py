"""Find who gets due runs, and which of them wait for an executor; on the tick thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xwheel.errors import NoExecutorYetError, PluginError, RouteError
from xwheel.model import Job, Origin, RegisteredExecutor, Run, RunReason, RunState
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.job_cache import JobCache
from xwheel.scheduler.records import Batch, Deferred, Line, Queued, Routed
from xwheel.scheduler.route.choose import Chooser
from xwheel.scheduler.route.routers import Executors
from xwheel.scheduler.send.not_yet import ASKING_MS, NotYet
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection, Database

# so often one run that may wait is sent to an executor that could not be reached lately; the others wait for it
PROBE_MS = 2000
KNOWN_PROBES = 10_000


class _Absent(NamedTuple):
    """A due run that no executor may have yet: what it would wait for, and why it is refused if it may not wait."""

    run: Run
    job: Job
    line: Line
    reason: RunReason
    message: str


@dataclass(eq=False, repr=False)
class DueRouting:
    """Reads due runs and finds their executors. Everything here runs on the tick thread."""

    db: Database
    registry: ExecutorRegistry
    chooser: Chooser
    deferred: DeferredRuns
    job_cache: JobCache
    not_yet: NotYet

    def __post_init__(self) -> None:
        self._probes: dict[str, int] = {}

    def route(self, queued: Sequence[Queued], now_ms: int) -> Batch:
        """Return due runs with the executors that get them, and what becomes of those that get none now."""
        live: dict[int, Executors] = {}
        batch = Batch()
        absent: list[_Absent] = []
        elsewhere: list[int] = []
        for run, job in self._read(queued):
            if job.group_id not in live:
                live[job.group_id] = self.registry.live(job.group_id, now_ms)
            able = _able(run, live[job.group_id])
            if not able:
                line = Line("executor", job.group_id, run.address or "")
                absent.append(_Absent(run, job, line, RunReason.NO_EXECUTOR, _absence(run, job)))
                continue
            try:
                is_settled = run.address is not None and " " not in run.address
                chosen = able if is_settled else self.chooser.choose(run, job, able, now_ms)
            except NoExecutorYetError as error:
                absent.append(_Absent(run, job, _own_line(job), RunReason.NO_ROUTE, str(error)))
                continue
            except (RouteError, PluginError) as error:
                batch.close(run, RunState.REFUSED, RunReason.NO_ROUTE, str(error))
                continue
            if chosen:
                executors = [_one_for(run, chosen, now_ms)] if run.attempt > 1 else chosen
                if job.wait_for_executor_s > 0 and (late := self._put_off(run, job, executors, now_ms)):
                    absent.append(late)
                else:
                    batch.routed.append(Routed(run=run, job=job, executors=executors))
            elif chosen is None:
                elsewhere.append(run.id)
            else:
                batch.waiting.add(run.id)
        self.deferred.asked_elsewhere(elsewhere, now_ms)
        if absent:
            self._await_executors(batch, absent, now_ms)
        return batch

    def _read(self, queued: Sequence[Queued]) -> list[tuple[Run, Job]]:
        """Return due runs with their jobs, in the order asked for, from memory where it has both.

        Memory may be behind: the fence asks the rows whether the run is still planned and the job still the same.
        """
        known = self.job_cache.jobs  # another thread may replace it meanwhile
        due: dict[int, tuple[Run, Job]] = {}
        unread: dict[int, int] = {}
        for item in queued:
            job = known.get(item.job_id)
            if job is not None and isinstance(item, Run):
                due[item.id] = (item, job)
            else:
                unread[item.id] = item.epoch
        if unread:
            with self.db.read() as conn:
                # what another node adopted since is no longer ours to decide about
                found = [item for item in runs.load_due(conn, list(unread)) if item.run.epoch == unread[item.run.id]]
                owners = self._load_jobs(conn, found)
            due.update((item.run.id, (item.run, owners[item.run.job_id])) for item in found)
        return [due[item.id] for item in queued if item.id in due]

    def _load_jobs(self, conn: Connection, due: Sequence[runs.DueRun]) -> dict[int, Job]:
        known = self.job_cache.jobs  # another thread may replace it meanwhile
        owners: dict[int, Job] = {}
        stale: set[int] = set()
        for item in due:
            job = known.get(item.run.job_id)
            if job is not None and job.revision == item.job_revision:
                owners[job.id] = job
            else:
                stale.add(item.run.job_id)
        if stale:
            found = jobs.get_jobs(conn, stale)
            self.job_cache.remember(list(found.values()))
            owners.update(found)
        return owners

    def _put_off(self, run: Run, job: Job, executors: Executors, now_ms: int) -> _Absent | None:
        """Return a run that waits though its executor is there: it could not be reached, or takes none yet."""
        address = executors[0].address
        if self._waits_for(run, executors, now_ms):
            text = f"job {job.id}: {address} could not be reached a moment ago"
            return _Absent(run, job, _own_line(job), RunReason.UNREACHABLE, text)
        if why := self._said_not_yet(run, executors, now_ms):
            return _Absent(run, job, _own_line(job), RunReason.EXECUTOR_REFUSED, f"{address}: {why}")
        return None

    def _waits_for(self, run: Run, executors: Executors, now_ms: int) -> bool:
        """Return whether the one executor that a run would go to is better not tried again so soon."""
        address = executors[0].address
        if len(executors) > 1 or not self.registry.is_unreached(address, now_ms):
            return False
        if self.chooser.elsewhere.has_chosen(run.id):
            return False
        if self.registry.is_spared(address, now_ms) or now_ms < self._probes.get(address, 0):
            return True
        if self.deferred.older(run, "executor"):  # that one is to find out
            return True
        if len(self._probes) >= KNOWN_PROBES:
            self._probes.clear()
        self._probes[address] = now_ms + PROBE_MS
        return False

    def _said_not_yet(self, run: Run, executors: Executors, now_ms: int) -> str:
        """Return what the one executor said that a run would go to, if it takes none of the job yet."""
        address = executors[0].address
        said = self.not_yet.find(address, run.job_id)
        if said is None or len(executors) > 1:
            return ""
        # an older one is to ask, but not for long: it may wait for something else
        may_wait = now_ms < said.until_ms + ASKING_MS and self.deferred.older(run, "executor")
        if now_ms < said.until_ms or may_wait:
            return said.message
        self.not_yet.begin(address, run.job_id, now_ms)
        return ""

    def _await_executors(self, batch: Batch, absent: list[_Absent], now_ms: int) -> None:
        """Let runs that no executor may have yet wait if their job says so, one scheduled fire of a job at most."""
        with self.db.read() as conn:  # one that was cancelled meanwhile must not hold up those behind it
            planned = {run.id for run in runs.list_planned(conn, [item.run.id for item in absent])}
        absent.sort(key=lambda item: (item.run.due_ms, item.run.id))
        waiting: set[int] = set()
        for run, job, line, reason, message in absent:
            if run.id not in planned:
                continue
            until_ms = run.due_ms + job.wait_for_executor_s * 1000
            if now_ms >= until_ms:
                batch.close(run, RunState.REFUSED, reason, _waited(message, run, job, now_ms, reason))
            elif run.origin is Origin.SCHEDULE and (
                job.id in waiting or self.deferred.older(run, "executor") or self.chooser.elsewhere.has_older(run)
            ):
                text = f"an earlier run of job {job.id} waits for an executor already"
                batch.close(run, RunState.SKIPPED, RunReason.WAITING_FOR_EXECUTOR, text)
            else:
                waiting.add(job.id)
                batch.deferred.append(Deferred(run, line, until_ms))


def _able(run: Run, live: Executors) -> Executors:
    if run.address is None:
        return live
    among = run.address.split(" ")
    return [item for item in live if item.address in among]


def _one_for(run: Run, chosen: Executors, now_ms: int) -> RegisteredExecutor:
    """Return the executor for a shard that is tried again: each attempt begins its search at another one.

    One that did not answer is passed over, unless there is no other.
    """
    begin = (run.shard_index + run.attempt - 1) % len(chosen)
    turned = [*chosen[begin:], *chosen[:begin]]
    return next((item for item in turned if item.suspect_until_ms <= now_ms), turned[0])


def _own_line(job: Job) -> Line:
    return Line("executor", job.group_id, f"job {job.id}")


def _absence(run: Run, job: Job) -> str:
    who = "no live executor"
    if run.address is not None:
        among = run.address.split(" ")
        who = f"none of {', '.join(among)} is live" if len(among) > 1 else f"executor {among[0]} is not live"
    return f"job {job.id}: {who} in group {job.group_id}"


def _waited(message: str, run: Run, job: Job, now_ms: int, reason: RunReason) -> str:
    if job.wait_for_executor_s <= 0:
        return message
    if reason is RunReason.EXECUTOR_REFUSED:
        return f"{message}; the run has waited {(now_ms - run.due_ms) / 1000:.1f} s since it was due"
    return f"{message}, and none came in the {(now_ms - run.due_ms) / 1000:.1f} s since it was due"
