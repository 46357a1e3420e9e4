"""One seed: a cluster, its load, its faults, and the verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from xwheel_devtools.verify.check import Check
from xwheel_devtools.verify.records import Disturbances, Verdict

from tests.faults.injectors import database
from tests.faults.injectors.clocks import WallClock
from tests.faults.injectors.disks import FILLER, SmallDisk
from tests.faults.injectors.fault import Fault
from tests.faults.injectors.plugins import FaultyPlugins
from tests.faults.mutants import command
from tests.faults.soak.cluster import EXECUTOR_NAMES, Cluster, Plan, databases
from tests.faults.soak.faults import NODES, Scene, Script, Timeline, draw
from tests.support.small_disk import fill
from xwheel.cli.main import EXIT_REFUSED
from xwheel.storage.database import startup

RATE: Final = 40
SETTLE_S: Final = 75
SHOWN: Final = 10
DISK_MB: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """What came of a seed.

    Attributes:
        kinds: Of the faults that the seed drew.
        faults: What was done, and when.
        problems: What could not be done, and processes that did not end well.
        settled: Whether every run ended in time.
        seconds: How long all of it took.
    """

    seed: int
    backend: str
    verdict: Verdict
    kinds: Sequence[str]
    faults: Sequence[str]
    problems: Sequence[str]
    settled: bool
    seconds: float
    folder: Path

    @property
    def ok(self) -> bool:
        """Whether nothing was found."""
        return self.verdict.ok and not self.problems

    def facts(self) -> dict[str, Any]:
        """Return all of it for JSON."""
        samples = [f"{item.kind} ({item.invariant}): {item.text}" for item in self.verdict.findings[:SHOWN]]
        return {
            **self.verdict.facts(),
            "ok": self.ok,
            "seed": self.seed,
            "backend": self.backend,
            "kinds": list(self.kinds),
            "faults": list(self.faults),
            "problems": list(self.problems),
            "settled": self.settled,
            "seconds": round(self.seconds, 1),
            "samples": samples,
            "folder": str(self.folder),
        }


class Ground:
    """What seeds of one database share: a server whose clock can step, or a disk for SQLite's files.

    Use it as a context.

    Args:
        backend: The kind of database.
        home: Gets the folders of seeds.
        disk: For SQLite: a folder with a small disk of its own, on which the database file is.
    """

    def __init__(self, backend: str, home: Path, disk: Path | None = None) -> None:
        self.backend, self.home, self._disk = backend, home, disk
        self._stack = ExitStack()
        self._clock: WallClock | None = None
        self._fresh: Callable[[], str] = str

    def __enter__(self) -> Ground:
        self._clock = self._stack.enter_context(WallClock())
        if self.backend != "sqlite":
            self._fresh = self._stack.enter_context(databases(self.backend, self.home, self._clock.environment))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, seed: int, *, seconds: int, mutant: str | None = None) -> SeedResult:
        """Let the faults of a seed happen to a cluster while jobs fire, and judge what came of it.

        Args:
            seconds: How long jobs fire.
            mutant: The program that nodes or executors are, None for xwheel itself.
        """
        began = time.monotonic()
        script = draw(seed, self.backend, seconds)
        folder = self.home / str(seed)
        folder.mkdir(parents=True)
        with ExitStack() as stack:
            cluster, scene = self._build(script, folder, mutant, stack)
            check = stack.enter_context(
                Check(cluster.site, folder, rate=RATE, resilient=True, bursts=script.has_bursts, seed=seed)
            )
            timeline = Timeline(cluster, scene, script.faults)
            verdict, settled = _play(cluster, check, timeline, seconds, moves_clock=script.moves_clock)
            statuses = cluster.end_all()
        result = SeedResult(
            seed=seed,
            backend=self.backend,
            verdict=verdict,
            kinds=[fault.kind for fault in script.faults],
            faults=timeline.log,
            problems=[*timeline.problems, *badly_ended(statuses, script)],
            settled=settled,
            seconds=time.monotonic() - began,
            folder=folder,
        )
        (folder / "result.json").write_text(json.dumps(result.facts(), indent=1))
        lines = [f"{item.kind} (invariant {item.invariant}): {item.text}" for item in verdict.findings]
        (folder / "findings.txt").write_text("\n".join([*result.faults, *result.problems, *lines, ""]))
        return result

    def _build(self, script: Script, folder: Path, mutant: str | None, stack: ExitStack) -> tuple[Cluster, Scene]:
        assert self._clock is not None
        self._clock.set(0)
        is_small = self.backend == "sqlite"
        nodes = NODES[:1] if is_small else NODES
        clocks = {name: stack.enter_context(WallClock(script.offsets[name])) for name in nodes}
        journals = stack.enter_context(SmallDisk(folder / "executor0-data", DISK_MB))
        place = self._disk or folder
        file = place / f"seed{folder.name}.db"
        scene = Scene(
            clocks={**clocks, "database": clocks[nodes[0]] if is_small else self._clock},
            fillings={"executor0": journals.filling, "database": lambda: _filling(self._disk)},
            plugins=FaultyPlugins(folder / "plugins"),
        )
        own = {name: {**clock.environment, "PYTHONPATH": str(scene.plugins.path)} for name, clock in clocks.items()}
        plan = Plan(
            nodes=nodes,
            settings=script.settings,
            environments=own,
            disks={"executor0": journals},
            command=command(mutant),
            is_proxied=True,
        )
        if is_small:
            url = f"sqlite:///{file}"
            startup.upgrade(url)
            stack.callback(_remove, file)
            return stack.enter_context(Cluster(url, folder, plan)), scene
        url = self._fresh()
        plain = database.plain_user(url)
        return stack.enter_context(Cluster(plain, folder, plan, seen_url=url)), scene


def badly_ended(statuses: Mapping[str, int], script: Script) -> list[str]:
    """Return a sentence for each process that ended as none should.

    A node that starts while its database is read-only or full says so and ends, for a service manager to try again:
    that is what the page on databases promises. It stays away here if the seed does not start it once more.
    """
    good = {0}
    if any(fault.kind in ("database", "failover", "disk") for fault in script.faults):
        good.add(EXIT_REFUSED)
    return [
        f"{name} ended with status {status}"
        for name, status in statuses.items()
        if status and (name not in NODES or status not in good)
    ]


def _filling(disk: Path | None) -> Fault:
    if disk is None:
        return Fault("no small disk", lambda: None, lambda: None)
    return Fault("full disk", lambda: fill(disk / FILLER), lambda: (disk / FILLER).unlink(missing_ok=True))


def _remove(file: Path) -> None:
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink(missing_ok=True)


def _play(
    cluster: Cluster, check: Check, timeline: Timeline, seconds: int, *, moves_clock: bool
) -> tuple[Verdict, bool]:
    """Let jobs fire and faults happen; return the verdict, and whether every run ended in time."""
    first = [*cluster.plan.nodes[:2], *EXECUTOR_NAMES]
    for name in first:
        cluster.start(name)
    cluster.wait("readiness", cluster.are_ready)
    cluster.wait("executors", check.are_executors_there)
    check.begin(seconds)
    fired = time.monotonic()
    with check.watcher(cluster.url) as watcher:
        timeline.play(fired)
        time.sleep(max(0.0, fired + seconds - time.monotonic()))
        timeline.end()
        for name in first:
            cluster.start(name)
        check.calm_down()
        settled = check.settle(SETTLE_S)
    disturbances = Disturbances(
        executors_ended=True, clock_moved=moves_clock, overdue_limit_ms=None, slack_ms=SETTLE_S * 1000
    )
    return check.judge(watcher.seen, disturbances), settled
