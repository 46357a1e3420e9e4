"""The five fields of crontab: read by croniter, field by field, and searched by the engine of the Quartz dialect.

croniter takes names, lists, ranges, steps, ``L``, ``W`` and ``#``. What it reads otherwise than cron does is ours: a
range of one value, which it takes for the whole field, and what the two day fields mean together.

Where a clock is set forward, what was due in the missing hour fires when the hour is over; where it is set back,
both passes through the hour fire. ``docs/reference/cron.md`` compares this with the Quartz dialect.
"""

from __future__ import annotations

import re
from typing import Final

from croniter import CroniterError, croniter

from xwheel.cron.days import LAST_OF_MONTH, DayRule, TwoRules
from xwheel.cron.quartz_parse import FIRST_YEAR, LAST_YEAR, MAX_LENGTH, MONTHS, WEEKDAYS, Fields
from xwheel.cron.quartz_search import DAY, Engine
from xwheel.cron.zone import find_zone
from xwheel.errors import ScheduleError

_ALIASES: Final = {
    "@annually": "0 0 1 1 *",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@midnight": "0 0 * * *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@yearly": "0 0 1 1 *",
}
_FIELDS: Final = {
    "minute": "takes 0 to 59",
    "hour": "takes 0 to 23",
    "day_of_month": "takes 1 to 31 or L",
    "month": "takes 1 to 12 or JAN to DEC",
    "day_of_week": "takes 0 to 7 or SUN to SAT",
}
_NAMES: Final = {
    "month": {name: at for at, name in enumerate(MONTHS, 1)},
    "day_of_week": {name: at for at, name in enumerate(WEEKDAYS)},
}
_ALL: Final = (range(60), range(24), range(1, 32), range(1, 13), range(7))
_WORD: Final = re.compile(r"[A-Z]+")
_WORDS: Final = frozenset((*MONTHS, *WEEKDAYS, "L", "W"))
_RANGE: Final = re.compile(r"(\w+)-(\w+)(?:/\d+)?")
_STARS: Final = ("*", "?")
_LAST: Final = "l"  # croniter's mark
_ALL_YEARS: Final = (2 << LAST_YEAR - FIRST_YEAR) - 1


class UnixSchedule(Engine):
    """A schedule in the Unix dialect; see :class:`xwheel.cron.CronSchedule`."""

    __slots__ = ("expression", "timezone")

    dialect = "unix"

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        zone = find_zone(timezone)
        super().__init__(_read(expression), zone)
        self.expression = expression
        self.timezone = timezone

    def describe(self, language: str = "en") -> str:
        """Return the schedule in plain words, English (``en``) or Chinese (``zh``)."""
        from xwheel.cron.describe import describe_unix  # the library is only needed by people

        return describe_unix(self._fields, language)

    def __repr__(self) -> str:
        return f"UnixSchedule({self.expression!r}, {self.timezone!r})"

    def _search(self, second: int) -> int | None:
        """Go from period to period: what a clock shows twice fires twice, what it leaves out when it goes on."""
        start = self._start(second)
        if start is None:
            return None
        period, wall, limit = start
        if second == period.start:
            before = self._zone.period(second - 1)
            if before.offset < period.offset:  # what was due in the missing hour is due now
                period, wall = before, second + before.offset
        while True:
            match = self._next_wall(max(wall, 0), limit)
            if match < 0:
                return None
            if match < period.end + period.offset:
                self._period = period
                self._remember(match // DAY * DAY, period)
                return (match - period.offset) * 1000
            following = self._zone.period(period.end)
            wall = period.end + following.offset
            if match < wall:
                return period.end * 1000
            period = following


def _read(expression: str) -> Fields:
    if len(expression) > MAX_LENGTH:
        raise ScheduleError("expression", f"takes at most {MAX_LENGTH} characters, not {len(expression)}")
    text = _ALIASES.get(expression, expression)
    texts = text.upper().split()
    if not text.isascii() or not text.replace("\t", " ").isprintable():
        raise ScheduleError("expression", "takes printable ASCII characters, separated by spaces or tabs")
    if len(texts) != len(_FIELDS):
        wanted = f"5 fields (minute, hour, day of month, month, day of week) or one of {', '.join(_ALIASES)}"
        raise ScheduleError("expression", f"takes {wanted}; not {len(texts)} fields")
    readers = [_read_field(number, item) for number, item in enumerate(texts)]
    minutes, hours, days, months, weekdays = (
        sum(1 << value for value in _values(number, reader)) for number, reader in enumerate(readers)
    )
    near, nth = readers[2].nearest_weekday, readers[4].nth_weekday_of_month
    of_month = DayRule(
        0, days=0 if near else days, ends=int(_LAST in readers[2].expanded[2]), near_days=sum(1 << day for day in near)
    )
    of_week = [DayRule(0, weekdays=weekdays << 1)]
    if nth:
        of_week = [
            DayRule(0, weekdays=2 << day, nth=LAST_OF_MONTH if number == _LAST else number)
            for day, numbers in nth.items()
            for number in numbers
        ]
    are_both = texts[2].startswith(_STARS) or texts[4].startswith(_STARS)
    return Fields(1, minutes, hours, TwoRules(months, of_month, tuple(sorted(of_week)), are_both), _ALL_YEARS)


def _read_field(number: int, text: str) -> croniter:
    """Read one field, and refuse what croniter refuses by itself, and its random and hashed values."""
    name, allowed = list(_FIELDS.items())[number]
    texts = ["*"] * len(_FIELDS)
    texts[number] = ",".join(_alone(name, item) for item in text.split(","))
    try:
        if _WORDS.issuperset(_WORD.findall(text)):
            return croniter(" ".join(texts), 0.0)
    except (CroniterError, ValueError, KeyError, TypeError, IndexError):
        pass
    raise ScheduleError(name, f"{allowed}, lists, ranges and steps; not {text[:40]!r}")


def _alone(name: str, item: str) -> str:
    """Return the first value of a range that has no other: croniter takes such a range for the whole field."""
    found = _RANGE.fullmatch(item)
    ends = [_NAMES.get(name, {}).get(text, text.lstrip("0") or "0") for text in found.groups()] if found else []
    return found[1] if found and str(ends[0]) == str(ends[1]) else item


def _values(number: int, reader: croniter) -> set[int]:
    found = reader.expanded[number]
    return set(_ALL[number]) if "*" in found else {int(value) for value in found if value != _LAST}
