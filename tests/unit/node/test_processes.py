"""Which processes start, are started again, and leave; without a process."""

from __future__ import annotations

import signal
from typing import cast

import pytest

from xwheel.config import build_config
from xwheel.errors import ConfigError
from xwheel.node.processes import (
    CALM_MS,
    DRAIN_MS,
    FIRST_PAUSE_MS,
    FROZEN_MS,
    LONGEST_PAUSE_MS,
    SILENT_MS,
    NodeProcess,
    Supervisor,
    supervise,
)

STEP_MS, START_MS = 1000, 120_000


class Made:
    """A process of which the test says what it does."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.is_up = self.is_leaving = self.is_frozen = self.is_forgotten = False
        self.since_ms = self.silent_ms = self.late_ms = 0
        self.status: int | None = None
        self.told: list[int] = []

    def beats(self) -> bool:
        return not self.is_frozen

    def poll(self) -> int | None:
        return self.status

    def send_signal(self, number: int) -> None:
        self.told.append(number)

    def forget(self) -> None:
        self.is_forgotten = True


class Machine:
    def __init__(self, count: int) -> None:
        self.now_ms = 0
        self.is_full = False
        self.made: list[Made] = []
        self.supervisor = Supervisor(count, self._start, START_MS)

    def _start(self) -> NodeProcess:
        if self.is_full:
            raise BlockingIOError("Resource temporarily unavailable")
        self.made.append(Made(len(self.made) + 1))
        return cast(NodeProcess, self.made[-1])

    def step(self, by_ms: int = STEP_MS) -> bool:
        self.now_ms += by_ms
        return self.supervisor.step(self.now_ms)

    def up(self) -> None:
        """Let all that was started come up."""
        for one in self.made:
            one.is_up = True
        self.step()

    def pids(self) -> list[int]:
        return [one.pid for one in self.made if one.status is None]


@pytest.fixture
def machine() -> Machine:
    machine = Machine(3)
    machine.step()
    machine.up()
    machine.up()
    assert machine.pids() == [1, 2, 3]
    return machine


def test_the_first_one_starts_alone_and_the_others_once_it_is_up() -> None:
    machine = Machine(3)
    machine.step()
    machine.step()
    assert machine.pids() == [1]
    machine.up()
    assert machine.pids() == [1, 2, 3]


@pytest.mark.parametrize("status", [0, 2, 7, -9])
def test_what_keeps_the_first_one_from_starting_ends_the_whole(status: int) -> None:
    machine = Machine(3)
    machine.step()
    machine.made[0].status = status
    assert not machine.step()
    assert machine.supervisor.status == status
    assert len(machine.made) == 1


def test_one_that_dies_is_started_again_later_each_time(machine: Machine) -> None:
    pauses = []
    for _ in range(8):
        machine.made[-1].status = -9
        assert machine.step()
        count, died_ms = len(machine.made), machine.now_ms
        while len(machine.made) == count:
            machine.step()
        pauses.append(machine.now_ms - died_ms)
        machine.up()
    assert pauses[0] == FIRST_PAUSE_MS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_MS
    machine.step(CALM_MS)
    machine.made[-1].status = 1
    machine.step()
    machine.step(FIRST_PAUSE_MS)
    assert machine.made[-1].status is None
    assert machine.supervisor.status == 0


def test_one_that_dies_while_it_starts_ends_nothing_else(machine: Machine) -> None:
    machine.made[0].status = -9
    machine.step()
    machine.step(FIRST_PAUSE_MS)
    machine.made[-1].status = 7
    assert machine.step()
    machine.step(2 * FIRST_PAUSE_MS)
    assert machine.pids() == [2, 3, 5]


def test_one_that_is_frozen_is_killed(machine: Machine) -> None:
    machine.made[1].is_frozen = True
    machine.step(FROZEN_MS - STEP_MS)
    assert machine.made[1].told == []
    machine.step(2 * STEP_MS)
    assert [one.told for one in machine.made] == [[], [signal.SIGKILL], []]
    machine.made[1].status = -9
    machine.step()
    machine.step(FIRST_PAUSE_MS)
    assert machine.pids() == [1, 3, 4]


def test_each_is_replaced_once_its_successor_is_up(machine: Machine) -> None:
    machine.supervisor.roll()
    for old in (1, 2, 3):
        machine.step()
        machine.step()
        assert len(machine.pids()) == 4
        assert all(not one.told for one in machine.made[old - 1 :])
        machine.up()
        assert machine.made[old - 1].told == [signal.SIGHUP]
        machine.step()
        assert len(machine.pids()) == 4  # none starts while it drains
        machine.made[old - 1].status = 0
        machine.step()
    for _ in range(5):
        machine.up()
    assert machine.pids() == [4, 5, 6]
    assert all(not one.told for one in machine.made[3:])


def test_a_successor_that_does_not_start_leaves_the_old_ones(machine: Machine) -> None:
    machine.supervisor.roll()
    machine.step()
    machine.made[3].status = 2
    for _ in range(40):
        machine.step()
    assert machine.pids() == [1, 2, 3]
    assert all(not one.told for one in machine.made)
    machine.supervisor.roll()  # what was wrong has been put right
    machine.step()
    machine.up()
    assert machine.made[0].told == [signal.SIGHUP]


def test_an_old_one_that_dies_is_replaced_as_well(machine: Machine) -> None:
    machine.supervisor.roll()
    machine.step()
    machine.made[1].status = -9
    machine.step()
    for _ in range(10):
        machine.step()
        machine.up()
        for one in machine.made:
            if one.told and one.status is None:
                one.status = 0
    assert len(machine.pids()) == 3
    assert min(machine.pids()) > 3


def test_it_ends_when_all_have_ended(machine: Machine) -> None:
    machine.supervisor.roll()
    machine.step()
    machine.supervisor.end()
    assert [one.told for one in machine.made] == [[signal.SIGTERM]] * 4
    for one, status in zip(machine.made, (0, 0, 1, 0), strict=True):
        assert machine.step()
        one.status = status
    assert not machine.step()
    assert (machine.supervisor.status, len(machine.made)) == (1, 4)


def test_processes_that_die_together_start_together(machine: Machine) -> None:
    for one in machine.made:
        one.status = -9
    machine.step()
    machine.step(FIRST_PAUSE_MS)
    assert machine.pids() == [4, 5, 6]
    assert all(one.is_forgotten for one in machine.made[:3])


def test_a_successor_that_hangs_while_it_starts_is_killed_and_the_old_ones_stay(machine: Machine) -> None:
    machine.supervisor.roll()
    machine.step()
    for _ in range(START_MS // 10_000):
        machine.step(10_000)
    assert all(not one.told for one in machine.made)
    machine.step()
    assert machine.made[3].told == [signal.SIGKILL]
    machine.made[3].status = -9
    machine.step()
    machine.step(LONGEST_PAUSE_MS)
    assert machine.pids() == [1, 2, 3]


def test_one_that_hangs_while_it_drains_is_killed_and_the_roll_goes_on(machine: Machine) -> None:
    machine.supervisor.roll()
    machine.step()
    machine.up()
    for _ in range(DRAIN_MS // 10_000):
        machine.step(10_000)
    assert machine.made[0].told == [signal.SIGHUP]
    machine.step()
    assert machine.made[0].told == [signal.SIGHUP, signal.SIGKILL]
    machine.made[0].status = -9
    machine.step()
    assert machine.pids() == [2, 3, 4, 5]


def test_the_end_of_one_that_was_replaced_is_not_that_of_the_whole(machine: Machine) -> None:
    machine.supervisor.roll()
    machine.step()
    machine.up()
    machine.made[0].status = 1
    machine.step()
    machine.supervisor.end()
    for one in machine.made:
        one.status = 0 if one.status is None else one.status
    assert not machine.step()
    assert machine.supervisor.status == 0


def test_one_that_says_nothing_yet_has_more_time(machine: Machine) -> None:
    machine.made[0].status = -9
    machine.step()
    machine.step(FIRST_PAUSE_MS)
    machine.made[3].is_frozen = True
    machine.step(SILENT_MS - STEP_MS)
    assert machine.made[3].told == []
    machine.step(2 * STEP_MS)
    assert machine.made[3].told == [signal.SIGKILL]


def test_a_machine_that_has_no_process_left_is_asked_again_later(machine: Machine) -> None:
    machine.is_full = True
    machine.made[0].status = -9
    machine.step()
    assert machine.step()
    machine.is_full = False
    machine.step(LONGEST_PAUSE_MS - STEP_MS)
    assert machine.pids() == [2, 3]
    machine.step()
    assert machine.pids() == [2, 3, 4]


def test_sqlite_has_one_node() -> None:
    with pytest.raises(ConfigError, match=r"--processes 2: SQLite has one node .* PostgreSQL or MariaDB"):
        supervise(2, [], lambda: build_config({"database": {"url": "sqlite:///x.db"}}))
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
