"""Several nodes on one database: fair shares, takeover, and giving away without a gap or an overlap."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.rows import NOW, make_run
from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.scheduler.cluster_lease import ClusterLease
from xwheel.scheduler.shares import decide_moves
from xwheel.storage import partitions, runs
from xwheel.storage.engine import Database
from xwheel.testing import ManualClock

LEASE_MS, RENEW_MS, SETTLE_MS = 10_000, 3_000, 5_000


class Cluster:
    """Nodes whose database time is the manual clock's, plus an offset that tests may move."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.clock = ManualClock(NOW)
        self.skew_ms = 0
        self.nodes: dict[str, ClusterLease] = {}

    def join(self, name: str) -> ClusterLease:
        node = ClusterLease(
            self.db,
            name,
            self.clock,
            decide_moves,
            lease_ms=LEASE_MS,
            renew_ms=RENEW_MS,
            settle_ms=SETTLE_MS,
            shared_now=lambda _: self.clock.now_ms() + self.skew_ms,
        )
        node.acquire()
        self.nodes[name] = node
        return node

    def turn(self, *silent: str) -> None:
        """Let a renewal interval pass and every node renew but the silent ones."""
        self.clock.advance(RENEW_MS)
        for name, node in self.nodes.items():
            if name not in silent:
                node.step(self.clock.now_ms())
        self.check()

    def check(self) -> None:
        """No two nodes that may act hold the same partition."""
        held = [part for node in self.nodes.values() if node.may_act() for part in node.epochs]
        assert len(held) == len(set(held))

    def sizes(self) -> dict[str, int]:
        return {name: len(node.epochs) for name, node in self.nodes.items()}


@pytest.fixture
def cluster(db: Database) -> Cluster:
    return Cluster(db)


def test_the_first_node_takes_everything_at_once(cluster: Cluster) -> None:
    node = cluster.join("a")
    assert dict(node.epochs) == dict.fromkeys(range(PARTITIONS), 1)
    assert node.may_act(LEASE_MS - 1)
    assert not node.may_act(LEASE_MS)


def test_a_join_moves_half_and_only_after_sends_have_ended(cluster: Cluster) -> None:
    first = cluster.join("a")
    second = cluster.join("b")
    assert cluster.sizes() == {"a": 64, "b": 0}
    cluster.turn()
    # fenced no more, but nobody else's yet
    assert cluster.sizes() == {"a": 32, "b": 0}
    with cluster.db.write() as conn:
        assert set(first.lock(conn)) == set(first.epochs)
    cluster.turn()  # three seconds later a send may still be under way
    with cluster.db.read() as conn:
        assert {row.owner for row in partitions.list_leases(conn)} == {"a"}
    for _ in range(2):
        cluster.turn()
    assert cluster.sizes() == {"a": 32, "b": 32}
    assert set(second.epochs.values()) == {2}
    assert set(first.epochs.values()) == {1}


def test_a_leave_is_taken_over_at_the_next_look(cluster: Cluster) -> None:
    cluster.join("a")
    cluster.join("b")
    for _ in range(5):
        cluster.turn()
    kept = dict(cluster.nodes["b"].epochs)
    cluster.nodes.pop("a").release()
    cluster.turn()
    after = cluster.nodes["b"].epochs
    assert len(after) == 64
    assert {part: after[part] for part in kept} == kept


def test_a_silent_node_is_taken_over_after_its_term_and_not_before(cluster: Cluster) -> None:
    cluster.join("a")
    cluster.join("b")
    for _ in range(5):
        cluster.turn()
    quiet = cluster.nodes["a"]
    cluster.turn("a")
    cluster.turn("a")
    cluster.turn("a")
    assert cluster.sizes()["b"] == 32
    cluster.turn("a")
    assert not quiet.may_act()
    assert cluster.sizes()["b"] == 64
    with cluster.db.write() as conn:
        assert quiet.lock(conn) == {}
    for _ in range(6):  # it wakes up and gets its share back under new epochs
        cluster.turn()
    assert cluster.sizes() == {"a": 32, "b": 32}
    assert min(quiet.epochs.values()) > 2


