"""The demonstration on the database that ``--backend`` names."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.test_quickstart import start
from xwheel.storage.engine import Database


def test_every_fire_runs_exactly_once(db: Database, tmp_path: Path) -> None:
    url = db.engine.url.render_as_string(hide_password=False)
    db.close()
    process = start(tmp_path / "data", "--seconds", "8", "--json", "--database", url)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    summary = json.loads(output.splitlines()[-1])
    assert summary["expected"] == summary["rows"] == summary["executions"] > 10
