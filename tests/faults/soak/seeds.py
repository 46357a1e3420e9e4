"""One seed: a cluster, its load, its faults, and the verdict."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.faults.mutants import command
from tests.faults.soak.cluster import EXECUTOR_NAMES, Cluster, Plan
from tests.faults.soak.faults import NODES, Timeline, draw
from xwheel.cli.verify.check import Check
from xwheel.cli.verify.records import Verdict, Weather

RATE: Final = 40
SETTLE_S: Final = 75
SHOWN: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """What came of a seed.

    Attributes:
        faults: What was done, and when.
        problems: What could not be done, and processes that did not end well.
        settled: Whether every run ended in time.
        seconds: How long all of it took.
    """

    seed: int
    backend: str
    verdict: Verdict
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
            "faults": list(self.faults),
            "problems": list(self.problems),
            "settled": self.settled,
            "seconds": round(self.seconds, 1),
            "samples": samples,
            "folder": str(self.folder),
        }


def run_seed(
    seed: int, backend: str, url: str, folder: Path, *, seconds: int, mutant: str | None = None
) -> SeedResult:
    """Let the faults of a seed happen to a cluster while jobs fire, and judge what came of it.

    Args:
        url: An empty database.
        seconds: How long jobs fire.
        mutant: The program that nodes or executors are, None for xwheel itself.
    """
    began = time.monotonic()
    faults, settings = draw(seed, backend, seconds)
    nodes = NODES[:1] if backend == "sqlite" else NODES
    plan = Plan(nodes=nodes, settings=settings, command=command(mutant), is_proxied=True)
    with (
        Cluster(url, folder, plan) as cluster,
        Check(cluster.site, folder, rate=RATE, sturdy=True, seed=seed) as check,
    ):
        first = [*nodes[:2], *EXECUTOR_NAMES]
        for name in first:
            cluster.start(name)
        cluster.wait("readiness", cluster.are_ready)
        cluster.wait("executors", check.are_executors_there)
        check.begin(seconds)
        fired = time.monotonic()
        timeline = Timeline(cluster, faults)
        with check.watcher(cluster.url) as watcher:
            timeline.play(fired)
            time.sleep(max(0.0, fired + seconds - time.monotonic()))
            timeline.end()
            for name in first:
                cluster.start(name)
            check.calm_down()
            settled = check.settle(SETTLE_S)
        weather = Weather(executors_ended=True, overdue_limit_ms=None, slack_ms=SETTLE_S * 1000)
        verdict = check.judge(watcher.seen, weather)
        statuses = cluster.end_all()
    problems = [f"{name} ended with status {status}" for name, status in statuses.items() if status]
    result = SeedResult(
        seed=seed,
        backend=backend,
        verdict=verdict,
        faults=timeline.log,
        problems=[*timeline.problems, *problems],
        settled=settled,
        seconds=time.monotonic() - began,
        folder=folder,
    )
    (folder / "result.json").write_text(json.dumps(result.facts(), indent=1))
    lines = [f"{item.kind} (invariant {item.invariant}): {item.text}" for item in verdict.findings]
    (folder / "findings.txt").write_text("\n".join([*result.faults, *result.problems, *lines, ""]))
    return result