def test_a_clock_that_jumps_back_keeps_no_dead_node_alive(cluster: Cluster) -> None:
    cluster.join("a")
    cluster.join("b")
    for _ in range(5):
        cluster.turn()
    cluster.skew_ms = -3_600_000
    for _ in range(3):
        cluster.turn("a")
    assert cluster.sizes()["b"] == 32
    cluster.turn("a")
    assert cluster.sizes()["b"] == 64


def test_taken_partitions_hand_their_planned_runs_over(cluster: Cluster) -> None:
    cluster.join("a")
    rows = [make_run(1, partition=1, epoch=1), make_run(2, partition=2, epoch=1)]
    cluster.db.transaction(lambda conn: runs.insert_runs(conn, rows))
    cluster.nodes.pop("a").release()
    cluster.join("b")
    with cluster.db.read() as conn:
        assert {run.epoch for run in runs.list_runs(conn)} == {0}


def test_a_dead_node_that_renews_in_the_last_moment_keeps_its_partitions(cluster: Cluster) -> None:
    cluster.join("a")
    with cluster.db.read() as conn:
        (seen,) = partitions.list_nodes(conn)
    late = cluster.nodes["a"]
    cluster.clock.advance(LEASE_MS + 1)
    other = ClusterLease(
        cluster.db,
        "b",
        cluster.clock,
        decide_moves,
        lease_ms=LEASE_MS,
        renew_ms=RENEW_MS,
        settle_ms=SETTLE_MS,
        shared_now=lambda _: cluster.clock.now_ms(),
    )
    late.step(cluster.clock.now_ms())
    # b decides on what it read before a renewed
    cluster.db.transaction(
        lambda conn: other._take(conn, dict.fromkeys(range(64), "a"), {"a": seen}),
    )
    assert len(late.epochs) == 64
    with cluster.db.write() as conn:
        assert partitions.lock_leases(conn, "b") == {}
        assert len(late.lock(conn)) == 64


def test_dead_nodes_are_forgotten_in_the_end(cluster: Cluster) -> None:
    cluster.join("a")
    cluster.join("b")
    cluster.nodes.pop("a")
    cluster.clock.advance(61 * LEASE_MS)
    cluster.turn()
    with cluster.db.read() as conn:
        assert [row.id for row in partitions.list_nodes(conn)] == ["b"]


def test_a_damaged_table_stops_the_node(cluster: Cluster) -> None:
    with cluster.db.write() as conn:
        conn.exec_driver_sql("DELETE FROM partition_lease WHERE partition_lease.partition = 7")
    with pytest.raises(LockError, match="63 rows instead of 64"):
        cluster.join("a")


@pytest.mark.parametrize("seed", range(8))
def test_nodes_that_come_and_go_never_overlap_and_end_with_fair_shares(cluster: Cluster, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(40):
        name = f"n{number}"
        choice = dice.random()
        if len(cluster.nodes) < 2 or (choice < 0.3 and len(cluster.nodes) < 6):
            cluster.join(name)
        elif choice < 0.45:
            cluster.nodes.pop(dice.choice(sorted(cluster.nodes))).release()
        elif choice < 0.55:
            cluster.nodes.pop(dice.choice(sorted(cluster.nodes)))  # kill -9
        silent = [one for one in cluster.nodes if dice.random() < 0.2]
        cluster.turn(*silent)
    for _ in range(12):
        cluster.turn()
    sizes = cluster.sizes()
    assert sum(sizes.values()) == PARTITIONS
    assert max(sizes.values()) - min(sizes.values()) <= 1


@given(st.lists(st.sampled_from(["a", "b", "c", "dead", None]), min_size=64, max_size=64))
def test_shares_become_fair_and_move_only_what_must_move(start: list[str | None]) -> None:
    live = {"a", "b", "c"}
    owners: dict[int, str | None] = dict(enumerate(start))
    before = dict(owners)
    moved: set[int] = set()
    for _ in range(4):
        for me in sorted(live):
            moves = decide_moves(owners, live, me)
            assert not (moves.take and moves.give)
            for part in moves.give:
                owners[part] = None
                moved.add(part)
            for part in moves.take:
                assert owners[part] not in live
                owners[part] = me
    counts = [sum(owner == name for owner in owners.values()) for name in live]
    assert sorted(counts) == [21, 21, 22]
    surplus = sum(max(0, sum(owner == name for owner in before.values()) - 21) for name in live)
    assert len(moved) <= surplus
