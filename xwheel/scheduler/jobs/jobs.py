"""What people and scripts change: jobs are created, edited, started, stopped and deleted here.

An edit, stop or delete locks the job row, raises its revision and cancels its planned fires in one transaction, so
that no fire of the old definition leaves afterwards. An edit that leaves the schedule alone cancels nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import asdict, replace

from xwheel.clock import Clock
from xwheel.errors import FieldError, NameTakenError, NotFoundError, PluginError, ScheduleError, XwheelError
from xwheel.model import PARTITIONS, Job, NewSource, Origin, RunReason
from xwheel.model.access import Permission
from xwheel.model.jobs import draft_job
from xwheel.model.versions import JobAction, changes_back
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.questions import PluginQuestions
from xwheel.scheduler.jobs import rights
from xwheel.scheduler.jobs.owners import JobOwners
from xwheel.scheduler.jobs.validate import DEFAULT_LIMITS, TextLimits, check_job
from xwheel.scheduler.jobs.versions import JobHistory, JobStep, stopped
from xwheel.scheduler.runs.run_now import AT_ONCE, RunNow, When
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.scheduler.timetable import AskedTimetable
from xwheel.storage import executors, job_versions, jobs, plugin_rows, runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.database.rows import chunks

SCHEDULE_FIELDS: Final = (
    *("schedule_type", "schedule_conf", "timezone", "anchor_ms", "start_ms", "end_ms", "jitter_ms"),
    *("calendar_exclude", "calendar_require"),
)
T = TypeVar("T")

BATCH: Final = 100  # jobs in a transaction: claims of the same jobs wait no longer than that takes


class BulkAction(StrEnum):
    """What can be done to many jobs at once."""

    START = "start"
    STOP = "stop"
    RUN = "run"
    DELETE = "delete"


# what an action needs in the group of each job, where that is not ``run``
_NEEDS: Final = {BulkAction.DELETE: Permission.EDIT}


class BulkResult(NamedTuple):
    """What became of one job."""

    job_id: int
    error: XwheelError | None = None  # why nothing was done, or None
    run_id: int | None = None  # the run that was planned, if that was wanted


@dataclass(eq=False, repr=False)
class JobManager:
    """Changes jobs, one or many at a time.

    Where a method takes a ``revision``, it is the one that the caller has seen; None overwrites whatever is there. All
    that name a job raise a NotFoundError if there is none, and a RevisionError if it is at another revision.
    """

    db: Database
    clock: Clock
    plugins: Plugins
    timetable: AskedTimetable
    scripts: Scripts
    history: JobHistory
    runs_by_hand: RunNow
    questions: PluginQuestions  # asks plugins between the attempts of transactions, and never inside
    owners: JobOwners
    wake: Callable[[], None]
    _: KW_ONLY
    limits: TextLimits = DEFAULT_LIMITS

    def create(
        self,
        values: Mapping[str, object],
        *,
        enabled: bool = False,
        source: NewSource | None = None,
        unique: bool = False,
    ) -> Job:
        """Create a job, stopped unless told otherwise.

        With ``unique`` a name that another job of the group has is refused; XXL-JOB's jobs may share one. Raises
        FieldError for a field (ScheduleError for those of the schedule), NotFoundError without the group,
        NameTakenError for the name.
        """
        rights.check_new_job(values, source)
        now_ms = self.clock.now_ms()
        draft = self.draft(values, now_ms)

        def work(conn: Connection) -> Job:
            job = self.insert_draft(conn, draft, now_ms, enabled=enabled, source=source, unique=unique)
            self.history.record(conn, JobAction.CREATE, [JobStep(None, job, source)], now_ms)
            return job

        def attempt() -> Job:
            if source is not None:
                self.scripts.check_source(draft.glue_type, source, draft.group_id)
            if enabled:
                self.timetable.need([draft], now_ms)
            return self.db.transaction(work)

        job = self.questions.around(attempt)
        self.wake()
        return job

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Return what a transaction returns, with plugins asked between its attempts, and wake those that claim."""
        found = self.questions.around(lambda: self.db.transaction(work))
        self.wake()
        return found

    def draft(self, values: Mapping[str, object], now_ms: int) -> Job:
        """Return a job that could be created so, stopped and without an id; raises like :meth:`create`."""
        draft = draft_job({**values, "enabled": False}, now_ms)
        self.limits.check_param(draft.param)
        self._check(draft)
        return draft

    def insert_draft(
        self,
        conn: Connection,
        draft: Job,
        now_ms: int,
        *,
        enabled: bool,
        source: NewSource | None = None,
        unique: bool = True,
    ) -> Job:
        """Create what :meth:`draft` returned, inside a transaction; the arguments are those of :meth:`create`."""
        row = {name: value for name, value in asdict(draft).items() if name != "id"}
        executors.get_group(conn, draft.group_id, lock=unique)
        if unique:
            _refuse_namesake(conn, draft)
        job = jobs.insert_job(conn, row)
        if source is not None:
            made = self.scripts.save_locked(conn, job, source, now_ms)
            job = jobs.update_job(conn, job.id, {"glue_version": made.number})
        return self.start_locked(conn, job, now_ms) if enabled else job

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

        With another glue type the job has no source until one is saved; a source that is the current one is not saved
        again. Raises what :meth:`create` does, and OwnedByCodeError for a field that a plugin owns, as for code that
        declares it.
        """
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> Job:
            job = rights.lock_job(conn, job_id, revision, Permission.EDIT)
            saved = self._edit(conn, job, changes, now_ms, source, unique=unique)
            self.history.record(conn, JobAction.EDIT, [_step(job, saved, source)], now_ms)
            return saved

        return self.transaction(work)

    def restore(self, job_id: int, number: int, *, revision: int | None = None, unique: bool = True) -> Job:
        """Edit a job to be as it was at an earlier revision, its source included; whether it is started stays.

        The children that it had then are not part of it. Raises what :meth:`edit` does, NotFoundError if the version is
        not kept, and FieldError if what it names is gone: a plugin, a calendar, the version of the source.
        """
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> Job:
            job = rights.lock_job(conn, job_id, revision, Permission.EDIT)
            wanted = job_versions.get_version(conn, job_id, number)
            changes = changes_back(job, wanted.definition)
            glue_type = str(changes.get("glue_type", job.glue_type))
            source = self.scripts.source_back(conn, job, glue_type, wanted)
            saved = self._edit(conn, job, changes, now_ms, source, unique=unique)
            self.history.record(conn, JobAction.RESTORE, [_step(job, saved, source)], now_ms)
            return saved

        return self.transaction(work)

    def _edit(
        self,
        conn: Connection,
        job: Job,
        changes: Mapping[str, object],
        now_ms: int,
        source: NewSource | None,
        *,
        unique: bool,
    ) -> Job:
        """Change fields of a locked job, if the actor may and no plugin owns them."""
        rights.check_move(job, changes)
        self.owners.refuse_change(conn, job, changes)
        merged = self.merge(job, changes, conn)
        return self.edit_locked(conn, job, merged, changes, now_ms, source=source, unique=unique)

    def merge(self, job: Job, changes: Mapping[str, object], conn: Connection | None = None) -> Job:
        """Return a job as it would be with changed fields; raises like :meth:`edit`."""
        merged = replace(job, **changes)
        if merged.param != job.param:  # what was saved under a higher limit stays
            self.limits.check_param(merged.param)
        self._check(merged, conn)
        return merged

    def edit_locked(
        self,
        conn: Connection,
        job: Job,
        merged: Job,
        changes: Mapping[str, object],
        now_ms: int,
        *,
        source: NewSource | None = None,
        unique: bool = True,
    ) -> Job:
        """Write what :meth:`merge` returned of a job whose row is locked, and work out its next fire if need be."""
        rights.check_script(job, merged, source)
        values: dict[str, object] = {**changes, "revision": job.revision + 1, "updated_ms": now_ms}
        values["glue_version"] = self.scripts.edit_locked(conn, job, merged, source, now_ms)
        is_other_schedule = any(
            getattr(job, name) != getattr(merged, name) for name in ("schedule_type", "schedule_conf")
        )
        if is_other_schedule and "anchor_ms" not in changes:
            values["anchor_ms"] = now_ms
        if (merged.group_id, merged.name) != (job.group_id, job.name):
            executors.get_group(conn, merged.group_id, lock=unique)
            if unique:
                _refuse_namesake(conn, merged)
        saved = jobs.update_job(conn, job.id, values)
        if merged.group_id != job.group_id:
            # what is open belongs to the executor that has it, and stays
            planned = runs.lock_planned_of_jobs(conn, [job.id], tuple(Origin))
            runs.update_groups(conn, [(run.id, merged.group_id) for run in planned])
        reschedules = any(getattr(job, name) != getattr(merged, name) for name in SCHEDULE_FIELDS)
        return (
            self.reschedule(conn, saved, RunReason.EDITED, now_ms) if reschedules and job.enabled else saved
        )

    def start(self, job_id: int, *, revision: int | None = None) -> Job:
        """Let a job fire; nothing changes if it does already.

        Raises ScheduleError if it has no schedule or no further fire.
        """
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> Job:
            job = rights.lock_job(conn, job_id, revision, Permission.RUN)
            if job.enabled:
                return job
            started = self.start_locked(conn, job, now_ms)
            self.history.record(conn, JobAction.START, [JobStep(job, started)], now_ms)
            return started

        return self.transaction(work)

    def stop(self, job_id: int, *, revision: int | None = None) -> Job:
        """Stop a job and cancel its planned fires and retries; runs that were sent go on."""
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> Job:
            job = rights.lock_job(conn, job_id, revision, Permission.RUN)
            self.stop_locked(conn, [job], now_ms)
            now = jobs.get_job(conn, job_id)
            self.history.record(conn, JobAction.STOP, [JobStep(job, now)], now_ms)
            return now

        return self.db.transaction(work)

    def delete(self, job_id: int, *, revision: int | None = None) -> None:
        """Delete a job: what is planned is cancelled, its finished runs stay readable.

        Raises OwnedByCodeError if a plugin owns it.
        """
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> None:
            job = rights.lock_job(conn, job_id, revision, Permission.EDIT)
            for error in self.owners.undeletable(conn, [job]).values():
                raise error
            self._delete(conn, [job], now_ms)
            self.history.record(conn, JobAction.DELETE, [JobStep(job, stopped(job, now_ms))], now_ms)

        self.questions.around(lambda: self.db.transaction(work))

    def change_many(
        self, action: BulkAction, ids: Sequence[int], *, param: str | None = None, when: When = AT_ONCE
    ) -> list[BulkResult]:
        """Do the same to many jobs, a hundred in a transaction; one bad id stops no other.

        Returns one result for each job, in the order of the ids; one that is named twice is done once.
        """
        wanted = list(dict.fromkeys(ids))
        # all are due together, however many transactions that takes
        when = When(at_ms=when.due_ms(self.clock.now_ms()))
        results: dict[int, BulkResult] = {}
        # neighbours together: what is planned is found partition by partition
        ordered = sorted(wanted, key=lambda job_id: (job_id % PARTITIONS, job_id))
        for part in chunks(ordered, BATCH):
            if action is BulkAction.RUN:
                for job_id, done in self.runs_by_hand.run_many(part, param, when).items():
                    if isinstance(done, int):
                        results[job_id] = BulkResult(job_id, run_id=done)
                    else:
                        results[job_id] = BulkResult(job_id, done)
            else:
                results.update(self._change(action, part))
        self.wake()
        return [results[job_id] for job_id in wanted]

    def _change(self, action: BulkAction, ids: Sequence[int]) -> dict[int, BulkResult]:
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> dict[int, BulkResult]:
            done = {job_id: BulkResult(job_id, NotFoundError("job", job_id)) for job_id in ids}
            found, refused = rights.permitted(jobs.lock_jobs(conn, ids), _NEEDS.get(action, Permission.RUN))
            done |= {job_id: BulkResult(job_id, error) for job_id, error in refused.items()}
            match action:
                case BulkAction.START:
                    self.timetable.need((job for job in found.values() if not job.enabled), now_ms)
                    steps: list[JobStep] = []
                    done |= {job.id: self._try_start(conn, job, now_ms, steps) for job in found.values()}
                    self.history.record(conn, JobAction.START, steps, now_ms)
                    return done
                case BulkAction.STOP:
                    self.stop_locked(conn, found.values(), now_ms)
                    steps = [JobStep(job, stopped(job, now_ms)) for job in found.values()]
                    self.history.record(conn, JobAction.STOP, steps, now_ms)
                case _:
                    owned = self.owners.undeletable(conn, found.values())
                    gone = [job for job in found.values() if job.id not in owned]
                    self._delete(conn, gone, now_ms)
                    steps = [JobStep(job, stopped(job, now_ms)) for job in gone]
                    self.history.record(conn, JobAction.DELETE, steps, now_ms)
                    return done | {job_id: BulkResult(job_id, owned.get(job_id)) for job_id in found}
            return done | {job_id: BulkResult(job_id) for job_id in found}

        return self.questions.around(lambda: self.db.transaction(work))

    def _try_start(self, conn: Connection, job: Job, now_ms: int, steps: list[JobStep]) -> BulkResult:
        """Let a locked job fire and note that; what cannot is refused before anything is written."""
        try:
            if not job.enabled:
                steps.append(JobStep(job, self.start_locked(conn, job, now_ms)))
        except (FieldError, PluginError) as error:
            return BulkResult(job.id, error)
        except (ValueError, OverflowError) as error:
            return BulkResult(job.id, ScheduleError("schedule_conf", f"leads beyond the year 9999: {error}"))
        return BulkResult(job.id)

    def stop_locked(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Stop jobs whose rows are locked."""
        ids = [job.id for job in found]
        self._cancel_planned(conn, ids, RunReason.STOPPED, now_ms)
        jobs.stop_jobs(conn, ids, now_ms)

    def _delete(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Delete jobs whose rows are locked."""
        ids = [job.id for job in found]
        plugin_rows.delete_of_jobs(conn, self.plugins.tables, ids)
        self._cancel_planned(conn, ids, RunReason.DELETED, now_ms, origins=tuple(Origin))
        jobs.delete_links(conn, ids)
        jobs.delete_jobs(conn, ids, now_ms)

    def _check(self, job: Job, conn: Connection | None = None) -> None:
        listed: Collection[str] = ()
        if job.glue_type not in self.plugins.glue_types:
            with nullcontext(conn) if conn is not None else self.db.read() as asked:
                group = executors.get_groups(asked, {job.group_id}).get(job.group_id)
            listed = () if group is None else group.glue_types
        check_job(job, self.plugins, self.timetable, self.questions, listed=listed)

    def reschedule(self, conn: Connection, job: Job, reason: RunReason, now_ms: int) -> Job:
        """Cancel the planned fires of a locked, started job and work out its next one.

        A fixed delay whose last run is still on its way goes on waiting for it.
        """
        self._cancel_planned(conn, [job.id], reason, now_ms)
        waits = job.awaits_root is not None and self.timetable.awaits_completion(job)
        if waits and job.awaits_root in runs.find_open_roots(conn, {job.awaits_root or 0}):
            return job
        return self.start_locked(conn, job, now_ms)

    def start_locked(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Enable a locked job from its next due time on."""
        self.scripts.check(job)
        next_ms = self.timetable.next_fire(job, now_ms)
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
        reason: RunReason,
        now_ms: int,
        origins: tuple[Origin, ...] = (Origin.SCHEDULE, Origin.RETRY, Origin.RECOVERY),
    ) -> None:
        planned = runs.lock_planned_of_jobs(conn, job_ids, origins)
        runs.cancel_runs(conn, [run.id for run in planned], reason=reason, now_ms=now_ms)
        changes.note_cancelled(conn, planned, reason, now_ms)


def _step(before: Job, after: Job, source: NewSource | None) -> JobStep:
    """Return what became of a job, with the source if it was another one."""
    return JobStep(before, after, source if after.glue_version != before.glue_version else None)


def _refuse_namesake(conn: Connection, job: Job) -> None:
    """Refuse a name that another job has; the group's row is locked, so that no two take it at once.

    Raises NameTakenError.
    """
    other = jobs.find_namesake(conn, job.group_id, job.name)
    if other is not None and other != job.id:
        raise NameTakenError(
            f"name: job {other} of the same group is called {job.name!r} already: give another name, or change that one"
        )
