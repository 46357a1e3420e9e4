"""Due times of a schedule around an instant, asked of what knows only the next one after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from xwheel.calendars import parse_calendar
from xwheel.cron import zone
from xwheel.model import Job
from xwheel.scheduler.jobs.jobs import SCHEDULE_FIELDS

Ask = Callable[[int], int | None]
"""Returns the first due time after an instant, or None."""

FIRST_STEP_MS: Final = 1000
GROWTH: Final = 4


def last_due(ask: Ask, low_ms: int, high_ms: int) -> int | None:
    """Return the last due time after ``low_ms`` and until ``high_ms``, or None.

    It asks some dozens of times however many due times there are: a due time comes after an instant unless the instant
    is too late, so that the last instant that is not too late can be halved in on.
    """

    def within(after_ms: int) -> int | None:
        found = ask(after_ms)
        return found if found is not None and after_ms < found <= high_ms else None

    best = within(low_ms)
    step = FIRST_STEP_MS
    too_late = high_ms
    while best is not None and high_ms - step > best:
        found = within(high_ms - step)
        if found is not None:
            best = found
            break
        too_late = high_ms - step
        step *= GROWTH
    while best is not None and best < too_late:
        following = within(best)
        if following is None:
            break
        best = following
        middle = (best + too_late) // 2
        found = within(middle)
        if found is None:
            too_late = middle
        else:
            best = found
    return best


def job_at(job: Job, definition: Mapping[str, Any]) -> Job:
    """Return a job with the schedule of one of its versions; a field that the version lacks stays as it is.

    Raises:
        msgspec.ValidationError: This version of xwheel does not know a value.
    """
    fields = {name: definition[name] for name in (*SCHEDULE_FIELDS, "enabled") if name in definition}
    return msgspec.convert({**msgspec.to_builtins(job), **fields}, Job)


def unlimited(job: Job) -> Job:
    """Return a job without the start, the end and the calendars of its schedule."""
    return msgspec.structs.replace(job, start_ms=None, end_ms=None, calendar_exclude=(), calendar_require=())


def schedule_of(job: Job) -> tuple[object, ...]:
    """Return what makes two schedules name the same times."""
    return tuple(getattr(job, name) for name in SCHEDULE_FIELDS)


def calendars_against(job: Job, due_ms: int, definitions: Mapping[str, Mapping[str, Any]]) -> Sequence[str]:
    """Return the calendars of a job that allow no fire at an instant.

    Raises:
        ScheduleError: A calendar or the zone cannot be read; KeyError if a calendar is not there.
    """
    moment = datetime.fromtimestamp(due_ms / 1000, zone(job.timezone)).replace(tzinfo=None)
    rules = [(name, False) for name in job.calendar_exclude] + [(name, True) for name in job.calendar_require]
    return [name for name, wanted in rules if parse_calendar(definitions[name]).covers(moment) is not wanted]
