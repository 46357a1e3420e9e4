"""What the parts of alarms hand to each other."""

from __future__ import annotations

from dataclasses import dataclass


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
