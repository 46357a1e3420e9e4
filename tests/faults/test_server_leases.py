"""Sessions that are frozen with locks in their hands: no other node's lease ends for that, and none waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from xwheel.clock import ManualClock
from xwheel.model import PARTITIONS
from xwheel.scheduler.cluster.lease import GIVE_LIMIT_MS, ClusterLease
from xwheel.storage import leases
from xwheel.storage.database.engine import Connection, Database

NOW, LEASE_MS, RENEW_MS = 1_700_000_000_000, 10_000, 3_000


@pytest.fixture
def db(server_url: str) -> Iterator[Database]:
    database = Database(server_url)
    yield database
    database.close()


class Nodes:
    """Leases that tests step by hand; one that had to wait for a lock fails by its deadline of three seconds."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.clock = ManualClock(NOW)

    def join(self, name: str) -> ClusterLease:
        node = ClusterLease(
            self.db, name, self.clock, lease_ms=LEASE_MS, renew_ms=RENEW_MS, shared_now=lambda _: self.clock.now_ms()
        )
        node.acquire()
        return node

    def pass_time(self, by_ms: int, *nodes: ClusterLease) -> None:
        for _ in range(by_ms // 500):
            self.clock.advance(500)
            for node in nodes:
                node.step(self.clock.now_ms())

    def renewals(self) -> dict[str, int]:
        with self.db.read() as conn:
            return {row.id: row.renewal for row in leases.list_nodes(conn)}


@pytest.fixture
def nodes(db: Database) -> Nodes:
    return Nodes(db)


@contextmanager
def frozen(db: Database, hold: Callable[[Connection], object]) -> Iterator[None]:
    """A session that has locked something and says nothing more until the block ends."""
    with db.engine.connect() as conn, conn.begin() as transaction:
        hold(conn)
        yield
        transaction.rollback()


def test_r7_a_node_frozen_in_its_renewal_holds_up_nobodys(nodes: Nodes) -> None:
    """R7: each touches its own row only, and the rows of the dead are deleted by key, rarely, if no one has them."""
    first, second = nodes.join("a"), nodes.join("b")
    nodes.join("gone")
    nodes.clock.advance(62 * LEASE_MS)
    before = nodes.renewals()
    with frozen(nodes.db, lambda conn: leases.renew_node(conn, "frozen", NOW, NOW + LEASE_MS)):
        first.step(0)
        second.step(0)
        nodes.pass_time(2 * RENEW_MS, first, second)
    after = nodes.renewals()
    assert "gone" not in after
    assert all(after[name] >= before[name] + 2 for name in ("a", "b"))
    with frozen(nodes.db, lambda conn: leases.renew_node(conn, "a", NOW, NOW + LEASE_MS)):
        nodes.pass_time(RENEW_MS, second)
    assert nodes.renewals()["b"] > after["b"]


def test_r7_renewals_at_the_same_time_meet_no_deadlock(nodes: Nodes) -> None:
    """R7: it was ninety deadlocks in a hundred and fifty."""
    joined = [nodes.join(name) for name in "abc"]
    barrier = threading.Barrier(len(joined), timeout=60)

    def renew(node: ClusterLease) -> None:
        for _ in range(50):
            barrier.wait()
            node._renew()

    threads = [threading.Thread(target=renew, args=(node,)) for node in joined]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert nodes.db.deadlocks == 0
    assert sorted(nodes.renewals().values()) == [51, 51, 51]


def test_r8_a_takeover_leaves_what_is_locked_and_renews_meanwhile(nodes: Nodes) -> None:
    """R8: a frozen session has the dead node's rows; who takes over renews, and takes what it can."""
    nodes.join("dead")
    node = nodes.join("a")
    before = nodes.renewals()["a"]

    def hold(conn: Connection) -> None:
        leases.renew_node(conn, "dead", NOW, NOW)  # as a taker would that waits, or the dead one itself
        leases.lock_leases(conn, "dead", range(60))  # as its fence does

    with frozen(nodes.db, hold):
        nodes.pass_time(LEASE_MS + 2 * RENEW_MS, node)
        assert sorted(node.epochs) == [60, 61, 62, 63]
        assert node.may_act(LEASE_MS - RENEW_MS)
        assert nodes.renewals()["a"] >= before + 4
    nodes.pass_time(1000, node)
    assert len(node.epochs) == PARTITIONS
    assert nodes.db.deadlocks == 0


@pytest.mark.parametrize("stage", ["claim", "fence"])
def test_a_frozen_stage_holds_up_a_hand_over_and_nothing_else(nodes: Nodes, stage: str) -> None:
    """Its lease rows stay where they are until the server ends the session; what is not locked goes on."""
    giver = nodes.join("a")
    rows = range(64) if stage == "claim" else [0, 40]
    with frozen(nodes.db, lambda conn: leases.lock_leases(conn, "a", rows)):
        taker = nodes.join("b")
        nodes.pass_time(GIVE_LIMIT_MS, giver, taker)
        with nodes.db.write() as conn:  # the giver's other stages go on all the while
            assert giver.lock(conn).keys() == giver.epochs.keys() != set()
        nodes.pass_time(2 * RENEW_MS, giver, taker)
        assert giver.may_act()
        assert len(taker.epochs) == (0 if stage == "claim" else 31)
    for _ in range(8):
        nodes.pass_time(1000, giver, taker)
    assert (len(giver.epochs), len(taker.epochs)) == (32, 32)


def test_a_node_that_wakes_in_the_middle_of_anothers_hand_over_takes_nothing_that_changed_hands(nodes: Nodes) -> None:
    """It was frozen with a transaction that gives; its lease ended, and what it held has other owners and epochs."""
    sleeper, other = nodes.join("a"), nodes.join("b")
    held = dict(sleeper.epochs)
    with nodes.db.engine.connect() as conn, conn.begin() as transaction:
        # the sleeper's own hand-over of eight partitions, before its commit
        assert len(leases.give_leases(conn, "a", dict.fromkeys(range(8), "b"), held)) == 8
        nodes.pass_time(LEASE_MS + RENEW_MS, other)
        assert sorted(other.epochs) == list(range(8, 64))
        transaction.commit()  # late, but no one else had these eight: the epoch rises once
    nodes.pass_time(1000, other)
    assert len(other.epochs) == PARTITIONS
    assert not sleeper.may_act()
    sleeper.step(0)
    assert not sleeper.epochs
    with nodes.db.write() as conn:
        assert sleeper.lock(conn) == {}
    nodes.pass_time(8000, sleeper, other)
    assert (len(sleeper.epochs), len(other.epochs)) == (32, 32)
    assert not sleeper.epochs.keys() & other.epochs.keys()
