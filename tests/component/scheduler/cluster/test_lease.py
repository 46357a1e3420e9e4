"""Several nodes on one database: fair shares, takeover, and handing over without a gap or an overlap."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.scheduler.cluster.balance import decide_moves
from xwheel.scheduler.cluster.lease import GIVE_LIMIT_MS, GIVEN_AT_ONCE, LONE_READ_MS, READ_MS, ClusterLease
from xwheel.scheduler.cluster.node_locks import NodeLocks
from xwheel.storage import leases
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.schema.tables import node as node_rows

LEASE_MS, RENEW_MS, STEP_MS = 10_000, 3_000, 100


class Cluster:
    """Nodes whose database time is the manual clock's, plus an offset that tests may move."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.clock = ManualClock(NOW)
        self.skew_ms = 0
        self.server = "one"
        self.nodes: dict[str, ClusterLease] = {}
        self.changes: list[tuple[str, bool]] = []
        self._due_ms: dict[str, int] = {}

    def make(self, name: str, locks: NodeLocks | None = None) -> ClusterLease:
        return ClusterLease(
            self.db,
            name,
            self.clock,
            lease_ms=LEASE_MS,
            renew_ms=RENEW_MS,
            on_change=lambda came_back: self.changes.append((name, came_back)),
            locks=locks,
            shared_now=lambda _: self.clock.now_ms() + self.skew_ms,
            server_of=lambda _: self.server,
        )

    def join(self, name: str, locks: NodeLocks | None = None) -> ClusterLease:
        node = self.nodes[name] = self.make(name, locks)
        node.acquire()
        self._due_ms[name] = 0
        return node

    def pair(self) -> tuple[ClusterLease, ClusterLease]:
        """Two nodes that share evenly."""
        made = self.join("a"), self.join("b")
        self.run(4000)
        assert self.sizes() == {"a": 32, "b": 32}
        return made

    def run(self, duration_ms: int, *silent: str) -> None:
        """Let time pass, in which each node but the silent ones steps as soon as it asked for."""
        for _ in range(duration_ms // STEP_MS):
            self.clock.advance(STEP_MS)
            for name, node in self.nodes.items():
                if name not in silent and self.clock.monotonic_ms() >= self._due_ms[name]:
                    self._due_ms[name] = self.clock.monotonic_ms() + node.step(self.clock.now_ms())
            self.check()

    def check(self) -> None:
        """No two nodes may act on the same partition, and none under an epoch that is not the row's."""
        rows = {row.partition: row for row in self.rows()}
        held = [
            (part, name, epoch)
            for name, node in self.nodes.items()
            if node.may_act()
            for part, epoch in node.epochs.items()
        ]
        assert all((rows[part].owner, rows[part].epoch) == (name, epoch) for part, name, epoch in held)
        assert len(held) == len({part for part, _, _ in held})

    def rows(self) -> list[leases.LeaseRow]:
        with self.db.read() as conn:
            return leases.list_leases(conn)

    def node_ids(self) -> list[str]:
        with self.db.read() as conn:
            return [row.id for row in leases.list_nodes(conn)]

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
    assert cluster.changes == [("a", False)]


def test_a_node_rests_only_while_it_is_alone_and_is_told_who_joins(cluster: Cluster) -> None:
    node = cluster.join("a")
    node.renew_ms = 200_000  # renewed that seldom, it still looks
    assert node.step(cluster.clock.advance(RENEW_MS)) == READ_MS
    node.is_told = lambda: True
    assert node.step(cluster.clock.now_ms()) == LONE_READ_MS
    cluster.join("b")
    assert node.step(cluster.clock.now_ms()) <= READ_MS


def test_a_node_that_is_alone_renews_without_reading_until_it_is_told_who_joined(cluster: Cluster) -> None:
    node = cluster.join("a")
    node.is_told = lambda: True
    node.step(cluster.clock.advance(RENEW_MS))
    cluster.join("b")
    assert node.step(cluster.clock.advance(RENEW_MS)) == RENEW_MS
    assert node.may_act(LEASE_MS - 1)
    assert len(node.epochs) == PARTITIONS
    node.note_nodes()
    node.step(cluster.clock.now_ms())
    assert len(node.epochs) < PARTITIONS


def test_a_node_that_is_alone_reads_after_its_lease_ran_out(cluster: Cluster) -> None:
    node = cluster.join("a")
    node.is_told = lambda: True
    node.step(cluster.clock.advance(RENEW_MS))
    node.step(cluster.clock.advance(LEASE_MS + 1))
    assert node.may_act()
    assert dict(node.epochs) == dict.fromkeys(range(PARTITIONS), 2)


def test_r1_a_join_moves_half_within_a_second_a_few_partitions_at_a_time(cluster: Cluster) -> None:
    first = cluster.join("a")
    second = cluster.join("b")
    assert cluster.sizes() == {"a": 64, "b": 0}
    idle: dict[int, int] = {}
    for _ in range(40):
        cluster.run(STEP_MS)
        nobodys = set(range(PARTITIONS)) - first.epochs.keys() - second.epochs.keys()
        assert len(nobodys) <= 2 * GIVEN_AT_ONCE  # one batch on its way, one that the taker has not read yet
        for part in range(PARTITIONS):
            idle[part] = idle.get(part, 0) + STEP_MS if part in nobodys else 0
            assert idle[part] < 1000
    assert cluster.sizes() == {"a": 32, "b": 32}
    assert set(second.epochs.values()) == {2}
    assert set(first.epochs.values()) == {1}


def test_r1_a_leave_hands_everything_over_before_it_stops(cluster: Cluster) -> None:
    leaving, staying = cluster.pair()
    leaving.drain()
    assert not leaving.is_drained()
    for _ in range(30):
        cluster.run(STEP_MS)
        assert {row.owner for row in cluster.rows()} <= {"a", "b"}  # never no one's
    assert leaving.is_drained()
    assert cluster.sizes() == {"a": 0, "b": 64}
    assert leaving.may_act(1000)  # what it has fenced it may still send
    assert staying.may_act(1000)
    leaving.release()
    assert cluster.node_ids() == ["b"]


def test_the_last_node_that_leaves_hands_over_to_nobody(cluster: Cluster) -> None:
    leaving, other = cluster.pair()
    leaving.drain()
    other.drain()
    cluster.run(1000)
    assert leaving.is_drained()
    assert other.is_drained()
    assert sum(cluster.sizes().values()) == PARTITIONS
    leaving.release()
    other.release()
    assert {row.owner for row in cluster.rows()} == {None}


def test_a_leave_without_a_drain_is_taken_over_at_the_next_reading(cluster: Cluster) -> None:
    leaving, staying = cluster.pair()
    kept = dict(staying.epochs)
    del cluster.nodes["a"]
    leaving.release()
    cluster.run(600)
    assert len(staying.epochs) == 64
    assert {part: staying.epochs[part] for part in kept} == kept


def test_a_silent_node_is_taken_over_after_its_term_and_not_before(cluster: Cluster) -> None:
    quiet, other = cluster.pair()
    began_ms = cluster.clock.monotonic_ms()
    while quiet.may_act():
        assert len(other.epochs) == 32
        cluster.run(STEP_MS, "a")
    cluster.run(600, "a")
    assert cluster.clock.monotonic_ms() - began_ms < LEASE_MS + 600
    assert len(other.epochs) == 64
    with cluster.db.write() as conn:
        assert quiet.lock(conn) == {}
    cluster.run(4000)  # it wakes up and gets its share back under new epochs
    assert cluster.sizes() == {"a": 32, "b": 32}
    assert min(quiet.epochs.values()) > 2


def test_a_node_frozen_before_it_reads_takes_nothing_from_those_that_renewed_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a counter has stood still counts from when it was read, not from when the reading began."""
    node, other = cluster.pair()
    kept, read = dict(node.epochs), leases.list_nodes

    def freeze(conn: Connection) -> list[leases.NodeRow]:
        monkeypatch.undo()
        cluster.run(LEASE_MS - 500, "b")
        return read(conn)

    monkeypatch.setattr(leases, "list_nodes", freeze)
    other.step(cluster.clock.now_ms())
    cluster.run(RENEW_MS)
    assert dict(node.epochs) == kept


def test_a_node_that_joined_between_two_questions_keeps_what_it_holds(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who read the nodes before that one was there takes it for none, and its partitions for free ones."""
    node = cluster.join("a")
    read = leases.list_nodes

    def join_after(conn: Connection) -> list[leases.NodeRow]:
        monkeypatch.undo()
        rows = read(conn)
        cluster.join("b")
        with cluster.db.write() as other:
            leases.give_leases(other, "a", dict.fromkeys(range(8), "b"), node.epochs)
        return rows

    cluster.run(1000)
    monkeypatch.setattr(leases, "list_nodes", join_after)
    node.step(cluster.clock.now_ms())
    assert {row.owner for row in cluster.rows()[:8]} == {"b"}


def test_a_take_asks_whether_a_holder_that_nobody_saw_is_there(cluster: Cluster) -> None:
    cluster.join("a")
    with cluster.db.write() as conn:
        assert leases.take_leases(conn, "b", {1: "a"}, {}) == {}
        leases.delete_node(conn, "a")
        assert leases.take_leases(conn, "b", {1: "a"}, {}) == {1: 2}


def test_what_falls_to_a_node_that_froze_since_is_taken_by_another(cluster: Cluster) -> None:
    """A dead node's partitions are shared out; who shall have some of them may be dead too, and no one knows yet."""
    for name in "abc":
        cluster.join(name)
    cluster.run(4000)
    assert sorted(cluster.sizes().values()) == [21, 21, 22]
    while cluster.nodes["a"].may_act(500):
        cluster.run(STEP_MS, "a")
    cluster.run(500 + 2000, "a", "b")
    assert cluster.nodes["b"].may_act()  # its own partitions are no one else's yet
    held = cluster.nodes["b"].epochs.keys() | cluster.nodes["c"].epochs.keys()
    assert held == set(range(PARTITIONS))


@pytest.mark.parametrize("skew_ms", [-3_600_000, 3_600_000])
def test_a_clock_that_jumps_keeps_no_dead_node_alive_and_kills_no_live_one(cluster: Cluster, skew_ms: int) -> None:
    cluster.pair()
    cluster.skew_ms = skew_ms
    cluster.run(8000)
    assert cluster.sizes() == {"a": 32, "b": 32}
    assert {row.epoch for row in cluster.rows()} == {1, 2}  # as the join left them
    cluster.run(LEASE_MS + 600, "a")
    assert cluster.sizes()["b"] == 64


def _away(_conn: Connection) -> list[leases.NodeRow]:
    raise OSError("away")


def test_a_lapsed_node_acts_under_new_epochs_only(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    node = cluster.join("a")
    before = dict(node.epochs)
    cluster.clock.advance(LEASE_MS)
    assert not node.may_act()
    with monkeypatch.context() as away:
        away.setattr(leases, "list_nodes", _away)  # what it reads after it renewed
        with pytest.raises(OSError, match="away"):
            node.step(cluster.clock.now_ms())
    assert not node.may_act()  # others see it live again; it has retaken nothing yet
    assert not node.epochs
    node.step(cluster.clock.now_ms())
    assert node.may_act()
    assert dict(node.epochs) == {part: epoch + 1 for part, epoch in before.items()}
    now_ms = cluster.clock.now_ms()
    # what it fenced before may be somebody else's by now, as after a freeze between the fence and the send
    assert not node.may_send(now_ms - 1, 1000)
    assert node.may_send(now_ms, 1000)


def test_a_node_sends_on_at_once_when_the_shared_time_went_back(cluster: Cluster) -> None:
    node = cluster.join("a")
    cluster.clock.step_wall(-600_000)
    node.halt()
    node.step(cluster.clock.now_ms())
    assert node.may_send(cluster.clock.now_ms(), 1000)


@pytest.mark.parametrize("held", [0, 8])
def test_a_lapsed_node_takes_anew_what_it_was_given_while_it_stood_still(cluster: Cluster, held: int) -> None:
    """Another may be about to take that too: it must not be used before one of the two transactions is committed."""
    giver, node = cluster.join("a"), cluster.join("b")
    with cluster.db.write() as conn:
        leases.give_leases(conn, "a", dict.fromkeys(range(held), "b"), giver.epochs)
    node.step(cluster.clock.now_ms())
    assert len(node.epochs) == held
    with cluster.db.write() as conn:
        leases.give_leases(conn, "a", {20: "b"}, giver.epochs)
    cluster.clock.advance(LEASE_MS)
    node.step(cluster.clock.now_ms())
    assert node.may_act()
    assert node.epochs[20] == 3


def test_a_lapsed_node_finds_what_was_taken_from_it_and_given_back(cluster: Cluster) -> None:
    """It retakes what is its own by the rows when it wakes, and no more."""
    node, other = cluster.pair()
    cluster.run(LEASE_MS + 600, "a")
    assert len(other.epochs) == 64
    cluster.run(4000)
    rows = {row.partition: row.epoch for row in cluster.rows() if row.owner == "a"}
    assert dict(node.epochs) == rows
    assert len(rows) == 32
    assert min(rows.values()) > 2


def test_n15_the_lease_counts_from_when_its_renewal_was_sent(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """N15: a renewal whose answer takes four seconds leaves six of ten."""
    node = cluster.join("a")
    write = leases.renew_node

    def slow(*args: object, **more: object) -> int:
        found = write(*args, **more)  # type: ignore[arg-type]
        cluster.clock.advance(4000)
        return found

    monkeypatch.setattr(leases, "renew_node", slow)
    cluster.clock.advance(RENEW_MS)
    node.step(cluster.clock.now_ms())
    assert node.may_act(LEASE_MS - 4000 - 1)
    assert not node.may_act(LEASE_MS - 4000)


def test_n16_lock_gives_no_partition_whose_epoch_moved_on(cluster: Cluster) -> None:
    """N16: what was taken and given back behind this node's back is not the lease that it knows."""
    node = cluster.join("a")
    with cluster.db.write() as conn:
        leases.give_leases(conn, "a", {7: "b", 8: "b"}, node.epochs)
    with cluster.db.write() as conn:
        leases.give_leases(conn, "b", {7: "a"}, {7: 2})
    with cluster.db.write() as conn:
        assert node.lock(conn).keys() == set(range(PARTITIONS)) - {7, 8}


def test_a_node_gives_away_only_what_it_holds_under_the_epoch_it_knows(cluster: Cluster) -> None:
    node = cluster.join("a")
    epochs = dict(node.epochs)
    with cluster.db.write() as conn:
        leases.give_leases(conn, "a", {6: "b", 7: "b"}, epochs)
    with cluster.db.write() as conn:
        leases.give_leases(conn, "b", {7: "a"}, {7: epochs[7] + 1})
    with cluster.db.write() as conn:
        assert leases.give_leases(conn, "a", dict.fromkeys((6, 7, 8), "c"), epochs) == {8: "c"}
    assert [cluster.rows()[part].owner for part in (6, 7, 8)] == ["b", "a", "c"]


def test_n17_a_take_leaves_what_has_another_owner_by_now(cluster: Cluster) -> None:
    """N17: the holder that was seen, and no other, loses its partition."""
    cluster.join("a")
    with cluster.db.write() as conn:
        assert leases.take_leases(conn, "b", {1: "c", 2: None, 3: "a"}, {"a": 99, "c": 1}) == {}
    with cluster.db.write() as conn:
        assert leases.take_leases(conn, "b", {1: "c", 2: None, 3: "a"}, {"a": 1, "c": 1}) == {3: 2}
    assert [row.partition for row in cluster.rows() if row.owner == "b"] == [3]


def test_a_dead_node_that_renews_in_the_last_moment_keeps_its_partitions(cluster: Cluster) -> None:
    node = cluster.join("a")
    with cluster.db.read() as conn:
        (seen,) = leases.list_nodes(conn)
    cluster.run(RENEW_MS)
    with cluster.db.write() as conn:  # b decides on what it read before a renewed
        taken = leases.take_leases(conn, "b", dict.fromkeys(range(64), "a"), {"a": seen.renewal})
    assert taken == {}
    with cluster.db.write() as conn:
        assert len(node.lock(conn)) == 64


def test_what_is_being_handed_over_is_locked_by_nobody_and_comes_back_if_that_fails(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cluster.join("a")
    cluster.join("b")

    def give(_conn: Connection, _owner: str, moves: Mapping[int, str], _epochs: object) -> dict[int, str]:
        assert not moves.keys() & first.epochs.keys()  # no new lock comes in the way
        return {}  # as if all of them were locked

    monkeypatch.setattr(leases, "give_leases", give)
    cluster.run(500)
    assert len(first.epochs) == PARTITIONS - GIVEN_AT_ONCE
    with cluster.db.write() as conn:
        assert first.lock(conn).keys() == first.epochs.keys()
    cluster.changes.clear()
    cluster.run(GIVE_LIMIT_MS + 100)
    assert len(first.epochs) == PARTITIONS
    assert cluster.changes == [("a", True)]  # rows that fell out meanwhile must be looked for
    monkeypatch.undo()
    cluster.run(2 * RENEW_MS)
    assert cluster.sizes() == {"a": 32, "b": 32}


def test_a_taker_that_has_not_renewed_lately_is_given_nothing(cluster: Cluster) -> None:
    cluster.join("a")
    cluster.run(1000)
    cluster.join("b")
    cluster.clock.advance(2 * RENEW_MS)  # it may be dead, though its lease lasts
    cluster.nodes["a"].step(cluster.clock.now_ms())  # sees b for the first time
    assert {row.owner for row in cluster.rows()} == {"a"}
    cluster.nodes["b"].step(cluster.clock.now_ms())
    cluster.nodes["a"].step(cluster.clock.now_ms())
    assert {row.owner for row in cluster.rows()} == {"a", "b"}


def test_r7_dead_nodes_are_forgotten_by_key_and_not_in_the_renewal(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.join("a")
    cluster.join("b")
    del cluster.nodes["b"]
    asked: list[object] = []
    forget = leases.forget_nodes

    def note(conn: Connection, seen: dict[str, int]) -> int:
        asked.append(dict(seen))
        return forget(conn, seen)

    monkeypatch.setattr(leases, "forget_nodes", note)
    cluster.run(30_000)
    assert asked == []
    cluster.clock.advance(61 * LEASE_MS)
    node.step(cluster.clock.now_ms())
    assert asked == [{"b": 1}]
    assert cluster.node_ids() == ["a"]
    with cluster.db.write() as conn:  # it renewed after it was read
        assert leases.forget_nodes(conn, {"a": 1}) == 0


def test_r18_a_node_of_this_machine_that_has_ended_is_taken_over_at_once(cluster: Cluster, tmp_path: Path) -> None:
    """R18: anyone who starts again, or runs next to it, sees that no one holds the file any more."""
    names = [f"{number:016x}" for number in range(3)]
    folder = tmp_path / "locks"
    locks = [NodeLocks(folder) for _ in names]
    cluster.join(names[0], locks[0])
    cluster.join(names[1], locks[1])
    cluster.run(4000)
    assert cluster.sizes() == {names[0]: 32, names[1]: 32}
    cluster.run(2000, names[0])
    assert len(cluster.nodes[names[1]].epochs) == 32  # it is silent, but its process lives
    killed = [cluster.nodes.pop(name) for name in names[:2]]
    for item in locks[:2]:
        item.leave()  # as the end of the process does
    node = cluster.join(names[2], locks[2])
    assert len(node.epochs) == PARTITIONS
    assert not any(other.epochs == node.epochs for other in killed)
    with cluster.db.write() as conn:
        assert [one.lock(conn) for one in killed] == [{}, {}]


def test_a_damaged_table_stops_the_node(cluster: Cluster) -> None:
    with cluster.db.write() as conn:
        conn.exec_driver_sql("DELETE FROM partition_lease WHERE partition_lease.partition = 7")
    with pytest.raises(LockError, match="63 rows instead of 64"):
        cluster.join("a")


@pytest.mark.parametrize("seed", range(6))
def test_nodes_that_come_and_go_never_overlap_and_end_with_fair_shares(cluster: Cluster, seed: int) -> None:
    dice, draining = random.Random(seed), set[str]()
    for number in range(25):
        name = f"n{number}"
        choice = dice.random()
        if len(cluster.nodes) < 2 or (choice < 0.3 and len(cluster.nodes) < 6):
            cluster.join(name)
        elif choice < 0.4:
            cluster.nodes.pop(dice.choice(sorted(cluster.nodes))).release()
        elif choice < 0.5:
            chosen = dice.choice(sorted(cluster.nodes))
            cluster.nodes[chosen].drain()
            draining.add(chosen)
        elif choice < 0.6:
            cluster.nodes.pop(dice.choice(sorted(cluster.nodes)))  # kill -9
        silent = [one for one in cluster.nodes if dice.random() < 0.2]
        cluster.run(dice.choice([300, 1000, 3000]), *silent)
    for name in draining & cluster.nodes.keys():
        cluster.nodes.pop(name).release()
    if not cluster.nodes:
        cluster.join("last")
    cluster.run(LEASE_MS + 5000)
    sizes = cluster.sizes()
    assert sum(sizes.values()) == PARTITIONS
    assert max(sizes.values()) - min(sizes.values()) <= 1


OWNERS = st.lists(st.sampled_from(["a", "b", "c", "dead", None]), min_size=64, max_size=64)


@given(OWNERS)
def test_shares_become_fair_and_move_only_what_must_move(start: list[str | None]) -> None:
    live = {"a", "b", "c"}
    owners: dict[int, str | None] = dict(enumerate(start))
    before = dict(owners)
    moved: set[int] = set()
    for _ in range(4):
        for me in sorted(live):
            moves = decide_moves(owners, live, me)
            assert not (moves.take and moves.give)
            for part, taker in moves.give.items():
                assert owners[part] == me
                owners[part] = taker
                moved.add(part)
            for part in moves.take:
                assert owners[part] not in live
                owners[part] = me
    counts = [sum(owner == name for owner in owners.values()) for name in live]
    assert sorted(counts) == [21, 21, 22]
    surplus = sum(max(0, sum(owner == name for owner in before.values()) - 21) for name in live)
    assert len(moved) <= surplus


@given(OWNERS, st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
def test_who_drains_hands_all_over_and_gets_nothing(start: list[str | None], draining: set[str]) -> None:
    live = {"a", "b", "c"}
    owners: dict[int, str | None] = dict(enumerate(start))
    for _ in range(4):
        for me in sorted(live):
            moves = decide_moves(owners, live, me, draining)
            assert not draining & set(moves.give.values())
            assert not (me in draining and moves.take)
            owners |= moves.give | dict.fromkeys(moves.take, me)
    staying = live - draining
    if staying:
        counts = [sum(owner == name for owner in owners.values()) for name in staying]
        assert sum(counts) == PARTITIONS
        assert max(counts) - min(counts) <= 1
    else:
        assert owners == dict(enumerate(start))


def test_a_halt_that_comes_during_a_renewal_needs_another_one(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.join("a")
    write = leases.renew_node

    def halted(*args: object, **more: object) -> int:
        found = write(*args, **more)  # type: ignore[arg-type]
        monkeypatch.undo()
        node.halt()
        return found

    monkeypatch.setattr(leases, "renew_node", halted)
    cluster.clock.advance(RENEW_MS)
    node.step(cluster.clock.now_ms())
    assert not node.may_act()
    node.step(cluster.clock.now_ms())
    assert node.may_act()


def test_a_lease_that_is_taken_anew_counts_from_when_its_renewal_was_sent(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.join("a")
    write = leases.renew_node

    def slow(*args: object, **more: object) -> int:
        found = write(*args, **more)  # type: ignore[arg-type]
        cluster.clock.advance(4000)
        return found

    monkeypatch.setattr(leases, "renew_node", slow)
    cluster.clock.advance(2 * LEASE_MS)
    node.step(cluster.clock.now_ms())
    assert node.may_act(LEASE_MS - 4000 - 1)
    assert not node.may_act(LEASE_MS - 4000)


def test_partitions_that_come_back_under_a_new_epoch_are_news(cluster: Cluster) -> None:
    node = cluster.join("a")
    with cluster.db.write() as conn:
        leases.give_leases(conn, "a", {7: "b"}, node.epochs)
    with cluster.db.write() as conn:
        leases.give_leases(conn, "b", {7: "a"}, {7: 2})
    cluster.changes.clear()
    cluster.clock.advance(RENEW_MS)
    node.step(cluster.clock.now_ms())
    assert node.epochs[7] == 3
    assert cluster.changes == [("a", False)]


# a database that lost commits


def _forget_renewals(cluster: Cluster, count: int) -> None:
    """Let the database be as it was some renewals of all nodes before."""
    with cluster.db.write() as conn:
        conn.execute(update(node_rows).values(renewal=node_rows.c.renewal - count))


def test_commits_that_the_database_lost_are_told_and_cost_each_node_its_lease(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """R27: its epochs and run ids may be others' now."""
    told: list[tuple[str, int]] = []
    began_ms = cluster.clock.monotonic_ms()
    for item in cluster.pair():
        item.on_loss = lambda since_ms, owner=item.owner: told.append((owner, since_ms))  # type: ignore[misc]
    cluster.run(3 * RENEW_MS)
    before = {row.partition: row.epoch for row in cluster.rows()}
    _forget_renewals(cluster, 2)
    with cluster.db.read() as conn:
        last_ms = {row.id: row.until_ms - LEASE_MS - NOW + began_ms for row in leases.list_nodes(conn)}
    cluster.run(2 * RENEW_MS)
    # what two renewals said is gone, and what was committed before and after each of them
    assert sorted(told) == [(name, last_ms[name] - 3 * RENEW_MS) for name in ("a", "b")]
    lines = [item.getMessage() for item in caplog.records if item.levelname == "ERROR"]
    assert len(lines) == 2
    assert all("the database lost commits" in line and "Runs of the last 10 s" in line for line in lines)
    counted = [re.search(r"it knows (\d+) renewals of node . where (\d+) were", line) for line in lines]
    assert [int(found[2]) - int(found[1]) for found in counted if found] == [2, 2]
    assert all(row.epoch > before[row.partition] for row in cluster.rows())
    assert cluster.sizes() == {"a": 32, "b": 32}
    assert all(item.may_act() for item in cluster.nodes.values())
    cluster.run(2 * RENEW_MS)
    assert len(told) == 2


def test_what_may_be_lost_is_counted_by_the_time_of_renewals_which_may_come_late(cluster: Cluster) -> None:
    one, told, sent = cluster.join("a"), list[int](), list[int]()
    for late in (1, 2, 3, 1):
        cluster.clock.advance(late * RENEW_MS)
        one.step(cluster.clock.now_ms())
        sent.append(cluster.clock.monotonic_ms())
    one.on_loss = told.append
    _forget_renewals(cluster, 2)
    cluster.clock.advance(RENEW_MS)
    one.step(cluster.clock.now_ms())
    # the database has the second of the four; what was committed since the first may be gone
    assert told == [sent[0]]


def test_a_node_does_not_act_before_others_ids_are_left_out(cluster: Cluster) -> None:
    one = cluster.join("a")
    cluster.run(2 * RENEW_MS)
    failures = [OSError("no answer"), OSError("no answer")]

    def fail(_: int) -> None:
        assert not one.may_act()
        if failures:
            raise failures.pop()

    one.on_loss = fail
    _forget_renewals(cluster, 1)
    cluster.clock.advance(RENEW_MS)
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            one.step(cluster.clock.now_ms())
        assert not one.may_act()
    one.step(cluster.clock.now_ms())
    assert one.may_act()


def test_a_row_that_others_deleted_is_no_loss(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    one = cluster.join("a")
    cluster.run(3 * RENEW_MS)
    with cluster.db.write() as conn:
        leases.delete_node(conn, "a")
    cluster.run(2 * RENEW_MS)
    assert one.may_act()
    assert "lost commits" not in caplog.text


def test_another_server_costs_each_node_its_lease_whatever_it_lacks(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """What is lost may lie between two renewals."""
    caplog.set_level(logging.INFO)
    told: list[str] = []
    for item in cluster.pair():
        item.on_loss = lambda _, owner=item.owner: told.append(owner)  # type: ignore[misc]
    before = {row.partition: row.epoch for row in cluster.rows()}
    cluster.server = "two"
    cluster.run(2 * RENEW_MS)
    assert sorted(told) == ["a", "b"]
    assert all(row.epoch > before[row.partition] for row in cluster.rows())
    assert "the database is another server now" in caplog.text
    assert "lost commits" not in caplog.text
    cluster.run(2 * RENEW_MS)
    assert len(told) == 2


def test_a_row_that_another_server_does_not_have_is_a_loss(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """The node joined in what was lost."""
    one = cluster.join("a")
    cluster.run(3 * RENEW_MS)
    with cluster.db.write() as conn:
        leases.delete_node(conn, "a")
    cluster.server = "two"
    cluster.run(2 * RENEW_MS)
    assert one.may_act()
    assert "it knows 0 renewals of node a where" in caplog.text
