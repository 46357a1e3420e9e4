"""The leases of 64 nodes on one database, which are started, killed, frozen and drained at random.

Each node is a thread that steps the lease which a scheduler has. A fault hits it between any two of its statements or
readings of the clock: it ends, with its connection or without, or stands still, for longer than its lease or not, and
goes on. Others lock lease rows meanwhile, as claims and fences do. At each instant, on the one monotonic clock of all:

- no two nodes may act on one partition, and none acts on what the database gives to another or under an old epoch;
- no partition is without a holder for longer than the lease and two seconds, counted from the last fault that hit the
  node that the database names, or one whose transaction had locked that row. What the machine takes is added: by how
  much it woke a thread too late at most, or how long a plain reading took, for each of the steps to a takeover.

``python -m tests.faults.many_leases --seconds 600 --backend mariadb``
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from tests.support.databases import BACKENDS, server_database
from xwheel.clock import SystemClock
from xwheel.errors import XwheelError
from xwheel.model import PARTITIONS
from xwheel.scheduler.cluster.lease import ClusterLease
from xwheel.storage import leases
from xwheel.storage.database.engine import Database

NODES: Final = 64
GAP_MS: Final = 2000
LEAST: Final = 4
"""This many nodes always work."""

WAITS: Final = 4
"""From a node's end to another's beginning there are this many waits for the machine: two wakes, reading and taking."""

SWEEP_S: Final = 0.02
READ_MS: Final = 100
POINTS: Final = 40
"""A step has about twenty instants at which a fault may hit it."""

IDLE_S: Final = 60
"""How long what reads the rows may be kept waiting by the machine inside a reading."""

STAGES: Final = 4
PAUSE_MS: Final = 100
HAND_OVER_S: Final = 5
"""As a node that is asked to end."""

KINDS: Final = {"kill": 5, "vanish": 2, "freeze": 6, "pause": 4, "drain": 4, "mass kill": 0.4, "mass freeze": 0.4}
"""What happens, and how often compared with the others."""


class EndedError(BaseException):
    """A node's process is gone."""


class Fault(NamedTuple):
    """What befalls a node: it stands still for this long, then ends or goes on."""

    points: int
    freeze_s: float
    ends: bool


class NodeClock(SystemClock):
    """The machine's clock; after a reading, or before it, its node may stand still."""

    def __init__(self, node: Node) -> None:
        self._node = node
        super().__init__()

    def monotonic_ms(self) -> int:
        """Return the monotonic clock in milliseconds."""
        self._node.point()
        now_ms = super().monotonic_ms()
        self._node.point()
        return now_ms


class Node:
    """One node: a lease that its own thread steps, and what befalls it.

    Attributes:
        works: Neither ended nor frozen.
        hit_ms: When it last ended or froze.
        locking: Partitions whose rows its open transaction locks or asks for.
    """

    def __init__(self, world: World, db: Database, name: str) -> None:
        self.name, self.db = name, db
        self.works = True
        self.hit_ms = 0
        self.locking: frozenset[int] = frozenset()
        self._world = world
        self._fault: Fault | None = None
        self._leaves = False
        self._wake = threading.Event()
        self.lease = ClusterLease(
            db, name, NodeClock(self), lease_ms=world.lease_ms, renew_ms=world.renew_ms, on_change=self._gained
        )
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    def strike(self, fault: Fault) -> None:
        """Let a fault hit it soon, in one of its next steps."""
        self._fault = fault
        self._wake.set()

    def leave(self) -> None:
        """Let it hand everything over and end."""
        self._leaves = True
        self._wake.set()

    def point(self) -> None:
        """Let a fault that is due hit this node now, if its own thread calls."""
        fault = self._fault
        if fault is None or threading.current_thread() is not self.thread:
            return
        if fault.points:
            self._fault = fault._replace(points=fault.points - 1)
            return
        self._fault = None
        self.works, self.hit_ms = False, now_ms()
        if self._world.stopping.wait(fault.freeze_s) or fault.ends:
            raise EndedError
        self.works = True

    def _run(self) -> None:
        self._world.here.node = self
        try:
            pause_ms = self._step()
            while not self._leaves:
                due_ms = now_ms() + pause_ms
                if not self._wake.wait(pause_ms / 1000):
                    self._world.note_lag(now_ms() - due_ms)
                self._wake.clear()
                self.point()
                pause_ms = self._step()
            self._leave()
        except EndedError:
            pass
        finally:
            if self.works:
                self.works, self.hit_ms = False, now_ms()

    def _step(self) -> int:
        try:
            return self.lease.step(0)
        except (XwheelError, SQLAlchemyError) as error:
            self._world.errors[type(error).__name__] += 1
            return PAUSE_MS

    def _leave(self) -> None:
        self.lease.drain()
        until_ms = now_ms() + HAND_OVER_S * 1000
        while now_ms() < until_ms and not self.lease.is_drained():
            time.sleep(self._step() / 1000)
            self.point()
        with contextlib.suppress(XwheelError, SQLAlchemyError):
            self.lease.release()

    def _gained(self, _came_back: bool) -> None:
        # what compares us with the others is no part of the node
        fault, self._fault = self._fault, None
        self._world.compare(self)
        self._fault = fault


