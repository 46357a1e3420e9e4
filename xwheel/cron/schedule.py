"""Cron expressions: from text to the next fire time.

Two dialects: ``quartz`` is what XXL-JOB's users write; ``unix`` is the five fields of crontab, which croniter reads
one by one. Our own engine searches both. ``docs/reference/cron.md`` describes them, with their rules for daylight
saving.
"""

from __future__ import annotations

from typing import Protocol
from zoneinfo import ZoneInfo

from xwheel.cron.quartz_parse import parse_quartz
from xwheel.cron.quartz_search import Engine
from xwheel.cron.zone import find_zone
from xwheel.errors import ScheduleError

__all__ = ["DIALECTS", "CronSchedule", "parse", "zone"]

DIALECTS = ("quartz", "unix")


class CronSchedule(Protocol):
    """When to fire."""

    @property
    def expression(self) -> str:
        """The text, as it was given."""

    @property
    def dialect(self) -> str:
        """One of :data:`DIALECTS`."""

    @property
    def timezone(self) -> str:
        """IANA name of the zone whose clocks the expression means."""

    def next_ms(self, after_ms: int) -> int | None:
        """Return the first fire strictly after an instant, in epoch milliseconds; None if there is none.

        Milliseconds are dropped: the answer is a whole second.
        """

    def describe(self, language: str = "en") -> str:
        """Return the schedule in plain words, English (``en``) or Chinese (``zh``)."""


class QuartzSchedule(Engine):
    """A schedule in the Quartz dialect; see :class:`CronSchedule`."""

    __slots__ = ("expression", "timezone")

    dialect = "quartz"

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        super().__init__(parse_quartz(expression), find_zone(timezone))
        self.expression = expression
        self.timezone = timezone

    def describe(self, language: str = "en") -> str:
        """Return the schedule in plain words, English (``en``) or Chinese (``zh``)."""
        from xwheel.cron.describe import describe_quartz  # the library is only needed by people

        return describe_quartz(self._fields, language)

    def __repr__(self) -> str:
        return f"QuartzSchedule({self.expression!r}, {self.timezone!r})"


def parse(expression: str, dialect: str = "quartz", timezone: str = "UTC") -> CronSchedule:
    """Return the schedule that an expression describes, in the dialect ``quartz`` or ``unix``.

    ``timezone`` is the IANA name of the zone whose clocks the expression means. Raises ScheduleError, which names the
    field (``second``, ``minute``, ``hour``, ``day_of_month``, ``month``, ``day_of_week``, ``year``, ``expression``,
    ``dialect`` or ``timezone``) and what it takes.
    """
    if dialect == "quartz":
        return QuartzSchedule(expression, timezone)
    if dialect == "unix":
        from xwheel.cron.unix import UnixSchedule  # croniter is only loaded for its dialect

        return UnixSchedule(expression, timezone)
    raise ScheduleError("dialect", f"is one of {', '.join(DIALECTS)}, not {dialect[:40]!r}")


def zone(name: str) -> ZoneInfo:
    """Return the time zone of an IANA name; raises ScheduleError if there is none. It is never read as a path."""
    return find_zone(name).info
