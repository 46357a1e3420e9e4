"""A database of several servers: nodes follow its primary, and a node that starts meanwhile waits for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url, text

from tests.faults.soak.cluster import PAIR, databases
from tests.faults.soak.movements import run
from tests.faults.test_movements import check_held, told
from tests.support import servers
from tests.support.between import haproxy, pgbouncer
from tests.support.databases import create_database, installed_tables
from tests.support.executors import wait_until
from tests.support.odd_server import OddServer
from tests.support.pair import Pair
from tests.support.rows import make_job
from xwheel.config import build_config
from xwheel.errors import DatabaseReadOnlyError, DatabaseRefusedError, DatabaseUnreachableError
from xwheel.node.node import Node
from xwheel.storage.database.engine import Database
from xwheel.storage.database.servers import FRESH_S
from xwheel.storage.database.startup import upgrade
from xwheel.storage.run_ids import LOST

NAME = "xwheel_test"
RATE = 100
MISSING = 10**6


@pytest.mark.nightly
def test_a_failover_loses_doubles_and_skips_nothing(tmp_path: Path) -> None:
    """The standby takes over after 5 s."""
    with databases(PAIR, tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["failover"], rate=RATE, before_s=3)
    check_held(result, 10 * RATE)


@pytest.mark.nightly
def test_an_automatic_failover_does_neither(tmp_path: Path) -> None:
    """Patroni finds out, and promotes the standby; needs Debian's etcd-server and patroni."""
    with databases("postgresql-patroni", tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["automatic_failover"], rate=RATE, before_s=3)
    check_held(result, 10 * RATE)
    assert not result.late, told(result)


@pytest.mark.nightly
def test_new_versions_of_both_servers_do_neither(tmp_path: Path) -> None:
    with databases(PAIR, tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["pair_upgrade"], rate=RATE, before_s=3)
    check_held(result, 5 * RATE)


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as found:
        create_database(found.url, "postgresql", NAME)
        upgrade(found.url + NAME, installed_tables())
        yield found


def _settings(url: str, folder: Path) -> dict[str, Any]:
    return {
        "database": {"url": url, "pool_size": 4},
        "api": {"port": 0, "executor_port": 0},
        "schedule": {"lock_dir": str(folder)},
    }


