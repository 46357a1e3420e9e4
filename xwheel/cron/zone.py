"""Time zones as a list of periods with one offset each.

:mod:`zoneinfo` answers one instant at a time and keeps its transitions to itself. They are found once, by asking for
every day of about a year and halving the day in which the offset changed; after that a conversion is integer
arithmetic. All seconds count from 1970-01-01T00:00; wall seconds are those that a clock in the zone shows.
"""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from xwheel.errors import ScheduleError

_NO_ZONES = {"Factory", "localtime", "posixrules"}
_COPIES = ("posix/", "right/")
_DAY = 86_400
_CHUNK = 388 * _DAY  # periods are searched for, and cut, in chunks of this length
_REACH = 27 * 3600  # no zone has ever been further from another than this


class Period(NamedTuple):
    """A stretch of time with one offset from UTC.

    Where a clock is set back, the same wall time is shown twice, and belongs to the later period: that is how
    Java, and so Quartz, reads it. Where it is set forward, wall times are left out and belong to no period.
    """

    start: int  # first second, UTC
    end: int  # first second that is not in the period
    offset: int  # wall seconds less UTC seconds
    own_end: int  # first wall second that belongs to a later period, or to none


class Zone:
    """The periods of one time zone, found when needed; may be shared: what two threads find at once is equal."""

    def __init__(self, info: ZoneInfo) -> None:
        self.info = info
        self._chunks: dict[int, list[Period]] = {}

    def offset(self, second: int) -> int:
        """Return the offset from UTC at an instant, in seconds."""
        delta = datetime.fromtimestamp(second, UTC).astimezone(self.info).utcoffset()
        return 0 if delta is None else delta.days * _DAY + delta.seconds

    def period(self, second: int) -> Period:
        """Return the period that an instant lies in."""
        number = second // _CHUNK
        periods = self._chunks.get(number)
        if periods is None:
            periods = self._chunks[number] = self._find(number * _CHUNK)
        for period in periods:
            if second < period.end:
                break
        return period

    def owner(self, wall: int) -> Period:
        """Return the period that a wall time belongs to, or the one after the gap that it lies in."""
        period = self.period(wall - _REACH)
        while wall >= period.own_end:
            period = self.period(period.end)
        return period

    def _find(self, start: int) -> list[Period]:
        cuts = [(start, self.offset(start))]
        for day in range(start, start + _CHUNK, _DAY):
            after = self.offset(day + _DAY)
            if after != cuts[-1][1]:
                cuts.append((self._change(day, day + _DAY), after))
        end = start + _CHUNK
        if cuts[-1][0] != end:
            cuts.append((end, cuts[-1][1]))
        return [
            Period(first, last, offset, last + min(offset, after)) for (first, offset), (last, after) in pairwise(cuts)
        ]

    def _change(self, low: int, high: int) -> int:
        after, between = self.offset(high), range(low + 1, high)
        return low + 1 + bisect_left(between, True, key=lambda second: self.offset(second) == after)


@lru_cache(maxsize=700)
def find_zone(name: str) -> Zone:
    """Return a time zone by its IANA name; raises ScheduleError if there is none. It is never read as a path.

    A machine's folder of zones holds more. Its own zone is refused: the next node may have another one. Copies of zones
    are refused: some of them count leap seconds.
    """
    try:
        if name in _NO_ZONES or name.startswith(_COPIES):
            raise ValueError(name)
        info = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError, TypeError) as error:
        # a folder such as "Europe" is an OSError, a NUL or a path outside the data is a ValueError
        text = f"takes an IANA name such as Asia/Shanghai, not {name[:60]!r}"
        raise ScheduleError("timezone", text) from error
    return Zone(info)
