"""Events in a process that only serves the management API: there no loop reads, so who asks does."""

from __future__ import annotations

import pytest

from tests.component.api.test_wsgi import call, config, db
from tests.support.rows import make_run
from xwheel.api.wsgi import READ_MS, ManagementApp
from xwheel.clock import wall_ms
from xwheel.config import Config
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

__all__ = ["config", "db"]


def test_who_asks_for_events_reads_what_changed_once_a_second(
    config: Config, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ManagementApp(config)
    clock = app._process._shared.clock
    first = call(app, "/api/v1/events").json
    assert first["reset"] is True
    db.transaction(lambda conn: runs.insert_runs(conn, [make_run(5, due_ms=wall_ms() + 60_000)]))
    path = f"/api/v1/events?after={first['next']}"
    assert call(app, path).json["items"] == []
    began_ms = clock.monotonic_ms()
    monkeypatch.setattr(clock, "monotonic_ms", lambda: began_ms + READ_MS, raising=False)
    found = call(app, path).json
    assert (found["reset"], [item["id"] for item in found["items"]]) == (False, [5])
    assert call(app, "/api/v1/nodes").json["items"] == []