@dataclass(slots=True)
class World:
    """The nodes, what happened to them, and what was found.

    Attributes:
        findings: What must not be.
        counts: Faults by kind.
        errors: Steps that failed, by kind of error.
        statements: How many the nodes executed.
        longest_ms: For how long a partition was without a holder at most.
        lag_ms: How late the machine woke a thread at most, or how long a plain reading took.
    """

    databases: Sequence[Database]
    rng: random.Random
    lease_ms: int
    renew_ms: int
    findings: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    statements: int = 0
    longest_ms: int = 0
    lag_ms: int = 0
    changes: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)
    here: Any = field(default_factory=threading.local)
    _nodes: tuple[Node, ...] = ()
    _known: dict[str, Node] = field(default_factory=dict)
    _starts: list[int] = field(default_factory=list)
    _covered: dict[int, int] = field(default_factory=dict)
    _epochs: dict[int, int] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)

    def note_lag(self, lag_ms: int) -> None:
        """Note by how much a thread woke too late."""
        self.lag_ms = max(self.lag_ms, lag_ms)

    def compare(self, node: Node) -> None:
        """Find the partitions that a node holds since just now and another still does."""
        for part, epoch in node.lease.epochs.items():
            for other in self._nodes:
                if other is not node and part in other.lease.epochs and other.lease.may_act():
                    self._doubt(part, (other, other.lease.epochs.get(part)), (node, epoch))

    def run(self, seconds: float, every_s: float) -> None:
        """Let faults happen for this long, on average every so often."""
        began_ms = now_ms()
        self._covered = dict.fromkeys(range(PARTITIONS), began_ms)
        self._starts = [began_ms + round(self.rng.uniform(0, 2000)) for _ in range(NODES)]
        next_ms, read_ms = began_ms + self.lease_ms, 0
        for _ in range(STAGES):
            rng = random.Random(self.rng.random())
            threading.Thread(target=self._lock_at_times, args=(rng,), daemon=True).start()
        with self._watched():
            while (at_ms := now_ms()) < began_ms + seconds * 1000:
                self._start_some(at_ms)
                if at_ms >= next_ms:
                    self._strike()
                    next_ms = at_ms + round(self.rng.expovariate(1 / every_s) * 1000)
                held = self._sweep()
                if at_ms >= read_ms:
                    asked_ms = now_ms()
                    self._read(held)
                    self.note_lag(now_ms() - asked_ms)
                    read_ms = at_ms + READ_MS
                self._judge()
                asked_ms = now_ms()
                time.sleep(SWEEP_S)
                self.note_lag(now_ms() - asked_ms - round(SWEEP_S * 1000))
            self.stopping.set()
            for node in self._nodes:
                node.strike(Fault(0, 0, ends=True))
            for node in self._nodes:
                node.thread.join(30)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Let faults hit nodes between any two statements, and note which lease rows they lock."""

        def before(_conn: object, _cursor: object, statement: str, values: Any, *_: object) -> None:
            node: Node | None = getattr(self.here, "node", None)
            if node is None:
                return
            self.statements += 1
            if "partition_lease" in statement and "FOR UPDATE" in statement:
                node.locking = frozenset(_numbers(values))
            node.point()

        def after(*_: object) -> None:
            if (node := getattr(self.here, "node", None)) is not None:
                node.point()

        def ended(*_: object) -> None:
            after()
            if (node := getattr(self.here, "node", None)) is not None:
                node.locking = frozenset()

        hooks = {"before_cursor_execute": before, "after_cursor_execute": after, "commit": ended, "rollback": ended}
        for db in self.databases:
            for name, hook in hooks.items():
                event.listen(db.engine, name, hook)
        yield

    def _start_some(self, at_ms: int) -> None:
        """Start nodes again for those that are gone, each under a name of its own, as a process has."""
        # one that is gone is compared with the others for as long as it could believe that it may act
        gone = [node for node in self._nodes if not node.thread.is_alive() and not node.lease.may_act()]
        for _ in gone:
            self._starts.append(at_ms + round(self.rng.uniform(0, 1.5 * self.lease_ms)))
        due = [start_ms for start_ms in self._starts if start_ms <= at_ms]
        taken = {node.db for node in self._nodes if node not in gone}
        free = [db for db in self.databases[:NODES] if db not in taken]
        fresh = [Node(self, db, f"{len(self._known) + number:08x}") for number, db in enumerate(free[: len(due)])]
        if gone or fresh:
            self._starts = [start_ms for start_ms in self._starts if start_ms > at_ms]
            self._known |= {node.name: node for node in fresh}
            self._nodes = (*(node for node in self._nodes if node not in gone), *fresh)
        for node in fresh:
            node.thread.start()

    def _strike(self) -> None:
        """Let something befall a node, or many of them."""
        working = [node for node in self._nodes if node.works]
        kind = self.rng.choices(list(KINDS), list(KINDS.values()))[0]
        count = len(working) // 3 if kind.startswith("mass") else 1
        for node in self.rng.sample(working, max(0, min(count, len(working) - LEAST))):
            self.counts[kind] += 1
            points, term_s = self.rng.randrange(POINTS), self.lease_ms / 1000
            if kind == "drain":
                node.leave()
            elif kind.endswith("kill"):
                node.strike(Fault(points, 0, ends=True))
            elif kind == "pause":
                node.strike(Fault(points, self.rng.uniform(0.1, 1) * term_s, ends=False))
            else:
                node.strike(Fault(points, self.rng.uniform(0.8, 2.5) * term_s, ends=kind == "vanish"))

    def _lock_at_times(self, rng: random.Random) -> None:
        """Lock the lease rows of some node, as its claims and fences do; it may be frozen meanwhile."""
        while not self.stopping.wait(rng.uniform(0, 0.1)):
            working = [node for node in self._nodes if node.works]
            if not working:
                continue
            node = rng.choice(working)
            with contextlib.suppress(XwheelError, SQLAlchemyError), node.db.write() as conn:
                node.lease.lock(conn)
                self.stopping.wait(rng.uniform(0, 0.05))
                while not node.works and node.thread.is_alive() and not self.stopping.wait(SWEEP_S):
                    pass

    def _sweep(self) -> list[tuple[int, Node, int]]:
        """Return who may act on what under which epoch."""
        held: dict[int, tuple[Node, int]] = {}
        for node in self._nodes:
            epochs = node.lease.epochs
            if not node.lease.may_act():
                continue
            for part, epoch in epochs.items():
                if part in held:
                    self._doubt(part, held[part], (node, epoch))
                held[part] = (node, epoch)
                if node.works:
                    self._covered[part] = now_ms()
        return [(part, node, epoch) for part, (node, epoch) in held.items()]

    def _doubt(self, part: int, first: tuple[Node, int | None], second: tuple[Node, int]) -> None:
        """Note that two nodes may act on a partition, if the first still does now that the second was seen to."""
        if all(node.lease.epochs.get(part) == epoch and node.lease.may_act() for node, epoch in (second, first)):
            words = [f"{node.name} under epoch {epoch}" for node, epoch in (first, second)]
            self._find(f"partition {part} has two holders: {words[0]} and {words[1]}")

    def _read(self, held: Sequence[tuple[int, Node, int]]) -> None:
        """Compare what the nodes believe with the rows, and note whom faults hit."""
        rows = leases_of(self.databases[-1])
        by_part: Mapping[int, leases.LeaseRow] = {row.partition: row for row in rows}
        for part, node, epoch in held:
            row = by_part[part]
            is_other = (row.owner, row.epoch) != (node.name, epoch)
            if is_other and node.lease.epochs.get(part) == epoch and node.lease.may_act():
                self._find(f"{node.name} acts on partition {part} under epoch {epoch}; its row says {row}")
        for row in rows:
            if row.epoch < self._epochs.get(row.partition, 0):
                self._find(f"the epoch of {row} was {self._epochs[row.partition]}")
            self.changes += row.epoch - self._epochs.get(row.partition, row.epoch)
            self._epochs[row.partition] = row.epoch
            self._excuse(row.partition, self._known.get(row.owner or ""))
        for node in self._nodes:
            for part in node.locking:
                self._excuse(part, node)

    def _excuse(self, part: int, node: Node | None) -> None:
        if node is not None and not node.works:
            self._covered[part] = max(self._covered[part], node.hit_ms)

    def _judge(self) -> None:
        at_ms = now_ms()
        for part, since_ms in self._covered.items():
            self.longest_ms = max(self.longest_ms, at_ms - since_ms)
            if at_ms - since_ms <= self.lease_ms + GAP_MS + WAITS * self.lag_ms:
                self._told.discard(part)
            elif part not in self._told:
                self._told.add(part)
                owner = leases_of(self.databases[-1])[part]
                self._find(f"partition {part} is without a holder for {at_ms - since_ms} ms; its row says {owner}")

    def _find(self, text: str) -> None:
        if text not in self.findings:
            self.findings.append(text)


def leases_of(db: Database) -> list[leases.LeaseRow]:
    """Return the lease rows."""
    with db.read() as conn:
        return leases.list_leases(conn)


def now_ms() -> int:
    """Return the clock that all nodes share, in milliseconds."""
    return time.monotonic_ns() // 1_000_000


def _numbers(values: Any) -> Iterator[int]:
    """Return the whole numbers among a statement's values."""
    if isinstance(values, int):
        yield values
    elif isinstance(values, dict):
        yield from _numbers(list(values.values()))
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _numbers(value)


