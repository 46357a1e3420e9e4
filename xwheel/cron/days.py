"""Which days of a month a rule means, in both dialects; a set of days is a number with a bit for each."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

SUNDAY, SATURDAY = 1, 7
LAST_OF_MONTH = 6
MONTH_LENGTH = 31  # the longest
LENGTHS = ((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))


class Month(NamedTuple):
    """A month's days."""

    first: int  # day number of the 1st, or its place in the year
    length: int  # 28 to 31
    weekday: int  # of the 1st, 1 for Sunday

    def nearest_weekday(self, day: int) -> int:
        """Return the day from Monday to Friday that is nearest to a day of this month, within the month."""
        weekday = (self.weekday + day - 2) % 7 + 1
        if SUNDAY < weekday < SATURDAY:
            return day
        if weekday == SATURDAY:
            return day + 2 if day == 1 else day - 1
        return day - 2 if day == self.length else day + 1


class DayRule(NamedTuple):
    """Which days match; each field but the last is a set of bits."""

    months: int  # bit 1 to 12
    days: int = 0  # bit 1 to 31, days of the month
    ends: int = 0  # bit 0 to 30, days before the month's last one
    near_days: int = 0  # like days, but the nearest weekday (Monday to Friday) is meant
    near_ends: int = 0  # like ends, but the nearest weekday is meant
    weekdays: int = 0  # bit 1 (Sunday) to 7; zero if the days of the month decide
    nth: int = 0  # the n-th of the lowest weekday counts alone, 5 at most; 6: its last one, 0: all count

    @property
    def jumps(self) -> bool:
        """Whether days move to the nearest weekday."""
        return bool(self.near_days or self.near_ends)

    def of(self, month: Month) -> int:
        """Return the days of the month that match without moving to a weekday, bit 1 to 31."""
        if self.weekdays:
            return self._weekdays_of(month)
        return merge_ends(self.days, self.ends, month.length)

    def _weekdays_of(self, month: Month) -> int:
        days = 0
        if not self.nth:
            for day in range(1, month.length + 1):
                if self.weekdays >> (month.weekday + day - 2) % 7 + 1 & 1:
                    days |= 1 << day
            return days
        weekday = (self.weekdays & -self.weekdays).bit_length() - 1
        first = (weekday - month.weekday) % 7 + 1
        if self.nth == LAST_OF_MONTH:
            return 1 << first + (month.length - first) // 7 * 7
        day = first + (self.nth - 1) * 7
        return 1 << day if day <= month.length else 0


class TwoRules(NamedTuple):
    """Days of crontab, whose two fields both count."""

    months: int  # bit 1 to 12
    of_month: DayRule  # the field of days of the month; its months do not count
    of_week: tuple[DayRule, ...]  # that of weekdays: a day that one of them has
    are_both: bool  # a day must be in both; else in one of them

    @property
    def jumps(self) -> bool:
        """Whether the search moves days; those near a weekday are looked up here."""
        return False

    def of(self, month: Month) -> int:
        """Return the days of the month that match, bit 1 to 31."""
        rule = self.of_month
        days = (rule.days | (1 << month.length if rule.ends else 0)) & (2 << month.length) - 2
        for day in range(1, month.length + 1):
            if rule.near_days >> day & 1:
                days |= 1 << month.nearest_weekday(day)
        week = 0
        for one in self.of_week:
            week |= one.of(month)
        return days & week if self.are_both else days | week


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


@lru_cache(maxsize=4096)
def year_table(rule: DayRule | TwoRules, leap: bool, weekday: int) -> int:
    """Return the days that match in a kind of year, bit 0 for 1 January, for a rule without nearest weekdays.

    The kind is whether it has 366 days, and the weekday of 1 January, 1 for Sunday.
    """
    table = 0
    first = 0
    for number, length in enumerate(LENGTHS[leap], 1):
        if rule.months >> number & 1:
            month = Month(first, length, (weekday + first - 1) % 7 + 1)
            table |= rule.of(month) >> 1 << first
        first += length
    return table
