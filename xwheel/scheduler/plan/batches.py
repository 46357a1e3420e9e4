"""Plan batches of due jobs: trusted schedule types at once, each other one on a thread that can be left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xwheel.config.sections import ScheduleSection
from xwheel.errors import PluginError
from xwheel.model import Job
from xwheel.plugin import ScheduleType
from xwheel.plugin.registries import Registry
from xwheel.runtime.foreign import HangingError, PluginThreads
from xwheel.scheduler.plan.rules import Planned, plan
from xwheel.scheduler.timetable import Timetable
from xwheel.storage.run_ids import RunIds


@dataclass(eq=False, repr=False)
class BatchPlanner:
    """Plans batches, so that a schedule type that hangs stops the one job that it was asked about."""

    timetable: Timetable
    types: Registry[ScheduleType]  # the installed schedule types; those that are trusted are asked at once
    threads: PluginThreads
    run_ids: RunIds
    schedule: ScheduleSection

    def __post_init__(self) -> None:
        self._foreign = set(self.types) - set(self.types.trusted)

    def split(self, jobs: Sequence[Job]) -> list[Sequence[Job]]:
        """Return the batches that these jobs make: one to be planned at once, then one for each other schedule type."""
        if not self._foreign:
            return [jobs] if jobs else []
        batches: dict[str, list[Job]] = {"": []}
        for job in jobs:
            name = job.schedule_type if job.schedule_type in self._foreign else ""
            batches.setdefault(name, []).append(job)
        return [batch for batch in batches.values() if batch]

    def plan(
        self, jobs: Sequence[Job], now_ms: int, epochs: Mapping[int, int], *, max_runs: int, max_questions: int
    ) -> Planned:
        """Plan one batch of :meth:`split`; a job whose schedule type hangs is stopped with the reason.

        If too many calls of the type hang already, all of its due jobs are stopped: nothing can say when they fire.
        """
        planned = partial(
            plan,
            pre_read_ms=self.schedule.pre_read_ms,
            threshold_ms=self.schedule.misfire_threshold_ms,
            take_ids=self.run_ids.take,
            epochs=epochs,
            max_runs=max_runs,
            max_questions=max_questions,
        )
        name = jobs[0].schedule_type
        if name not in self._foreign:
            return planned(jobs, now_ms, timetable=self.timetable)
        try:
            asked = partial(planned, jobs, now_ms, timetable=self.timetable)
            return self.threads.call(f"schedule type {name}", lambda call: asked(goes_on=call.goes_on))
        except HangingError as error:
            stuck = [job for job in jobs if job is error.item] or jobs
            result = planned(stuck, now_ms, timetable=_Silent(self.timetable, str(error)))
            result.unfinished = True
            return result


class _Silent(Timetable):
    def __init__(self, timetable: Timetable, reason: str) -> None:
        self._timetable, self._reason = timetable, reason

    def next_fire(self, job: Job, after_ms: int) -> int | None:
        """Refuse to say when a job fires."""
        del job, after_ms
        raise PluginError(self._reason)

    def awaits_completion(self, job: Job) -> bool:
        """Return whether the next fire is set when the last one ends."""
        return self._timetable.awaits_completion(job)
