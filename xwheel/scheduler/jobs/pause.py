"""What changes many schedules at once: the global pause, and calendars."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from xwheel.calendars import parse_calendar
from xwheel.errors import ConflictError
from xwheel.model import Origin, RunReason
from xwheel.model.versions import JobAction
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.jobs.jobs import OF_SCHEDULE, JobManager
from xwheel.scheduler.jobs.versions import JobStep
from xwheel.scheduler.timetable import CalendarCache
from xwheel.storage import jobs, leases, runs, settings
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection

logger = logging.getLogger(__name__)

BATCH: Final = 200


@dataclass(eq=False, repr=False)
class ScheduleManager:
    """Pauses and resumes all schedules, and changes calendars together with the jobs that use them."""

    manager: JobManager
    calendars: CalendarCache
    audit: AuditTrail

    def paused_since_ms(self) -> int | None:
        """Return since when no schedule fires, or None if schedules fire."""
        with self.manager.db.read() as conn:
            since = settings.find_setting(conn, settings.PAUSED)
        return None if since is None else int(since)

    def pause(self) -> int:
        """Let no schedule fire until :meth:`resume`; runs by hand and retries go on.

        Fires that are planned but not sent go back to their jobs, so that the misfire policy decides about them when
        schedules fire again. Returns since when schedules are paused.
        """
        now_ms = self.manager.clock.now_ms()

        def switch(conn: Connection) -> int:
            leases.lock_all_leases(conn)
            since = settings.find_setting(conn, settings.PAUSED)
            if since is None:
                settings.insert_setting(conn, settings.PAUSED, str(now_ms))
                self.audit.record(conn, "schedule.pause", "schedule", "all", after={"since_ms": now_ms})
            return int(since or now_ms)

        since_ms = self.manager.db.transaction(switch)
        while self.manager.transaction(lambda conn: self._unplan(conn, now_ms)):
            pass
        logger.warning("all schedules are paused")
        return since_ms

    def resume(self) -> bool:
        """Let schedules fire again, and return whether they were paused."""

        def switch(conn: Connection) -> bool:
            since = settings.find_setting(conn, settings.PAUSED)
            was_paused = settings.delete_setting(conn, settings.PAUSED)
            if was_paused:
                self.audit.record(conn, "schedule.resume", "schedule", "all", before={"since_ms": since})
            return was_paused

        was_paused = self.manager.db.transaction(switch)
        logger.warning("schedules fire again")
        self.manager.wake()
        return was_paused

    def save_calendar(self, name: str, definition: Mapping[str, object]) -> None:
        """Write a calendar and work out again when the jobs that use it fire.

        Writes nothing and raises ScheduleError if the definition cannot be understood, or leaves a started job without
        any fire.
        """
        parse_calendar(definition)
        now_ms = self.manager.clock.now_ms()

        def work(conn: Connection) -> None:
            ids = jobs.find_calendar_users(conn, name)
            users = [job for job in jobs.lock_jobs(conn, ids).values() if job.enabled]
            self.manager.recall(conn, [job.id for job in users], OF_SCHEDULE)
            known = settings.find_calendar(conn, name)
            action = "calendar.create" if known is None else "calendar.edit"
            self.audit.record(conn, action, "calendar", name, before=known, after=definition)
            settings.save_calendar(conn, name, definition, now_ms)
            self.calendars.read(conn)
            self.manager.timetable.need(users, now_ms)
            saved = [self.manager.reschedule(conn, job, RunReason.CALENDAR, now_ms) for job in users]
            self.manager.history.record(conn, JobAction.CALENDAR, list(map(JobStep, users, saved)), now_ms)

        self._change(work)

    def delete_calendar(self, name: str) -> None:
        """Delete a calendar that no job uses; raises NotFoundError without it, ConflictError if a job uses it."""

        def work(conn: Connection) -> None:
            users = jobs.find_calendar_users(conn, name)
            if users:
                raise ConflictError(f"job {users[0]} uses calendar {name}: take it out there first")
            known = settings.find_calendar(conn, name)
            settings.delete_calendar(conn, name)
            self.audit.record(conn, "calendar.delete", "calendar", name, before=known)

        self._change(work)

    def _change(self, work: Callable[[Connection], None]) -> None:
        try:
            self.manager.questions.around(lambda: self.manager.db.transaction(work))
        finally:
            # whatever came of the transaction, memory follows what was committed
            with self.manager.db.read() as conn:
                self.calendars.read(conn)
        self.manager.wake()

    def _unplan(self, conn: Connection, now_ms: int) -> int:
        steps: list[JobStep] = []
        early = runs.find_early_jobs(conn, self.manager.clock.now_ms())
        early += self.manager.early.given().values()
        ids = {*early, *runs.find_planned_jobs(conn, BATCH)}
        owners = jobs.lock_jobs(conn, ids)
        unsent = self.manager.lock_unsent(conn, owners, (Origin.SCHEDULE,))
        runs.cancel_runs(conn, [run.id for run in unsent], reason=RunReason.PAUSED, now_ms=now_ms)
        changes.note_cancelled(conn, unsent, "paused", now_ms)
        first_ms: dict[int, int] = {}
        for run in unsent:
            first_ms[run.job_id] = min(run.planned_ms, first_ms.get(run.job_id, run.planned_ms))
        for job_id, planned_ms in first_ms.items():
            job = owners[job_id]
            values: dict[str, object] = {"revision": job.revision + 1}
            if job.enabled:  # one that was stopped must not fire again once schedules do
                values |= {"next_fire_ms": planned_ms, "awaits_root": None}
            steps.append(JobStep(job, jobs.update_job(conn, job_id, values)))
        self.manager.history.record(conn, JobAction.PAUSE, steps, now_ms)
        return len(unsent)
