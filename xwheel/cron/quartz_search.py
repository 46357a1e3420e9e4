"""Find the next time of a parsed Quartz expression.

The search runs on wall time: whole seconds that a clock in the zone shows, as one integer. A time of day is found
by three small tables, a day by a table with a bit for each day of the year, and only a match is converted back to
UTC. The last matching day is remembered, so that the next call on the same day touches the three tables only.

There are fourteen kinds of year: leap or not, starting on one of seven weekdays. A rule is worked out once for each
kind it meets, so that a search over a hundred years costs at most fourteen tables, and a rule that matches in none
is known to be impossible.
"""

from __future__ import annotations

from bisect import bisect_right
from calendar import isleap
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from xwheel.cron.quartz_parse import FIRST_YEAR, LAST_OF_MONTH, LAST_YEAR, DayRule, Fields
from xwheel.cron.zone import Period, Zone

_DAY = 86_400
_NEVER = 1 << 62
HORIZON_YEARS = 100  # Quartz searches this far ahead, though from the year in which it was started
SUNDAY, SATURDAY = 1, 7
DECEMBER = 12
MONTH_LENGTH = 31  # the longest
LENGTHS = ((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))
# day number (0 is 1970-01-01) of each 1 January from FIRST_YEAR to LAST_YEAR + 1
FIRST_DAYS = (0, *accumulate(365 + isleap(year) for year in range(FIRST_YEAR, LAST_YEAR + 1)))


class Month(NamedTuple):
    """A month's days."""

    first: int  # day number of the 1st, or its place in the year
    length: int  # 28 to 31
    weekday: int  # of the 1st, 1 for Sunday


