"""A member of a Galera cluster that takes no statements, as one without quorum: an outage like others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.support import servers
from tests.support.databases import create_database, installed_tables
from tests.support.executors import wait_until
from tests.support.odd_server import OddServer
from tests.support.ports import free_port
from xwheel.config import Config, build_config
from xwheel.errors import DatabaseUnreachableError
from xwheel.node.node import Node
from xwheel.storage import settings
from xwheel.storage.database.engine import CommitUnknownError, Connection, Database
from xwheel.storage.database.startup import upgrade

PROVIDER = "/usr/lib/galera/libgalera_smm.so"
WORDS = "WSREP has not yet prepared node for application use"
NAME = "xwheel_test"
PATIENCE_S = 60


class Member:
    """The one member of a cluster."""

    def __init__(self, base: str) -> None:
        self.url = f"{base}{NAME}"
        self._server = OddServer(base, "mysql")

    def refuse(self) -> None:
        """Refuse statements with error 1047; logins and what asks no table are taken."""
        self._server.do("SET GLOBAL wsrep_reject_queries = ALL")

    def serve(self) -> None:
        """Take statements again."""
        self._server.do("SET GLOBAL wsrep_reject_queries = NONE")


@pytest.fixture(scope="module")
def member() -> Iterator[Member]:
    options = (
        "--wsrep-on=ON",
        f"--wsrep-provider={PROVIDER}",
        "--wsrep-cluster-address=gcomm://",
        "--wsrep-node-address=127.0.0.1",
        f"--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:{free_port()};gcache.size=8M",
        "--binlog-format=ROW",
        "--innodb-autoinc-lock-mode=2",
    )
    with servers.mariadb(options=options) as base:
        create_database(base, "mariadb", NAME)
        upgrade(f"{base}{NAME}", installed_tables())
        yield Member(base)


@pytest.fixture
def config(member: Member, tmp_path: Path) -> Iterator[Config]:
    yield build_config(
        {
            "database": {"url": member.url, "pool_size": 2},
            "api": {"port": 0, "executor_port": 0},
            "schedule": {"lock_dir": str(tmp_path)},
        }
    )
    member.serve()


def test_its_connection_is_given_up(member: Member, config: Config) -> None:
    """A proxy before the cluster may give another member then."""
    number = text("SELECT CONNECTION_ID()")
    with closing(Database(config.database.url, pool_size=1)) as db:
        with db.read() as conn:
            first = conn.execute(number).scalar_one()
        member.refuse()
        with pytest.raises(DatabaseUnreachableError, match=WORDS), db.read() as conn:
            settings.list_calendars(conn)
        member.serve()
        with db.read() as conn:
            assert conn.execute(number).scalar_one() != first

        def work(conn: Connection) -> None:
            settings.insert_setting(conn, "ours", "")
            member.refuse()

        with pytest.raises(CommitUnknownError, match=WORDS):
            db.transaction(work)
        member.serve()
        with db.read() as conn:
            assert settings.find_setting(conn, "ours") is None


def test_a_node_waits_for_it_at_its_start(
    member: Member, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            member.serve()

    member.refuse()
    node = Node(config, lambda _: None, pause=pause)
    node.start()
    assert node.stop()
    assert pauses == [0.5, 1.0]
    tries = [item.getMessage() for item in caplog.records if "another try in" in item.getMessage()]
    assert len(tries) == 2
    assert all(WORDS in line for line in tries)


def test_each_loop_of_a_node_says_so_in_one_line(
    member: Member, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = Node(config, lambda _: None)
    node.start()
    try:
        member.refuse()
        wait_until(
            lambda: all(f"loop {name} fails" in caplog.text for name in ("lease", "adopt")), PATIENCE_S
        )
        member.serve()
        wait_until(lambda: "loop lease works again" in caplog.text, PATIENCE_S)
    finally:
        member.serve()
        assert node.stop()
    assert [item.getMessage() for item in caplog.records if item.exc_info] == []
    failures = [item.getMessage() for item in caplog.records if "fails and is repeated" in item.getMessage()]
    assert len(failures) == len({line.split()[1] for line in failures})
    assert all(WORDS in line for line in failures), failures
