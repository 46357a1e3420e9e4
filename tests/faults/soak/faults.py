"""What breaks, when and for how long: drawn from a seed."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tests.faults.injectors import database
from tests.faults.injectors.clocks import WallClock
from tests.faults.injectors.fault import Fault
from tests.faults.injectors.plugins import FAILING, LYING, FaultyPlugins
from tests.faults.injectors.proxy import Cut, Proxy, Toward
from tests.faults.soak.cluster import EXECUTOR_NAMES, GALERA, PAIR, Cluster
from tests.support.galera import Galera
from tests.support.pair import Pair

LEASE_S: Final = 3
SETTINGS: Final[Mapping[str, str]] = {
    "XWHEEL_SCHEDULE__LEASE_S": str(LEASE_S),
    "XWHEEL_SCHEDULE__LEASE_RENEW_S": "0.7",
    "XWHEEL_TRIGGER__SEND_TIMEOUT_MS": "800",
    "XWHEEL_TRIGGER__CHECK_AFTER_S": "3",
    "XWHEEL_TRIGGER__DEAD_AFTER_S": "20",
    "XWHEEL_TRIGGER__DEADLINE_GRACE_S": "5",
    "XWHEEL_DATABASE__STATEMENT_TIMEOUT_S": "4",
    "XWHEEL_EXECUTOR__BEAT_S": "1",
}
"""Short times, so that what takes minutes with default settings happens within seconds."""

CROWDED: Final[Mapping[str, str]] = {
    "XWHEEL_TRIGGER__FAST_POOL": "4",
    "XWHEEL_TRIGGER__SLOW_POOL": "2",
    "XWHEEL_TRIGGER__WAITING_LIMIT": "100",
    "XWHEEL_EXECUTOR__WORKERS": "4",
    "XWHEEL_EXECUTOR__QUEUE_LIMIT": "5",
    "XWHEEL_EXECUTOR__WAITING_LIMIT": "40",
}
"""Lanes and queues that are full most of the time."""

NODES: Final = ("a", "b", "c")
STEP_MS: Final = 600_000
DATABASE_CLOCK: Final = "clock of the database"
FEWEST, MOST = 2, 6
FIRST_S, LAST_S = 0.5, 2.0
"""No fault begins earlier than this after the first fire, or later than this before the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A fault of a seed.

    Attributes:
        kind: One word of ``KINDS``.
        name: What it is, and to whom it happens.
        at_s: When it begins, in seconds after the first fire.
        for_s: How long it lasts.
        make: Gives what begins and ends it.
    """

    kind: str
    name: str
    at_s: float
    for_s: float
    make: Make


Make = Callable[["Cluster", "Scene"], Fault]
Found = tuple[str, tuple[float, float], Make]
Draw = Callable[[random.Random, str], Found]
"""Gives a fault's name, its shortest and longest time, and what makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a seed has next to processes, for its faults.

    Attributes:
        clocks: Wall clocks, by the name of the node, or ``database``.
        fillings: Give a fault that fills a disk, by the name of who has it.
        plugins: Those of the nodes.
    """

    clocks: Mapping[str, WallClock]
    fillings: Mapping[str, Callable[[], Fault]]
    plugins: FaultyPlugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a seed says.

    Attributes:
        faults: In the order of their begin.
        settings: For the environment of nodes and executors.
        offsets: How far the clocks of nodes are ahead of the machine's at their start, in ms.
        moves_clock: The database's clock steps.
        has_bursts: Far more is due now and then than can be sent at once.
    """

    faults: Sequence[Drawn]
    settings: Mapping[str, str]
    offsets: Mapping[str, int]
    moves_clock: bool
    has_bursts: bool


def draw(seed: int, backend: str, seconds: float) -> Script:
    """Return what a seed says for a kind of database."""
    dice = random.Random(seed)
    kinds = [(kind, give) for kind, give, backends in KINDS if backend in backends]
    found = []
    for _ in range(dice.randint(FEWEST, MOST)):
        kind, give = dice.choice(kinds)
        name, (shortest_s, longest_s), make = give(dice, backend)
        at_s = dice.uniform(FIRST_S, max(FIRST_S, seconds - LAST_S))
        for_s = dice.uniform(shortest_s, longest_s)
        found.append(Drawn(kind=kind, name=name, at_s=at_s, for_s=for_s, make=make))
    return Script(
        faults=sorted(found, key=lambda item: item.at_s),
        settings={**SETTINGS, **(CROWDED if dice.random() < 0.25 else {})},
        # where the database's clock is the node's, its first one is ours
        offsets={name: 0 if backend == "sqlite" else dice.choice([0, 0, -STEP_MS, STEP_MS]) for name in NODES},
        moves_clock=any(item.name.startswith(DATABASE_CLOCK) for item in found),
        has_bursts=dice.random() < 0.25,
    )


