"""What the scheduler tells alarms of, inside its own transactions; :mod:`xwheel.alarms` stands behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from xwheel.model import Job, Run
from xwheel.scheduler.records import Outcome
from xwheel.storage.alarms.alarms import NewAlarm


class Alarms(Protocol):
    """What the stages that close runs and stop jobs ask; the rows go into their own transaction."""

    def of_ends(
        self, ends: Sequence[tuple[Run, Outcome]], retried: Collection[int], now_ms: int
    ) -> list[NewAlarm]:
        """Return what rules ask for of runs that end now.

        Args:
            ends: The runs as they stood before, and how they end.
            retried: Those of them that get another attempt.
            now_ms: The shared time.
        """
        ...

    def of_skips(self, rows: Iterable[Run], now_ms: int) -> list[NewAlarm]:
        """Return what rules ask for of rows that are inserted as skipped; others may be among them."""
        ...

    def of_stops(self, stops: Iterable[tuple[Job, str]], now_ms: int) -> list[NewAlarm]:
        """Return what rules ask for of jobs that are stopped because their schedule fails, with the error."""
        ...

    def committed(self, alarms: Sequence[NewAlarm]) -> None:
        """Take note that they are written."""
        ...


class NoAlarms:
    """Alarms of a node without rules, such as in a test of one stage."""

    def of_ends(
        self, ends: Sequence[tuple[Run, Outcome]], retried: Collection[int], now_ms: int
    ) -> list[NewAlarm]:
        """Return nothing."""
        del ends, retried, now_ms
        return []

    def of_skips(self, rows: Iterable[Run], now_ms: int) -> list[NewAlarm]:
        """Return nothing."""
        del rows, now_ms
        return []

    def of_stops(self, stops: Iterable[tuple[Job, str]], now_ms: int) -> list[NewAlarm]:
        """Return nothing."""
        del stops, now_ms
        return []

    def committed(self, alarms: Sequence[NewAlarm]) -> None:
        """Do nothing."""
