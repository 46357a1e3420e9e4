"""Nodes come and go, and their database too, while jobs of every schedule type fire with default settings.

What was due is counted apart and compared with run rows and executions; see :mod:`tests.faults.checker`.
How late a fire may be is judged by hand, by ``python -m tests.faults.checker``: a test machine may be slow.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.checker.cluster import databases
from tests.faults.checker.movements import Result, run
from tests.faults.checker.verdict import Finding, Kind
from tests.support.databases import CleanDatabases

MOVEMENTS = ("leave", "join", "rolling", "database", "kill", "restart")
"""Each begins with the nodes with which the one before ends."""

LONGER_THAN_A_LEASE_S = 12


def broken(result: Result) -> list[Finding]:
    """Return what no machine excuses, however slow it is."""
    return [item for item in result.verdict.findings if item.kind is not Kind.OVERDUE]


def told(result: Result) -> str:
    """Return what went wrong during which movement."""
    during = {name: dict(result.during(name)) for name in result.windows}
    first = [item.text for item in result.verdict.findings[:5]]
    return f"{during}, {result.problems}, in {result.folder}: {first}"


@pytest.mark.long
def test_each_due_fire_runs_once_whatever_becomes_of_nodes_and_database(
    breakable: CleanDatabases, tmp_path: Path
) -> None:
    """R1, R18: a join, a leave, a takeover, a restart and an outage skip nothing and do nothing twice."""
    result = run(breakable.url(0), tmp_path, MOVEMENTS, rate=60, before_s=2, away_s=LONGER_THAN_A_LEASE_S)
    assert not broken(result), told(result)
    assert not result.problems, told(result)
    assert set(result.windows) == set(MOVEMENTS)
    assert result.verdict.executed == result.verdict.due > 1000


@pytest.mark.long
def test_the_only_node_on_sqlite_is_killed_and_comes_back(tmp_path: Path) -> None:
    """R18: nothing is skipped when the only node dies and is started again."""
    with databases("sqlite", tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["restart"], rate=100, before_s=2)
    assert not broken(result), told(result)
    assert not result.problems, told(result)
    assert result.verdict.executed == result.verdict.due > 500
