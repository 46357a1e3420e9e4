"""The schedule type for office hours: a window of the day, every so often, on some days of the week."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from xwheel.builtin.schedule_types import interval_ms
from xwheel.calendars import weekdays_of
from xwheel.cron import zone
from xwheel.errors import ScheduleError
from xwheel.plugin import ScheduleSpec, ScheduleType, hookimpl

DAY_MS: Final = 86_400_000
DAYS_AHEAD: Final = 9  # a week, and a day on each side
MARGIN_S: Final = 2 * 3600 + 1  # clocks are set by at most two hours, Lord Howe's by half of one
WINDOW_PARTS: Final = ("from", "to", "every", "days")
CLOCK: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?", re.ASCII)


class DailyInterval:
    """Every so often within a window of the day, on some days of the week.

    The configuration names its parts: ``from=09:00 to=17:30 every=15m days=MON-FRI``; ``days`` may be left out. Both
    ends of the window fire if the interval meets them. Times are those that clocks of the job's zone show: a time
    that a clock leaves out in spring does not fire, one that it shows twice in autumn fires the first time only.
    """

    name = "DAILY_INTERVAL"

    def check(self, spec: ScheduleSpec) -> None:
        """Refuse a window that never opens."""
        parse_window(spec.conf)
        zone(spec.timezone)

    def next_ms(self, spec: ScheduleSpec, after_ms: int) -> int | None:
        """Return the next step of a window."""
        window, place = parse_window(spec.conf), zone(spec.timezone)
        after_s = after_ms // 1000
        local = datetime.fromtimestamp(after_s, place)
        for ahead in range(-1, DAYS_AHEAD):  # yesterday too: a clock set back shows it again
            day = local.date() + timedelta(days=ahead)
            if day.weekday() in window.days:
                found = window.first_after(day, after_s, place)
                if found is not None:
                    return found * 1000
        return None


@dataclass(frozen=True, slots=True)
class Window:
    """A daily window."""

    first_s: int  # seconds after midnight at which it opens
    last_s: int  # seconds after midnight at which it closes, included
    every_s: int  # step in seconds
    days: frozenset[int]  # of the week, Monday 0

    def first_after(self, day: date, after_s: int, place: ZoneInfo) -> int | None:
        """Return the first step of this day after an instant, in epoch seconds."""
        midnight = datetime.combine(day, time())
        opening = self._instant(midnight, self.first_s, place)
        # no clock is ever set by more than a day; without a change in between this lands on the step itself
        behind_s = after_s - (
            opening if opening is not None else int(midnight.replace(tzinfo=place).timestamp()) + self.first_s
        )
        changes = self._offset(midnight, place) != self._offset(midnight + timedelta(days=1), place)
        start = max(0, (behind_s - (MARGIN_S if changes else 0)) // self.every_s)
        for step in range(self.first_s + start * self.every_s, self.last_s + 1, self.every_s):
            instant = self._instant(midnight, step, place)
            if instant is not None and instant > after_s:
                return instant
        return None

    def _instant(self, midnight: datetime, step_s: int, place: ZoneInfo) -> int | None:
        """Return when a clock first shows a time of the day, or None if it leaves it out."""
        shown = midnight + timedelta(seconds=step_s)
        instant = int(shown.replace(tzinfo=place).timestamp())
        return instant if datetime.fromtimestamp(instant, place).replace(tzinfo=None) == shown else None

    def _offset(self, moment: datetime, place: ZoneInfo) -> timedelta | None:
        return moment.replace(tzinfo=place).utcoffset()


@lru_cache(maxsize=20_000)
def parse_window(conf: str) -> Window:
    """Return the window that a configuration describes; ScheduleError names the part and what is allowed."""
    parts: dict[str, str] = {}
    for word in conf.split():
        key, is_pair, value = word.partition("=")
        if key not in WINDOW_PARTS or not is_pair or key in parts:
            raise ScheduleError(
                "schedule_conf", f"takes from=09:00 to=17:30 every=15m days=MON-FRI, each once; not {word[:40]!r}"
            )
        parts[key] = value
    missing = [key for key in WINDOW_PARTS[:3] if key not in parts]
    if missing:
        raise ScheduleError("schedule_conf", f"lacks {'= and '.join(missing)}=, as in from=09:00 to=17:30 every=15m")
    first_s, last_s = _clock_s("from", parts["from"]), _clock_s("to", parts["to"])
    every_ms = interval_ms(parts["every"])
    if last_s < first_s:
        raise ScheduleError("schedule_conf", "to= must not be earlier than from=: such a window never opens")
    if every_ms % 1000 or every_ms > DAY_MS:
        raise ScheduleError("schedule_conf", "every= must be whole seconds and at most a day")
    days = weekdays_of(parts.get("days", "MON-SUN"), "schedule_conf")
    return Window(first_s, last_s, every_ms // 1000, days)


def _clock_s(part: str, text: str) -> int:
    match = CLOCK.fullmatch(text)
    if match is None:
        raise ScheduleError("schedule_conf", f"{part}= takes a time from 00:00 to 23:59:59, not {text[:40]!r}")
    return int(match[1]) * 3600 + int(match[2]) * 60 + int(match[3] or 0)


@hookimpl
def xwheel_register_schedule_types() -> list[ScheduleType]:
    """Register the schedule type."""
    return [DailyInterval()]
