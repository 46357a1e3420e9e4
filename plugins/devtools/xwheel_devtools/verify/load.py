"""The jobs of ``xwheel verify``, and when each of them must fire: counted from what they say, without asking xwheel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

from xwheel_devtools.verify.records import Did, ExpectedJob

SECOND: Final = 1000
DELAY_MS: Final = 900
DELAYS: Final = 4
RARE_S: Final = 2
"""Sharded, failing and parent jobs fire every N seconds; so often comes one that fires once."""

OFTEN_S: Final = 40
"""After so long, jobs that fire once come a fifth as often: each of them has to be made before."""

EXECUTORS: Final = 2
"""Executors of the group of which broadcasts have shards."""

LEAST_RATE: Final = 20
HOLD_MS: Final = 300
WINDOW_S: Final = (2, 86_398)
"""Of a day, in seconds."""

GROUP_LIMIT: Final = 2
RARELY_EDITED: Final = 4
RARELY_S: Final = 6
"""Longer than fires are planned ahead, so that no one reads a job again between an edit and the fire after it."""

WAIT_S: Final = 30
"""How long jobs wait for an executor that have one fire."""

LONG: Final = "long"
LONG_MS: Final = "600000"
"""Longer than anybody waits: a run of this job ends when it is killed."""

STURDY: Final[dict[str, Any]] = {
    "max_retries": 40,
    "retry_delay_ms": 500,
    "recover_lost": True,
    "misfire_policy": "fire_all",
    "misfire_threshold_ms": 600_000,
}
"""What a job says that must run whatever breaks meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadJob:
    """One job.

    Attributes:
        fields: What is sent to the API.
        due: When it must fire, both ends included.
        delay_ms: Of a fixed delay, whose due times follow from its runs.
        shards: Runs of one fire.
        failures: This many attempts fail on purpose.
        children: Names of the jobs that run after it.
        joins: Names of the parents that must all have succeeded before it runs.
        limit: Jobs with the same name have at most this many runs at once.
        limited_group: It belongs to the group that has a limit.
        actions: What people may do to it meanwhile.
    """

    name: str
    fields: dict[str, Any]
    due: list[int] = field(default_factory=list)
    delay_ms: int = 0
    shards: int = 1
    failures: int = 0
    children: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    limit: tuple[str, int] | None = None
    limited_group: bool = False
    actions: tuple[Did, ...] = ()

    def calls_for(self, ids: dict[str, int], start_ms: int, end_ms: int, *, resilient: bool) -> ExpectedJob:
        """Return what the job calls for until an instant."""
        return ExpectedJob(
            name=self.name,
            due=[due for due in self.due if due <= end_ms],
            delay_ms=self.delay_ms,
            first_ms=start_ms + self.delay_ms if self.delay_ms else 0,
            end_ms=end_ms,
            shards=self.shards,
            failures=self.failures,
            children=[ids[name] for name in self.children],
            parents=[ids[name] for name in self.joins],
            limit=self.limit,
            at_most_once=self.fields.get("delivery") == "at_most_once",
            recover_lost=resilient and self.fields.get("delivery") != "at_most_once",
        )

    def definition(self, group_id: int, start_ms: int, end_ms: int, *, resilient: bool) -> dict[str, Any]:
        """Return what is sent to the API; with ``resilient``, a job that must run whatever breaks."""
        further = dict(STURDY) if resilient else {}
        if self.fields.get("delivery") == "at_most_once":
            further |= {"max_retries": 0, "recover_lost": False} if resilient else {}
        return {
            "group_id": group_id,
            "name": self.name,
            "handler": "verify_notes",
            "start_ms": start_ms,
            "end_ms": end_ms,
            "anchor_ms": start_ms,
            **self.fields,
            **further,
        }

    @property
    def fires(self) -> bool:
        """Whether it fires by itself; a job that does not cannot be started."""
        return bool(self.due or self.delay_ms)