def test_a_start_waits_until_the_standby_takes_over(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = _settings(pair.url + NAME, tmp_path)
    old, new = pair.primary, pair.standby
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            pair.promote()

    pair.lose_primary()
    node = Node(build_config(settings), lambda _: None, pause=pause)
    node.start()
    assert node.stop()
    pair.join()
    assert pauses == [0.5, 1.0]
    tries = [item.getMessage() for item in caplog.records if "another try in" in item.getMessage()]
    assert len(tries) == 2
    for line in tries:
        assert f"127.0.0.1:{old}: Connection refused" in line
        assert f"127.0.0.1:{new}: session is read-only" in line


def test_writers_and_what_keeps_its_connection_follow_the_primary(pair: Pair) -> None:
    port = "SELECT inet_server_port()"
    with closing(Database(pair.url + NAME, pool_size=2)) as db:
        assert list(db.ask(port)) == [pair.primary]
        pair.lose_primary()
        with pytest.raises(DatabaseUnreachableError):
            db.ask(port)
        pair.promote()
        assert list(db.ask(port)) == [pair.primary]
        with db.write() as conn:
            conn.execute(text("INSERT INTO setting (name, value) VALUES ('ours', '')"))
        pair.join()


def test_commits_that_a_failover_lost_are_told(pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """R27: without synchronous replication; the node takes new epochs, and run ids that no other node can have."""
    settings = _settings(pair.url + NAME, tmp_path)
    settings["schedule"] |= {"lease_s": 3, "lease_renew_s": 0.3}
    settings["trigger"] = {"send_timeout_ms": 1000}
    renewals = "SELECT max(renewal) FROM node"
    node = Node(build_config(settings), lambda _: None)
    with closing(Database(pair.url + NAME, pool_size=2)) as db:
        node.start()
        try:
            wait_until(lambda: _asked(db, renewals) > [2])
            core = node.scheduler.core
            core.job_cache.jobs = {MISSING: make_job(id=MISSING)}  # what a lost commit made
            core.sources._known[MISSING, 1] = None  # type: ignore[assignment]
            (before,) = core.run_ids.reserve(1)
            pair.lose_commits()
            at = _asked(db, renewals)[0]
            wait_until(lambda: _asked(db, renewals) > [at + 3])
            pair.fail_over()
            wait_until(lambda: "the database lost commits" in caplog.text)
            wait_until(core.lease.may_act)
            (after,) = core.run_ids.reserve(1)
            assert MISSING not in core.job_cache.jobs
            assert (MISSING, 1) not in core.sources._known
        finally:
            assert node.stop()
            pair.join()
    assert after > before + LOST


def test_a_standby_that_lags_has_all_that_was_committed_once_it_takes_over(pair: Pair) -> None:
    count = "SELECT count(*) FROM setting WHERE name LIKE 'lag %%'"
    behind = f"postgresql+psycopg://xwheel:{servers.PASSWORD}@127.0.0.1:{pair.standby}/{NAME}"
    pair.lag(30)
    with closing(Database(pair.url + NAME, pool_size=1)) as db, closing(Database(behind, pool_size=1)) as late:
        for number in range(20):
            with db.write() as conn:
                conn.execute(text(f"INSERT INTO setting (name, value) VALUES ('lag {number}', '')"))
        with late.read() as conn:
            assert conn.exec_driver_sql(count).scalar_one() < 20
        pair.fail_over()
        wait_until(lambda: _asked(db, count) == [20])
    pair.join()
    pair.lag(0)


def test_a_proxy_before_the_servers_does_as_well(pair: Pair) -> None:
    """HAProxy, which asks which of them is the primary."""
    port = "SELECT inet_server_port()"
    with haproxy(pair) as base, closing(Database(base + NAME, pool_size=2)) as db:
        # until it has asked both, it takes either for the primary
        wait_until(lambda: _asked(db, port) == [pair.primary])
        pair.lose_primary()
        with pytest.raises(DatabaseUnreachableError):
            db.ask(port)
        pair.promote()
        wait_until(lambda: _asked(db, port) == [pair.primary])
        with db.write() as conn:
            conn.execute(text("UPDATE setting SET value = 'x' WHERE name = 'none'"))
        pair.join()


def _asked(db: Database, question: str) -> list[Any]:
    try:
        return list(db.ask(question))
    except DatabaseUnreachableError:
        return []


@pytest.fixture(scope="module")
def single() -> Iterator[str]:
    with servers.postgresql() as base:
        create_database(base, "postgresql", NAME)
        upgrade(base + NAME, installed_tables())
        yield base


def test_a_pooler_that_keeps_sessions_is_no_matter(single: str, tmp_path: Path) -> None:
    with pgbouncer(single, "session", further="default_pool_size = 30") as base:
        node = Node(build_config(_settings(base + NAME, tmp_path)), lambda _: None)
        node.start()
        assert node.stop()


@pytest.mark.parametrize("further", ["", "server_round_robin = 1\nmin_pool_size = 5", "default_pool_size = 1"])
def test_a_pooler_that_shares_connections_is_refused_by_name(single: str, tmp_path: Path, further: str) -> None:
    words = "PgBouncer or another pooler gives the server's connections to other clients .*: set pool_mode to session"
    with pgbouncer(single, "transaction", further=further) as base:
        config = build_config(_settings(base + NAME, tmp_path))
        with pytest.raises(DatabaseRefusedError, match=words):
            Node(config, lambda _: None).start()


def test_a_pooler_without_transactions_is_refused_at_once(single: str, tmp_path: Path) -> None:
    with pgbouncer(single, "statement") as base:
        config = build_config(_settings(base + NAME, tmp_path))
        with pytest.raises(DatabaseRefusedError, match="transaction blocks not allowed in statement pooling mode"):
            Node(config, lambda _: None).start()


# MariaDB's servers are two of their own here: what replicates between them is none of ours


class Two:
    """Two MariaDB servers, each with the tables of a node."""

    def __init__(self, bases: tuple[str, str]) -> None:
        self.servers = [OddServer(base, "mysql") for base in bases]
        self.ports = [make_url(base).port for base in bases]
        places = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        self.url = f"mysql+pymysql://xwheel:{servers.PASSWORD}@{places}/{NAME}"

    def write_to(self, number: int | None) -> None:
        """Let one of them be the primary, or none."""
        for place, server in enumerate(self.servers):
            server.do(f"SET GLOBAL read_only = {int(place != number)}")


@pytest.fixture(scope="module")
def two() -> Iterator[Two]:
    with servers.mariadb() as first, servers.mariadb() as second:
        for base in (first, second):
            create_database(base, "mariadb", NAME)
            OddServer(base, "mysql").do(
                f"CREATE USER plain@'127.0.0.1' IDENTIFIED BY '{servers.PASSWORD}'",
                f"GRANT ALL ON {NAME}.* TO plain@'127.0.0.1'",
            )
            upgrade(base + NAME, installed_tables())
        yield Two((first, second))


def test_mariadb_is_the_server_that_takes_writes(two: Two) -> None:
    port = "SELECT @@port"
    two.write_to(1)
    with closing(Database(two.url.replace("xwheel:", "plain:"), pool_size=2)) as db:
        assert list(db.ask(port)) == [two.ports[1]]
        with db.read() as conn:
            assert conn.execute(text(port)).scalar_one() == two.ports[1]
        two.write_to(0)
        # the old primary answers still, and refuses the first transaction that writes
        with pytest.raises(DatabaseReadOnlyError), db.write() as conn:
            conn.execute(text("INSERT INTO setting (name, value) VALUES ('ours', '')"))
        with db.write() as conn:
            assert conn.execute(text(port)).scalar_one() == two.ports[0]
        assert list(db.ask(port)) == [two.ports[0]]
        # a connection that goes elsewhere says as much as one that ends
        with db.read() as one, db.read() as other:
            two.write_to(1)
            assert {conn.execute(text(port)).scalar_one() for conn in (one, other)} == {two.ports[0]}
            with db.read() as conn:
                assert conn.execute(text(port)).scalar_one() == two.ports[1]
        # nor is any of the pool left at the old primary, which would answer
        time.sleep(FRESH_S)
        with db.read() as one, db.read() as other, db.read() as conn:
            found = {each.execute(text(port)).scalar_one() for each in (one, other, conn)}
            assert found == {two.ports[1]}
            assert list(db.ask(port)) == [two.ports[1]]
        two.write_to(None)
        with pytest.raises(DatabaseReadOnlyError), db.write() as conn:
            conn.execute(text("INSERT INTO setting (name, value) VALUES ('ours', '')"))
        with pytest.raises(DatabaseReadOnlyError, match=f"{two.ports[0]}: it is read-only"), db.read():
            pass
