"""What the parts of alarms hand to each other and to the stages."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from xwheel.model import Job, Run
from xwheel.scheduler.handover import Outcome
from xwheel.storage.alarms import NewAlarm


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelHealth:
    """How an alarm channel fares on this node.

    Attributes:
        channel: Its name.
        is_healthy: Its last attempt succeeded, or it made none yet, and none hangs.
        failures: Attempts that failed in a row.
        hanging: Sends that were given up because they did not come back.
        queued: Sends that wait for their turn.
        last_ms: When the last attempt ended; None before the first.
        last_answer: What it answered, or the error.
    """

    channel: str
    is_healthy: bool
    failures: int
    hanging: int
    queued: int
    last_ms: int | None
    last_answer: str


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
