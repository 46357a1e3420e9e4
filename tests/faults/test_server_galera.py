"""A Galera cluster: a member that takes no statements is an outage like others, and all members count as one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from sqlalchemy import make_url, text
from sqlalchemy.exc import OperationalError
from xwheel_accounts.storage import accounts
from xwheel_jobs_as_code.declarations import owners

from tests.faults.soak.cluster import GALERA, databases
from tests.faults.soak.movements import run
from tests.faults.test_movements import check_held
from tests.support import servers
from tests.support.databases import create_database, empty, installed_tables
from tests.support.executors import wait_until
from tests.support.galera import Galera
from tests.support.listings import one_listing
from tests.support.odd_server import OddServer
from tests.support.ports import free_port
from tests.support.rows import NOW, job_values
from xwheel.config import Config, build_config
from xwheel.errors import DatabaseUnreachableError
from xwheel.model.access import ALL
from xwheel.node.node import Node
from xwheel.storage import executors, jobs, leases, open_runs, settings
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import CommitUnknownError, Connection, Database
from xwheel.storage.database.outage import is_retryable
from xwheel.storage.database.rows import hold, server_of
from xwheel.storage.database.startup import upgrade
from xwheel.storage.schema import tables

WORDS = "WSREP has not yet prepared node for application use"
NAME = "xwheel_test"
PATIENCE_S = 60
LARGE = 50_000
RATE = 100


class Member:
    """One member of a cluster."""

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
def cluster() -> Iterator[Galera]:
    with Galera() as found:
        create_database(found.url, "mariadb", NAME)
        upgrade(f"{found.url}{NAME}", installed_tables())
        yield found


@pytest.fixture(scope="module")
def member(cluster: Galera) -> Member:
    return Member(cluster.url_of(cluster.ports[0]))


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


@pytest.mark.long
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


def test_the_next_server_of_a_list_is_asked(member: Member) -> None:
    """It takes logins, so only what became of a statement tells."""
    port = text("SELECT @@port")
    port_of_member = make_url(member.url).port
    with servers.mariadb() as base:
        create_database(base, "mariadb", NAME)
        upgrade(f"{base}{NAME}", installed_tables())
        url = member.url.replace(f":{port_of_member}/", f":{port_of_member},127.0.0.1:{make_url(base).port}/")
        with ExitStack() as stack:
            stack.callback(member.serve)
            db = stack.enter_context(closing(Database(url, pool_size=1)))
            with db.read() as conn:
                assert conn.execute(port).scalar_one() == port_of_member
            member.refuse()
            with pytest.raises(DatabaseUnreachableError, match=WORDS), db.read() as conn:
                settings.list_calendars(conn)
            with db.read() as conn:
                settings.list_calendars(conn)
                assert conn.execute(port).scalar_one() == make_url(base).port


def test_a_node_waits_for_it_at_its_start(member: Member, config: Config, caplog: pytest.LogCaptureFixture) -> None:
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


@pytest.mark.long
def test_a_member_that_answers_reads_and_takes_no_writes_is_left(cluster: Galera, tmp_path: Path) -> None:
    """A statement that waits there is overdue after the lease's renewal should have been written."""
    settings = {
        "database": {"url": f"{cluster.url}{NAME}", "pool_size": 2},
        "api": {"port": 0, "executor_port": 0},
        "schedule": {"lock_dir": str(tmp_path)},
    }
    node = Node(build_config(settings), lambda _: None)
    node.start()
    renewals = f"SELECT max(renewal) FROM {NAME}.node"
    near, far = cluster.ports[:2]
    try:
        url = cluster.url_of(near) + NAME
        with closing(Database(url, pool_size=1, idle_s=2 * PATIENCE_S)) as db, db.read() as conn:
            conn.execute(text("FLUSH TABLES WITH READ LOCK"))
            assert conn.execute(text(renewals)).scalar_one()
            before = cluster.ask(far, renewals)[0][0]
            wait_until(lambda: cluster.ask(far, renewals)[0][0] > before + 2, PATIENCE_S)
            assert node.scheduler.core.lease.may_act()
            conn.execute(text("UNLOCK TABLES"))
    finally:
        assert node.stop()
    for port in cluster.ports:
        cluster.wait(port, len(cluster.ports))