class Engine:
    """The fire times of an expression in a zone. May be shared: the remembered day is one attribute, replaced whole."""

    __slots__ = (
        "_fields", "_first", "_hours", "_midnight", "_minutes", "_period", "_seconds", "_year", "_zone"
    )  # fmt: skip

    def __init__(self, fields: Fields, zone: Zone) -> None:
        self._fields = fields
        self._zone = zone
        self._seconds = _next_table(fields.seconds, 60)
        self._minutes = _next_table(fields.minutes, 60)
        self._hours = _next_table(fields.hours, 24)
        self._first = self._hours[0] * 3600 + self._minutes[0] * 60 + self._seconds[0]
        self._midnight = _NEVER  # UTC second at which the remembered day starts
        self._period = zone.period(0)
        self._year = (0, 0, 0)  # first day, first day of the next, table of days

    def next_ms(self, after_ms: int) -> int | None:
        """Return the first fire strictly after an instant, in epoch milliseconds, or None.

        Milliseconds are dropped: the answer is a whole second, and a later one than that of ``after_ms``.
        """
        second = after_ms // 1000 + 1
        clock = second - self._midnight
        if 0 <= clock < _DAY:
            # the same as _clock(), inlined: this is the hot path
            hour = clock // 3600
            clock -= hour * 3600
            if self._hours[hour] == hour:
                minute = clock // 60
                found = self._minutes[minute]
                if found == minute:
                    found = self._seconds[clock - minute * 60]
                    if found >= 0:
                        return (self._midnight + hour * 3600 + minute * 60 + found) * 1000
                    found = self._minutes[minute + 1]
                if found >= 0:
                    return (self._midnight + hour * 3600 + found * 60 + self._seconds[0]) * 1000
            hour = self._hours[hour + 1]
            if hour >= 0:
                return (self._midnight + hour * 3600 + self._minutes[0] * 60 + self._seconds[0]) * 1000
        return self._search(second)

    def _clock(self, clock: int) -> int:
        hour, rest = divmod(clock, 3600)
        if self._hours[hour] == hour:
            minute, second = divmod(rest, 60)
            found = self._minutes[minute]
            if found == minute:
                second = self._seconds[second]
                if second >= 0:
                    return hour * 3600 + minute * 60 + second
                found = self._minutes[minute + 1]
            if found >= 0:
                return hour * 3600 + found * 60 + self._seconds[0]
        hour = self._hours[hour + 1]
        return -1 if hour < 0 else hour * 3600 + self._minutes[0] * 60 + self._seconds[0]

    def _search(self, second: int) -> int | None:
        if not -_NEVER < second < FIRST_DAYS[-1] * _DAY:
            return None
        second = max(second, -_DAY)  # nothing fires before 1970
        period = self._period
        if not period.start <= second < period.end:
            period = self._zone.period(second)
        wall = max(second + period.offset, 0)
        limit = min(year_of(wall // _DAY) + HORIZON_YEARS, LAST_YEAR)
        jumps = self._fields.days.jumps
        while True:
            match = self._next_near(wall, limit) if jumps else self._next_wall(wall, limit)
            if match < 0:
                return None
            if match >= period.own_end:
                period = self._zone.owner(match)
            if match - period.offset >= period.start:
                break
            wall = period.start + period.offset  # in a gap; go on where the clock went on
        self._period = period
        if not jumps:
            self._remember(match // _DAY * _DAY, period)
        return (match - period.offset) * 1000

    def _remember(self, midnight: int, period: Period) -> None:
        """Keep a matching day for the next call, if all of it lies in one period."""
        start = midnight - period.offset
        if start >= period.start and midnight + _DAY <= period.own_end:
            self._midnight = start
        else:
            self._midnight = _NEVER

    def _next_wall(self, wall: int, limit: int) -> int:
        day = wall // _DAY
        first, end, table = self._year
        if not first <= day < end:
            first, end, table = self._turn_to(year_of(day))
        rest = table >> day - first
        if rest & 1:
            clock = self._clock(wall - day * _DAY)
            if clock >= 0:
                return day * _DAY + clock
            rest ^= 1
        if rest:
            day += (rest & -rest).bit_length() - 1
            return day * _DAY + self._first
        for year in range(year_of(first) + 1, limit + 1):
            first, _, table = self._turn_to(year)
            if table:
                day = first + (table & -table).bit_length() - 1
                return day * _DAY + self._first
        return -1

    def _turn_to(self, year: int) -> tuple[int, int, int]:
        first, end = FIRST_DAYS[year - FIRST_YEAR : year - FIRST_YEAR + 2]
        table = 0
        if self._fields.years >> year - FIRST_YEAR & 1:
            table = year_table(self._fields.days, isleap(year), weekday_of(first))
        self._year = first, end, table
        return self._year

    def _next_near(self, wall: int, limit: int) -> int:
        """Return the next match of a rule with nearest weekdays, or -1; what Quartz does, not what one expects.

        Quartz finds the time of day first, and keeps it when it moves to the nearest weekday; and from that day on
        it no longer sees the day of the rule, if that lies before. So a day that was moved to later fires once.
        """
        rule = self._fields.days
        day, clock = divmod(wall, _DAY)
        clock = self._clock(clock)
        if clock < 0:
            day, clock = day + 1, self._first
        year = year_of(day)
        number, month = _month_of(day, year)
        target = day - month.first + 1
        while year <= limit:
            if rule.months >> number & 1 and self._fields.years >> year - FIRST_YEAR & 1:
                while True:
                    fixed = _lowest(fixed_days(rule, month) >> target << target)
                    moved = self._near(month, target)
                    if moved and (month.first + moved - 1) * _DAY + clock < wall:
                        moved = 0
                    if moved and not 0 < fixed < moved:
                        return (month.first + moved - 1) * _DAY + clock
                    if fixed in (0, target):
                        break
                    target, clock = fixed, self._first  # a plain day starts over, and may be moved back from
                if fixed:
                    return (month.first + fixed - 1) * _DAY + clock
            year, number = (year, number + 1) if number < DECEMBER else (year + 1, 1)
            month = _month(month.first + month.length, year, number)
            target, clock = 1, self._first
        return -1

    def _near(self, month: Month, target: int) -> int:
        """Return the weekday nearest to the rule's first day from ``target`` on, or 0 if there is none."""
        rule = self._fields.days
        base = _lowest(merge_ends(rule.near_days, rule.near_ends, month.length) >> target << target)
        weekday = (month.weekday + base - 2) % 7 + 1
        if not base or SUNDAY < weekday < SATURDAY:
            return base
        if weekday == SATURDAY:
            return base + 2 if base == 1 else base - 1
        return base - 2 if base == month.length else base + 1


def year_of(day: int) -> int:
    """Return the year of a day number; one out of range gives a year out of range."""
    return FIRST_YEAR + bisect_right(FIRST_DAYS, day) - 1


def weekday_of(day: int) -> int:
    """Return the weekday of a day number, 1 for Sunday to 7 for Saturday."""
    return (day + 4) % 7 + 1  # 1970-01-01 was a Thursday


def fixed_days(rule: DayRule, month: Month) -> int:
    """Return the days of the month that match without moving to a weekday, bit 1 to 31."""
    if rule.weekdays:
        return _weekdays(rule, month)
    return merge_ends(rule.days, rule.ends, month.length)


def merge_ends(days: int, ends: int, length: int) -> int:
    """Return days of the month together with days counted from its end, as a month of some length has them.

    Quartz compares the two as if every month had 31 days. In a shorter one it therefore steps over a day counted
    from the end if a plain day follows it closely: ``L-2,27`` in a February of 28 days means the 27th alone.
    """
    days &= (2 << length) - 2
    found = days
    for before in range(length):
        if ends >> before & 1:
            day = length - before
            between = max(0, (1 << MONTH_LENGTH - before) - (2 << day))
            if not days & between:
                found |= 1 << day
    return found


def _weekdays(rule: DayRule, month: Month) -> int:
    days = 0
    if not rule.nth:
        for day in range(1, month.length + 1):
            if rule.weekdays >> (month.weekday + day - 2) % 7 + 1 & 1:
                days |= 1 << day
        return days
    weekday = (rule.weekdays & -rule.weekdays).bit_length() - 1
    first = (weekday - month.weekday) % 7 + 1
    if rule.nth == LAST_OF_MONTH:
        return 1 << first + (month.length - first) // 7 * 7
    day = first + (rule.nth - 1) * 7
    return 1 << day if day <= month.length else 0


@lru_cache(maxsize=4096)
def year_table(rule: DayRule, leap: bool, weekday: int) -> int:
    """Return the days that match in a kind of year, bit 0 for 1 January, for a rule without nearest weekdays.

    The kind is whether it has 366 days, and the weekday of 1 January, 1 for Sunday.
    """
    table = 0
    first = 0
    for number, length in enumerate(LENGTHS[leap], 1):
        if rule.months >> number & 1:
            month = Month(first, length, (weekday + first - 1) % 7 + 1)
            table |= fixed_days(rule, month) >> 1 << first
        first += length
    return table


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1 if bits else 0


def _month(first: int, year: int, number: int) -> Month:
    return Month(first, LENGTHS[isleap(year)][number - 1], weekday_of(first))


def _month_of(day: int, year: int) -> tuple[int, Month]:
    number = 1
    month = _month(FIRST_DAYS[min(year, LAST_YEAR) - FIRST_YEAR], year, number)
    while day >= month.first + month.length and number < DECEMBER:
        number += 1
        month = _month(month.first + month.length, year, number)
    return number, month


def _next_table(bits: int, size: int) -> tuple[int, ...]:
    """Return, for each number up to and including ``size``, the first set bit from there on, or -1."""
    table = [-1] * (size + 1)
    for number in range(size - 1, -1, -1):
        table[number] = number if bits >> number & 1 else table[number + 1]
    return tuple(table)
