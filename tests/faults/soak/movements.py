"""What is done to a cluster while jobs fire, and a run of it from beginning to verdict."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from xwheel_devtools.verify.check import Check
from xwheel_devtools.verify.records import Disturbances, Verdict

from tests.faults.soak.cluster import EXECUTOR_NAMES, PARTITIONS, Cluster, Plan
from tests.support.galera import Galera
from tests.support.pair import Pair
from tests.support.patroni import TTL_S
from xwheel.clock import wall_ms

LEASE_MS: Final = 10_000
HANDED_MS: Final = 1000
"""A planned hand-over leaves no gap that is longer."""

TAKEN_MS: Final = LEASE_MS + 2000
AWAY_S: Final = 20
DOWN_S: Final = 3
FAILOVER_S: Final = 5
"""After how long a standby takes over that is told to."""

AUTOMATIC_S: Final = TTL_S + 15
"""The same if others must first find out that the primary is gone, and agree."""

BEFORE_S: Final = 5
AFTER_S: Final = 3
EDGE_MS: Final = 1000
"""The lateness of a movement is that of fires due from this long before it began until this long after it was over."""

SETTLE_S: Final = 60
HORIZON_S: Final = 80
"""This long a movement may take, all in all."""

HALVES: Final = [PARTITIONS // 2, PARTITIONS // 2]
ALL: Final = [PARTITIONS]


@dataclass
class Stage:
    """A run while it happens: the cluster, and when what was done to it.

    Attributes:
        away_s: How long a database is away.
        windows: Name of a movement to the time from its first act to when leases had settled.
        steps: What was done or seen, and when.
        problems: Sentences about what went wrong with the processes.
    """

    cluster: Cluster
    away_s: float = AWAY_S
    windows: dict[str, tuple[int, int]] = field(default_factory=dict)
    steps: list[tuple[str, int]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        self.steps.append((what, wall_ms()))

    def ask_to_end(self, name: str) -> None:
        """Tell a node to end, and wait until it has."""
        status = self.cluster.end(name)
        self.note(f"{name} ended with status {status}")
        if status:
            self.problems.append(f"node {name} ended with status {status}")

    def until(self, shares: Sequence[int]) -> None:
        """Wait until nodes share the partitions so."""
        self.cluster.wait(f"shares {list(shares)}", lambda: self.cluster.shares() == list(shares))
        self.note(f"shares {list(shares)}")


def join(stage: Stage) -> None:
    """A healthy second node joins."""
    stage.cluster.start("b")
    stage.until(HALVES)


def leave(stage: Stage) -> None:
    """One of two nodes is told to end."""
    stage.ask_to_end("b")
    stage.until(ALL)


def rolling(stage: Stage) -> None:
    """Each of two nodes is told to end and started again, one after the other."""
    for name in ("a", "b"):
        stage.ask_to_end(name)
        stage.cluster.start(name)
        stage.until(HALVES)


def kill(stage: Stage) -> None:
    """One of two nodes is killed, and the other has to wait for the end of its lease unless it sees that."""
    stage.cluster.end("b", signal.SIGKILL)
    stage.until(ALL)


def database(stage: Stage) -> None:
    """The database is away for a while."""
    stage.cluster.stop_database()
    stage.note("database stopped")
    time.sleep(stage.away_s)
    stage.cluster.start_database()
    stage.note("database started")
    stage.cluster.wait("readiness", stage.cluster.are_ready)
    stage.note("ready")


def failover(stage: Stage) -> None:
    """The primary is killed, a second node starts meanwhile, and the standby takes over."""
    pair = Pair.of(stage.cluster.url)
    pair.lose_primary()
    stage.note("primary killed")
    stage.cluster.start("b")
    time.sleep(FAILOVER_S)
    pair.promote()
    stage.note("standby promoted")
    stage.until(HALVES)
    pair.join()
    stage.note("standby there")


def member(stage: Stage) -> None:
    """The member of a cluster that the first node uses is killed; the other node's goes on."""
    members = Galera.of(stage.cluster.url)
    members.lose(members.ports[0], "kill")
    stage.note("member killed")
    stage.until(HALVES)
    members.regain(members.ports[0])
    stage.note("member there")


