"""What every test may ask for."""

from __future__ import annotations

import gc
import logging
import os
import re
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from sqlalchemy import Engine, event

from tests.interop import report as interop_report
from tests.support.databases import BACKENDS, CleanDatabases, upgrade
from xwheel.storage.database.engine import Database

# what is made while tests are collected stays until the end: looking for garbage in it takes a third of the time of the
# collection and a tenth of that of the tests
gc.disable()

HERE = Path(__file__).parent
SEEN = pytest.StashKey[Counter[str]]()
"""How many tests of a function were collected."""
WAITING = {"integration", "interop", "faults"}

# examples may be slow on a busy machine; how long they take is no claim of any test
settings.register_profile("xwheel", deadline=None, print_blob=True, max_examples=50)
settings.register_profile("nightly", deadline=None, print_blob=True, max_examples=1000)
# for tests that only have to notice: a smaller example of a mistake made on purpose takes minutes, and nobody reads it
settings.register_profile("mutants", deadline=None, max_examples=50, phases=(Phase.explicit, Phase.generate))
settings.load_profile(os.environ.get("EXAMPLES", "xwheel"))


@event.listens_for(Engine, "connect")
def _give_rows_in_no_order(connection: Any, _record: object) -> None:
    """Let SQLite reverse rows that no ORDER BY puts in order: servers give them in any."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA reverse_unordered_selects = ON").close()


def pytest_configure(config: pytest.Config) -> None:
    # under nohup it is ignored, and what we start would inherit that
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # xdist's controller loads no conftest further down, and it is the one that prints
    config.pluginmanager.register(interop_report, "interop-report")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--backend",
        choices=["sqlite", *BACKENDS],
        default="sqlite",
        help="the database that tests work on; on a server, only the tests that ask for a database run",
    )


@cache
def _has_long_tests(path: Path) -> bool:
    return re.search(r"mark\.(long|nightly|servers_get)\b", path.read_text("utf-8")) is not None


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file without long tests where only those are asked for: all files take each process ten seconds."""
    only_long = config.option.markexpr.startswith(("long", "nightly"))
    return True if only_long and collection_path.is_file() and not _has_long_tests(collection_path) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """What runs at night is long, too: what leaves out the long tests leaves it out."""
    for marker in item.iter_markers("nightly_on"):
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if {*map(str, params), item.config.getoption("backend")}.intersection(marker.args):
            item.add_marker("nightly")
    if item.config.getoption("backend") != "sqlite" and (few := item.get_closest_marker("servers_get")) is not None:
        # the others are about what no database sees: more seeds, other answers of an executor
        seen = item.config.stash.setdefault(SEEN, Counter())
        name = item.nodeid.partition("[")[0]
        seen[name] += 1
        if seen[name] > few.args[0]:
            item.add_marker("nightly")
    if item.get_closest_marker("nightly") is not None:
        item.add_marker("long")
    if item.get_closest_marker("long") is not None and not _has_long_tests(item.path):
        raise pytest.UsageError(f"{item.nodeid} is long: its file has to say mark.long or mark.nightly itself")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """Look for garbage in what comes from now on."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Note what each test works on; a server gets the tests that use ``new_database``, directly or not.

    It gets none of those that want no server, by night either.
    """
    backend = config.getoption("backend")
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        needs = "any" if "new_database" in fixtures else "sqlite" if "sqlite_db" in fixtures else "none"
        if needs != "none" and item.path.is_relative_to(HERE / "unit"):
            raise pytest.UsageError(f"{item.nodeid} works on a database: its place is tests/component")
        item.user_properties.append(("database", needs))
    if backend != "sqlite":
        others = [item for item in items if not _is_for_servers(item)]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _is_for_servers(item)]
    items[:] = _dealt(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def _is_for_servers(item: pytest.Item) -> bool:
    few = item.get_closest_marker("servers_get")
    return ("database", "any") in item.user_properties and (few is None or few.args[0] > 0)


def _dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Put the tests in the order in which xdist, which gives each worker a part of equal length, does them soonest.

    Half of the workers begin with those that mostly wait, for processes and servers, the long ones first; the others
    compute meanwhile, and help when they have nothing left. The other tests stay besides those of their module, with
    which they may share a fixture. Of files with long tests, the one that takes longest begins first.
    """
    seconds: Counter[Path] = Counter()
    for item in items:
        if (marker := item.get_closest_marker("long")) is not None:
            seconds[item.path] += marker.args[0] if marker.args else 1
    long_first = sorted(items, key=lambda item: (item.get_closest_marker("long") is None, -seconds[item.path]))
    waiting = [item for item in long_first if item.path.parts[len(HERE.parts)] in WAITING]
    computing = [item for item in long_first if item.path.parts[len(HERE.parts)] not in WAITING]
    long = [item for item in waiting if item.get_closest_marker("long") is not None]
    rest = waiting[len(long) :]
    lanes = max(1, workers // 2)
    ordered: list[pytest.Item] = []
    for number in range(workers):
        share = (len(items) - len(ordered)) // (workers - number)
        part: list[pytest.Item] = []
        if number < lanes:
            part = long[number::lanes] + _cut(rest, len(rest) // (lanes - number))
        ordered += part + _cut(computing, max(0, share - len(part)))
    return ordered


def _cut(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """Take this many from the front."""
    taken = items[:count]
    del items[:count]
    return taken


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many tests ran on which database."""
    tests = {
        (report.nodeid, value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "database"
    }
    ran = Counter(value for _, value in tests)
    backend = config.getoption("backend")
    line = f"{ran['any']} tests ran on {backend}"
    if backend == "sqlite":
        line += f", {ran['sqlite']} that only SQLite can run, {ran['none']} without a database"
    terminalreporter.write_sep("=", line)


@pytest.fixture(autouse=True)
def _log_lines_of_commands_end() -> Iterator[None]:
    """Take away the handler that a command put on the root logger: it writes to a standard error that ends here."""
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)
            root.setLevel(level)


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
    upgrade(db)
    with db.read() as conn:
        conn.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return path


@pytest.fixture(scope="session")
def _server(pytestconfig: pytest.Config) -> Iterator[CleanDatabases | None]:
    """The server that ``--backend`` names; each worker process has one of its own."""
    backend = pytestconfig.getoption("backend")
    if backend == "sqlite":
        yield None
        return
    with BACKENDS[backend]() as base:
        databases = CleanDatabases(base, backend)
        yield databases
        databases.close()


@pytest.fixture
def new_database(_schema_template: Path, _server: CleanDatabases | None) -> Callable[[], str]:
    """Give URLs of empty databases at this version's schema, on what ``--backend`` names; one more at each call.

    The first one has the same URL in each test, and so on.
    """
    given = 0

    def give() -> str:
        nonlocal given
        given += 1
        if _server is not None:
            return _server.url(given - 1)
        return _copy_of(_schema_template, f"database{given}.db")

    return give


@pytest.fixture
def sqlite_db(_schema_template: Path, _opened: dict[str, Database]) -> Iterator[Database]:
    """An empty SQLite database at this version's schema, for what only SQLite does, whatever ``--backend`` names."""
    with _open(_copy_of(_schema_template, "xwheel.db"), _opened) as database:
        yield database


@pytest.fixture
def db(new_database: Callable[[], str], _opened: dict[str, Database]) -> Iterator[Database]:
    """An empty database at this version's schema, on what ``--backend`` names."""
    with _open(new_database(), _opened) as database:
        yield database


@pytest.fixture(scope="session")
def _opened() -> dict[str, Database]:
    """The first database that was opened at each URL."""
    return {}


@contextmanager
def _open(url: str, opened: dict[str, Database]) -> Iterator[Database]:
    """Open a database with the engine of earlier tests: it has compiled most statements already."""
    if url not in opened:
        opened[url] = Database(url)
        if opened[url].backend == "sqlite":
            event.listen(opened[url].engine, "connect", _do_not_sync)
    database = Database(url)
    # a view of the engine: what a test has it listen to is gone with the test
    database.engine = opened[url].engine.execution_options()
    database._deadlines = opened[url]._deadlines
    yield database
    database.close()


def _do_not_sync(connection: sqlite3.Connection, _record: object) -> None:
    """Spare the disk: what tests commit must outlive processes, not the machine."""
    connection.execute("PRAGMA synchronous = OFF").close()


def _copy_of(template: Path, name: str) -> str:
    """Return the URL of a new copy, at a path that may have been used before."""
    path = template.with_name(name)
    for old in path.parent.glob(f"{name}*"):
        old.unlink()  # what an earlier test left open keeps the old files
    path.write_bytes(template.read_bytes())
    return f"sqlite:///{path}"
