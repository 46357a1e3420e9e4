"""What people and scripts change: jobs are created, edited, started, stopped and deleted here.

An edit, stop or delete locks the job row, raises its revision and cancels its planned fires in one transaction, so
that no fire of the old definition leaves afterwards. An edit that leaves the schedule alone cancels nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec.structs import asdict, replace

from xwheel.clock import Clock
from xwheel.errors import (
    FieldError,
    NameTakenError,
    NotFoundError,
    PluginError,
    RevisionError,
    ScheduleError,
    XwheelError,
)
from xwheel.model import PARTITIONS, Job, NewSource, Origin
from xwheel.model.jobs import draft_job
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.questions import PluginQuestions
from xwheel.scheduler.manage.run_now import RunNow
from xwheel.scheduler.manage.scripts import Scripts
from xwheel.scheduler.manage.validate import check_job
from xwheel.scheduler.plan.timetable import AskedTimetable
from xwheel.storage import executors, jobs, runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.database.rows import chunks

SCHEDULE_FIELDS: Final = frozenset(
    {
        "schedule_type",
        "schedule_conf",
        "timezone",
        "anchor_ms",
        "start_ms",
        "end_ms",
        "jitter_ms",
        "calendar_exclude",
        "calendar_require",
    },
)
BATCH: Final = 100
"""Jobs in a transaction: claims of the same jobs wait no longer than that takes."""


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


class JobManager:
    """Changes jobs, one or many at a time.

    Where a method takes a ``revision``, it is the one that the caller has seen; None overwrites whatever is there. All
    that name a job raise a NotFoundError if there is none, and a RevisionError if it is at another revision.

    Args:
        db: The database.
        clock: Where time comes from.
        plugins: What jobs may name.
        timetable: When jobs fire.
        scripts: The sources of script jobs.
        runs_by_hand: Plans runs of many jobs.
        questions: Asks plugins between the attempts of transactions, and never inside.
        wake: Called when something is to be claimed or adopted.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        plugins: Plugins,
        timetable: AskedTimetable,
        scripts: Scripts,
        runs_by_hand: RunNow,
        questions: PluginQuestions,
        wake: Callable[[], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._plugins = plugins
        self._timetable = timetable
        self._scripts = scripts
        self._runs_by_hand = runs_by_hand
        self._questions = questions
        self._wake = wake

    def create(
        self,
        values: Mapping[str, object],
        *,
        enabled: bool = False,
        source: NewSource | None = None,
        unique: bool = False,
    ) -> Job:
        """Create a job, stopped unless told otherwise.

        Args:
            values: Every field of a job that its author sets.
            enabled: Start it at once.
            source: The first version of a script's source.
            unique: Refuse a name that another job of the group has; XXL-JOB's jobs may share one.

        Raises:
            FieldError: A field is not acceptable; ScheduleError for the schedule's fields.
            NotFoundError: The group does not exist.
            NameTakenError: Another job of the group has its name.
        """
        now_ms = self._clock.now_ms()
        draft = draft_job({**values, "enabled": False}, now_ms)
        self._check(draft)
        row = {name: value for name, value in asdict(draft).items() if name != "id"}

        def work(conn: Connection) -> Job:
            executors.get_group(conn, draft.group_id, lock=unique)
            if unique:
                _refuse_namesake(conn, draft)
            job = jobs.insert_job(conn, row)
            if source is not None:
                made = self._scripts.save_locked(conn, job, source, now_ms)
                job = jobs.update_job(conn, job.id, {"glue_version": made.number})
            return self._start(conn, job, now_ms) if enabled else job

        def attempt() -> Job:
            if source is not None:
                self._scripts.check_source(draft.glue_type, source)
            if enabled:
                self._timetable.need([draft], now_ms)
            return self._db.transaction(work)

        job = self._questions.around(attempt)
        self._wake()
        return job

    def edit(
        self,
        job_id: int,
        changes: Mapping[str, object],
        *,
        revision: int | None = None,
        source: NewSource | None = None,
        unique: bool = False,
    ) -> Job:
        """Change fields of a job.

        Args:
            job_id: The job.
            changes: New values; with another glue type the job has no source until one is saved.
            revision: See the class.
            source: A new source; nothing is saved if it is the current one.
            unique: See :meth:`create`, for a new name or group.

        Raises:
            NotFoundError: The job or its new group does not exist.
            NameTakenError: Another job of the group has its new name.
            RevisionError: The job is at another revision.
            FieldError: A value is not acceptable.
        """
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> Job:
            job = self._lock(conn, job_id, revision)
            merged = replace(job, **changes)
            self._check(merged)
            reschedules = any(getattr(job, name) != getattr(merged, name) for name in SCHEDULE_FIELDS)
            values: dict[str, object] = {**changes, "revision": job.revision + 1, "updated_ms": now_ms}
            values["glue_version"] = self._scripts.edit_locked(conn, job, merged, source, now_ms)
            is_other_schedule = any(
                getattr(job, name) != getattr(merged, name) for name in ("schedule_type", "schedule_conf")
            )
            if is_other_schedule and "anchor_ms" not in changes:
                values["anchor_ms"] = now_ms
            if (merged.group_id, merged.name) != (job.group_id, job.name):
                executors.get_group(conn, merged.group_id, lock=unique)
                if unique:
                    _refuse_namesake(conn, merged)
            saved = jobs.update_job(conn, job_id, values)
            if merged.group_id != job.group_id:
                # what is open belongs to the executor that has it, and stays
                planned = runs.lock_planned_of_jobs(conn, [job_id], tuple(Origin))
                runs.update_groups(conn, [(run.id, merged.group_id) for run in planned])
            if not reschedules:
                return saved
            return self.reschedule(conn, saved, "edited", now_ms) if job.enabled else saved

        job = self._questions.around(lambda: self._db.transaction(work))
        self._wake()
        return job

    def start(self, job_id: int, *, revision: int | None = None) -> Job:
        """Let a job fire; nothing changes if it does already.

        Raises:
            ScheduleError: It has no schedule or no further fire.
        """
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> Job:
            job = self._lock(conn, job_id, revision)
            return job if job.enabled else self._start(conn, job, now_ms)

        job = self._questions.around(lambda: self._db.transaction(work))
        self._wake()
        return job

    def stop(self, job_id: int, *, revision: int | None = None) -> Job:
        """Stop a job and cancel its planned fires and retries; runs that were sent go on."""
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> Job:
            self._stop(conn, [self._lock(conn, job_id, revision)], now_ms)
            return jobs.get_job(conn, job_id)

        return self._db.transaction(work)

    def delete(self, job_id: int, *, revision: int | None = None) -> None:
        """Delete a job: what is planned is cancelled, its finished runs stay readable."""
        now_ms = self._clock.now_ms()
        self._db.transaction(lambda conn: self._delete(conn, [self._lock(conn, job_id, revision)], now_ms))

    def change_many(
        self, action: BulkAction, ids: Sequence[int], *, param: str | None = None
    ) -> list[BulkResult]:
        """Do the same to many jobs, a hundred in a transaction; one bad id stops no other.

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
            if action is BulkAction.RUN:
                for job_id, done in self._runs_by_hand.run_many(part, param).items():
                    if isinstance(done, int):
                        results[job_id] = BulkResult(job_id, run_id=done)
                    else:
                        results[job_id] = BulkResult(job_id, done)
            else:
                results.update(self._change(action, part))
        self._wake()
        return [results[job_id] for job_id in wanted]

    def _change(self, action: BulkAction, ids: Sequence[int]) -> dict[int, BulkResult]:
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> dict[int, BulkResult]:
            done = {job_id: BulkResult(job_id, NotFoundError("job", job_id)) for job_id in ids}
            found = jobs.lock_jobs(conn, ids)
            match action:
                case BulkAction.START:
                    self._timetable.need((job for job in found.values() if not job.enabled), now_ms)
                    return done | {job.id: self._try_start(conn, job, now_ms) for job in found.values()}
                case BulkAction.STOP:
                    self._stop(conn, found.values(), now_ms)
                case _:
                    self._delete(conn, found.values(), now_ms)
            return done | {job_id: BulkResult(job_id) for job_id in found}

        return self._questions.around(lambda: self._db.transaction(work))

    def _try_start(self, conn: Connection, job: Job, now_ms: int) -> BulkResult:
        """Let a locked job fire; what cannot is refused before anything is written."""
        try:
            if not job.enabled:
                self._start(conn, job, now_ms)
        except (FieldError, PluginError) as error:
            return BulkResult(job.id, error)
        except (ValueError, OverflowError) as error:
            return BulkResult(job.id, ScheduleError("schedule_conf", f"leads beyond the year 9999: {error}"))
        return BulkResult(job.id)

    def _stop(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Stop jobs whose rows are locked."""
        ids = [job.id for job in found]
        self._cancel_planned(conn, ids, "stopped", now_ms)
        jobs.stop_jobs(conn, ids, now_ms)

    def _delete(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Delete jobs whose rows are locked."""
        ids = [job.id for job in found]
        self._cancel_planned(conn, ids, "deleted", now_ms, origins=tuple(Origin))
        jobs.delete_links(conn, ids)
        jobs.delete_jobs(conn, ids, now_ms)

    def _check(self, job: Job) -> None:
        check_job(job, self._plugins, self._timetable, self._questions)

    def _lock(self, conn: Connection, job_id: int, revision: int | None) -> Job:
        job = jobs.get_job(conn, job_id, lock=True)
        if revision is not None and job.revision != revision:
            raise RevisionError("job", job_id, job.revision, revision)
        return job

    def reschedule(self, conn: Connection, job: Job, reason: str, now_ms: int) -> Job:
        """Cancel the planned fires of a locked, started job and work out its next one.

        A fixed delay whose last run is still on its way goes on waiting for it.
        """
        self._cancel_planned(conn, [job.id], reason, now_ms)
        waits = job.awaits_root is not None and self._timetable.awaits_completion(job)
        if waits and job.awaits_root in runs.find_open_roots(conn, {job.awaits_root or 0}):
            return job
        return self._start(conn, job, now_ms)

    def _start(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Enable a locked job from its next due time on."""
        self._scripts.check(job)
        next_ms = self._timetable.next_fire(job, now_ms)
        if next_ms is None:
            raise ScheduleError(
                "schedule_conf", f"job {job.id} would never fire: change its schedule before starting it"
            )
        values = {
            "enabled": True,
            "next_fire_ms": next_ms,
            "awaits_root": None,
            "schedule_error": "",
            "revision": job.revision + 1,
            "updated_ms": now_ms,
        }
        return jobs.update_job(conn, job.id, values)

    def _cancel_planned(
        self,
        conn: Connection,
        job_ids: Collection[int],
        reason: str,
        now_ms: int,
        origins: tuple[Origin, ...] = (Origin.SCHEDULE, Origin.RETRY, Origin.RECOVERY),
    ) -> None:
        planned = runs.lock_planned_of_jobs(conn, job_ids, origins)
        runs.cancel_runs(conn, [run.id for run in planned], reason=reason, now_ms=now_ms)
        changes.note_cancelled(conn, planned, reason, now_ms)


def _refuse_namesake(conn: Connection, job: Job) -> None:
    """Refuse a name that another job has; the group's row is locked, so that no two take it at once.

    Raises:
        NameTakenError: One has it.
    """
    other = jobs.find_namesake(conn, job.group_id, job.name)
    if other is not None and other != job.id:
        raise NameTakenError(
            f"name: job {other} of the same group is called {job.name!r} already: give another name, or change that one"
        )