def _process(dice: random.Random, backend: str) -> str:
    nodes = NODES[:1] if backend == "sqlite" else NODES[:2]
    return dice.choice([*nodes, *EXECUTOR_NAMES])


def _killed(dice: random.Random, backend: str) -> Found:
    name = _process(dice, backend)
    return f"kill {name}", (0.1, 3.0), partial(_ended, name=name, how=signal.SIGKILL)


def _stopped(dice: random.Random, backend: str) -> Found:
    name = _process(dice, backend)
    return f"stop {name}", (0.0, 3.0), partial(_ended, name=name, how=signal.SIGTERM)


def _ended(cluster: Cluster, scene: Scene, *, name: str, how: signal.Signals) -> Fault:
    del scene
    return Fault(f"end {name}", lambda: cluster.end_if_running(name, how), lambda: cluster.start(name))


def _frozen(dice: random.Random, backend: str) -> Found:
    name = _process(dice, backend)
    longest_s = dice.choice([1.5, 2 * LEASE_S])

    def make(cluster: Cluster, _: Scene) -> Fault:
        return Fault(
            f"freeze {name}", lambda: cluster.send(name, signal.SIGSTOP), lambda: cluster.send(name, signal.SIGCONT)
        )

    return f"freeze {name}", (0.2, longest_s), make


def _joined(dice: random.Random, backend: str) -> Found:
    del backend
    how = dice.choice([signal.SIGTERM, signal.SIGKILL])
    name = NODES[-1]

    def make(cluster: Cluster, _: Scene) -> Fault:
        return Fault("join", lambda: cluster.start(name), lambda: cluster.end_if_running(name, how))

    return f"{name} joins and leaves by {how.name}", (1.0, 6.0), make


def _rolled(dice: random.Random, backend: str) -> Found:
    names = list(NODES[:1] if backend == "sqlite" else NODES[:2])
    dice.shuffle(names)

    def roll(cluster: Cluster) -> None:
        for name in names:
            cluster.end_if_running(name, signal.SIGTERM)
            cluster.start(name)

    return ("rolling restart", (0.0, 0.1), lambda cluster, _: Fault("roll", lambda: roll(cluster), lambda: None))


def _server(dice: random.Random, backend: str) -> Found:
    del backend
    kinds = (database.killing, database.stopping, database.freezing, database.refusing_writes)
    kind = dice.choice(kinds)
    return f"{kind.__name__} the database", (0.3, 5.0), lambda cluster, _: kind(cluster.server_url)


def _failed_over(dice: random.Random, backend: str) -> Found:
    del backend
    is_orderly = dice.random() < 0.3
    word = "stop" if is_orderly else "kill"

    def make(cluster: Cluster, _: Scene) -> Fault:
        pair = Pair.of(cluster.url)

        def end() -> None:
            pair.promote()
            pair.join()

        return Fault("failover", lambda: pair.lose_primary(orderly=is_orderly), end)

    return f"{word} the primary, and let its standby take over", (0.1, 5.0), make


def _member(dice: random.Random, backend: str) -> Found:
    """Something befalls one member of three; if another one is away, it does not: two would be the whole cluster."""
    del backend
    number = dice.randrange(3)
    how = dice.choice(["kill", "kill", "stop", "isolate", "freeze", "copy"])

    def make(cluster: Cluster, _: Scene) -> Fault:
        members = Galera.of(cluster.url)
        port = members.ports[number]
        return Fault(f"{how} a member", lambda: members.lose(port, how), lambda: members.regain(port))

    return f"{how} member {number + 1} of the database", (0.3, 6.0), make


def _network(dice: random.Random, backend: str) -> Found:
    nodes = NODES[:1] if backend == "sqlite" else NODES[:2]
    pairs = 3 * [("nodes", name) for name in EXECUTOR_NAMES]
    pairs += [(name, node) for name in EXECUTOR_NAMES for node in nodes]
    if backend != "sqlite":
        pairs += 4 * [(node, "database") for node in nodes]
    if backend in (PAIR, GALERA):
        pairs += 4 * [(node, "database-2") for node in nodes]
    who, whom = dice.choice(pairs)
    toward = dice.choice([*list(Toward), Toward.BOTH])
    kinds: list[tuple[str, Callable[[Proxy], None]]] = [
        ("cut", Proxy.cut),
        ("reset", Proxy.reset),
        ("silence", partial(Proxy.silence, toward=toward)),
        ("delay", partial(Proxy.delay, ms=dice.uniform(20, 600), toward=toward)),
        ("lose answers", partial(_lose, share=dice.uniform(0.02, 0.4), seed=dice.randrange(10**6))),
    ]
    word, change = dice.choice(kinds)

    def make(cluster: Cluster, _: Scene) -> Fault:
        proxy = cluster.proxies.get(f"{who}:{whom}")
        if proxy is None:  # it is made when its process starts, and this one has not
            return Fault(word, lambda: None, lambda: None)
        return Fault(word, lambda: change(proxy), proxy.restore)

    return f"{word} {who} to {whom}", (0.3, 5.0), make


