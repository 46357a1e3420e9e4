"""What people and scripts change: jobs are created, edited, started, stopped and run by hand here.

An edit, stop or delete locks the job row, raises its revision and cancels its planned fires in one transaction, so
that no fire of the old definition leaves afterwards. An edit that leaves the schedule alone cancels nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec
from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import DuplicateError, RevisionError, ScheduleError
from xwheel.model import GlueVersion, Job, NewSource, Origin, Run
from xwheel.scheduler.ports import Around, at_once
from xwheel.storage import executors, jobs, runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.run_ids import RunIds

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
KEY_BITS: Final = 62

NewRun = Callable[..., Run]


class Timetable(Protocol):
    """What management asks about schedules."""

    def next_fire(self, job: Job, after_ms: int) -> int | None:
        """Return the first due time strictly after an instant."""
        ...

    def need(self, jobs: Iterable[Job], after_ms: int) -> None:
        """Have the next fires of many jobs asked for at once, ahead of :meth:`next_fire`."""
        ...

    def awaits_completion(self, job: Job) -> bool:
        """Tell whether the next fire is set when the last one ends."""
        ...


class Sources(Protocol):
    """What management asks about the sources of script jobs."""

    def check(self, job: Job) -> None:
        """Refuse to start or run a job that lacks its source."""
        ...

    def check_source(self, name: str, new: NewSource) -> None:
        """Refuse a source that a glue type does not take."""
        ...

    def save_locked(self, conn: Connection, job: Job, new: NewSource, now_ms: int) -> GlueVersion:
        """Save a source of a job whose row is locked."""
        ...

    def edit_locked(self, conn: Connection, job: Job, merged: Job, new: NewSource | None, now_ms: int) -> int:
        """Return the version that counts after an edit."""
        ...


class JobManager:
    """Changes jobs and plans runs by hand.

    Args:
        db: The database.
        clock: Where time comes from.
        run_ids: Source of run ids.
        check_job: Refuses a job whose fields cannot work, with a FieldError.
        timetable: When jobs fire.
        sources: The sources of script jobs.
        new_run: Makes a first attempt of a job.
        wake: Told when something is to be claimed or adopted.
        around: Runs a transaction, and lets plugins be asked between its attempts and never inside.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        run_ids: RunIds,
        check_job: Callable[[Job], None],
        timetable: Timetable,
        sources: Sources,
        new_run: NewRun,
        wake: Callable[[], None],
        around: Around = at_once,
    ) -> None:
        self._db = db
        self._around = around
        self._clock = clock
        self._run_ids = run_ids
        self._check_job = check_job
        self._timetable = timetable
        self._sources = sources
        self._new_run = new_run
        self._wake = wake

    def create(
        self, values: Mapping[str, Any], *, enabled: bool = False, source: NewSource | None = None
    ) -> Job:
        """Create a job, stopped unless told otherwise.

        Args:
            values: Every field of a job that its author sets.
            enabled: Start it at once.
            source: The first version of a script's source.

        Raises:
            FieldError: A field is not acceptable; ScheduleError for the schedule's fields.
            NotFoundError: The group does not exist.
        """
        now_ms = self._clock.now_ms()
        row = {
            **values,
            "anchor_ms": values.get("anchor_ms") or now_ms,
            "enabled": False,
            "next_fire_ms": None,
            "last_fire_ms": None,
            "awaits_root": None,
            "revision": 1,
            "schedule_error": "",
            "created_ms": now_ms,
            "updated_ms": now_ms,
            "glue_version": 0,
        }
        draft = Job(id=0, partition=0, **row)
        self._check_job(draft)

        def work(conn: Connection) -> Job:
            executors.get_group(conn, values["group_id"])
            job = jobs.insert_job(conn, row)
            if source is not None:
                made = self._sources.save_locked(conn, job, source, now_ms)
                job = jobs.update_job(conn, job.id, {"glue_version": made.number})
            return self._start(conn, job, now_ms) if enabled else job

        def attempt() -> Job:
            if source is not None:
                self._sources.check_source(draft.glue_type, source)
            if enabled:
                self._timetable.need([draft], now_ms)
            return self._db.transaction(work)

        job = self._around(attempt)
        self._wake()
        return job

    def edit(
        self,
        job_id: int,
        changes: Mapping[str, Any],
        *,
        revision: int | None = None,
        source: NewSource | None = None,
    ) -> Job:
        """Change fields of a job.

        Args:
            job_id: The job.
            changes: New values; with another glue type the job has no source until one is saved.
            revision: The revision that the caller has seen; None to overwrite whatever is there.
            source: A new source; nothing is saved if it is the current one.

        Raises:
            NotFoundError: The job or its new group does not exist.
            RevisionError: The job is at another revision.
            FieldError: A value is not acceptable.
        """
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> Job:
            job = self._lock(conn, job_id, revision)
            merged = replace(job, **changes)
            self._check_job(merged)
            reschedules = any(getattr(job, name) != getattr(merged, name) for name in SCHEDULE_FIELDS)
            values = {**changes, "revision": job.revision + 1, "updated_ms": now_ms}
            values["glue_version"] = self._sources.edit_locked(conn, job, merged, source, now_ms)
            is_other_schedule = any(
                getattr(job, name) != getattr(merged, name) for name in ("schedule_type", "schedule_conf")
            )
            if is_other_schedule and "anchor_ms" not in changes:
                values["anchor_ms"] = now_ms
            if merged.group_id != job.group_id:
                executors.get_group(conn, merged.group_id)
            saved = jobs.update_job(conn, job_id, values)
            if merged.group_id != job.group_id:
                # what is open belongs to the executor that has it, and stays
                planned = runs.lock_planned_of_jobs(conn, [job_id], tuple(Origin))
                runs.update_groups(conn, [(run.id, merged.group_id) for run in planned])
            if not reschedules:
                return saved
            return self.reschedule(conn, saved, "edited", now_ms) if job.enabled else saved

        job = self._around(lambda: self._db.transaction(work))
        self._wake()
        return job

    def start(self, job_id: int, *, revision: int | None = None) -> Job:
        """Let a job fire; nothing changes if it does already.

        Args:
            job_id: The job.
            revision: The revision that the caller has seen; None for whatever is there.

        Raises:
            NotFoundError: The job does not exist.
            RevisionError: The job is at another revision.
            ScheduleError: It has no schedule or no further fire.
        """
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> Job:
            return self.start_locked(conn, self._lock(conn, job_id, revision), now_ms)

        job = self._around(lambda: self._db.transaction(work))
        self._wake()
        return job

    def stop(self, job_id: int, *, revision: int | None = None) -> Job:
        """Stop a job and cancel its planned fires and retries; runs that were sent go on.

        Args:
            job_id: The job.
            revision: The revision that the caller has seen; None for whatever is there.

        Raises:
            NotFoundError: The job does not exist.
            RevisionError: The job is at another revision.
        """
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> Job:
            self.stop_locked(conn, [self._lock(conn, job_id, revision)], now_ms)
            return jobs.get_job(conn, job_id)

        return self._db.transaction(work)

    def delete(self, job_id: int, *, revision: int | None = None) -> None:
        """Delete a job: what is planned is cancelled, its finished runs stay readable.

        Args:
            job_id: The job.
            revision: The revision that the caller has seen; None for whatever is there.

        Raises:
            NotFoundError: The job does not exist.
            RevisionError: The job is at another revision.
        """
        now_ms = self._clock.now_ms()
        self._db.transaction(
            lambda conn: self.delete_locked(conn, [self._lock(conn, job_id, revision)], now_ms)
        )

    def check_runnable(self, job: Job) -> None:
        """Refuse a job that lacks its source, with a FieldError."""
        self._sources.check(job)

    def need(self, found: Iterable[Job], now_ms: int) -> None:
        """Have the next fires of jobs asked for, all at once, before they are started or rescheduled."""
        self._timetable.need(found, now_ms)

    def start_locked(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Let a job fire whose row is locked; nothing is written if it does, or if it cannot.

        Raises:
            ScheduleError: It has no schedule or no further fire.
            FieldError: It lacks its source.
        """
        return job if job.enabled else self._start(conn, job, now_ms)

    def stop_locked(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Stop jobs whose rows are locked."""
        ids = [job.id for job in found]
        self._cancel_planned(conn, ids, "stopped", now_ms)
        jobs.stop_jobs(conn, ids, now_ms)

    def delete_locked(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Delete jobs whose rows are locked."""
        ids = [job.id for job in found]
        self._cancel_planned(conn, ids, "deleted", now_ms, origins=tuple(Origin))
        jobs.delete_links(conn, ids)
        jobs.delete_jobs(conn, ids, now_ms)

    def run_now(
        self,
        job_id: int,
        *,
        param: str | None = None,
        idempotency_key: str | None = None,
        address: str | None = None,
    ) -> Run:
        """Plan a run that is due at once, whether the job is started or not.

        Args:
            job_id: The job.
            param: Replaces the job's parameter; an empty one counts.
            idempotency_key: A second call with the same key returns the first call's run.
            address: The one registered executor that may get it; None lets the job's router choose.

        Raises:
            NotFoundError: The job does not exist.
            FieldError: It lacks its source.
        """
        now_ms = self._clock.now_ms()
        (run_id,) = self._run_ids.reserve(1)
        origin_key = run_id if idempotency_key is None else _hash_key(idempotency_key)

        def work(conn: Connection) -> Run:
            job = jobs.get_job(conn, job_id)
            self._sources.check(job)
            run = self._new_run(
                job,
                origin=Origin.API,
                origin_key=origin_key,
                due_ms=now_ms,
                planned_ms=now_ms,
                now_ms=now_ms,
                param=param,
                run_id=run_id,
            )
            run = msgspec.structs.replace(run, address=address)
            runs.insert_runs(conn, [run])
            return run

        try:
            run = self._db.transaction(work)
        except DuplicateError:
            with self._db.read() as conn:
                known = runs.find_run(conn, (job_id, Origin.API, origin_key, 0))
            if known is None:
                raise
            return known
        self._wake()
        return run

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
        self._sources.check(job)
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


def _hash_key(key: str) -> int:
    """Return a positive 62-bit number for an idempotency key; ids and cancelled keys never meet it."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - KEY_BITS) | 1 << (KEY_BITS - 1)
