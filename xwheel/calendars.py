"""Calendars: named sets of days, weekdays and stretches of time, in which jobs must or must not fire.

A calendar is written as a table (TOML or JSON)::

    {"holidays": "CN"}                      public holidays of a country, or "DE/BY" with its subdivision
    {"workdays": "CN"}                      its working days: no weekends and holidays, but make-up days
    {"weekdays": "SAT,SUN"}                 days of the week
    {"dates": ["2026-12-24", "2026-12-27..2026-12-31"]}
    {"times": ["2026-11-10T22:00..2026-11-11T06:00"]}

Entries add up. ``without`` takes dates out again: ``{"holidays": "CN", "without": ["2026-10-08"]}``. Dates and times
are those of the job's own zone. Holidays come from the ``holidays`` library, as far as governments have announced them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import lru_cache, partial
from typing import Any, Final

from xwheel.errors import ScheduleError
from xwheel.extras import extra

DAY_NAMES: Final = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
KEYS: Final = ("holidays", "workdays", "weekdays", "dates", "times", "without")
MAX_ENTRIES: Final = 1000
MAX_DAYS: Final = 20_000

Days = Callable[[date], bool]


@dataclass(frozen=True, slots=True)
class Calendar:
    """A set of moments in local time."""

    days: Sequence[Days]  # test whether a whole day belongs to it, one for each entry that adds days
    # where stretches of local time begin and end, in turn and in order: a moment with an odd number of edges at or
    # before it lies inside one
    edges: Sequence[datetime]
    without: frozenset[date]  # days that do not belong to it whatever the rest says

    def covers(self, moment: datetime) -> bool:
        """Return whether a moment of local time, given without a zone, belongs to the calendar."""
        day = moment.date()
        if day in self.without:
            return False
        return any(test(day) for test in self.days) or bisect_right(self.edges, moment) % 2 == 1

    def until(self, moment: datetime) -> datetime:
        """Return how far the calendar's answer for a moment certainly holds: the next midnight or edge of a stretch."""
        midnight = datetime.combine(moment.date() + timedelta(days=1), datetime.min.time())
        place = bisect_right(self.edges, moment)
        return min(midnight, self.edges[place]) if place < len(self.edges) else midnight


def parse_calendar(definition: Mapping[str, Any]) -> Calendar:
    """Return the calendar that a table describes; ScheduleError names the entry and what is allowed."""
    if not isinstance(definition, Mapping) or not definition:
        raise ScheduleError("calendar", f"must be a table with at least one of {', '.join(KEYS)}")
    for key in definition:
        if key not in KEYS:
            raise ScheduleError(f"calendar.{str(key)[:40]}", f"is not known; known: {', '.join(KEYS)}")
    tests: list[Days] = []
    if "holidays" in definition:
        tests.append(_holidays(_text(definition, "holidays"), "calendar.holidays").__contains__)
    if "workdays" in definition:
        tests.append(_holidays(_text(definition, "workdays"), "calendar.workdays").is_working_day)
    if "weekdays" in definition:
        wanted = weekdays_of(_text(definition, "weekdays"), "calendar.weekdays")
        tests.append(lambda day: day.weekday() in wanted)
    if "dates" in definition:
        tests.append(_dates("dates", _texts(definition, "dates")).__contains__)
    edges = _edges([_stretch(text) for text in _texts(definition, "times")])
    return Calendar(tests, edges, _dates("without", _texts(definition, "without")))


def weekdays_of(text: str, field: str) -> frozenset[int]:
    """Return days of the week, Monday 0, from names and ranges such as ``MON-FRI,SUN``; raises ScheduleError."""
    found: set[int] = set()
    for part in text.upper().split(","):
        first, _, last = part.strip().partition("-")
        if first not in DAY_NAMES or (last or first) not in DAY_NAMES:
            names = ", ".join(DAY_NAMES)
            raise ScheduleError(field, f"takes {names} and ranges such as MON-FRI, not {part[:40]!r}")
        begin, end = DAY_NAMES.index(first), DAY_NAMES.index(last or first)
        found.update(number % 7 for number in range(begin, (end if end >= begin else end + 7) + 1))
    return frozenset(found)


@lru_cache(maxsize=256)
def _holidays(place: str, field: str) -> Any:
    """Return a country's holidays; years are worked out by the library when they are first asked for."""
    with extra("calendars", partial(ScheduleError, field)):
        import holidays

    country, _, subdivision = place.upper().partition("/")
    try:
        return holidays.country_holidays(country, subdiv=subdivision or None)
    except (NotImplementedError, ValueError, TypeError) as error:
        text = f"takes a country such as CN or US, or DE/BY, not {place[:40]!r}"
        raise ScheduleError(field, text) from error


def _dates(key: str, texts: Sequence[str]) -> frozenset[date]:
    found: set[date] = set()
    for text in texts:
        first, _, last = text.partition("..")
        try:
            begin, end = date.fromisoformat(first.strip()), date.fromisoformat((last or first).strip())
        except ValueError as error:
            wanted = f"takes 2026-12-24 or 2026-12-24..2026-12-31, not {text[:40]!r}"
            raise ScheduleError(f"calendar.{key}", wanted) from error
        length = (end - begin).days + 1
        if not 0 < length <= MAX_DAYS or len(found) + length > MAX_DAYS:
            raise ScheduleError(f"calendar.{key}", f"ranges must run forward and hold at most {MAX_DAYS} days in all")
        found.update(begin + timedelta(days=number) for number in range(length))
    return frozenset(found)


def _stretch(text: str) -> tuple[datetime, datetime]:
    first, _, last = text.partition("..")
    try:
        begin, end = datetime.fromisoformat(first.strip()), datetime.fromisoformat(last.strip())
    except ValueError as error:
        wanted = f"takes 2026-11-10T22:00..2026-11-11T06:00, not {text[:60]!r}"
        raise ScheduleError("calendar.times", wanted) from error
    if begin.tzinfo or end.tzinfo or end <= begin:
        raise ScheduleError("calendar.times", "must run forward, in the job's own zone and so without an offset")
    return begin, end


def _edges(stretches: Sequence[tuple[datetime, datetime]]) -> Sequence[datetime]:
    edges: list[datetime] = []
    for begin, end in sorted(stretches):
        if edges and begin <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        else:
            edges += [begin, end]
    return edges


def _text(definition: Mapping[str, Any], key: str) -> str:
    value = definition[key]
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ENTRIES:
        raise ScheduleError(f"calendar.{key}", "must be a text")
    return value.strip()


def _texts(definition: Mapping[str, Any], key: str) -> Sequence[str]:
    values = definition.get(key, [])
    if not isinstance(values, list) or len(values) > MAX_ENTRIES or not all(isinstance(one, str) for one in values):
        raise ScheduleError(f"calendar.{key}", f"must be a list of at most {MAX_ENTRIES} texts")
    return values
