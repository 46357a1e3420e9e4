"""Databases: files, and real servers of the repository's own tests."""

from __future__ import annotations

import itertools
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from sqlalchemy import create_engine, text
from xwheel import Config
from xwheel_run_logs import LogKey, LogStore

from xwheel_log_sql import xwheel_register_log_stores
from xwheel_log_sql.options import Options
from xwheel_log_sql.store import SqlLogs

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.support import servers

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None)
settings.load_profile("xwheel")

BACKENDS = {"mariadb": (servers.mariadb, "mysql"), "postgresql": (servers.postgresql, "postgres")}

Make = Callable[..., SqlLogs]


def register(config: Config | None = None, **options: Any) -> SqlLogs:
    (store,) = xwheel_register_log_stores(config or Config(), Options(**options))
    assert isinstance(store, SqlLogs)
    return store


def read_log(store: LogStore, key: LogKey, from_line: int = 1, max_bytes: int = 65_536) -> str:
    """Return a whole log from a line on, read piece by piece."""
    found = []
    while text := store.read(key, from_line, max_bytes):
        found.append(text)
        from_line += text.count("\n")
    return "".join(found)


class Server:
    """A database server with empty databases."""

    def __init__(self, base: str, admin: str) -> None:
        self._base, self._numbers = base, itertools.count()
        self._admin = create_engine(base + admin, isolation_level="AUTOCOMMIT")
        self.port = self._admin.url.port or 0

    def new_url(self) -> str:
        name = f"logs_{next(self._numbers)}"
        with self._admin.connect() as conn:
            conn.execute(text(f"CREATE DATABASE {name}"))
        return self._base + name

    def administer(self, statement: str) -> None:
        with self._admin.connect() as conn:
            conn.execute(text(statement))

    def waits_for_a_lock(self) -> bool:
        """Return whether a transaction waits for a lock that another one holds."""
        question = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            if self._admin.dialect.name == "postgresql"
            # not innodb_trx, which stays as it is while it is asked more often than ten times a second
            else "SELECT variable_value FROM information_schema.global_status"
            " WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS'"
        )
        with self._admin.connect() as conn:
            return int(conn.execute(text(question)).scalar_one()) > 0

    def close(self) -> None:
        self._admin.dispose()


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[str], Server]]:
    known: dict[str, Server] = {}
    with ExitStack() as running:

        def get(backend: str) -> Server:
            if backend not in known:
                if not servers.is_installed(backend) and not os.environ.get("REQUIRE_SERVERS"):
                    pytest.skip(f"no {backend} here")
                run, admin = BACKENDS[backend]
                known[backend] = Server(running.enter_context(run()), admin)
                running.callback(known[backend].close)
            return known[backend]

        yield get


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, server_of: Callable[[str], Server]) -> str:
    """Return the URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/logs.db"
    return server_of(request.param).new_url()


@pytest.fixture(params=["mariadb", "postgresql"])
def server(request: pytest.FixtureRequest, server_of: Callable[[str], Server]) -> Server:
    return server_of(request.param)


@pytest.fixture
def make() -> Iterator[Make]:
    """Make stores that are closed when the test ends."""
    made: list[SqlLogs] = []

    def begin(url: str, **options: Any) -> SqlLogs:
        made.append(register(url=url, **options))
        return made[-1]

    yield begin
    for store in made:
        store.close()


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