def play(url: str, *, seed: int, seconds: float, lease_s: float, renew_s: float, every_s: float) -> World:
    """Let the nodes of one database come and go for this long."""
    # one for each, as processes have, and one for what reads the rows: of those that one opened all are replaced when
    # one breaks
    idle_s = max(1, int(lease_s - renew_s))
    databases = [Database(url, pool_size=1, idle_s=idle_s) for _ in range(NODES)]
    databases.append(Database(url, pool_size=1, idle_s=IDLE_S))
    world = World(databases, random.Random(seed), round(lease_s * 1000), round(renew_s * 1000))
    try:
        world.run(seconds, every_s)
    finally:
        world.stopping.set()
        for db in databases:
            db.close()
    return world


def main(arguments: Sequence[str] | None = None) -> int:
    """Run on each server; return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.many_leases", description=__doc__)
    option = parser.add_argument
    option("--backend", action="append", choices=sorted(BACKENDS), help="again for more; default: both")
    option("--seconds", type=float, default=600, help="how long nodes come and go (default 600)")
    option("--lease", type=float, default=10, help="seconds that a lease lasts (default 10)")
    option("--renew", type=float, default=3, help="seconds between renewals (default 3)")
    option("--every", type=float, default=0.7, help="seconds between two faults, on average (default 0.7)")
    option("--seed", type=int, default=random.SystemRandom().randrange(2**32), help="default: a new one")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped then too
    logging.getLogger("xwheel").setLevel(logging.CRITICAL)
    is_broken = False
    for backend in options.backend or sorted(BACKENDS):
        print(f"{backend}, seed {options.seed}", flush=True)
        with server_database(backend) as url:
            cpu_s = time.process_time()
            world = play(
                url,
                seed=options.seed,
                seconds=options.seconds,
                lease_s=options.lease,
                renew_s=options.renew,
                every_s=options.every,
            )
            cpu_s = time.process_time() - cpu_s
        _print(world, options.seconds, cpu_s)
        is_broken |= bool(world.findings)
    return int(is_broken)


def _print(world: World, seconds: float, cpu_s: float) -> None:
    for text in world.findings[:50]:
        print(f"  BROKE: {text}")
    faults = ", ".join(f"{name} {count}" for name, count in sorted(world.counts.items()))
    print(f"  {faults}; {world.changes} changes of holders, {len(world.findings)} findings")
    print(
        f"  longest without a holder {world.longest_ms} ms of {world.lease_ms + GAP_MS}; the machine was at most"
        f" {world.lag_ms} ms late; {world.statements / seconds:.0f} statements and {cpu_s / seconds:.2f} CPU seconds a"
        f" second; {sum(db.deadlocks for db in world.databases)} deadlocks,"
        f" {sum(db.broken for db in world.databases)} broken connections;"
        f" failed steps: {dict(world.errors)}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