def load_jobs(rate: int, start_ms: int, end_ms: int, *, people: bool = False) -> list[LoadJob]:
    """Return jobs of all schedule types that fire so often a second in sum, between two instants.

    Args:
        rate: At least 20; fixed delays count as firing once a second, minutely ones not at all.
        start_ms: A whole second.
        end_ms: Later.
        people: Further jobs to which something is done meanwhile, and those with limits: about 15 fires a second.
    """
    left = rate - DELAYS - 2
    counts = {"fixed": left * 3 // 10, "double": left // 10, "cron": left // 4}
    counts["window"] = left - counts["fixed"] - 2 * counts["double"] - counts["cron"]
    fixed = [(f"fixed {number}", SECOND, number * SECOND // counts["fixed"]) for number in range(counts["fixed"])]
    fixed += [(f"half {number}", 500, number * 500 // counts["double"]) for number in range(counts["double"])]
    found = [
        *_rare(start_ms, end_ms),
        *(_changed(start_ms, end_ms) if people else ()),
        *(_fixed(*item, start_ms, end_ms) for item in fixed),
        *(_cron(number, start_ms, end_ms) for number in range(counts["cron"])),
        *(_window(number, start_ms, end_ms) for number in range(counts["window"])),
    ]
    for number, item in enumerate(found):
        item.fields.setdefault("route_strategy", ("FIRST", "ROUND")[number % 2])
    return found


def _rare(start_ms: int, end_ms: int) -> Iterator[LoadJob]:
    """Give the jobs of which a few are enough."""
    for number in range(DELAYS):
        fields = {"schedule_type": "FIX_DELAY", "schedule_conf": f"{DELAY_MS}ms"}
        yield LoadJob(name=f"delay {number}", fields=fields, delay_ms=DELAY_MS)
    early_ms = start_ms + OFTEN_S * SECOND
    often = range(start_ms + 250, min(early_ms, end_ms + 1), RARE_S * SECOND)
    for number, at_ms in enumerate([*often, *range(early_ms, end_ms + 1, 5 * RARE_S * SECOND)]):
        moment = datetime.fromtimestamp(at_ms / SECOND, UTC)
        at = moment.isoformat(timespec="milliseconds")
        once: dict[str, Any] = {"schedule_type": "ONCE", "schedule_conf": at, "wait_for_executor_s": WAIT_S}
        yield LoadJob(name=f"once {number}", fields=once, due=[at_ms])
    for number, zone in enumerate(("UTC", "Europe/Berlin", "Asia/Kolkata")):
        fields = {"schedule_type": "UNIX_CRON", "schedule_conf": "* * * * *", "timezone": zone}
        yield LoadJob(
            name=f"minute {number}", fields=fields, due=_seconds(start_ms, end_ms, lambda moment: moment.second == 0)
        )
    due = list(range(start_ms, end_ms + 1, RARE_S * SECOND))
    sharded = {**_rate(RARE_S * SECOND), "route_strategy": "SHARDING_BROADCAST"}
    yield LoadJob(name="sharded", fields=sharded, due=due, shards=EXECUTORS)
    failing = {**_rate(RARE_S * SECOND), "handler": "verify_fails_first", "max_retries": 2}
    yield LoadJob(name="fails first", fields=failing, due=due, failures=1)
    yield LoadJob(name="child", fields={"schedule_type": "NONE"})
    yield LoadJob(name="parent", fields=_rate(RARE_S * SECOND), due=due, children=("child",))
    for side in ("left", "right"):
        yield LoadJob(name=side, fields={"schedule_type": "NONE"}, children=("join",))
    yield LoadJob(name="join", fields={"schedule_type": "NONE", "join_mode": "all"}, joins=("left", "right"))
    yield LoadJob(name="diamond", fields=_rate(RARE_S * SECOND), due=due, children=("left", "right"))


def _changed(start_ms: int, end_ms: int) -> Iterator[LoadJob]:
    """Give the jobs to which something is done meanwhile, and those with limits."""

    def every(name: str, every_ms: int, *actions: Did, **fields: Any) -> LoadJob:
        due = list(range(start_ms, end_ms + 1, every_ms))
        return LoadJob(name=name, fields={**_rate(every_ms), **fields}, due=due, actions=actions)

    yield LoadJob(name="by hand", fields={"schedule_type": "NONE"}, actions=(Did.RUN,))
    yield every("edited", 200, Did.EDIT)
    for number in range(RARELY_EDITED):
        offset_ms = number * RARELY_S * SECOND // RARELY_EDITED
        rarely = _fixed(f"edited rarely {number}", RARELY_S * SECOND, offset_ms, start_ms, end_ms)
        rarely.fields["wait_for_executor_s"] = RARELY_S - 1
        yield replace(rarely, actions=(Did.EDIT,))
    yield LoadJob(name=LONG, fields={"schedule_type": "NONE", "handler": "verify_waits", "param": LONG_MS})
    yield every("stopped", 500, Did.STOP)
    yield every("rescheduled", SECOND, Did.RESCHEDULE, schedule_type="CRON", schedule_conf="* * * * * ?")
    yield every("killed", RARE_S * SECOND, Did.KILL, handler="verify_holds", param="1500")
    yield every("at most once", SECOND, delivery="at_most_once")
    alone = every(
        "alone", SECOND, handler="verify_holds", param=str(HOLD_MS), block_scope="cluster",
        block_strategy="SERIAL_EXECUTION",
    )  # fmt: skip
    yield replace(alone, limit=("alone", 1))
    for number in range(GROUP_LIMIT + 1):
        limited = every(f"limited {number}", SECOND, handler="verify_holds", param=str(HOLD_MS))
        yield replace(limited, limit=("limited", GROUP_LIMIT), limited_group=True)


def _rate(every_ms: int) -> dict[str, Any]:
    return {"schedule_type": "FIX_RATE", "schedule_conf": f"{every_ms}ms"}


def _fixed(name: str, every_ms: int, offset_ms: int, start_ms: int, end_ms: int) -> LoadJob:
    first_ms = start_ms + offset_ms
    fields = {**_rate(every_ms), "anchor_ms": first_ms}
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
        return WINDOW_S[0] <= local.hour * 3600 + local.minute * 60 + local.second <= WINDOW_S[1]

    return LoadJob(name=f"window {number}", fields=fields, due=_seconds(start_ms, end_ms, fires))


def _seconds(start_ms: int, end_ms: int, fires: Callable[[datetime], bool]) -> list[int]:
    first_ms = -(-start_ms // SECOND) * SECOND
    every = range(first_ms, end_ms + 1, SECOND)
    return [at_ms for at_ms in every if fires(datetime.fromtimestamp(at_ms / SECOND, UTC))]
