"""The five fields of crontab, read by croniter.

Where a clock is set forward, what was due in the missing hour fires when the hour is over; where it is set back,
both passes through the hour fire. ``docs/reference/cron.md`` compares this with the Quartz dialect.
"""

from __future__ import annotations

import re
import threading
from datetime import datetime

from croniter import CroniterBadDateError, CroniterError, croniter

from xwheel.cron.quartz_parse import MAX_LENGTH, MONTHS, WEEKDAYS
from xwheel.cron.zone import find_zone
from xwheel.errors import ScheduleError

_FIELDS = {
    "minute": "takes 0 to 59",
    "hour": "takes 0 to 23",
    "day_of_month": "takes 1 to 31 or L",
    "month": "takes 1 to 12 or JAN to DEC",
    "day_of_week": "takes 0 to 7 or SUN to SAT",
}
_ALIASES = {
    "@annually": "0 0 1 1 *",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
    "@midnight": "0 0 * * *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@yearly": "0 0 1 1 *",
}
_WORD = re.compile(r"[A-Z]+")
_WORDS = frozenset((*MONTHS, *WEEKDAYS, "L", "W"))
_LAST_SECOND = 32_472_144_000  # 2999-01-01, where the Quartz dialect ends too


class UnixSchedule:
    """A schedule in the Unix dialect; see :class:`xwheel.cron.CronSchedule`. May be shared: a lock guards croniter."""

    __slots__ = ("_iterator", "_lock", "_zone", "expression", "timezone")

    dialect = "unix"

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        self._zone = find_zone(timezone).info
        self._iterator = _read(expression)
        self._lock = threading.Lock()
        self.expression = expression
        self.timezone = timezone

    def next_ms(self, after_ms: int) -> int | None:
        """Return the first fire strictly after an instant, in epoch milliseconds, or None."""
        second = max(after_ms // 1000, -1)
        if second >= _LAST_SECOND:
            return None
        after = datetime.fromtimestamp(second, self._zone)
        try:
            with self._lock:
                return int(self._iterator.get_next(float, start_time=after)) * 1000
        except CroniterBadDateError:
            return None

    def describe(self, language: str = "en") -> str:
        """Return the schedule in plain words, English (``en``) or Chinese (``zh``)."""
        from xwheel.cron.describe import describe_unix  # the library is only needed by people

        return describe_unix(_ALIASES.get(self.expression, self.expression), language)

    def __repr__(self) -> str:
        return f"UnixSchedule({self.expression!r}, {self.timezone!r})"


def _read(expression: str) -> croniter:
    if len(expression) > MAX_LENGTH:
        raise ScheduleError("expression", f"takes at most {MAX_LENGTH} characters, not {len(expression)}")
    text = _ALIASES.get(expression)
    if text is None:
        texts = expression.split()
        if not expression.isascii() or not expression.replace("\t", " ").isprintable():
            raise ScheduleError("expression", "takes printable ASCII characters, separated by spaces or tabs")
        if len(texts) != len(_FIELDS):
            wanted = f"5 fields (minute, hour, day of month, month, day of week) or one of {', '.join(_ALIASES)}"
            raise ScheduleError("expression", f"takes {wanted}; not {len(texts)} fields")
        for number, (name, field) in enumerate(zip(_FIELDS, texts, strict=True)):
            _check(name, number, field)
        text = " ".join(texts)
    try:
        return croniter(text, 0.0)
    except (CroniterError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ScheduleError("expression", f"cannot be read: {str(error)[:200]}") from error


def _check(name: str, number: int, text: str) -> None:
    """Refuse a field that croniter refuses by itself, and croniter's random and hashed values."""
    texts = ["*"] * len(_FIELDS)
    texts[number] = text
    known = _WORDS.issuperset(_WORD.findall(text.upper()))
    if not known or not croniter.is_valid(" ".join(texts)):
        raise ScheduleError(name, f"{_FIELDS[name]}, lists, ranges and steps; not {text[:40]!r}")
