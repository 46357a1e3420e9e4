"""Mutants without any fault: what they replace is reached, and jobs fire as if nothing were missing."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from xwheel_devtools.verify.check import APP_NAME
from xwheel_devtools.verify.load import EXECUTORS
from xwheel_devtools.verify.site import Site
from xwheel_devtools.verify.verdict import OPEN

from tests.faults.mutants import command
from tests.faults.mutants.names import MUTANTS
from tests.faults.mutants.patches import REACHED_VARIABLE, mutated
from tests.faults.soak.cluster import EXECUTOR_NAMES, Cluster, Plan, databases
from xwheel.clock import wall_ms

FIRES: Final = 10
EVERY_MS: Final = 500
WAIT_S: Final = 30
JOBS: Final[Sequence[dict[str, Any]]] = (
    {"name": "plain", "handler": "verify_notes"},
    {"name": "shards", "handler": "verify_notes", "route_strategy": "SHARDING_BROADCAST"},
)
HARDER: Final[Sequence[dict[str, Any]]] = ({"name": "retried", "handler": "verify_fails_first", "max_retries": 1},)
"""Jobs that need what some mutants break even without a fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbances:
    """How a mutant did.

    Attributes:
        missed: What it replaces and nothing called.
        states: The states of the runs of jobs that every mutant can serve.
    """

    name: str
    missed: Sequence[str]
    states: Counter[str]

    @property
    def ok(self) -> bool:
        """Whether all that it replaces was reached, and all of these runs succeeded."""
        return not self.missed and self.states.keys() == {"succeeded"}

    def __str__(self) -> str:
        states = ", ".join(f"{count} {state}" for state, count in self.states.items()) or "no run"
        breaks = f"; breaks without a fault: {MUTANTS[self.name].breaks}" if MUTANTS[self.name].breaks else ""
        reached = f"NOT reached: {', '.join(self.missed)}" if self.missed else "reached"
        return f"{self.name}: {'ok' if self.ok else 'WRONG'}; {reached}; {states}{breaks}"


def check(names: Sequence[str]) -> int:
    """Run mutants one after the other, and print how each did; return 1 if one did not do as it should."""
    wrong = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="xwheel-mutant-") as home:
            disturbances = run(name, Path(home))
        print(disturbances, flush=True)
        wrong += not disturbances.ok
    return 1 if wrong else 0


def run(name: str, folder: Path) -> Disturbances:
    """Let jobs fire on one node and two executors that are mutants."""
    reached = folder / "reached"
    with (
        patch.dict("os.environ", {REACHED_VARIABLE: str(reached)}),
        databases("sqlite", folder) as fresh,
        Cluster(fresh(), folder / "cluster", Plan(nodes=("a",), command=command(name))) as cluster,
    ):
        cluster.start("a")
        cluster.wait("readiness", cluster.are_ready)
        group_id = cluster.site.group(APP_NAME)
        for executor in EXECUTOR_NAMES[:EXECUTORS]:
            cluster.start(executor)
        cluster.wait("executors", lambda: len(cluster.site.executors(group_id)) == EXECUTORS)
        states = _fire(cluster.site, group_id)
    with mutated(name) as patches:
        wanted = patches.calls.keys() - patches.rare
    found = set(reached.read_text().splitlines()) if reached.exists() else set()
    return Disturbances(name=name, missed=sorted(wanted - found), states=states)


def _fire(site: Site, group_id: int) -> Counter[str]:
    """Let jobs fire for a while; return the states of the runs that every mutant must bring to an end."""
    start_ms = wall_ms()
    end_ms = start_ms + FIRES * EVERY_MS
    schedule = {"group_id": group_id, "schedule_type": "FIX_RATE", "schedule_conf": f"{EVERY_MS}ms"}
    span = {"anchor_ms": start_ms, "start_ms": start_ms, "end_ms": end_ms}
    made = [site.make({**schedule, **span, **job}) for job in (*JOBS, *HARDER)]
    site.bulk("start", made)
    limit_ms = end_ms + WAIT_S * 1000
    while True:
        states = Counter(row.state for row in site.rows([group_id], made[: len(JOBS)]))
        is_over = wall_ms() > end_ms and states["succeeded"] and not OPEN & states.keys()
        if is_over or wall_ms() > limit_ms:
            return states
        time.sleep(0.1)
