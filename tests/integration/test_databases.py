"""The demonstration on the database that ``--backend`` names."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from xwheel_devtools.quickstart.run import EXECUTIONS_FILE

from tests.integration.test_quickstart import child_of, has_lines, start, wait_for


@pytest.mark.parametrize("kills", [0, pytest.param(1, marks=[pytest.mark.long, pytest.mark.nightly])])
def test_every_fire_runs_exactly_once(new_database: Callable[[], str], tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "data"
    process = start(folder, "--seconds", "6", "--json", "--database", new_database())
    try:
        for _ in range(kills):
            wait_for(process, lambda: has_lines(folder / EXECUTIONS_FILE, 4))
            os.kill(wait_for(process, lambda: child_of(process.pid, "server")), signal.SIGKILL)
        output, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    summary = json.loads(output.splitlines()[-1])
    assert summary["expected"] == summary["rows"] == summary["executions"] > 8
    assert summary["restarts"] == {"node": kills, "executor": 0}
