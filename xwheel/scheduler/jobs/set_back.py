"""Plan again what was planned while the clock was ahead, once it was set back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from xwheel.config.sections import ScheduleSection
from xwheel.errors import FieldError, PluginError
from xwheel.model import Job, Origin, RunReason
from xwheel.model.versions import JobAction
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.jobs.jobs import BATCH, JobManager
from xwheel.scheduler.jobs.versions import JobStep
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1000
SETTLED_MS: Final = 30_000  # a clock that goes back and comes back sooner changes no plan


@dataclass(eq=False, repr=False)
class SetBackLoop:
    """Finds started jobs that have times which have not come yet, and works out their next fires from now.

    Such times were written by a clock that was ahead: the fire after them would only come once that time comes again.
    Jobs are looked at when this node gets their partition, and after each step of the clock, once the clock has not
    jumped for :data:`SETTLED_MS`.
    """

    manager: JobManager
    lease: Lease
    clock_steps: Callable[[], int]  # how often the clock jumped
    schedule: ScheduleSection

    def __post_init__(self) -> None:
        self._looked_at: dict[int, int] = {}
        self._steps = 0
        self._since_ms = self.manager.clock.monotonic_ms()  # of the last step, or the start

    def step(self, now_ms: int) -> int:
        """Look at what was not looked at since; return how long to wait in milliseconds."""
        if not self.lease.may_act():
            return INTERVAL_MS
        steps, epochs = self.clock_steps(), dict(self.lease.epochs)
        at_ms = self.manager.clock.monotonic_ms()
        if steps != self._steps:
            self._looked_at, self._steps, self._since_ms = {}, steps, at_ms
        if at_ms - self._since_ms < SETTLED_MS:
            return INTERVAL_MS
        came = {part: epoch for part, epoch in epochs.items() if self._looked_at.get(part) != epoch}
        if came:
            self._plan_again(sorted(came), now_ms)
            self._looked_at |= came
        return INTERVAL_MS

    def _plan_again(self, partitions: Sequence[int], now_ms: int) -> None:
        manager = self.manager
        # claims plan so far ahead, and a clock may be a little off
        latest_ms = now_ms + self.schedule.pre_read_ms + self.schedule.misfire_threshold_ms
        after_id = count = 0
        while True:
            with manager.db.read() as conn:
                ids = jobs.find_ahead(conn, partitions, latest_ms, after_id, BATCH)
            if not ids:
                break
            change = partial(self._change, ids=ids, latest_ms=latest_ms, now_ms=now_ms)
            count += manager.questions.around(lambda: manager.db.transaction(change))  # noqa: B023 - called here
            after_id = ids[-1]
        if count:
            logger.warning("the clock was set back: %d jobs had times that have not come, and are planned again", count)
            manager.wake()

    def _change(self, conn: Connection, ids: Sequence[int], latest_ms: int, now_ms: int) -> int:
        manager = self.manager
        found = [job for job in jobs.lock_jobs(conn, ids).values() if job.enabled and _is_ahead(job, latest_ms)]
        manager.recall(conn, [job.id for job in found], (Origin.SCHEDULE,))
        again = {job.id: replace(job, anchor_ms=_anchor_of(job, now_ms)) for job in found}
        manager.timetable.need(again.values(), now_ms)
        fires: list[tuple[Job, int | None]] = []
        for job in again.values():
            try:
                fires.append((job, manager.timetable.next_fire(job, now_ms)))
            except (FieldError, PluginError, ValueError, OverflowError) as error:
                logger.warning("job %d has times that have not come, and cannot be planned again: %s", job.id, error)
        if fires:
            ids = [job.id for job, _ in fires]
            runs.free_skipped(conn, ids, now_ms)
            saved = manager.plan_again(conn, fires, RunReason.CLOCK, now_ms)
            before = {job.id: job for job in found}
            steps = [JobStep(before[job.id], job) for job in saved]
            manager.history.record(conn, JobAction.CLOCK, steps, now_ms)
        return len(fires)


def _is_ahead(job: Job, latest_ms: int) -> bool:
    return _written_ms(job) > latest_ms


def _written_ms(job: Job) -> int:
    """Return what the clock showed at least when a job was written."""
    return max(job.updated_ms, job.last_fire_ms or 0)


def _anchor_of(job: Job, now_ms: int) -> int:
    """Return where a fixed rate counts from: now, if the clock that was ahead set that, too."""
    return now_ms if now_ms < job.anchor_ms <= _written_ms(job) else job.anchor_ms
