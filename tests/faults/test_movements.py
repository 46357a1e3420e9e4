"""Nodes come and go, and their database too, while jobs of every schedule type fire with default settings.

What was due is counted apart and compared with run rows and executions; see :mod:`tests.faults.soak.moving`.
How late a fire may be is judged by hand, by ``python -m tests.faults.soak.moving``: a test machine may be slow.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from xwheel_devtools.verify.records import Finding, FindingKind

from tests.faults.soak.cluster import databases
from tests.faults.soak.faults import draw
from tests.faults.soak.movements import Result, run, too_late
from tests.faults.soak.seeds import badly_ended
from tests.support.databases import BACKENDS, CleanDatabases
from tests.support.verify_world import T, good_world

MOVEMENTS = ("leave", "join", "rolling", "database", "kill", "restart")
"""Each begins with the nodes with which the one before ends."""

LONGER_THAN_A_LEASE_S = 12


def broken(result: Result) -> list[Finding]:
    """Return what no machine excuses, however slow it is."""
    return [item for item in result.verdict.findings if item.kind is not FindingKind.OVERDUE]


def told(result: Result) -> str:
    """Return what went wrong during which movement."""
    during = {name: dict(result.during(name)) for name in result.windows}
    first = [item.text for item in result.verdict.findings[:5]]
    return f"{during}, {result.problems}, in {result.folder}: {first}"


def check_held(result: Result, more_than: int) -> None:
    """Fail unless each of more than so many fires was executed, and nothing else happened."""
    assert not broken(result), told(result)
    assert not result.problems, told(result)
    assert result.verdict.executed == result.verdict.due > more_than


@pytest.mark.nightly
@pytest.mark.parametrize("breakable", sorted(BACKENDS), indirect=True)
def test_each_due_fire_runs_once_whatever_becomes_of_nodes_and_database(
    breakable: CleanDatabases, tmp_path: Path
) -> None:
    """R1, R18: a join, a leave, a takeover, a restart and an outage skip nothing and do nothing twice."""
    result = run(breakable.url(0), tmp_path, MOVEMENTS, rate=60, before_s=2, away_s=LONGER_THAN_A_LEASE_S)
    check_held(result, 1000)
    assert set(result.windows) == set(MOVEMENTS)


@pytest.mark.long(30)
def test_the_only_node_on_sqlite_is_killed_and_comes_back(tmp_path: Path) -> None:
    """R18: nothing is skipped when the only node dies and is started again."""
    with databases("sqlite", tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["restart"], rate=100, before_s=2)
    check_held(result, 500)


def test_a_movement_answers_for_the_fires_that_were_due_since_it_began(tmp_path: Path) -> None:
    world = good_world()
    world.remove(11)
    world.change(12, state="lost")
    windows = {"join": (T - 1000, T + 900), "kill": (T + 1100, T + 5000)}
    result = Result(verdict=world.judge(), windows=windows, steps=[], problems=[], late=[], folder=tmp_path)
    assert not result.ok
    assert (result.during("join"), result.during("kill")) == ({"missing": 1}, {"lost": 1})
    assert result.facts()["windows"]["join"]["findings"] == {"missing": 1}


@pytest.mark.parametrize(("late_ms", "problems"), [(999, 0), (1000, 1)])
def test_fires_of_a_movement_may_be_so_late_and_no_later(late_ms: int, problems: int) -> None:
    world = good_world()
    world.executions = [replace(item, at_ms=item.planned_ms + late_ms) for item in world.executions]
    verdict = world.judge()
    assert len(too_late(verdict, {"join": (T - 1000, T + 5000)})) == problems
    assert too_late(verdict, {"kill": (T - 1000, T + 5000), "database": (T, T + 5000)}) == []


def test_a_movement_without_a_fire_proves_nothing_about_lateness() -> None:
    world = good_world()
    assert len(too_late(world.judge(), {"join": (T + 50_000, T + 60_000)})) == 1


def test_a_node_may_refuse_to_start_on_a_database_that_refuses_writes_and_never_else() -> None:
    statuses = {"a": 0, "b": 1, "c": 6, "executor0": 6}
    scripts = [draw(seed, "postgresql", 8) for seed in range(40)]
    refused = [item for item in scripts if {"database", "disk"} & {fault.kind for fault in item.faults}]
    others = [item for item in scripts if item not in refused]
    assert refused
    assert others
    assert {tuple(badly_ended(statuses, item)) for item in refused} == {
        ("b ended with status 1", "executor0 ended with status 6")
    }
    assert {len(badly_ended(statuses, item)) for item in others} == {3}