def test_each_loop_of_a_node_says_so_in_one_line(
    member: Member, config: Config, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    node = Node(config, lambda _: None)
    node.start()
    try:
        member.refuse()
        wait_until(lambda: all(f"loop {name} fails" in caplog.text for name in ("lease", "adopt")), PATIENCE_S)
        member.serve()
        wait_until(lambda: "loop lease works again" in caplog.text, PATIENCE_S)
    finally:
        member.serve()
        assert node.stop()
    assert [item.getMessage() for item in caplog.records if item.exc_info] == []
    failures = [item.getMessage() for item in caplog.records if "fails and is repeated" in item.getMessage()]
    assert len(failures) == len({line.split()[1] for line in failures})
    assert all(WORDS in line for line in failures), failures


@pytest.fixture(scope="module")
def members(cluster: Galera) -> Iterator[tuple[Database, Database]]:
    """The same database at two members."""
    with ExitStack() as stack:
        # a transaction waits here while another member is kept busy
        urls = [f"{cluster.url_of(port)}{NAME}" for port in cluster.ports[:2]]
        near, far = (Database(url, pool_size=1, statement_s=PATIENCE_S, idle_s=PATIENCE_S) for url in urls)
        stack.callback(near.close)
        stack.callback(far.close)
        with near.write() as conn:
            conn.execute(text("CREATE TABLE ballast (id INT PRIMARY KEY, turn INT NOT NULL)"))
        near.transaction(lambda conn: conn.execute(text(f"INSERT INTO ballast SELECT seq, 0 FROM seq_1_to_{LARGE}")))
        yield near, far


def _commit_much(db: Database, work: Callable[[Connection], Any]) -> None:
    """Commit work behind what other members take a while to apply."""
    db.transaction(lambda conn: conn.execute(text("UPDATE ballast SET turn = turn + 1")))
    db.transaction(work)


def test_a_read_sees_what_another_member_committed_before_it(members: tuple[Database, Database]) -> None:
    near, far = members
    _commit_much(far, lambda conn: settings.insert_setting(conn, "news", ""))
    with near.read() as conn:
        assert settings.find_setting(conn, "news") == ""
        # without it, too, a member may have applied the commit by now
        assert conn.execute(text("SELECT @@SESSION.wsrep_sync_wait")).scalar_one() == 7


@pytest.mark.nightly
def test_a_member_that_is_lost_loses_doubles_and_skips_nothing(tmp_path: Path) -> None:
    """Two nodes on two members; one of these is killed under load, and joins again."""
    with databases(GALERA, tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["member"], rate=RATE, before_s=3)
    check_held(result, 10 * RATE)


@pytest.mark.nightly
def test_new_versions_of_all_members_do_neither(tmp_path: Path) -> None:
    with databases(GALERA, tmp_path) as fresh:
        result = run(fresh(), tmp_path, ["member_upgrade"], rate=RATE, before_s=3)
    check_held(result, 10 * RATE)


def test_members_are_one_server(members: tuple[Database, Database]) -> None:
    """Otherwise a node would take new epochs whenever a proxy connects it to another member."""
    near, far = members
    with near.read() as conn, far.read() as other:
        assert server_of(conn) == server_of(other) != ""


def test_each_table_has_a_primary_key(members: tuple[Database, Database]) -> None:
    """Without one, members may hold its rows in different orders, and delete different ones."""
    keyed = "SELECT table_name FROM information_schema.statistics WHERE index_name = 'PRIMARY' AND table_schema = :name"
    with members[0].read() as conn:
        found = set(conn.execute(text(keyed), {"name": NAME}).scalars())
        assert tables.table_names(conn) == found


def test_a_member_takes_the_settings_of_the_guide() -> None:
    (_, *lines) = one_listing("docs/howto/databases.md", "[mariadb]").text.strip().splitlines()
    given = dict(line.split(" = ", 1) for line in lines if not line.startswith("#"))
    more = given["wsrep_provider_options"].strip('"')
    given["wsrep_provider_options"] = f"gmcast.listen_addr=tcp://127.0.0.1:{free_port()};{more}"
    given |= {"wsrep_cluster_address": "gcomm://", "wsrep_node_address": "127.0.0.1"}
    options = [f"--{name.replace('_', '-')}={value}" for name, value in given.items()]
    with (
        servers.mariadb(options=options) as base,
        closing(Database(f"{base}mysql", pool_size=1)) as db,
        db.read() as conn,
    ):
        assert server_of(conn)
        shown = conn.execute(text("SHOW VARIABLES LIKE 'wsrep_provider_options'")).one()[1]
        assert set(more.split(";")) <= set(shown.replace(" = ", "=").split("; "))


class Rows(NamedTuple):
    """Ids of what there is to lock."""

    job: int
    group: int
    account: int


OWNER: Final = "node-1"
TOKENS: Final = ("first", "second")
Lock = Callable[[Connection, Rows], Any]


def _held(conn: Connection, _: Rows) -> object:
    return leases.lock_leases(conn, OWNER, [5])


LOCKS: Final[dict[str, tuple[Lock, Lock]]] = {
    "a lease, and who takes it": (_held, lambda conn, _: leases.take_leases(conn, "node-2", {5: OWNER}, {OWNER: 1})),
    "a lease that is given": (_held, lambda conn, _: leases.give_leases(conn, OWNER, {5: "node-2"}, {5: 1})),
    "a lease that is given up": (_held, lambda conn, _: leases.release_leases(conn, OWNER)),
    "all leases": (_held, lambda conn, _: leases.lock_all_leases(conn)),
    "a job": (
        lambda conn, ids: jobs.get_job(conn, ids.job, lock=True),
        lambda conn, ids: jobs.lock_jobs(conn, [ids.job]),
    ),
    "a group's limit, twice": 2 * (lambda conn, ids: open_runs.lock_limits(conn, [ids.group]),),
    "a group, and its limit": (
        lambda conn, ids: open_runs.lock_limits(conn, [ids.group]),
        lambda conn, ids: executors.get_group(conn, ids.group, lock=True),
    ),
    "a setting": 2 * (lambda conn, _: settings.lock_setting(conn, settings.CHAINS),),
    "the last tokens": (
        lambda conn, _: tokens.delete_token(conn, TOKENS[0]),
        lambda conn, _: tokens.delete_token(conn, TOKENS[1]),
    ),
    "an account": 2 * (lambda conn, ids: accounts.get_account(conn, ids.account, lock=True),),
    "the administrators": 2 * (lambda conn, _: accounts.lock_admins(conn),),
    "whose declarations a group follows": 2 * (lambda conn, ids: owners.get_owner(conn, ids.group, lock=True),),
}


def _job(group_id: int) -> dict[str, Any]:
    values = {"enabled": True, "next_fire_ms": None, "last_fire_ms": None, "awaits_root": None, "revision": 1}
    return {**job_values(group_id=group_id), **values, "schedule_error": "", "created_ms": NOW, "updated_ms": NOW}


def _fill(conn: Connection) -> Rows:
    conn.execute(tables.partition_lease.update().values(owner=OWNER, epoch=1))
    for name in TOKENS:
        tokens.replace_token(conn, name, name * 8, NOW)
    group = executors.insert_group(conn, app_name="demo", title="demo", now_ms=NOW, max_running=1).id
    owners.insert_owner(conn, group)
    job = jobs.insert_job(conn, _job(group)).id
    return Rows(job, group, accounts.insert_account(conn, "ann", ALL, NOW).id)


@pytest.mark.parametrize("what", LOCKS)
@pytest.mark.parametrize("is_known", [True, False])
def test_of_two_members_transactions_that_rely_on_one_lock_one_is_committed(
    members: tuple[Database, Database], what: str, is_known: bool
) -> None:
    """The second is committed while the first one's member is busy, which cannot have heard of it."""
    near, far = members
    empty(near)
    ids = near.transaction(_fill)
    first, second = LOCKS[what]
    if is_known:  # by a row, as each is after its first time
        names = {kind: range(256) for kind in ("lease", "job", "group", "setting", "token", "account", "owner")}
        near.transaction(lambda conn: [hold(conn, kind, keys) for kind, keys in names.items()])

    def end_first(conn: Connection) -> None:
        second(conn, ids)
        settings.insert_setting(conn, "second", "")

    def begin_first(conn: Connection) -> None:
        first(conn, ids)
        _commit_much(far, end_first)
        settings.insert_setting(conn, "first", "")

    with pytest.raises(OperationalError) as caught, near.write() as conn:
        begin_first(conn)
    assert is_retryable(caught.value)
    with near.read() as conn:
        assert [settings.find_setting(conn, name) for name in ("first", "second")] == [None, ""]


def test_a_lock_of_nothing_is_none(members: tuple[Database, Database]) -> None:
    near, _ = members
    empty(near)
    assert near.transaction(lambda conn: leases.lock_leases(conn, "node-9", [5])) == {}
    assert near.transaction(lambda conn: jobs.lock_jobs(conn, [7])) == {}


def test_jobs_of_a_member_are_in_all_partitions_though_ids_rise_by_three(members: tuple[Database, Database]) -> None:
    near, _ = members
    empty(near)
    with near.read() as conn:
        assert int(conn.execute(text("SELECT @@auto_increment_increment")).scalar_one()) == 3
    made = near.transaction(lambda conn: [jobs.insert_job(conn, _job(1)).partition for _ in range(300)])
    assert len(set(made)) > 55