def pair_upgrade(stage: Stage) -> None:
    """Both servers are stopped in good order, one after the other, as for a new version; the other takes over."""
    pair = Pair.of(stage.cluster.url)
    for _ in range(2):
        pair.lose_primary(orderly=True)
        stage.note("primary stopped")
        pair.promote()
        stage.note("standby promoted")
        pair.join()
        stage.note("standby there")
        stage.until(HALVES)


def member_upgrade(stage: Stage) -> None:
    """All members are stopped in good order, one after the other, as for a new version."""
    members = Galera.of(stage.cluster.url)
    for port in members.ports:
        members.lose(port, "stop")
        stage.note("member stopped")
        members.regain(port)
        stage.note("member there")
        stage.until(HALVES)


def restart(stage: Stage) -> None:
    """The only node is killed, and started again soon after."""
    stage.cluster.end("a", signal.SIGKILL)
    time.sleep(DOWN_S)
    stage.cluster.start("a")
    stage.note("a started")
    stage.cluster.wait("readiness", stage.cluster.are_ready)
    stage.note("ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """Something that happens to a cluster.

    Attributes:
        nodes: Which run before.
        limit_ms: Limit of the lateness' 99th percentile during the movement; 0 for none.
        idle_ms: How long no node can send, beyond a lease and two seconds.
        is_one_machine: The nodes share a machine.
    """

    act: Callable[[Stage], None]
    nodes: tuple[str, ...]
    limit_ms: int = 0
    idle_ms: int = 0
    is_one_machine: bool = False


MOVEMENTS: Final[Mapping[str, Movement]] = {
    "join": Movement(act=join, nodes=("a",), limit_ms=HANDED_MS),
    "leave": Movement(act=leave, nodes=("a", "b"), limit_ms=HANDED_MS),
    "rolling": Movement(act=rolling, nodes=("a", "b"), limit_ms=HANDED_MS),
    "kill": Movement(act=kill, nodes=("a", "b"), limit_ms=TAKEN_MS),
    "kill_beside": Movement(act=kill, nodes=("a", "b"), limit_ms=TAKEN_MS, is_one_machine=True),
    "database": Movement(act=database, nodes=("a", "b"), idle_ms=AWAY_S * 1000 + 5000),
    # only where the database is a pair; the first one is for those that decide themselves
    "automatic_failover": Movement(
        act=failover, nodes=("a",), limit_ms=AUTOMATIC_S * 1000 + LEASE_MS, idle_ms=AUTOMATIC_S * 1000
    ),
    "failover": Movement(act=failover, nodes=("a",), limit_ms=FAILOVER_S * 1000 + LEASE_MS, idle_ms=FAILOVER_S * 1000),
    "pair_upgrade": Movement(act=pair_upgrade, nodes=("a", "b"), limit_ms=TAKEN_MS),
    # only where the database has three members
    "member": Movement(act=member, nodes=("a", "b"), limit_ms=TAKEN_MS),
    "member_upgrade": Movement(act=member_upgrade, nodes=("a", "b"), limit_ms=TAKEN_MS),
    "restart": Movement(act=restart, nodes=("a",), idle_ms=DOWN_S * 1000 + 5000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a run.

    Attributes:
        windows: Name of a movement to when it began and when its last effects were over.
        problems: Sentences beyond the verdict, such as about a process that did not end well.
        late: Sentences about a lateness over its limit.
    """

    verdict: Verdict
    windows: Mapping[str, tuple[int, int]]
    steps: Sequence[tuple[str, int]]
    problems: Sequence[str]
    late: Sequence[str]
    folder: Path

    @property
    def ok(self) -> bool:
        """Whether nothing broke."""
        return self.verdict.ok and not self.problems and not self.late

    def during(self, name: str) -> Counter[str]:
        """Return how often each kind of finding was made of fires due since a movement began, until the next did."""
        begins = sorted(since for since, _ in self.windows.values())
        since = self.windows[name][0]
        until = next((begin for begin in begins if begin > since), 2**62)
        return Counter(str(item.kind) for item in self.verdict.findings if since <= item.due_ms < until)

    def facts(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        verdict = self.verdict
        begin = min(since for since, _ in self.windows.values())
        return {
            **verdict.facts(),
            "ok": self.ok,
            "windows": {
                name: {
                    "seconds": (until - since - 2 * EDGE_MS) / 1000,
                    "lateness_ms": lateness(verdict, since, until),
                    "findings": dict(self.during(name)),
                }
                for name, (since, until) in self.windows.items()
            },
            "steps": [(what, at - begin) for what, at in self.steps],
            "problems": [*self.problems, *self.late],
            "folder": str(self.folder),
        }


def lateness(verdict: Verdict, since_ms: int = 0, until_ms: int = 2**62) -> dict[str, int | None]:
    """Return how late fires due in a window were."""
    parts = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: verdict.late(part, since_ms, until_ms) for name, part in parts.items()}


def run(
    url: str,
    folder: Path,
    names: Sequence[str],
    *,
    rate: int,
    least_s: int = 0,
    before_s: float = BEFORE_S,
    away_s: float = AWAY_S,
) -> Result:
    """Let jobs fire, do one thing after the other to the cluster, and judge what came of it.

    Args:
        url: An empty database.
        names: Movements, one after the other; each must begin with the nodes with which the one before ends.
        rate: Fires a second in sum.
        least_s: Jobs fire for at least this long, and until the movements are over.
        before_s: Jobs fire for this long before each movement.
        away_s: The database is away for this long, where it is.
    """
    movements = [MOVEMENTS[name] for name in names]
    horizon_s = max(least_s, HORIZON_S * len(names)) + 1
    plan = Plan(is_one_machine=movements[0].is_one_machine)
    with (
        Cluster(url, folder, plan) as cluster,
        Check(cluster.site, folder, rate=rate, resilient=False, people=False) as check,
    ):
        stage = Stage(cluster, away_s)
        for name in movements[0].nodes:
            cluster.start(name)
        cluster.wait("readiness", cluster.are_ready)
        if len(movements[0].nodes) > 1:
            stage.until(HALVES)
        for name in EXECUTOR_NAMES:
            cluster.start(name)
        cluster.wait("executors", check.are_executors_there)
        check.begin(horizon_s)
        with check.watcher(url) as watcher:
            for name, movement in zip(names, movements, strict=True):
                time.sleep(before_s)
                began = wall_ms()
                stage.note(name)
                movement.act(stage)
                stage.windows[name] = (began - EDGE_MS, wall_ms() + EDGE_MS)
            time.sleep(AFTER_S)
            sleep_until(check.start_ms + least_s * 1000)
            cut_ms = wall_ms()
            if cut_ms > check.end_ms:
                stage.problems.append("the movements took longer than jobs fired: the machine is too slow")
                cut_ms = check.end_ms
            settle(lambda: cluster.is_open(cut_ms))
        check.stop()
        check.settle(SETTLE_S)
        overdue_limit_ms = TAKEN_MS + max(item.idle_ms for item in movements)
        verdict = check.judge(watcher.seen, Disturbances(overdue_limit_ms=overdue_limit_ms), cut_ms)
        statuses = cluster.end_all()
    ended = [f"{name} ended with status {status}" for name, status in statuses.items() if status]
    return Result(
        verdict=verdict,
        windows=stage.windows,
        steps=stage.steps,
        problems=[*stage.problems, *ended],
        late=too_late(verdict, stage.windows),
        folder=folder,
    )


def too_late(verdict: Verdict, windows: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return a sentence for each movement during which fires were later than they may be."""
    found = []
    for name, (since, until) in windows.items():
        limit, late = MOVEMENTS[name].limit_ms, verdict.late(0.99, since, until)
        if limit and (late is None or late >= limit):
            found.append(f"{name}: the lateness' 99th percentile is {late} ms, the limit {limit} ms")
    return found


def settle(is_open: Callable[[], bool]) -> None:
    """Wait until nothing is open; what is open for longer than that is for the verdict."""
    deadline = time.monotonic() + SETTLE_S
    while time.monotonic() < deadline and is_open():
        time.sleep(0.2)


def sleep_until(at_ms: int) -> None:
    """Wait for an instant."""
    time.sleep(max(0, at_ms - wall_ms()) / 1000)
