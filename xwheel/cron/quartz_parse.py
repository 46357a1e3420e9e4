"""Read Quartz cron expressions as Quartz 2.5 reads them, leniencies included.

The dialect is the one XXL-JOB has had since 3.4.0; ``docs/reference/cron.md`` describes it in full. Quartz reads a list
item from the left and forgets what follows a complete form, so ``5C`` is 5 and ``1-2-3`` is 1-2. That is kept: an
expression that runs under XXL-JOB must run here, at the same times. Refused here and taken there are only
expressions that can never fire or make Quartz fail later: a field without any value, ``8#1``, control characters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from xwheel.cron.days import LAST_OF_MONTH, DayRule, TwoRules
from xwheel.errors import ScheduleError

FIRST_YEAR = 1970
LAST_YEAR = 2999  # Quartz gives up here, whatever its year limit

FIELDS_OF_CRONTAB = 5
FIVE = "; five are those of crontab (schedule type UNIX_CRON, dialect unix)"
MAX_LENGTH = 1000  # every value of every field, spelled out, is below 700

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_ALL = 99  # Quartz's inner mark for "every value", which its users can write too
_NONE = 98  # its mark for "?"

_MAX_DIGITS = 9  # beyond that Java has no int, and nothing fires

_LAST = re.compile(r"L(?:-(\d*))?(W?)")
_NUMBER = re.compile(r"(\d+)(?:-(\d+)(?:/(\d+))?|/(\d+))?")


class Fields(NamedTuple):
    """A parsed expression; each number is a set of bits, years counting from :data:`FIRST_YEAR`."""

    seconds: int
    minutes: int
    hours: int
    days: DayRule | TwoRules
    years: int


@dataclass(frozen=True, slots=True)
class _Kind:
    """One of the seven fields: its name for errors, bounds, names and largest step."""

    name: str
    low: int
    high: int
    step: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        names = f" or {self.names[0]} to {self.names[-1]}" if self.names else ""
        return f"takes {self.low} to {self.high}{names}"

    def refuse(self, item: str, why: str = "") -> NoReturn:
        raise ScheduleError(self.name, f"{why or self.allowed}, not {item[:40]!r}")


_SECOND = _Kind("second", 0, 59, 59)
_MINUTE = _Kind("minute", 0, 59, 59)
_HOUR = _Kind("hour", 0, 23, 23)
_DAY = _Kind("day_of_month", 1, 31, 31)
_MONTH = _Kind("month", 1, 12, 12, MONTHS)
_WEEKDAY = _Kind("day_of_week", 1, 7, 7, WEEKDAYS)
_YEAR = _Kind("year", FIRST_YEAR, LAST_YEAR, 1 << 31)
_KINDS = (_SECOND, _MINUTE, _HOUR, _DAY, _MONTH, _WEEKDAY, _YEAR)


class _Field:
    def __init__(self, kind: _Kind, text: str) -> None:
        self.kind = kind
        self.bits = self.ends = self.near_days = self.near_ends = self.nth = 0
        self.open = False  # a "?" was among the items
        items = [item for item in text.split(",") if item]
        if kind is _WEEKDAY and "L" in text and "," in text:
            kind.refuse(text, "takes L only without a list")
        if kind is _WEEKDAY and text.count("#") > 1:
            kind.refuse(text, "takes one # only")
        for item in items:
            self._read(item)
        found = self.bits or self.ends or self.near_days or self.near_ends or self.open
        # "L" and far years are taken, and never match
        if not items or not (found or kind in (_MONTH, _YEAR)):
            kind.refuse(text)

    def _read(self, item: str) -> None:
        last = _LAST.fullmatch(item)
        if item[0].isdigit():
            self._read_number(item)
        elif item[0] in "*/":
            self._read_every(item)
        elif item[0] == "?":
            if self.kind not in (_DAY, _WEEKDAY) or len(item) > len("?x"):
                self.kind.refuse(item)
            self.open = True
        elif last and self.kind is _DAY:
            self._read_last(item, last)
        elif last and self.kind is _WEEKDAY:
            self.bits |= 1 << 7
        elif last and self.kind in (_MONTH, _YEAR):
            pass  # Quartz takes it, and it matches nothing
        elif item[0].isalpha() and self.kind.names:
            self._read_name(item)
        else:
            self.kind.refuse(item)

    def _read_number(self, item: str) -> None:
        match = _NUMBER.match(item)
        assert match is not None  # noqa: S101 - the caller saw a digit
        value = self._int(match[1], item)
        rest = item[match.end() :]
        if rest[:1] in ("L", "W", "#") and match[1] == match[0]:
            self._read_mark(item, value, rest)
        elif match[4] is not None:
            if rest and len(match[4]) == 1:
                self.kind.refuse(item, "takes a whole number after /")
            self._add(item, value, None, self._step(match[4], item))
        elif match[2] is not None:
            if match[3] is None and rest[:1] == "/":
                self.kind.refuse(item, "takes a whole number after /")
            step = 1 if match[3] is None else self._int(match[3], item)
            self._add(item, value, self._int(match[2], item), step)
        elif rest[:1] in ("-", "/"):
            self.kind.refuse(item, f"takes a whole number after {rest[0]}")
        else:
            self._add(item, value, None, 0)

    def _read_mark(self, item: str, value: int, rest: str) -> None:
        if rest[0] == "W" and self.kind is _DAY:
            if value > self.kind.high:
                self.kind.refuse(item)
            self.near_days |= 1 << value  # 0W is taken, and never matches
            return
        if rest[0] == "W" or self.kind is not _WEEKDAY or not _WEEKDAY.low <= value <= _WEEKDAY.high:
            self.kind.refuse(item)
        self.bits |= 1 << value
        self.nth = LAST_OF_MONTH if rest[0] == "L" else self._nth(item, rest[1:])

    def _nth(self, item: str, text: str) -> int:
        if text.removeprefix("+").lstrip("0") not in ("1", "2", "3", "4", "5"):
            self.kind.refuse(item, "takes 1 to 5 after #")
        return int(text)

    def _read_every(self, item: str) -> None:
        step = item.removeprefix("*")
        if step[:1] == "/":
            if not re.fullmatch(r"[+-]?\d+", step[1:]):
                self.kind.refuse(item, "takes a whole number after /")
            self._add(item, _ALL, None, max(1, self._step(step[1:], item)))
        else:
            self._add(item, _ALL, None, 1)  # what follows a star is not read

    def _read_last(self, item: str, last: re.Match[str]) -> None:
        if item == "L-":
            self.kind.refuse(item, "takes 0 to 30 after L-")
        before = self._int(last[1] or "0", item)
        if before >= _DAY.high:
            self.kind.refuse(item, "takes 0 to 30 after L-")
        if last[2]:
            self.near_ends |= 1 << before
        else:
            self.ends |= 1 << before

    def _read_name(self, item: str) -> None:
        first = self._name(item, item[:3])
        if item[3:4] == "-":
            self._add(item, first, self._name(item, item[4:7]), 1)
        else:
            self.bits |= 1 << first
            if self.kind is _WEEKDAY and item[3:4] == "#":
                self.nth = self._nth(item, item[4:])
            elif self.kind is _WEEKDAY and item[3:4] == "L":
                self.nth = LAST_OF_MONTH

    def _name(self, item: str, name: str) -> int:
        if name not in self.kind.names:
            self.kind.refuse(item)
        return self.kind.names.index(name) + 1

    def _int(self, digits: str, item: str) -> int:
        if len(digits.lstrip("+-0")) > _MAX_DIGITS:
            self.kind.refuse(item)
        return int(digits)

    def _step(self, digits: str, item: str) -> int:
        step = self._int(digits, item)
        if step > self.kind.step:
            self.kind.refuse(item, f"takes a step of at most {self.kind.step}")
        return step

    def _add(self, item: str, value: int, end: int | None, step: int) -> None:
        """Add a value (step 0), or every ``step``-th value up to ``end``, wrapping around if that is smaller."""
        kind = self.kind
        low, high = kind.low, kind.high
        is_alone = end is None and step == 0
        if value == _NONE and kind in (_DAY, _WEEKDAY) and is_alone:
            self.open = True
            return
        if value == _ALL:
            step = 1 if is_alone else step
            value = low
        elif kind is not _YEAR and (not low <= value <= high or (end is not None and end > high)):
            kind.refuse(item)
        if step == 0:
            end, step = value, 1
        elif end is None:
            end = high
        if end >= value:
            self._add_range(value, min(end, high), step)
        elif kind is _YEAR:
            kind.refuse(item, "takes a range that does not end before it starts")
        else:
            size = high + 1 - low
            for number in range(value, end + size + 1, step):
                self.bits |= 1 << (number - low) % size + low

    def _add_range(self, value: int, end: int, step: int) -> None:
        if value < self.kind.low:
            value += -(-(self.kind.low - value) // step) * step
        if step == 1 and value <= end:
            self.bits |= (2 << end) - (1 << value)
            return
        for number in range(value, end + 1, step):
            self.bits |= 1 << number


def parse_quartz(expression: str) -> Fields:
    """Read an expression; raises ScheduleError, which names the field, and what it takes."""
    if len(expression) > MAX_LENGTH:
        raise ScheduleError("expression", f"takes at most {MAX_LENGTH} characters, not {len(expression)}")
    if not expression.isascii() or not expression.replace("\t", " ").isprintable():
        raise ScheduleError("expression", "takes printable ASCII characters, separated by spaces or tabs")
    texts = expression.upper().split()
    if len(_KINDS) - len(texts) not in (0, 1):
        wanted = "takes 6 or 7 fields (second, minute, hour, day of month, month, day of week and maybe year)"
        five = FIVE if len(texts) == FIELDS_OF_CRONTAB else ""
        raise ScheduleError("expression", f"{wanted}, not {len(texts)}{five}")
    fields = [_Field(kind, text) for kind, text in zip(_KINDS, [*texts, "*"][:7], strict=True)]
    second, minute, hour, day, month, weekday, year = fields
    if day.open == weekday.open:
        text = "one of day_of_month and day_of_week is ?, and the other is not, as in 0 0 12 * * ?"
        raise ScheduleError("day_of_week", text)
    if day.open:
        rule = DayRule(month.bits, weekdays=weekday.bits, nth=weekday.nth)
    else:
        rule = DayRule(month.bits, day.bits, day.ends, day.near_days, day.near_ends)
    return Fields(second.bits, minute.bits, hour.bits, rule, year.bits >> FIRST_YEAR)
