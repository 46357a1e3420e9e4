"""The demonstration's jobs, and an independent calculation of when each must fire.

Nothing here asks the scheduler's own schedule types: fixed rates are counted with ``range``, cron jobs by walking
every second of the run past a plain predicate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

SECOND: Final = 1000
APP_NAME: Final = "quickstart"


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """One job of the demonstration.

    Attributes:
        name: Its name.
        fields: What is sent to the API beyond the common fields.
        due: Epoch milliseconds of every due time from the start to the end, both included.
        attempts: Runs that each due time ends in.
        calls: How often it is run by hand.
        offset_ms: How long after the start its schedule is anchored.
    """

    name: str
    fields: dict[str, Any]
    due: Callable[[int, int], list[int]]
    attempts: int = 1
    calls: int = 0
    offset_ms: int = 0


def fixed(period_ms: int, offset_ms: int = 0) -> Callable[[int, int], list[int]]:
    """Return the due times of a fixed rate that is anchored at the start plus an offset."""
    return lambda start_ms, end_ms: list(range(start_ms + offset_ms, end_ms + 1, period_ms))


def seconds(matches: Callable[[datetime], bool]) -> Callable[[int, int], list[int]]:
    """Return the whole seconds that a predicate accepts."""

    def due(start_ms: int, end_ms: int) -> list[int]:
        first = -(-start_ms // SECOND) * SECOND
        return [at for at in range(first, end_ms + 1, SECOND) if matches(datetime.fromtimestamp(at / SECOND, UTC))]

    return due


def never(_start_ms: int, _end_ms: int) -> list[int]:
    """Return no due time: the job runs only by hand."""
    return []


def demo_jobs(rate: int = 0) -> list[Demo]:
    """Return the demonstration's jobs.

    Args:
        rate: Further fires a second, half of them on whole seconds and half spread over the second.
    """
    demos = [
        Demo(
            name="heartbeat every second",
            fields={"handler": "heartbeat", "schedule_type": "FIX_RATE", "schedule_conf": "1s"},
            due=fixed(SECOND),
        ),
        Demo(
            name="disk usage, cron each 5 s",
            fields={"handler": "disk_usage", "schedule_type": "CRON", "schedule_conf": "0/5 * * * * ?"},
            due=seconds(lambda moment: moment.second % 5 == 0),
        ),
        Demo(
            name="primes, cron at 3, 17, 42 s",
            fields={
                "handler": "primes",
                "param": "5000",
                "schedule_type": "CRON",
                "schedule_conf": "3,17,42 * * * * ?",
            },
            due=seconds(lambda moment: moment.second in (3, 17, 42)),
        ),
        Demo(
            name="sharded primes each 4 s",
            fields={
                "handler": "primes",
                "schedule_type": "FIX_RATE",
                "schedule_conf": "4s",
                "route_strategy": "SHARDING_BROADCAST",
            },
            due=fixed(4 * SECOND),
        ),
        Demo(
            name="flaky each 3 s, retried",
            fields={"handler": "flaky", "schedule_type": "FIX_RATE", "schedule_conf": "3s", "max_retries": 2},
            due=fixed(3 * SECOND),
            attempts=2,
        ),
        Demo(
            name="once, after 6 s",
            fields={"handler": "greet", "param": "world", "schedule_type": "ONCE"},
            due=lambda start_ms, end_ms: [at for at in [start_ms + 6 * SECOND] if at <= end_ms],
        ),
        Demo(
            name="by hand",
            fields={"handler": "greet", "param": "nobody", "schedule_type": "NONE", "schedule_conf": ""},
            due=never,
            calls=3,
        ),
    ]
    return demos + [_load(number, rate) for number in range(rate)]


def definition(demo: Demo, group_id: int, start_ms: int, end_ms: int) -> dict[str, Any]:
    """Return what is posted to the API: fires from the start to the end, and every missed one is made up for."""
    fields: dict[str, Any] = {
        "group_id": group_id,
        "name": demo.name,
        "anchor_ms": start_ms + demo.offset_ms,
        "start_ms": start_ms,
        "end_ms": end_ms,
        "misfire_policy": "fire_all",
        **demo.fields,
    }
    if fields["schedule_type"] == "ONCE":
        at = datetime.fromtimestamp(start_ms / SECOND + 6, UTC)
        fields["schedule_conf"] = at.isoformat(timespec="milliseconds")
    return fields


def _load(number: int, rate: int) -> Demo:
    offset_ms = 0 if number % 2 else number * SECOND // max(1, rate)
    return Demo(
        name=f"load {number + 1:03}",
        fields={"handler": "heartbeat", "schedule_type": "FIX_RATE", "schedule_conf": "1s"},
        due=fixed(SECOND, offset_ms),
        offset_ms=offset_ms,
    )