def _node_clock(dice: random.Random, backend: str) -> Found:
    del backend
    name = dice.choice(NODES[:2])
    by_ms = dice.choice([-STEP_MS, STEP_MS])
    return (f"clock of {name} by {by_ms} ms", (0.5, 6.0), lambda _, scene: scene.clocks[name].stepping(by_ms))


def _database_clock(dice: random.Random, backend: str) -> Found:
    del backend
    by_ms = dice.choice([-STEP_MS, STEP_MS])

    def make(_: Cluster, scene: Scene) -> Fault:
        step = scene.clocks["database"].stepping(by_ms)
        # back again everything that was planned meanwhile would have to wait for ten minutes
        return step if by_ms < 0 else Fault("clock forward for good", step.begin, lambda: None)

    return f"{DATABASE_CLOCK} by {by_ms} ms", (0.5, 6.0), make


def _disk(dice: random.Random, backend: str) -> Found:
    name = dice.choice(["database", "executor0"] if backend == "sqlite" else ["executor0"])
    return f"full disk of {name}", (0.3, 4.0), lambda _, scene: scene.fillings[name]()


def _plugin(dice: random.Random, backend: str) -> Found:
    del backend
    kind = dice.choice(["router", "listener"])
    how = dice.choice([*FAILING, *LYING[kind]])
    return f"{kind} plugin: {how}", (0.3, 6.0), lambda _, scene: scene.plugins.going_wrong(kind, how)


def _lose(proxy: Proxy, *, share: float, seed: int) -> None:
    proxy.cut_at_random(share, seed, (Cut.AFTER, Cut.AFTER, Cut.BEFORE))


EVERYWHERE: Final = ("sqlite", "mariadb", "postgresql", PAIR, GALERA)
SERVERS: Final = EVERYWHERE[1:]
SINGLE: Final = EVERYWHERE[1:3]
KINDS: Final[Sequence[tuple[str, Draw, Sequence[str]]]] = (
    ("kill", _killed, EVERYWHERE),
    ("kill", _killed, EVERYWHERE),
    ("stop", _stopped, EVERYWHERE),
    ("freeze", _frozen, EVERYWHERE),
    ("freeze", _frozen, EVERYWHERE),
    ("network", _network, EVERYWHERE),
    ("network", _network, EVERYWHERE),
    ("network", _network, SERVERS),
    ("rolling restart", _rolled, EVERYWHERE),
    ("join", _joined, SERVERS),
    ("database", _server, SINGLE),
    ("database", _server, SINGLE),
    *4 * (("failover", _failed_over, (PAIR,)),),
    *4 * (("member", _member, (GALERA,)),),
    ("database's clock", _database_clock, EVERYWHERE),
    ("node's clock", _node_clock, SERVERS),
    ("disk", _disk, EVERYWHERE),
    ("plugin", _plugin, EVERYWHERE),
)
"""Each kind, and the databases with which it is possible; what stands here twice is drawn twice as often."""


class Timeline:
    """Begins and ends faults when their time comes.

    Attributes:
        problems: What could not be ended.
        log: What was done, and when in seconds after the first fire, and what could not be done.
    """

    def __init__(self, cluster: Cluster, scene: Scene, faults: Sequence[Drawn]) -> None:
        self.problems: list[str] = []
        self.log: list[str] = []
        made = [(item, item.make(cluster, scene)) for item in faults]
        steps = [(item.at_s, True, item.name, fault) for item, fault in made]
        steps += [(item.at_s + item.for_s, False, item.name, fault) for item, fault in made]
        self._steps = sorted(steps, key=lambda step: step[0])

    def play(self, began: float) -> None:
        """Do everything in its turn; faults that are still under way at the end are ended. Blocks.

        Args:
            began: The monotonic clock at the first fire.
        """
        for at_s, is_begin, name, fault in self._steps:
            time.sleep(max(0.0, began + at_s - time.monotonic()))
            word = "begin" if is_begin else "end"
            try:
                (fault.begin if is_begin else fault.end)()
            except Exception as error:  # another fault stands in the way
                word += f" NOT ({type(error).__name__})"
            self.log.append(f"{time.monotonic() - began:6.2f} s  {word:5} {name}")

    def end(self) -> None:
        """End what could not be ended in its turn: another fault may have stood in the way."""
        for _, is_begin, name, fault in self._steps:
            if is_begin:
                try:
                    fault.end()
                except Exception as error:
                    self.problems.append(f"end {name} at last: {type(error).__name__}: {error}")
