"""Schedule types that ship with the core."""

from __future__ import annotations

import re
from datetime import datetime
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from xwheel.cron import CronSchedule, parse, zone
from xwheel.errors import ScheduleError
from xwheel.plugin import ScheduleSpec, ScheduleType, hookimpl

LONGEST_INTERVAL_MS: Final = 100 * 366 * 86_400_000
UNITS_MS: Final = {"": 1000, "s": 1000, "ms": 1, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
INTERVAL: Final = re.compile(r"(\d{1,15})(ms|s|m|h|d)?", re.ASCII)


class Never:
    """No schedule: the job runs only on request."""

    name = "NONE"

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse a configuration, since it would have no effect."""
        if spec.conf.strip():
            raise ScheduleError("schedule_conf", "must be empty for schedule type NONE")

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return None."""
        del spec, after_ms
        return None


class Cron:
    """A cron expression in Quartz's dialect, in the job's time zone."""

    name = "CRON"
    _dialect = "quartz"

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse an expression that cannot be parsed."""
        self._parsed(spec)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return the next matching second."""
        return self._parsed(spec).next_ms(after_ms)

    def _parsed(self, spec: ScheduleSpec) -> CronSchedule:
        return _parse(spec.conf, self._dialect, spec.timezone)


class UnixCron(Cron):
    """Five fields as in crontab, in the job's time zone."""

    name = "UNIX_CRON"
    _dialect = "unix"


@lru_cache(maxsize=20_000)
def _parse(conf: str, dialect: str, timezone: str) -> CronSchedule:
    return parse(conf, dialect=dialect, timezone=timezone)


class FixRate:
    """Every so often, counted from the job's anchor: restarts, misfires and edits elsewhere keep the phase.

    The configuration is a number of seconds, or a number with a unit: ``500ms``, ``30s``, ``5m``, ``2h``, ``1d``.
    """

    name = "FIX_RATE"

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse an interval that is no positive duration."""
        interval_ms(spec.conf)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return the next multiple of the interval after the anchor."""
        step_ms = interval_ms(spec.conf)
        if after_ms < spec.anchor_ms:
            return spec.anchor_ms
        return after_ms + step_ms - (after_ms - spec.anchor_ms) % step_ms


class FixDelay:
    """So long after the end of the last run, whatever that end was; the first fire this long after the start.

    The configuration is written as for ``FIX_RATE``.
    """

    name = "FIX_DELAY"
    awaits_completion = True

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse a delay that is no positive duration."""
        interval_ms(spec.conf)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return the fire that follows an end at ``after_ms``."""
        return after_ms + interval_ms(spec.conf)


class Once:
    """One fire at an instant: an ISO 8601 date and time, in the job's zone unless it names an offset."""

    name = "ONCE"

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse a text that is no instant."""
        _instant_ms(spec.conf, spec.timezone)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return the instant while it lies ahead."""
        at_ms = _instant_ms(spec.conf, spec.timezone)
        return at_ms if at_ms > after_ms else None


@lru_cache(maxsize=20_000)
def interval_ms(conf: str) -> int:
    """Return an interval in milliseconds; raises ScheduleError unless it is positive and at most a hundred years."""
    match = INTERVAL.fullmatch(conf.strip())
    length_ms = int(match[1]) * UNITS_MS[match[2] or ""] if match else 0
    if not 0 < length_ms <= LONGEST_INTERVAL_MS:
        raise ScheduleError(
            "schedule_conf", "must be seconds or a number with ms, s, m, h or d, above 0 and at most 100 years"
        )
    return length_ms


@lru_cache(maxsize=20_000)
def _instant_ms(conf: str, timezone: str) -> int:
    place: ZoneInfo = zone(timezone)
    try:
        moment = datetime.fromisoformat(conf.strip())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=place)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError) as error:
        raise ScheduleError(
            "schedule_conf", "must be an ISO 8601 date and time, such as 2030-01-31T09:00:00"
        ) from error


@hookimpl
def xwheel_register_schedule_types() -> list[ScheduleType]:
    """Register the schedule types."""
    return [Never(), Cron(), UnixCron(), FixRate(), FixDelay(), Once()]
