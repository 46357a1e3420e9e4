"""The demonstration on the database that ``--backend`` names."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.test_quickstart import kill_node, start


@pytest.mark.parametrize("kills", [0, pytest.param(1, marks=[pytest.mark.long, pytest.mark.nightly])])
def test_every_fire_runs_exactly_once(new_database: Callable[[], str], tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "data"
    process = start(folder, "--seconds", "6", "--json", "--database", new_database())
    try:
        for _ in range(kills):
            kill_node(process, folder, 4)
        output, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    summary = json.loads(output.splitlines()[-1])
    assert summary["expected"] == summary["rows"] == summary["executions"] > 8
    assert summary["restarts"] == {"node": kills, "executor": 0}
