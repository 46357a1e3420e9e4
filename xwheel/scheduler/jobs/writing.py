"""What plugins write many jobs with, in transactions of their own; see :class:`~xwheel.plugin.JobWriter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.model import Job
from xwheel.model.versions import JobAction
from xwheel.plugin.questions import PluginQuestions
from xwheel.scheduler.jobs.jobs import JobManager
from xwheel.scheduler.jobs.versions import JobHistory, JobStep
from xwheel.scheduler.timetable import AskedTimetable
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection, Database

T = TypeVar("T")


class ManyJobsWriter:
    """Checks and writes jobs for a plugin.

    Args:
        db: The database.
        clock: Where time comes from.
        manager: Checks and writes each.
        history: Keeps versions of jobs.
        timetable: When they fire.
        questions: Asks plugins between the attempts of transactions, and never inside.
        wake: Called when something is to be claimed.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        manager: JobManager,
        history: JobHistory,
        timetable: AskedTimetable,
        questions: PluginQuestions,
        wake: Callable[[], None],
    ) -> None:
        self._db = db
        self._clock = clock
        self._manager = manager
        self._history = history
        self._questions = questions
        self._wake = wake
        self.need = timetable.need
        self.next_fire = timetable.next_fire
        self.merge = manager.merge
        self.start = manager.start_locked
        self.stop = manager.stop_locked

    def draft(self, values: Mapping[str, object]) -> Job:
        """Return a job that could be created so."""
        return self._manager.draft(values, self._clock.now_ms())

    def transaction(self, work: Callable[[Connection], T]) -> T:
        """Return what a transaction returns, and wake those that claim."""
        found = self._questions.around(lambda: self._db.transaction(work))
        self._wake()
        return found

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
        self._history.record(conn, action, [JobStep(*step) for step in steps], now_ms)
