"""What crontab's five fields mean, asked minute by minute: slow, and no code or method of :mod:`xwheel.cron`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

MINUTE_S = 60
MONTHS = ("", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


class Field:
    """One field: numbers, names, lists, ranges and steps."""

    def __init__(self, text: str, low: int, high: int, names: tuple[str, ...] = ()) -> None:
        self.text = text.upper()
        self._low, self._high, self._names = low, high, names
        self.is_star = self.text.startswith("*")

    def has(self, value: int) -> bool:
        return any(self._item_has(item, value) for item in self.text.split(","))

    def _item_has(self, item: str, value: int) -> bool:
        body, _, step = item.partition("/")
        first, dash, last = body.partition("-")
        if body == "*":
            low, high = self._low, self._high
        else:
            low = self._number(first)
            high = self._number(last) if dash else self._high if step else low
        return low <= value <= high and (value - low) % int(step or 1) == 0

    def _number(self, text: str) -> int:
        return self._names.index(text) if text in self._names else int(text)


class Crontab:
    """An expression in a zone."""

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        minute, hour, day, month, weekday = expression.split()
        self.zone = ZoneInfo(zone)
        self.minute, self.hour = Field(minute, 0, 59), Field(hour, 0, 23)
        self.day, self.month = Field(day, 1, 31), Field(month, 1, 12, MONTHS)
        self.weekday = Field(weekday, 0, 7, WEEKDAYS)

    def has_day(self, day: date) -> bool:
        """Return whether a day matches: one of both day fields, but both of them if one begins with a star."""
        in_month = self.day.has(day.day)
        number = day.isoweekday() % 7
        in_week = self.weekday.has(number) or (number == 0 and self.weekday.has(7))
        is_due = in_month and in_week if self.day.is_star or self.weekday.is_star else in_month or in_week
        return is_due and self.month.has(day.month)

    def has(self, local: datetime) -> bool:
        """Return whether a minute that clocks show matches."""
        return self.minute.has(local.minute) and self.hour.has(local.hour) and self.has_day(local.date())

    def fires(self, after_s: int, until_s: int) -> Iterator[int]:
        """Yield the seconds since the epoch at which it fires, of those after one second and until another.

        What a clock shows twice fires twice; what it leaves out, when it goes on.
        """
        begin_s = after_s // MINUTE_S * MINUTE_S
        before = self._shown(begin_s)
        for second in range(begin_s + MINUTE_S, until_s + 1, MINUTE_S):
            shown, minute = self._shown(second), before + timedelta(minutes=1)
            is_due = self.has(shown)
            while minute < shown and not is_due:
                is_due = self.has(minute)
                minute += timedelta(minutes=1)
            if is_due:
                yield second
            before = shown

    def fires_once(self, after_s: int, until_s: int) -> Iterator[int]:
        """Yield these of Quartz: what a clock shows twice fires when it comes again; what it leaves out does not."""
        begin_s = after_s // MINUTE_S * MINUTE_S
        for second in range(begin_s + MINUTE_S, until_s + 1, MINUTE_S):
            local = datetime.fromtimestamp(second, UTC).astimezone(self.zone)
            if self.has(local) and local.utcoffset() == local.replace(fold=1).utcoffset():
                yield second

    def _shown(self, second: int) -> datetime:
        return datetime.fromtimestamp(second, UTC).astimezone(self.zone).replace(tzinfo=None)
