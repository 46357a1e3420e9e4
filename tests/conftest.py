"""What every test may ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support.databases import BACKENDS, empty, mend, server_database
from xwheel.storage import migrate
from xwheel.storage.engine import Database

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None, print_blob=True)
settings.load_profile("xwheel")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend", choices=["sqlite", *BACKENDS], default="sqlite", help="the database that tests work on"
    )


@pytest.fixture(autouse=True)
def _no_env_leak() -> Iterator[None]:
    """Fail a test that leaves the environment changed."""
    before = {name: value for name, value in os.environ.items() if name.startswith("XWHEEL_")}
    yield
    after = {name: value for name, value in os.environ.items() if name.startswith("XWHEEL_")}
    assert after == before


@pytest.fixture(scope="session")
def _schema_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database at this version's schema; copying it is faster than migrating."""
    path = tmp_path_factory.mktemp("schema") / "template.db"
    db = Database(f"sqlite:///{path}")
    migrate.upgrade(db)
    with db.read() as conn:
        conn.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path


@pytest.fixture(scope="session")
def _server_url(pytestconfig: pytest.Config) -> Iterator[str | None]:
    """The database on the server that ``--backend`` names; each worker process has a server of its own."""
    backend = pytestconfig.getoption("backend")
    if backend == "sqlite":
        yield None
        return
    with server_database(backend) as url:
        yield url


@pytest.fixture
def sqlite_db(tmp_path: Path, _schema_template: Path) -> Iterator[Database]:
    """An empty SQLite database at this version's schema, whatever ``--backend`` names."""
    path = tmp_path / "xwheel.db"
    path.write_bytes(_schema_template.read_bytes())
    database = Database(f"sqlite:///{path}")
    yield database
    database.close()


@pytest.fixture
def db(request: pytest.FixtureRequest, _server_url: str | None) -> Iterator[Database]:
    """An empty database at this version's schema, on what ``--backend`` names."""
    if _server_url is None:
        yield request.getfixturevalue("sqlite_db")
        return
    database = Database(_server_url)
    mend(database)
    empty(database)
    yield database
    database.close()
