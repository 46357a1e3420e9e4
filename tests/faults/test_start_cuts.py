"""A node starts although its database dies at any statement of the start, before it or in place of its answer."""

from __future__ import annotations

import contextlib
import gc
import hmac
import os
import re
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event
from xwheel_accounts.passwords import verify_password
from xwheel_accounts.storage import accounts

from tests.faults.injectors.database import plain_user, refusing_writes
from tests.faults.injectors.proxy import COMMIT, Cut, Proxy, before
from tests.support.databases import empty, server_database
from xwheel.config import Config, build_config
from xwheel.errors import DatabaseReadOnlyError, DatabaseUnreachableError, StartEndedError
from xwheel.node.first_secrets import UNKNOWN
from xwheel.node.node import Node
from xwheel.scheduler.cluster.node_locks import NodeLocks
from xwheel.scheduler.executors.secrets import EXECUTOR_TOKEN
from xwheel.storage import settings
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import CommitUnknownError, Database
from xwheel.storage.database.startup import DatabaseStart

SECRETS = ("executor token", "management token", "password of the account admin")
PROBES = b"WHERE 1 = 0"
"""In what a start asks of each table of MariaDB, many times over."""

FEW = 4
"""At how many of its statements a start of its own is cut, of each kind."""

TRIES = 3
"""How often it is cut there at most until the start notices: a loop next to it may ask the same first."""

WORDS = re.compile(rb"(?:SELECT|INSERT|UPDATE|DELETE|SHOW|SET|COMMIT)\b[^\x00]*")
VALUES = re.compile(rb"'[^']*'|\d+")
FIRST_VALUE = re.compile(rb"[%$'\d]")


