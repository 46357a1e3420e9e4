"""What becomes of a run under each fault: how it ends, and how often and when its handler begins."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.delivery_cases import CASES, KINDS, RETRY, Case, dies_running, restarts_running, table
from tests.support.delivery_world import World
from tests.support.paths import ROOT
from xwheel.storage.database.engine import Database

PAGE = ROOT / "docs" / "explanation" / "delivery.md"


def faults(*, two_nodes: bool) -> list[Any]:
    return [
        pytest.param(case, kind, id=f"{kind}-{case.name}")
        for cases in CASES.values()
        for case in cases
        for kind in case.kinds
        if case.two_nodes is two_nodes
    ]


def stories(db: Database, case: Case, kind: str) -> tuple[str, ...]:
    world = World(db, foreign=kind == "foreign", **case.job)
    case.play(world)
    world.settle()
    return tuple(world.story(job) for job in world.jobs)


@pytest.mark.parametrize(("case", "kind"), faults(two_nodes=False))
def test_what_a_fault_does(sqlite_db: Database, case: Case, kind: str) -> None:
    assert stories(sqlite_db, case, kind) == case.expected(kind)


@pytest.mark.parametrize(("case", "kind"), faults(two_nodes=True))
def test_what_a_node_that_stands_still_does(db: Database, case: Case, kind: str) -> None:
    assert stories(db, case, kind) == case.expected(kind, alone=db.backend == "sqlite")


@pytest.mark.parametrize("play", [restarts_running, dies_running])
def test_all_attempts_of_a_fire_are_told_the_same_due_time(sqlite_db: Database, play: Any) -> None:
    """Handlers know by it what they did before; a recovery run counts as an attempt."""
    world = World(sqlite_db, foreign=False, **RETRY)
    play(world)
    world.settle()
    told = [item.run for peer in world.peers for item in peer.taken.values()]
    repeated = {run.job_id for run in told if run.attempt == 2}
    assert repeated
    for job_id in repeated:
        runs = [run for run in told if run.job_id == job_id]
        assert len({run.id for run in runs}) == 2
        assert len({(run.planned_ms, run.shard_index) for run in runs}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_says_what_is_tested(kind: str) -> None:
    assert table(kind) in PAGE.read_text(), f"put this into {PAGE.name}:\n{table(kind)}"
