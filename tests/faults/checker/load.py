"""The jobs of a run, and when each of them must fire: counted from what they say, without asking xwheel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

SECOND: Final = 1000
DELAY_MS: Final = 900
DELAYS: Final = 4
RARE_S: Final = 2
"""Sharded, failing and parent jobs fire every so many seconds; so often comes one that fires once."""

OFTEN_S: Final = 40
"""After so long, jobs that fire once come a fifth as often: each of them has to be made before."""

EXECUTORS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """One job.

    Attributes:
        fields: What is sent to the API. Misfire policy and threshold are never among it.
        due: When it must fire, both ends included.
        delay_ms: Of a fixed delay, whose due times follow from its runs.
        shards: Runs of one fire.
        failures: So many attempts fail on purpose.
        child: Name of the job that runs after it.
    """

    name: str
    fields: dict[str, Any]
    due: list[int] = field(default_factory=list)
    delay_ms: int = 0
    shards: int = 1
    failures: int = 0
    child: str = ""


def load_jobs(rate: int, start_ms: int, end_ms: int) -> list[LoadJob]:
    """Return jobs of all schedule types that fire so often a second in sum, between two instants.

    Args:
        rate: At least 10; fixed delays count as firing once a second, minutely ones not at all.
        start_ms: A whole second.
        end_ms: Later.
    """
    left = rate - DELAYS - 2
    counts = {"fixed": left * 3 // 10, "double": left // 10, "cron": left // 4}
    counts["window"] = left - counts["fixed"] - 2 * counts["double"] - counts["cron"]
    fixed = [
        (f"fixed {number}", SECOND, number * SECOND // counts["fixed"]) for number in range(counts["fixed"])
    ]
    fixed += [(f"half {number}", 500, number * 500 // counts["double"]) for number in range(counts["double"])]
    return [
        *_rare(start_ms, end_ms),
        *(_fixed(*item, start_ms, end_ms) for item in fixed),
        *(_cron(number, start_ms, end_ms) for number in range(counts["cron"])),
        *(_window(number, start_ms, end_ms) for number in range(counts["window"])),
    ]


def _rare(start_ms: int, end_ms: int) -> Iterator[LoadJob]:
    """Give the jobs of which a few are enough."""
    for number in range(DELAYS):
        fields = {"schedule_type": "FIX_DELAY", "schedule_conf": f"{DELAY_MS}ms"}
        yield LoadJob(name=f"delay {number}", fields=fields, delay_ms=DELAY_MS)
    early_ms = start_ms + OFTEN_S * SECOND
    often = range(start_ms + 250, min(early_ms, end_ms + 1), RARE_S * SECOND)
    for number, at_ms in enumerate([*often, *range(early_ms, end_ms + 1, 5 * RARE_S * SECOND)]):
        moment = datetime.fromtimestamp(at_ms / SECOND, UTC)
        fields = {"schedule_type": "ONCE", "schedule_conf": moment.isoformat(timespec="milliseconds")}
        yield LoadJob(name=f"once {number}", fields=fields, due=[at_ms])
    for number, zone in enumerate(("UTC", "Europe/Berlin", "Asia/Kolkata")):
        fields = {"schedule_type": "UNIX_CRON", "schedule_conf": "* * * * *", "timezone": zone}
        yield LoadJob(
            name=f"minute {number}",
            fields=fields,
            due=_seconds(start_ms, end_ms, lambda moment: moment.second == 0),
        )
    rate = {"schedule_type": "FIX_RATE", "schedule_conf": f"{RARE_S}s"}
    due = list(range(start_ms, end_ms + 1, RARE_S * SECOND))
    sharded = {**rate, "route_strategy": "SHARDING_BROADCAST"}
    yield LoadJob(name="sharded", fields=sharded, due=due, shards=EXECUTORS)
    failing = {**rate, "handler": "fails_first", "max_retries": 2}
    yield LoadJob(name="fails first", fields=failing, due=due, failures=1)
    yield LoadJob(name="child", fields={"schedule_type": "NONE"})
    yield LoadJob(name="parent", fields=rate, due=due, child="child")


def _fixed(name: str, every_ms: int, offset_ms: int, start_ms: int, end_ms: int) -> LoadJob:
    first_ms = start_ms + offset_ms
    fields = {"schedule_type": "FIX_RATE", "schedule_conf": f"{every_ms}ms", "anchor_ms": first_ms}
    return LoadJob(name=name, fields=fields, due=list(range(first_ms, end_ms + 1, every_ms)))


def _cron(number: int, start_ms: int, end_ms: int) -> LoadJob:
    """Return a job that fires every second, with one expression or another."""
    zone = ("UTC", "America/New_York")[number % 2]
    conf = ("* * * * * ?", "0/1 * * ? * *")[number // 2 % 2]
    fields = {"schedule_type": "CRON", "schedule_conf": conf, "timezone": zone}
    return LoadJob(name=f"cron {number}", fields=fields, due=_seconds(start_ms, end_ms, lambda _: True))


def _window(number: int, start_ms: int, end_ms: int) -> LoadJob:
    """Return a job that fires every second but for a few between two days of its zone."""
    zone = ("UTC", "Asia/Kolkata")[number % 2]
    fields = {
        "schedule_type": "DAILY_INTERVAL",
        "schedule_conf": "from=00:00:02 to=23:59:58 every=1s",
        "timezone": zone,
    }
    place = ZoneInfo(zone)

    def fires(moment: datetime) -> bool:
        local = moment.astimezone(place)
        return 2 <= local.hour * 3600 + local.minute * 60 + local.second <= 86_398

    return LoadJob(name=f"window {number}", fields=fields, due=_seconds(start_ms, end_ms, fires))


def _seconds(start_ms: int, end_ms: int, fires: Callable[[datetime], bool]) -> list[int]:
    first_ms = -(-start_ms // SECOND) * SECOND
    every = range(first_ms, end_ms + 1, SECOND)
    return [at_ms for at_ms in every if fires(datetime.fromtimestamp(at_ms / SECOND, UTC))]
