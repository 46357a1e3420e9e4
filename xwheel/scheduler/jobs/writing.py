"""What plugins write many jobs with, in transactions of their own; see :class:`~xwheel.plugin.JobWriter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from xwheel.model import Job
from xwheel.model.versions import JobAction
from xwheel.scheduler.jobs.jobs import JobManager
from xwheel.scheduler.jobs.versions import JobStep
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection

T = TypeVar("T")


class ManyJobsWriter:
    """Checks and writes jobs for a plugin, through the manager of jobs."""

    def __init__(self, manager: JobManager) -> None:
        self._manager = manager
        self.need = manager.timetable.need
        self.next_fire = manager.timetable.next_fire
        self.merge = manager.merge
        self.start = manager.start_locked
        self.stop = manager.stop_locked

    def draft(self, values: Mapping[str, object]) -> Job:
        """Return a job that could be created so."""
        return self._manager.draft(values, self._manager.clock.now_ms())

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Return what a transaction returns, and wake those that claim."""
        return self._manager.transaction(work)

    def insert(self, conn: Connection, draft: Job, now_ms: int, *, enabled: bool) -> Job:
        """Create a drafted job."""
        return self._manager.insert_draft(conn, draft, now_ms, enabled=enabled)

    def edit(self, conn: Connection, job: Job, changes: Mapping[str, object], now_ms: int) -> Job:
        """Change fields of a locked job."""
        return self._manager.edit_locked(conn, job, replace(job, **changes), changes, now_ms)

    def touch(self, conn: Connection, job: Job, now_ms: int) -> Job:
        """Raise the revision of a locked job."""
        return jobs.update_job(conn, job.id, {"revision": job.revision + 1, "updated_ms": now_ms})

    def record(
        self, conn: Connection, action: JobAction, steps: Sequence[tuple[Job | None, Job]], now_ms: int
    ) -> None:
        """Write down what the caller did to jobs."""
        self._manager.history.record(conn, action, [JobStep(*step) for step in steps], now_ms)
