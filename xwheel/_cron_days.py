"""Which days of a year match a rule, as one integer with a bit for each day.

There are fourteen kinds of year: leap or not, starting on one of seven weekdays. A rule is worked out once for each
kind it meets, so that a search over a hundred years costs at most fourteen tables, and a rule that matches in none
is known to be impossible.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from typing import NamedTuple

from xwheel._cron_quartz import FIRST_YEAR, LAST_OF_MONTH, LAST_YEAR, DayRule

SUNDAY, SATURDAY = 1, 7
DECEMBER = 12
MONTH_LENGTH = 31  # the longest

LENGTHS = ((31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31))


def is_leap(year: int) -> bool:
    """Tell whether February has 29 days."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _first_days() -> list[int]:
    days = [0]
    for year in range(FIRST_YEAR, LAST_YEAR + 1):
        days.append(days[-1] + 365 + is_leap(year))
    return days


# day number (0 is 1970-01-01) of each 1 January from FIRST_YEAR to LAST_YEAR + 1
FIRST_DAYS = _first_days()


def year_of(day: int) -> int:
    """Return the year of a day number; one out of range gives a year out of range."""
    return FIRST_YEAR + bisect_right(FIRST_DAYS, day) - 1


def weekday_of(day: int) -> int:
    """Return the weekday of a day number, 1 for Sunday to 7 for Saturday."""
    return (day + 4) % 7 + 1  # 1970-01-01 was a Thursday


class Month(NamedTuple):
    """A month's days.

    Attributes:
        first: Day number of the 1st, or its place in the year.
        length: 28 to 31.
        weekday: Weekday of the 1st, 1 for Sunday.
    """

    first: int
    length: int
    weekday: int


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
    """Return the days that match in a kind of year, bit 0 for 1 January.

    Args:
        rule: A rule without nearest weekdays.
        leap: Whether the year has 366 days.
        weekday: Weekday of 1 January, 1 for Sunday.
    """
    table = 0
    first = 0
    for number, length in enumerate(LENGTHS[leap], 1):
        if rule.months >> number & 1:
            month = Month(first, length, (weekday + first - 1) % 7 + 1)
            table |= fixed_days(rule, month) >> 1 << first
        first += length
    return table