class Site:
    """A database behind a proxy, on which nodes are started one after the other.

    Attributes:
        asked: What the start asked the database by now.
        died: What it asked when the database died.
    """

    def __init__(self, db: Database, url: str, proxy: Proxy, folder: Path) -> None:
        self.db, self.proxy = db, proxy
        self.asked: list[bytes] = []
        self.died: list[bytes] = []
        self.url = url
        self._plan: Plan | None = None
        self.config = _config(url, folder)

    def start(self, *, is_first: bool, plan: Plan | None = None) -> None:
        """Start a node and stop it; the database dies as planned, and is back at each pause."""
        if is_first:
            empty(self.db)
        said: list[str] = []
        threads = set(threading.enumerate())
        self.asked, self.died, self._plan = [], [], plan
        with self._telling(plan), pytest.MonkeyPatch.context() as patch:
            patch.setattr(DatabaseStart, "run", self._noting(DatabaseStart.run))
            patch.setattr(DatabaseStart, "_check", self._noting_check(DatabaseStart._check))
            node = Node(self.config, said.append, pause=self._pause)
            node.start()
        try:
            report = node.health()
            assert report.holds_leases
            assert not report.stale_loops
            self._check(said, is_first=is_first)
        finally:
            assert node.stop()
        assert not {item.name for item in set(threading.enumerate()) - threads}

    @contextlib.contextmanager
    def _telling(self, plan: Plan | None) -> Iterator[None]:
        """Tell the plan what is asked."""

        def tell(_conn: object, _cursor: object, text: str, *_: object) -> None:
            if plan is not None:
                plan.asks(text, self.proxy)

        event.listen(Engine, "before_cursor_execute", tell)
        try:
            yield
        finally:
            event.remove(Engine, "before_cursor_execute", tell)

    def _noting(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """Return what does a part of the start; loops that run after it are not its own."""

        def noting(start: DatabaseStart, part: Callable[[], Any]) -> Any:
            self.proxy.said = self.asked
            if self._plan is not None:
                self._plan.begin(self.proxy)
            try:
                return run(start, part)
            finally:
                self.proxy.said = None
                self.proxy.restore()

        return noting

    def _noting_check(self, check: Callable[..., Any]) -> Callable[..., Any]:
        def noting(start: DatabaseStart) -> None:
            check(start)
            if self._plan is not None:
                self._plan.checked(self.proxy)

        return noting

    def _pause(self, seconds: float) -> None:
        del seconds
        self.died.append(self.asked[-1])
        self.proxy.restore()
        if self._plan is not None:
            self._plan.again(self.proxy)

    def _check(self, said: Sequence[str], *, is_first: bool) -> None:
        """Make sure that what was shown is what is stored: each secret of a first start once, and none later."""
        shown = [line.partition(" (shown once): ") for line in said if not line.startswith("console (")]
        assert [words for words, _, _ in shown] == (list(SECRETS) if is_first else [])
        with self.db.read() as conn:
            kept = settings.find_setting(conn, EXECUTOR_TOKEN)
            known, account = tokens.list_tokens(conn), accounts.find_account(conn, "admin")
        assert len(known) == 1
        assert account is not None
        if is_first:
            executor_token, management_token, password = (secret for _, _, secret in shown)
            assert kept == executor_token
            assert hmac.compare_digest(known[0].digest, tokens.digest_token(management_token))
            assert account.password is not None
            assert verify_password(account.password, password)


class Plan:
    """When the database dies during a start."""

    def asks(self, text: str, proxy: Proxy) -> None:
        """A thread is about to ask something."""

    def begin(self, proxy: Proxy) -> None:
        """A part of the start begins."""

    def checked(self, proxy: Proxy) -> None:
        """The server has been looked at again; the part follows."""

    def again(self, proxy: Proxy) -> None:
        """The database is back."""


class Once(Plan):
    """It dies at one of the statements that the start's own thread asks, counted from its beginning.

    Attributes:
        asked: How these begin, in their order.
    """

    def __init__(self, where: Cut = Cut.BEFORE, number: int = 0) -> None:
        self._where, self._number = where, number
        self._thread = threading.get_ident()
        self.asked: list[bytes] = []

    def asks(self, text: str, proxy: Proxy) -> None:
        """A thread is about to ask something; what the loops of the node ask is no part of its start."""
        words = head(text.encode())
        if threading.get_ident() != self._thread or proxy.said is None or not words:
            return
        self.asked.append(words)
        if len(self.asked) == self._number:
            proxy.cut_next(self._where, lambda said: head(said) == words, stays=True)


class Everywhere(Plan):
    """It dies at every statement of every part, so often; what is asked of each table counts for one table alone.

    Attributes:
        died_at: The statements at which it died.
    """

    def __init__(self, where: Cut, times: int) -> None:
        self._where, self._times = where, times
        self.died_at: set[bytes] = set()
        self._part = 0
        self._asked: Counter[bytes] = Counter()
        self._died: Counter[tuple[int, bytes, int]] = Counter()

    def begin(self, proxy: Proxy) -> None:
        """Another part begins: what it asks counts, and that the server is looked at again counts no more."""
        self._part += 1
        self._arm(proxy)

    def again(self, proxy: Proxy) -> None:
        """Count from here."""
        if self._part == 1:
            self._arm(proxy)

    def checked(self, proxy: Proxy) -> None:
        """Count from here."""
        if self._part > 1:
            self._arm(proxy)

    def _arm(self, proxy: Proxy) -> None:
        self._asked.clear()
        proxy.cut_next(self._where, self._is_due, stays=True)

    def _is_due(self, said: bytes) -> bool:
        """Return whether the database dies here; asked by the proxy, about each request."""
        if PROBES in said and b"`account`" not in said:
            return False
        words = statement(said)
        self._asked[words] += 1
        key = self._part, words, self._asked[words]
        is_due = self._died[key] < self._times
        if is_due:
            self._died[key] += 1
            self.died_at.add(words)
        return is_due


def _config(url: str, folder: Path, wait_s: int = 3600) -> Config:
    """Return the settings of a node; only a test about the bound of its start waits less than an hour."""
    return build_config(
        {
            "database": {"url": url, "pool_size": 2, "wait_s": wait_s},
            "api": {"port": 0, "executor_port": 0, "threads": 1, "executor_threads": 1},
            "schedule": {"lock_dir": str(folder)},
        }
    )


@pytest.fixture(scope="module", params=["mariadb", "postgresql"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        server_database(request.param) as real,
        before(real) as (url, proxy),
        contextlib.closing(Database(real, pool_size=1)) as db,
    ):
        made = Site(db, url, proxy, tmp_path_factory.mktemp("locks"))
        made.start(is_first=True)  # tests of later starts stand by themselves
        yield made


def statement(said: bytes) -> bytes:
    """Return which statement a request is, whatever its values are."""
    match = WORDS.search(said)
    return VALUES.sub(b"?", match[0]) if match else b"login or ping"


def head(said: bytes) -> bytes:
    """Return how a statement begins, up to its first value."""
    match = WORDS.search(said)
    return FIRST_VALUE.split(match[0])[0][:60] if match else b""


def statements(asked: Iterable[bytes]) -> set[bytes]:
    """Return which statements are among requests, but for what is asked of each table."""
    return {statement(said) for said in asked if PROBES not in said}


def spread(numbers: Sequence[int], count: int) -> list[int]:
    """Return this many of some numbers, evenly spread, the first and the last among them."""
    step = max(1.0, (len(numbers) - 1) / (count - 1))
    return sorted({numbers[min(len(numbers) - 1, round(place * step))] for place in range(count)})


@pytest.mark.long
@pytest.mark.nightly_on("postgresql")
@pytest.mark.parametrize("where", Cut, ids=lambda where: where.value)
@pytest.mark.parametrize(
    ("is_first", "times"),
    [pytest.param(True, 2, id="first-twice", marks=pytest.mark.nightly), pytest.param(False, 1, id="later")],
)
def test_a_start_outlives_a_database_that_dies_at_every_statement(
    site: Site, is_first: bool, times: int, where: Cut
) -> None:
    whole = Once()
    site.start(is_first=is_first, plan=whole)
    own = {b"COMMIT", *whole.asked}
    every = statements(said for said in site.asked if head(said) in own)
    plan = Everywhere(where, times)
    site.start(is_first=is_first, plan=plan)
    assert site.died
    missed = every - plan.died_at
    assert not missed


@pytest.mark.long
@pytest.mark.nightly_on("mariadb")
@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_a_start_outlives_the_end_of_its_database_at_any_one_statement(site: Site, is_first: bool) -> None:
    whole = Once()
    site.start(is_first=is_first, plan=whole)
    for chosen in spread(range(1, len(whole.asked) + 1), FEW):
        for where in Cut:
            number = chosen
            for _ in range(TRIES):
                plan = Once(where, number)
                site.start(is_first=is_first, plan=plan)
                if site.died:
                    break
                # what a loop has read by then is not asked again, so this start may have asked less
                number = min(number, len(plan.asked))
            assert len(site.died) == 1, (where, plan.asked[number - 1 :])


def commit_of(table: str) -> Callable[[bytes], bool]:
    """Return what knows the COMMIT after a row was written to a table."""
    inserts: list[bytes] = []

    def is_it(said: bytes) -> bool:
        inserts.extend([said] if b"INSERT INTO %b " % table.encode() in said else [])
        return bool(inserts) and COMMIT.search(said) is not None

    return is_it


@pytest.mark.parametrize("table", ["setting", "api_token", "account"])
def test_a_secret_whose_commit_was_not_answered_is_shown_if_the_start_ends(
    site: Site, tmp_path: Path, table: str
) -> None:
    empty(site.db)
    said: list[str] = []
    site.proxy.cut_next(Cut.AFTER, commit_of(table), stays=True)
    threads = set(threading.enumerate())
    with pytest.raises(CommitUnknownError):
        Node(_config(site.url, tmp_path, wait_s=0), said.append)
    site.proxy.restore()
    assert not set(threading.enumerate()) - threads
    secret = said[-1].partition(f" ({UNKNOWN}): ")[2]
    later: list[str] = []
    Node(site.config, later.append).close()
    # what was stored has been shown, and is not made again
    assert [line.partition(" (")[0] for line in [*said, *later]] == list(SECRETS)
    with site.db.read() as conn:
        account = accounts.find_account(conn, "admin")
        assert account is not None
        match table:
            case "setting":
                assert settings.find_setting(conn, EXECUTOR_TOKEN) == secret
            case "api_token":
                assert tokens.list_tokens(conn)[0].digest == tokens.digest_token(secret)
            case _:
                assert verify_password(account.password, secret)


def test_a_secret_whose_commit_never_came_is_made_by_the_next_start(site: Site, tmp_path: Path) -> None:
    empty(site.db)
    said: list[str] = []
    site.proxy.cut_next(Cut.BEFORE, commit_of("setting"), stays=True)
    with pytest.raises(CommitUnknownError):
        Node(_config(site.url, tmp_path, wait_s=0), said.append)
    site.proxy.restore()
    assert len(said) == 1
    assert UNKNOWN in said[0]
    later: list[str] = []
    Node(site.config, later.append).close()
    assert [line.partition(" (shown once): ")[0] for line in later] == list(SECRETS)


def test_two_nodes_that_start_at_once_show_each_secret_once(site: Site) -> None:
    for _ in range(3):
        empty(site.db)
        said: list[str] = []
        with ThreadPoolExecutor(2) as pool:
            made = [pool.submit(Node, site.config, said.append) for _ in range(2)]
        executor_tokens = set()
        for node in (item.result() for item in made):
            executor_tokens.add(node.scheduler.core.secrets.value(None))
            node.close()
        assert sorted(line.partition(" (shown once): ")[0] for line in said) == sorted(SECRETS)
        assert len(executor_tokens) == 1


@pytest.mark.parametrize("is_made", [False, True], ids=["at once", "made"])
def test_a_start_waits_for_a_server_that_is_read_only(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_made: bool
) -> None:
    site.start(is_first=True)
    real = site.db.engine.url.render_as_string(hide_password=False)
    fault = refusing_writes(real)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            fault.end()

    config = _config(plain_user(real), tmp_path)
    try:
        if not is_made:
            fault.begin()
        node = Node(config, pytest.fail, pause=pause)
        if is_made:
            fault.begin()
        node.start()
    finally:
        fault.end()
    assert node.health().holds_leases
    assert node.stop()
    assert pauses == [0.5, 1.0]
    tries = [item.getMessage() for item in caplog.records if "another try in" in item.getMessage()]
    assert len(tries) == 2
    assert all("read-only" in line for line in tries)


def test_a_server_that_stays_read_only_ends_the_start(site: Site, tmp_path: Path) -> None:
    real = site.db.engine.url.render_as_string(hide_password=False)
    with refusing_writes(real), pytest.raises(DatabaseReadOnlyError, match="read-only"):
        Node(_config(plain_user(real), tmp_path, wait_s=0), pytest.fail)


def test_a_database_that_stays_away_ends_the_start_and_leaves_nothing(site: Site, tmp_path: Path) -> None:
    site.start(is_first=True)
    threads, open_files = set(threading.enumerate()), _open_files()
    node = Node(_config(site.url, tmp_path, wait_s=1), pytest.fail, pause=lambda _: None)
    # when the lease is taken, and its lock is kept
    site.proxy.cut_next(Cut.AFTER, re.compile(rb"partition_lease"), stays=True)
    words = r"the start has waited 1 s for it \(database\.wait_s\)"
    with pytest.raises(DatabaseUnreachableError, match=words):
        node.start()
    site.proxy.restore()
    assert not set(threading.enumerate()) - threads
    assert _open_files() <= open_files
    (lock,) = tmp_path.glob("*.lock")
    assert NodeLocks(tmp_path).has_ended(lock.stem)
    node.close()  # once more, as those do that made it


def _open_files() -> int:
    """Return how many files and sockets this process has open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count


def test_a_process_that_is_to_end_waits_no_longer(site: Site, tmp_path: Path) -> None:
    site.start(is_first=True)
    node = Node(site.config, pytest.fail, pause=lambda _: True)
    site.proxy.cut()
    with pytest.raises(StartEndedError):
        node.start()
    with pytest.raises(StartEndedError):
        Node(site.config, pytest.fail, pause=lambda _: True)
    site.proxy.restore()


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "later"])
def test_a_start_waits_for_a_file_that_another_process_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """Whenever it is to write: within its transactions it has the lock itself, and a writer keeps none out."""
    monkeypatch.setattr("xwheel.storage.database.engine.BUSY_TIMEOUT_S", 0)
    monkeypatch.setattr("xwheel.storage.database.engine.time.sleep", lambda _: None)
    path = tmp_path / "xwheel.db"
    config = _config(f"sqlite:///{path}", tmp_path)
    if not is_first:
        node = Node(config, lambda _: None)
        node.start()
        assert node.stop()
    writer = sqlite3.connect(path, isolation_level=None, timeout=0)
    writer.execute("PRAGMA journal_mode = WAL")
    said: list[str] = []
    parts: list[object] = []
    began: list[str] = []
    locked: set[tuple[int, int]] = set()
    run = DatabaseStart.run

    def noting(start: DatabaseStart, part: Callable[[], Any]) -> Any:
        parts.append(part)
        began.clear()
        try:
            return run(start, part)
        finally:
            parts.append(None)

    def lock(_conn: object, _cursor: object, words: str, *_: object) -> None:
        if words != "BEGIN IMMEDIATE" or not parts or parts[-1] is None or writer.in_transaction:
            return
        began.append(words)
        if (key := (len(parts), len(began))) not in locked:
            locked.add(key)
            writer.execute("BEGIN IMMEDIATE")

    def pause(_: float) -> None:
        began.clear()
        writer.rollback()

    monkeypatch.setattr(DatabaseStart, "run", noting)
    event.listen(Engine, "before_cursor_execute", lock)
    try:
        node = Node(config, said.append, pause=pause)
        node.start()
        assert node.health().holds_leases
        assert node.stop()
    finally:
        event.remove(Engine, "before_cursor_execute", lock)
        writer.close()
    # the check, the key of the cluster and the lease at least
    assert len(locked) >= (6 if is_first else 3), locked
    shown = [line.partition(" (shown once): ")[0] for line in said if not line.startswith("console (")]
    assert shown == (list(SECRETS) if is_first else [])
