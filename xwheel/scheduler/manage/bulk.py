"""Start, stop, run and delete many jobs in one call; each has its own result, and one bad id stops no other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from xwheel.clock import Clock
from xwheel.errors import FieldError, NotFoundError, PluginError, ScheduleError, XwheelError
from xwheel.model import PARTITIONS, Job, Origin, Run
from xwheel.scheduler.ports import Around, at_once
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.database.rows import chunks
from xwheel.storage.run_ids import RunIds

BATCH: Final = 100
"""Jobs in a transaction: claims of the same jobs wait no longer than that takes."""

NewRun = Callable[..., Run]


class BulkAction(StrEnum):
    """What can be done to many jobs at once."""

    START = "start"
    STOP = "stop"
    RUN = "run"
    DELETE = "delete"


class BulkResult(NamedTuple):
    """What became of one job.

    Attributes:
        job_id: The job.
        error: Why nothing was done, or None.
        run_id: The run that was planned, if that was wanted.
    """

    job_id: int
    error: XwheelError | None = None
    run_id: int | None = None


class LockedJobs(Protocol):
    """What can be done to jobs whose rows are locked."""

    def check_runnable(self, job: Job) -> None:
        """Refuse what lacks something without which it cannot run."""
        ...

    def need(self, found: Iterable[Job], now_ms: int) -> None:
        """Have the next fires of jobs asked for, all at once, before they are started."""
        ...

    def start_locked(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Let it fire; what cannot is refused before anything is written."""
        ...

    def stop_locked(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Stop them."""
        ...

    def delete_locked(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Delete them."""
        ...


class BulkManager:
    """Changes many jobs, a hundred in a transaction.

    Args:
        db: The database.
        clock: Where time comes from.
        run_ids: Source of run ids.
        manager: Changes one job.
        new_run: Makes a first attempt of a job.
        wake: Told when something is to be claimed or adopted.
        around: Runs a transaction, and lets plugins be asked between its attempts and never inside.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        run_ids: RunIds,
        manager: LockedJobs,
        new_run: NewRun,
        wake: Callable[[], None],
        around: Around = at_once,
    ) -> None:
        self._db = db
        self._around = around
        self._clock = clock
        self._run_ids = run_ids
        self._manager = manager
        self._new_run = new_run
        self._wake = wake

    def apply(self, action: BulkAction, ids: Sequence[int], *, param: str | None = None) -> list[BulkResult]:
        """Do the same to many jobs.

        Args:
            action: What to do.
            ids: The jobs; one that is named twice is done once.
            param: Of the runs; None for each job's own.

        Returns:
            One result for each job, in the order of the ids.
        """
        wanted = list(dict.fromkeys(ids))
        results: dict[int, BulkResult] = {}
        # neighbours together: what is planned is found partition by partition
        ordered = sorted(wanted, key=lambda job_id: (job_id % PARTITIONS, job_id))
        for part in chunks(ordered, BATCH):
            done = self._run(part, param) if action is BulkAction.RUN else self._change(action, part)
            results.update((result.job_id, result) for result in done)
        self._wake()
        return [results[job_id] for job_id in wanted]

    def _change(self, action: BulkAction, ids: Sequence[int]) -> list[BulkResult]:
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> list[BulkResult]:
            found = jobs.lock_jobs(conn, ids)
            match action:
                case BulkAction.START:
                    self._manager.need((job for job in found.values() if not job.enabled), now_ms)
                    done = {job.id: self._start(conn, job, now_ms) for job in found.values()}
                case BulkAction.STOP:
                    self._manager.stop_locked(conn, found.values(), now_ms)
                    done = {job_id: BulkResult(job_id) for job_id in found}
                case _:
                    self._manager.delete_locked(conn, found.values(), now_ms)
                    done = {job_id: BulkResult(job_id) for job_id in found}
            return [done.get(job_id) or _missing(job_id) for job_id in ids]

        return self._around(lambda: self._db.transaction(work))

    def _start(self, conn: Connection, job: Job, now_ms: int) -> BulkResult:
        try:
            self._manager.start_locked(conn, job, now_ms)
        except (FieldError, PluginError) as error:
            return BulkResult(job.id, error)
        except (ValueError, OverflowError) as error:
            return BulkResult(job.id, ScheduleError("schedule_conf", f"leads beyond the year 9999: {error}"))
        return BulkResult(job.id)

    def _run(self, ids: Sequence[int], param: str | None) -> list[BulkResult]:
        now_ms = self._clock.now_ms()
        run_ids = dict(zip(ids, self._run_ids.reserve(len(ids)), strict=True))

        def work(conn: Connection) -> list[BulkResult]:
            found = jobs.get_jobs(conn, ids, deleted=False)
            refused = self._refused(found.values())
            made = [
                self._new_run(
                    job,
                    origin=Origin.API,
                    origin_key=run_ids[job_id],
                    due_ms=now_ms,
                    planned_ms=now_ms,
                    now_ms=now_ms,
                    param=param,
                    run_id=run_ids[job_id],
                )
                for job_id, job in found.items()
                if job_id not in refused
            ]
            runs.insert_runs(conn, made)
            done = {run.job_id: BulkResult(run.job_id, run_id=run.id) for run in made}
            return [done.get(job_id) or refused.get(job_id) or _missing(job_id) for job_id in ids]

        return self._db.transaction(work)

    def _refused(self, found: Iterable[Job]) -> dict[int, BulkResult]:
        refused: dict[int, BulkResult] = {}
        for job in found:
            try:
                self._manager.check_runnable(job)
            except FieldError as error:
                refused[job.id] = BulkResult(job.id, error)
        return refused


def _missing(job_id: int) -> BulkResult:
    return BulkResult(job_id, NotFoundError("job", job_id))
