"""The database's clock is followed; when it jumps, nothing is claimed or sent before the leases are renewed."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock, OffsetFilter, SystemClock
from xwheel.scheduler.cluster import clock_sync
from xwheel.scheduler.cluster.clock_sync import CONFIRM_MS, INTERVAL_MS, ClockSync
from xwheel.storage.database.engine import Database
from xwheel.storage.database.rows import database_now_ms


class Steered(SystemClock):
    """A machine whose monotonic clock is moved by hand."""

    def __init__(self) -> None:
        self.at_ms = 1000
        super().__init__()
        self._offset_ms = NOW - self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms


class Machine:
    """A timekeeper, and a database whose clock is ahead of the node's by what the test says.

    Attributes:
        trips: Round trips of the next questions in milliseconds; the last one is repeated.
    """

    def __init__(self, db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = Steered()
        self.ahead_ms = 0
        self.trips = [2]
        self.told: list[int] = []
        self.keeper = ClockSync(db, self.clock, OffsetFilter(self.clock), self.told.append)
        monkeypatch.setattr(clock_sync, "database_now_ms", self._answer)

    def _answer(self, _: object) -> int:
        trip_ms = self.trips.pop(0) if len(self.trips) > 1 else self.trips[0]
        # the answer is made when the question arrives, and comes back late
        shared_ms = NOW + self.clock.at_ms - 1000 + self.ahead_ms
        self.clock.at_ms += trip_ms
        return shared_ms

    def off_ms(self) -> int:
        """Return how far the node's clock is behind the database's."""
        return NOW + self.clock.at_ms - 1000 + self.ahead_ms - self.clock.now_ms()


@pytest.fixture
def machine(db: Database, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(db, monkeypatch)


def test_the_first_sample_counts_however_far_off_the_machine_is(machine: Machine) -> None:
    machine.ahead_ms = -3_600_000
    machine.keeper.begin()
    assert abs(machine.off_ms()) <= 2
    assert machine.told == []


def test_the_sample_of_least_round_trip_counts(machine: Machine) -> None:
    machine.ahead_ms = 100
    machine.trips = [400, 400, 300, 2, 400, 350]  # the first question warms up
    assert machine.keeper.step(0) == INTERVAL_MS
    assert abs(machine.off_ms()) <= 2


def test_a_step_is_believed_at_the_third_sample_and_told(machine: Machine) -> None:
    machine.ahead_ms = 501 + 5
    assert [machine.keeper.step(0) for _ in range(2)] == [CONFIRM_MS, CONFIRM_MS]
    assert machine.off_ms() > 500
    assert machine.told == []
    assert machine.keeper.step(0) == INTERVAL_MS
    assert abs(machine.off_ms()) <= 2
    assert len(machine.told) == machine.keeper.steps == 1


def test_a_single_wild_sample_changes_nothing(machine: Machine) -> None:
    machine.ahead_ms = 90_000
    machine.keeper.step(0)
    machine.ahead_ms = 0
    assert machine.keeper.step(0) == INTERVAL_MS
    assert machine.off_ms() == 0
    assert machine.keeper.steps == 0


@pytest.mark.parametrize("jump_ms", [3_600_000, -3_600_000])
def test_a_jump_stops_claims_and_sends_until_leases_are_renewed(db: Database, jump_ms: int) -> None:
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001/")
    node.job(schedule_conf="1")
    due = node.scheduler.management.run_now.run(node.job(name="by hand", enabled=False).id)
    node.adopt()
    node.clock.step_wall(jump_ms)
    node.scheduler.core.clock_sync.on_step(jump_ms)
    assert not node.scheduler.core.lease.may_act()
    assert node.scheduler.planning.claim.step(node.clock.now_ms()) > 0
    node.tick(1)
    assert node.sent == []
    assert [run.id for run in node.runs()] == [due.id]
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.register("http://127.0.0.1:9001/")
    node.scheduler.core.registry.step(node.clock.now_ms())
    assert node.scheduler.core.lease.may_act()
    node.tick(1)
    if jump_ms > 0:
        assert [shard.run.id for parcel in node.sent for shard in parcel.shards] == [due.id]
        node.plan()
        assert len(node.runs()) > 1
        return
    later = node.scheduler.management.run_now.run(node.job(name="by hand again", enabled=False).id)
    node.adopt()
    node.tick(1)
    assert [shard.run.id for parcel in node.sent for shard in parcel.shards] == [later.id]


def test_the_offset_is_the_databases_whatever_its_zone(db: Database) -> None:
    with db.read() as conn:
        shared_ms = database_now_ms(conn)
    clock = SystemClock()
    machine_ms = clock.now_ms()
    clock.set_offset(0, 0)  # a machine whose clock stands at its start
    ClockSync(db, clock, OffsetFilter(clock), lambda _: None).begin()
    # the tests' servers run on this machine, in the zone of India: an error of the zone would be hours
    assert abs(clock.now_ms() - machine_ms) < 60_000
    assert abs(clock.now_ms() - shared_ms) < 60_000


def test_samples_that_contradict_each_other_move_nothing() -> None:
    clock = Steered()
    follows = OffsetFilter(clock)
    for ahead_ms in (60_000, -60_000, 120_000, -120_000):
        assert follows.sample(NOW + ahead_ms, clock.at_ms, clock.at_ms) is None
    assert clock.now_ms() == NOW


def test_steps_with_a_good_sample_between_them_do_not_add_up() -> None:
    clock = Steered()
    follows = OffsetFilter(clock)
    for ahead_ms in (60_000, 60_000, 0, 60_000, 0):
        assert follows.sample(NOW + ahead_ms, clock.at_ms, clock.at_ms) is None
    assert not follows.is_suspicious
    assert clock.now_ms() == NOW
