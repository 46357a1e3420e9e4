"""Plan batches of due jobs: trusted schedule types at once, each other one on a thread that can be left behind."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from xwheel.errors import PluginError
from xwheel.model import Job
from xwheel.runtime.plugin_threads import HangingError, PluginThreads
from xwheel.scheduler.records import Planned

logger = logging.getLogger(__name__)

Plan = Callable[..., Planned]
"""``plan(jobs, now_ms, *, timetable, goes_on, …)``: the pure decision."""


class Timetable(Protocol):
    """When jobs fire; asked on whatever thread plans."""

    def next_fire(self, job: Job, after_ms: int) -> int | None:
        """Return the first due time strictly after an instant."""
        ...

    def due_ms(self, job: Job, planned_ms: int) -> int:
        """Return when a fire shall be sent."""
        ...

    def awaits_completion(self, job: Job) -> bool:
        """Return whether the next fire is set when the last one ends."""
        ...


class PlanBatches:
    """Plans batches, so that a schedule type that hangs stops the one job that it was asked about.

    Args:
        plan: The pure decision.
        timetable: When jobs fire.
        types: The installed schedule types.
        trusted: Names of those that are asked at once.
        threads: Where the others are asked.
    """

    def __init__(
        self,
        plan: Plan,
        timetable: Timetable,
        types: Mapping[str, object],
        trusted: Collection[str],
        threads: PluginThreads,
    ) -> None:
        self._plan = plan
        self._timetable = timetable
        self._foreign = types.keys() - set(trusted)
        self._threads = threads

    def split(self, jobs: Sequence[Job]) -> list[Sequence[Job]]:
        """Return the batches that these jobs make: one to be planned at once, then one for each other schedule type."""
        if not self._foreign:
            return [jobs] if jobs else []
        batches: dict[str, list[Job]] = {"": []}
        for job in jobs:
            name = job.schedule_type if job.schedule_type in self._foreign else ""
            batches.setdefault(name, []).append(job)
        return [batch for batch in batches.values() if batch]

    def plan(self, jobs: Sequence[Job], now_ms: int, **options: Any) -> Planned:
        """Plan one batch of :meth:`split`; a job whose schedule type hangs is stopped with the reason.

        If too many calls of the type hang already, all of its due jobs are stopped: nothing can say when they fire.
        """
        name = jobs[0].schedule_type
        if name not in self._foreign:
            return self._plan(jobs, now_ms, timetable=self._timetable, **options)
        try:
            return self._threads.call(
                f"schedule type {name}",
                lambda call: self._plan(
                    jobs, now_ms, timetable=self._timetable, goes_on=call.goes_on, **options
                ),
            )
        except HangingError as error:
            stuck = [job for job in jobs if job is error.item] or jobs
            silent = _Silent(self._timetable, str(error))
            planned = self._plan(stuck, now_ms, timetable=silent, **options)
            planned.unfinished = True
            return planned


class _Silent:
    """A timetable whose schedule type gives no answer."""

    def __init__(self, timetable: Timetable, reason: str) -> None:
        self._reason = reason
        self.due_ms = timetable.due_ms
        self.awaits_completion = timetable.awaits_completion

    def next_fire(self, job: Job, after_ms: int) -> int | None:
        """Refuse to say when a job fires."""
        del job, after_ms
        raise PluginError(self._reason)
