"""Split brain: a standby was promoted while the primary goes on, and nodes of one cluster write to both of them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.faults.injectors.proxy import Proxy
from tests.faults.test_server_failover import NAME, Two, _settings, pair, two
from tests.faults.test_server_outage import LEASE_S, TOKEN, site_on
from tests.support import servers
from tests.support.executors import wait_until
from tests.support.pair import Pair
from xwheel.config import build_config
from xwheel.model import Run
from xwheel.node.node import Node
from xwheel.storage import runs
from xwheel.storage.database.engine import Database

__all__ = ["pair", "two"]  # pytest finds fixtures by these names

SPLIT_S = 5.0
CONTACT_S = 10  # after so long at most a node that sees both servers has noticed
LISTED = re.compile(r"the database does not know \d+ as sent; may run again: (.*)")


@contextmanager
def second(url: str, folder: Path) -> Iterator[Node]:
    """Run a further node, on one server."""
    settings = _settings(url, folder)
    settings["schedule"] |= {"lease_s": LEASE_S, "lease_renew_s": 0.5}
    settings["trigger"] = {"send_timeout_ms": 1000}
    settings["api"]["executor_token"] = TOKEN
    node = Node(build_config(settings), lambda _: None)
    node.start()
    try:
        yield node
    finally:
        assert node.stop()


@pytest.mark.long(20)
def test_two_primaries_are_noticed_and_the_runs_of_the_wrong_one_listed(
    pair: Pair, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = (f"{_base(port)}{NAME}" for port in (pair.primary, pair.standby))
    with Proxy("127.0.0.1", pair.standby) as wall, closing(Database(old, pool_size=1)) as left:
        url = f"{_base(pair.primary)[:-1]},127.0.0.1:{wall.port}/{NAME}"
        with site_on(url, old, tmp_path) as site:
            site.make_jobs(60)
            wait_until(lambda: len(site.seen) > len(site.planned))
            wall.cut()
            pair.split()
            split_ms = site.node.scheduler.core.clock.now_ms()
            with second(new, tmp_path / "second"):
                time.sleep(SPLIT_S)
                assert "split brain" not in caplog.text
                wall.restore()
                wait_until(lambda: "split brain" in caplog.text, CONTACT_S)
                wait_until(lambda: LISTED.search(caplog.text), CONTACT_S)
                # from now on it sends what the right server knows
                wait_until(site.node.scheduler.core.lease.may_act)
                before = set(site.seen)
                wait_until(lambda: len(site.seen) > len(before) + len(site.planned))
                later = {run_id for run_id in list(site.seen) if run_id not in before}
        sent = {run.id: run for run in _runs(left) if (run.dispatched_ms or 0) >= split_ms}
        with closing(Database(new, pool_size=1)) as right:
            known = {run.id: run for run in _runs(right)}
        pair.join()
    lost = {key for key, run in sent.items() if key not in known or known[key].dispatched_ms != run.dispatched_ms}
    assert len(lost) > len(site.planned)
    assert lost <= _listed(caplog.text)
    assert later <= known.keys() | lost  # a request that left before may arrive late


@pytest.mark.long(20)
def test_of_two_mariadb_servers_none_is_used_until_one_is_left(
    two: Two, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    two.write_to(0)
    with second(two.url.replace("xwheel:", "plain:"), tmp_path) as node, ThreadPoolExecutor() as threads:
        lease = node.scheduler.core.lease
        wait_until(lease.may_act)
        waiting = threads.submit(_wait_long, node.scheduler.core.db)
        two.servers[1].do("SET GLOBAL read_only = 0")
        wait_until(lambda: "split brain" in caplog.text, CONTACT_S)
        wait_until(lambda: not lease.may_act(), CONTACT_S)
        assert "no answer within" in str(waiting.exception(CONTACT_S))  # of a server that is not used any more
        time.sleep(2 * LEASE_S)
        assert not lease.may_act()
        two.write_to(0)
        wait_until(lease.may_act)
        assert lease.epochs


def _wait_long(db: Database) -> None:
    """Wait for an answer that comes after the test."""
    with db.limited(statement_ms=120_000), db.read() as conn:
        conn.execute(text("SELECT SLEEP(120)"))


def _base(port: int) -> str:
    return f"postgresql+psycopg://xwheel:{servers.PASSWORD}@127.0.0.1:{port}/"


def _runs(db: Database) -> list[Run]:
    with db.read() as conn:
        return runs.list_runs(conn, limit=100_000)


def _listed(text: str) -> set[int]:
    """Return the ids that the log names."""
    found: set[int] = set()
    for line in LISTED.findall(text):
        for words in line.split(", "):
            first, _, last = words.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    return found
