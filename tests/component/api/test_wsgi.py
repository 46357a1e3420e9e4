"""The management API without a node: what it reads, what it opens after a fork, and what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import falcon.testing
import pytest
from sqlalchemy import QueuePool

from tests.support.databases import installed_tables
from tests.support.rows import make_executor, make_run
from xwheel.api.wsgi import READ_MS, ManagementApp
from xwheel.clock import wall_ms
from xwheel.config import Config, build_config
from xwheel.errors import ConfigError, SchemaError
from xwheel.storage import executors, leases, runs, settings
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.storage.database.startup import upgrade
from xwheel.storage.schema import migrate

TOKEN = "a-management-token-for-tests"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return build_config({"database": {"url": f"sqlite:///{tmp_path / 'xwheel.db'}"}})


@pytest.fixture
def db(config: Config) -> Iterator[Database]:
    """A database on which a node has started once."""
    upgrade(config.database.url, installed_tables())
    made = Database(config.database.url)
    made.transaction(lambda conn: settings.insert_setting(conn, "executor_token", "k3yF0rTheExecut0rs-7hEy"))
    made.transaction(lambda conn: tokens.insert_token(conn, "tests", TOKEN, 1))
    yield made
    made.close()


def call(app: ManagementApp, path: str, token: str = TOKEN, method: str = "GET") -> falcon.testing.Result:
    client = falcon.testing.TestClient(app)  # type: ignore[arg-type] -- any WSGI application will do
    return client.simulate_request(method, path, headers={"Authorization": f"Bearer {token}"})


def test_it_says_what_it_is(config: Config, db: Database) -> None:
    app = ManagementApp(config)
    assert call(app, "/healthz", "").json == {"status": "ok", "role": "management"}
    assert call(app, "/readyz", "").json == {"status": "ok", "role": "management"}
    health = call(app, "/api/v1/health").json
    assert (health["status"], health["role"], health["loops"]) == ("ok", "management", [])
    assert call(app, "/api/v1/jobs", "another token").status_code == 401


def test_it_takes_no_lease_and_writes_nothing_at_its_start(config: Config, db: Database) -> None:
    ManagementApp(config)
    with db.read() as conn:
        assert leases.list_nodes(conn) == []
        assert {row.owner for row in leases.list_leases(conn)} <= {None}


def test_what_others_change_counts_after_a_second(
    config: Config, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ManagementApp(config)
    clock = app._process._shared.clock
    db.transaction(lambda conn: executors.insert_group(conn, app_name="demo", title="", now_ms=1))
    db.transaction(lambda conn: executors.save_executor(conn, make_executor(seen_ms=wall_ms())))
    began_ms = clock.monotonic_ms()
    monkeypatch.setattr(clock, "monotonic_ms", lambda: began_ms + READ_MS, raising=False)
    (item,) = call(app, "/api/v1/executors").json["items"]
    assert item["address"] == make_executor().address
    # one whose beats no one wrote for two minutes is gone, however seldom this process looks
    db.transaction(lambda conn: executors.update_beats(conn, [(item["id"], wall_ms() - 120_000)]))
    monkeypatch.setattr(clock, "monotonic_ms", lambda: began_ms + 2 * READ_MS, raising=False)
    assert call(app, "/api/v1/executors").json["items"] == []


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


def test_before_a_fork_no_connection_is_open_and_after_it_none_is_shared(
    config: Config, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ManagementApp(config)
    before = app._process
    assert _pooled(before.db) == 0
    assert call(app, "/api/v1/jobs").status_code == 200
    assert app._process is before
    used = before.db.engine.pool
    monkeypatch.setattr(os, "getpid", lambda: before.pid + 1)
    assert call(app, "/api/v1/jobs").status_code == 200
    assert app._process is not before
    assert app._process.db is not before.db
    assert app._process._shared.plugins is not before._shared.plugins
    # the parent's connections are left as they are: neither used nor closed
    assert before.db.engine.pool is used
    assert _pooled(before.db) > 0


def _pooled(db: Database) -> int:
    pool = db.engine.pool
    assert isinstance(pool, QueuePool)
    return pool.checkedin() + pool.checkedout()


def test_a_process_that_cannot_open_the_database_says_so(
    config: Config, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = ManagementApp(config)
    monkeypatch.setattr(os, "getpid", lambda: app._process.pid + 1)

    def fail(*_: Any) -> None:
        raise SchemaError("the schema is newer")

    monkeypatch.setattr(migrate, "check_schema", fail)
    answer = call(app, "/api/v1/jobs")
    assert answer.status_code == 503
    assert answer.json["detail"] == "the schema is newer"
    monkeypatch.undo()
    assert call(app, "/api/v1/jobs").status_code == 200


def test_it_makes_no_token(config: Config) -> None:
    upgrade(config.database.url, installed_tables())
    with pytest.raises(ConfigError, match="no node has started on this database yet"):
        ManagementApp(config)
