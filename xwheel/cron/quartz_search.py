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
from itertools import accumulate

from xwheel.cron.days import LENGTHS, DayRule, Month, merge_ends, year_table
from xwheel.cron.quartz_parse import FIRST_YEAR, LAST_YEAR, Fields
from xwheel.cron.zone import Period, Zone

DAY = 86_400
_NEVER = 1 << 62
HORIZON_YEARS = 100  # Quartz searches this far ahead, though from the year in which it was started
DECEMBER = 12
# day number (0 is 1970-01-01) of each 1 January from FIRST_YEAR to LAST_YEAR + 1
FIRST_DAYS = (0, *accumulate(365 + isleap(year) for year in range(FIRST_YEAR, LAST_YEAR + 1)))


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
        if 0 <= clock < DAY:
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
        start = self._start(second)
        if start is None:
            return None
        period, wall, limit = start
        wall = min(wall, period.own_end)  # what is shown again later belongs to then
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
            self._remember(match // DAY * DAY, period)
        return (match - period.offset) * 1000

    def _start(self, second: int) -> tuple[Period, int, int] | None:
        """Return the period of an instant, what a clock shows then, and the last year to look at."""
        if not -_NEVER < second < FIRST_DAYS[-1] * DAY:
            return None
        second = max(second, -DAY)  # nothing fires before 1970
        period = self._period
        if not period.start <= second < period.end:
            period = self._zone.period(second)
        wall = max(second + period.offset, 0)
        return period, wall, min(year_of(wall // DAY) + HORIZON_YEARS, LAST_YEAR)

    def _remember(self, midnight: int, period: Period) -> None:
        """Keep a matching day for the next call, if one period has all of it and the second before.

        If clocks leave out the hour before the day, crontab's fires of that hour are due at the day's first second.
        """
        start = midnight - period.offset
        if start > period.start and midnight + DAY <= period.own_end:
            self._midnight = start
        else:
            self._midnight = _NEVER

    def _next_wall(self, wall: int, limit: int) -> int:
        day = wall // DAY
        first, end, table = self._year
        if not first <= day < end:
            first, end, table = self._turn_to(year_of(day))
        rest = table >> day - first
        if rest & 1:
            clock = self._clock(wall - day * DAY)
            if clock >= 0:
                return day * DAY + clock
            rest ^= 1
        if rest:
            day += (rest & -rest).bit_length() - 1
            return day * DAY + self._first
        for year in range(year_of(first) + 1, limit + 1):
            first, _, table = self._turn_to(year)
            if table:
                day = first + (table & -table).bit_length() - 1
                return day * DAY + self._first
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
        assert isinstance(rule, DayRule)  # noqa: S101 - crontab's do not jump
        day, clock = divmod(wall, DAY)
        clock = self._clock(clock)
        if clock < 0:
            day, clock = day + 1, self._first
        year = year_of(day)
        number, month = _month_of(day, year)
        target = day - month.first + 1
        while year <= limit:
            if rule.months >> number & 1 and self._fields.years >> year - FIRST_YEAR & 1:
                while True:
                    fixed = _lowest(rule.of(month) >> target << target)
                    moved = _near(rule, month, target)
                    if moved and (month.first + moved - 1) * DAY + clock < wall:
                        moved = 0
                    if moved and not 0 < fixed < moved:
                        return (month.first + moved - 1) * DAY + clock
                    if fixed in (0, target):
                        break
                    target, clock = fixed, self._first  # a plain day starts over, and may be moved back from
                if fixed:
                    return (month.first + fixed - 1) * DAY + clock
            year, number = (year, number + 1) if number < DECEMBER else (year + 1, 1)
            month = _month(month.first + month.length, year, number)
            target, clock = 1, self._first
        return -1


def _near(rule: DayRule, month: Month, target: int) -> int:
    """Return the weekday nearest to the rule's first day from ``target`` on, or 0 if there is none."""
    base = _lowest(merge_ends(rule.near_days, rule.near_ends, month.length) >> target << target)
    return month.nearest_weekday(base) if base else 0


def year_of(day: int) -> int:
    """Return the year of a day number; one out of range gives a year out of range."""
    return FIRST_YEAR + bisect_right(FIRST_DAYS, day) - 1


def weekday_of(day: int) -> int:
    """Return the weekday of a day number, 1 for Sunday to 7 for Saturday."""
    return (day + 4) % 7 + 1  # 1970-01-01 was a Thursday


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
