"""A cluster in one process: nodes on a store in memory, a time that is given, packages that are ready at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from records import job, node

from xwheel_cluster_zookeeper.backend import Conflict, Disconnected, SessionLost
from xwheel_cluster_zookeeper.master import MasterSettings
from xwheel_cluster_zookeeper.memory import MemoryBackend, MemoryStore
from xwheel_cluster_zookeeper.model import ClusterState, JobRecord, JobStatus, Mode, Role
from xwheel_cluster_zookeeper.node import ClusterNode, NodeSettings
from xwheel_cluster_zookeeper.preparations import Prepared

START_MS = 1_700_000_000_000


class InstantPreparations:
    """Says at once how a preparation ends; by default well.

    Attributes:
        begun: Keys and attempts in the order in which they were asked for first.
        outcome: What the next ones come to; None for never.
    """

    def __init__(self) -> None:
        self.begun: list[tuple[str, tuple[int, int]]] = []
        self.outcome: Prepared | None = Prepared()
        self.closed = False

    def get(self, key: str, attempt: tuple[int, int], source: str) -> Prepared | None:
        if (key, attempt) not in self.begun:
            self.begun.append((key, attempt))
        return self.outcome

    def keep(self, keys: set[str]) -> None: ...

    def forget(self, key: str) -> None: ...

    def close(self) -> None:
        self.closed = True


class Member:
    """A node, its connection, and what it prepares."""

    def __init__(self, world: World, name: str, *, is_reset: bool = False, **facts: object) -> None:
        self.backend = MemoryBackend(world.store, monotonic_ms=lambda: world.now_ms)
        self.backend.open(0)
        self.preparations = InstantPreparations()
        self.lost = 0

        def on_lost() -> None:
            self.lost += 1

        settings = NodeSettings(
            me=node(name, **facts), master=MasterSettings(mode=world.mode), is_reset=is_reset, hosts="memory"
        )
        self.node = ClusterNode(
            self.backend,
            settings,
            self.preparations,
            lambda: world.now_ms,
            on_lost,  # type: ignore[arg-type]
        )


class World:
    """All of it.

    Attributes:
        now_ms: The time; tests set it.
    """

    def __init__(self, mode: Mode = Mode.MASTER_SLAVE) -> None:
        self.mode = mode
        self.store = MemoryStore()
        self.now_ms = START_MS
        self.members: dict[str, Member] = {}
        self.scheduler = MemoryBackend(self.store, monotonic_ms=lambda: self.now_ms)
        self.scheduler.open(0)
        random.seed(1)

    def add(self, *names: str, **options: object) -> list[Member]:
        """Start nodes."""
        for name in names:
            self.members[name] = Member(self, name, **options)  # type: ignore[arg-type]
        return [self.members[name] for name in names]

    def kill(self, name: str) -> Member:
        """End a node as SIGKILL does: no one steps it any more, and its session ends."""
        gone = self.members.pop(name)
        gone.backend.lose()
        return gone

    def run(self, steps: int = 4, ms: int = 100) -> None:
        """Let all nodes step in turn."""
        for _ in range(steps):
            for member in list(self.members.values()):
                member.node.step(self.now_ms)
            self.now_ms += ms

    @property
    def state(self) -> ClusterState:
        return self.scheduler.read()

    def put(self, *numbers: int, **changes: object) -> None:
        """Write jobs as the scheduler does."""
        for number in numbers:
            record: JobRecord = job(number, **changes)
            known = self.state.jobs.get(record.key)
            self.scheduler.put_job(record, None if known is None else known.version)

    def status(self, number: int) -> JobStatus:
        return self.state.statuses[job(number).key].value

    def where(self) -> dict[int, str]:
        """Return which node takes the runs of each job."""
        found: dict[int, str] = {}
        for name, member in self.members.items():
            for job_id in member.node.jobs:
                assert job_id not in found, f"job {job_id} is on {found[job_id]} and on {name}"
                found[job_id] = name
        return found

    def masters(self) -> list[str]:
        return [name for name, member in self.members.items() if member.node.role is Role.MASTER]


def at_once(work: list[Callable[[], object]]) -> None:
    """Do several things on threads of their own, as close together as can be."""
    gate = threading.Barrier(len(work))

    def run(one: Callable[[], object]) -> None:
        gate.wait()
        one()

    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


__all__ = ["START_MS", "Conflict", "Disconnected", "Member", "SessionLost", "World", "at_once"]
