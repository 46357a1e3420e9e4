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
from xwheel.model import PARTITIONS, Job, NewSource, Origin, Run, RunReason
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
from xwheel.scheduler.send.recall import EarlyRuns
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
Values = Mapping[str, object]  # fields of a job by name
Source = NewSource | None

OF_SCHEDULE: Final = (Origin.SCHEDULE, Origin.RETRY, Origin.RECOVERY)  # origins of what ends with a schedule
BATCH: Final = 100  # jobs in a transaction: claims of the same jobs wait no longer than that takes


class BulkAction(StrEnum):
    """What can be done to many jobs at once."""

    START = "start"
    STOP = "stop"
    RUN = "run"
    DELETE = "delete"


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
    early: EarlyRuns  # what waits at executors for its due time; edits ask for it
    _: KW_ONLY
    limits: TextLimits = DEFAULT_LIMITS

    def create(self, values: Values, *, enabled: bool = False, source: Source = None, unique: bool = False) -> Job:
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

    def draft(self, values: Values, now_ms: int) -> Job:
        """Return a job that could be created so, stopped and without an id; raises like :meth:`create`."""
        draft = draft_job({**values, "enabled": False}, now_ms)
        self.limits.check_param(draft.param)
        self._check(draft)
        return draft

    def insert_draft(
        self, conn: Connection, draft: Job, now_ms: int, *, enabled: bool, source: Source = None, unique: bool = True
    ) -> Job:
        """Create what :meth:`draft` returned, inside a transaction; the arguments are those of :meth:`create`."""
        if enabled and source is None:
            self.scripts.check(draft)  # while the job has no id: an error would name a job that is not there
        row = {name: value for name, value in asdict(draft).items() if name != "id"}
        _lock_name(conn, draft, unique=unique)
        job = jobs.insert_job(conn, row)
        if source is not None:
            made = self.scripts.save_locked(conn, job, source, now_ms)
            job = jobs.update_job(conn, job.id, {"glue_version": made.number})
        return self.start_locked(conn, job, now_ms) if enabled else job

    def edit(
        self, job_id: int, changes: Values, *, revision: int | None = None, source: Source = None, unique: bool = False
    ) -> Job:
        """Change fields of a job.

        With another glue type the job has no source until one is saved; a source that is the current one is not saved
        again. Raises what :meth:`create` does, and OwnedByCodeError for a field that a plugin owns, as for code that
        declares it.
        """

        def change(conn: Connection, job: Job, now_ms: int) -> JobStep:
            return self._edit(conn, job, changes, now_ms, source, unique=unique)

        return self._change_one(JobAction.EDIT, job_id, revision, Permission.EDIT, change)

    def restore(self, job_id: int, number: int, *, revision: int | None = None, unique: bool = True) -> Job:
        """Edit a job to be as it was at an earlier revision, its source included; whether it is started stays.

        The children that it had then are not part of it. Raises what :meth:`edit` does, NotFoundError if the version is
        not kept, and FieldError if what it names is gone: a plugin, a calendar, the version of the source.
        """

        def change(conn: Connection, job: Job, now_ms: int) -> JobStep:
            wanted = job_versions.get_version(conn, job_id, number)
            changes = changes_back(job, wanted.definition)
            glue_type = str(changes.get("glue_type", job.glue_type))
            source = self.scripts.source_back(conn, job, glue_type, wanted)
            return self._edit(conn, job, changes, now_ms, source, unique=unique)

        return self._change_one(JobAction.RESTORE, job_id, revision, Permission.EDIT, change)

    def _change_one(
        self,
        action: JobAction,
        job_id: int,
        revision: int | None,
        permission: Permission,
        change: Callable[[Connection, Job, int], JobStep],
    ) -> Job:
        """Change a job in a transaction that locks it and records what became of it; return it as it is then."""
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> Job:
            step = change(conn, rights.lock_job(conn, job_id, revision, permission), now_ms)
            self.history.record(conn, action, [step], now_ms)
            return step.after

        return self.transaction(work)

    def _edit(
        self, conn: Connection, job: Job, changes: Values, now_ms: int, source: Source, *, unique: bool
    ) -> JobStep:
        rights.check_move(job, changes)
        self.owners.refuse_change(conn, job, changes)
        merged = self.merge(job, changes, conn)
        saved = self.edit_locked(conn, job, merged, changes, now_ms, source=source, unique=unique)
        return JobStep(job, saved, source if saved.glue_version != job.glue_version else None)

    def merge(self, job: Job, changes: Values, conn: Connection | None = None) -> Job:
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
        changes: Values,
        now_ms: int,
        *,
        source: Source = None,
        unique: bool = True,
    ) -> Job:
        """Write what :meth:`merge` returned of a job whose row is locked, and work out its next fire if need be."""
        rights.check_script(job, merged, source)
        values: dict[str, object] = {**changes, "revision": job.revision + 1, "updated_ms": now_ms}
        values["glue_version"] = self.scripts.edit_locked(conn, job, merged, source, now_ms)
        schedule = (job.schedule_type, job.schedule_conf)
        if schedule != (merged.schedule_type, merged.schedule_conf) and "anchor_ms" not in changes:
            values["anchor_ms"] = now_ms
        if (merged.group_id, merged.name) != (job.group_id, job.name):
            _lock_name(conn, merged, unique=unique)
        saved = jobs.update_job(conn, job.id, values)
        if merged.group_id != job.group_id:
            # what is open belongs to the executor that has it, and stays
            planned = runs.lock_unsent_of_jobs(conn, [job.id], tuple(Origin))
            runs.update_groups(conn, [(run.id, merged.group_id) for run in planned])
        if job.enabled and any(getattr(job, name) != getattr(merged, name) for name in SCHEDULE_FIELDS):
            return self.reschedule(conn, saved, RunReason.EDITED, now_ms)
        return saved

    def start(self, job_id: int, *, revision: int | None = None) -> Job:
        """Let a job fire; nothing changes if it does already.

        Raises ScheduleError if it has no schedule or no further fire.
        """

        def change(conn: Connection, job: Job, now_ms: int) -> JobStep:
            return JobStep(job, job if job.enabled else self.start_locked(conn, job, now_ms))

        return self._change_one(JobAction.START, job_id, revision, Permission.RUN, change)

    def stop(self, job_id: int, *, revision: int | None = None) -> Job:
        """Stop a job and cancel its planned fires and retries; runs that were sent go on."""

        def change(conn: Connection, job: Job, now_ms: int) -> JobStep:
            self.stop_locked(conn, [job], now_ms)
            return JobStep(job, stopped(job, now_ms))

        return self._change_one(JobAction.STOP, job_id, revision, Permission.RUN, change)

    def delete(self, job_id: int, *, revision: int | None = None) -> None:
        """Delete a job: what is planned is cancelled, its finished runs stay readable.

        Raises OwnedByCodeError if a plugin owns it.
        """

        def change(conn: Connection, job: Job, now_ms: int) -> JobStep:
            for error in self.owners.undeletable(conn, [job]).values():
                raise error
            self._delete(conn, [job], now_ms)
            return JobStep(job, stopped(job, now_ms))

        self._change_one(JobAction.DELETE, job_id, revision, Permission.EDIT, change)

    def change_many(
        self, action: BulkAction, ids: Sequence[int], *, param: str | None = None, when: When = AT_ONCE
    ) -> list[BulkResult]:
        """Do the same to many jobs, a hundred in a transaction; one bad id stops no other.

        Returns one result for each job, in the order of the ids; one that is named twice is done once.
        """
        wanted = list(dict.fromkeys(ids))
        # all are due together, however many transactions that takes
        when = When(at_ms=when.due_ms(self.clock.now_ms()))
        results: dict[int, int | XwheelError | None] = {}
        # neighbours together: what is planned is found partition by partition
        for part in chunks(sorted(wanted, key=lambda job_id: (job_id % PARTITIONS, job_id)), BATCH):
            if action is BulkAction.RUN:
                results |= self.runs_by_hand.run_many(part, param, when)
            else:
                results |= self._change(action, part)
        self.wake()
        told = ((job_id, results[job_id]) for job_id in wanted)
        return [
            BulkResult(job_id, run_id=done) if isinstance(done, int) else BulkResult(job_id, done)
            for job_id, done in told
        ]

    def _change(self, action: BulkAction, ids: Sequence[int]) -> dict[int, XwheelError | None]:
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> dict[int, XwheelError | None]:
            needed = Permission.EDIT if action is BulkAction.DELETE else Permission.RUN
            found, refused = rights.permitted(jobs.lock_jobs(conn, ids), needed)
            done: dict[int, XwheelError | None] = {job_id: NotFoundError("job", job_id) for job_id in ids}
            done |= {**dict.fromkeys(found), **refused}
            if action is BulkAction.START:
                self.timetable.need((job for job in found.values() if not job.enabled), now_ms)
                steps: list[JobStep] = []
                done |= {job.id: self._try_start(conn, job, now_ms, steps) for job in found.values()}
            elif action is BulkAction.STOP:
                self.stop_locked(conn, found.values(), now_ms)
                steps = [JobStep(job, stopped(job, now_ms)) for job in found.values()]
            else:
                owned = self.owners.undeletable(conn, found.values())
                gone = [job for job in found.values() if job.id not in owned]
                self._delete(conn, gone, now_ms)
                steps = [JobStep(job, stopped(job, now_ms)) for job in gone]
                done |= owned
            self.history.record(conn, JobAction(action), steps, now_ms)
            return done

        return self.questions.around(lambda: self.db.transaction(work))

    def _try_start(self, conn: Connection, job: Job, now_ms: int, steps: list[JobStep]) -> XwheelError | None:
        """Let a locked job fire and note that; what cannot is refused before anything is written."""
        try:
            if not job.enabled:
                steps.append(JobStep(job, self.start_locked(conn, job, now_ms)))
        except (FieldError, PluginError) as error:
            return error
        except (ValueError, OverflowError) as error:
            return ScheduleError("schedule_conf", f"leads beyond the year 9999: {error}")
        return None

    def stop_locked(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
        """Stop jobs whose rows are locked."""
        ids = [job.id for job in found]
        self._cancel_planned(conn, ids, RunReason.STOPPED, now_ms)
        jobs.stop_jobs(conn, ids, now_ms)

    def _delete(self, conn: Connection, found: Collection[Job], now_ms: int) -> None:
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

    def plan_again(
        self, conn: Connection, fires: Sequence[tuple[Job, int | None]], reason: RunReason, now_ms: int
    ) -> list[Job]:
        """Cancel the planned fires of locked, started jobs, forget their last ones, and write the next ones, if any.

        Retries stay, and so does the run on its way for whose end a fixed delay waits.
        """
        self._cancel_planned(conn, [job.id for job, _ in fires], reason, now_ms, (Origin.SCHEDULE,))
        awaited = {job.awaits_root for job, _ in fires if job.awaits_root is not None}
        still_open = runs.find_open_roots(conn, awaited) if awaited else set()
        saved: list[Job] = []
        for job, next_ms in fires:
            values = {"anchor_ms": job.anchor_ms, "last_fire_ms": None, "revision": job.revision + 1}
            if job.awaits_root not in still_open:
                values |= {"next_fire_ms": next_ms, "awaits_root": None}
            saved.append(jobs.update_job(conn, job.id, {**values, "updated_ms": now_ms}))
        return saved

    def start_locked(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Enable a locked job from its next due time on."""
        self.scripts.check(job)
        next_ms = self.timetable.next_fire(job, now_ms)
        if next_ms is None:
            text = "the job would never fire: change its schedule before starting it"
            raise ScheduleError("schedule_conf", text)
        values = {
            "enabled": True,
            "next_fire_ms": next_ms,
            "awaits_root": None,
            "schedule_error": "",
            "revision": job.revision + 1,
            "updated_ms": now_ms,
        }
        return jobs.update_job(conn, job.id, values)

    def lock_unsent(self, conn: Connection, job_ids: Collection[int], origins: Collection[Origin]) -> list[Run]:
        """Lock the runs of locked jobs that are planned, or were given back by their executor before they were due."""
        return runs.lock_unsent_of_jobs(conn, job_ids, origins, self.recall(conn, job_ids, origins))

    def recall(self, conn: Connection, job_ids: Collection[int], origins: Collection[Origin]) -> Collection[int]:
        """Return the ids of runs of jobs that left for their executor and will not start.

        Before some jobs are changed one by one it is asked for all of them.
        """
        return self.early.recall(runs.find_early(conn, job_ids, origins, self.clock.now_ms()))

    def _cancel_planned(
        self,
        conn: Connection,
        job_ids: Collection[int],
        reason: RunReason,
        now_ms: int,
        origins: tuple[Origin, ...] = OF_SCHEDULE,
    ) -> None:
        planned = self.lock_unsent(conn, job_ids, origins)
        runs.cancel_runs(conn, [run.id for run in planned], reason=reason, now_ms=now_ms)
        changes.note_cancelled(conn, planned, reason, now_ms)


class ManyJobsWriter:
    """What plugins write many jobs with, in transactions of their own; see :class:`~xwheel.plugin.JobWriter`."""

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager
        self.need = manager.timetable.need
        self.next_fire = manager.timetable.next_fire
        self.merge = manager.merge
        self.transaction = manager.transaction
        self.insert = manager.insert_draft
        self.start = manager.start_locked
        self.stop = manager.stop_locked

    def draft(self, values: Values) -> Job:
        """Return a job that could be created so."""
        return self._manager.draft(values, self._manager.clock.now_ms())

    def edit(self, conn: Connection, job: Job, changes: Values, now_ms: int) -> Job:
        """Change fields of a locked job."""
        return self._manager.edit_locked(conn, job, replace(job, **changes), changes, now_ms)

    def touch(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Raise the revision of a locked job."""
        return jobs.update_job(conn, job.id, {"revision": job.revision + 1, "updated_ms": now_ms})

    def record(self, conn: Connection, action: JobAction, steps: Sequence[tuple[Job | None, Job]], now_ms: int) -> None:
        """Write down what the caller did to jobs."""
        self._manager.history.record(conn, action, [JobStep(*step) for step in steps], now_ms)


def _lock_name(conn: Connection, job: Job, *, unique: bool) -> None:
    """Refuse a name that another job has; the group's row is locked, so that no two take it at once.

    Without ``unique`` only the group must be there. Raises NotFoundError or NameTakenError.
    """
    executors.get_group(conn, job.group_id, lock=unique)
    other = jobs.find_namesake(conn, job.group_id, job.name) if unique else None
    if other is not None and other != job.id:
        raise NameTakenError(
            f"name: job {other} of the same group is called {job.name!r} already: give another name, or change that one"
        )
