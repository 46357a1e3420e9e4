"""Who shuts overdue connections, and forgets those that the garbage collector finds at any moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from xwheel.storage.database.deadline import Deadlines, Watched

PATIENCE_S = 30


class Wire(Watched):
    """A driver's connection that is only a socket."""

    def __init__(self) -> None:
        self.near, self.far = socket.socketpair()

    def fileno(self) -> int:
        return self.near.fileno()

    def close(self) -> None:
        self.forget()
        self.near.close()
        self.far.close()


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire]]:
    made = Wire(), Wire()
    yield made
    for wire in made:
        wire.close()


def test_a_connection_may_be_forgotten_in_the_middle_of_the_watch(wires: tuple[Wire, Wire]) -> None:
    """The collector may run on the thread that holds the guard, which then must not wait for itself."""
    deadlines = Deadlines(PATIENCE_S)
    garbage, other = wires
    for wire in wires:
        deadlines._watch(wire)

    def collect() -> None:
        with deadlines._guard:
            garbage.forget()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert other.answer is not None
    other.answer.until_s = 0
    other.near.settimeout(PATIENCE_S)
    assert other.near.recv(1) == b""  # it is shut: the watch goes on


def test_one_that_is_forgotten_while_another_is_shut_is_left_alone(wires: tuple[Wire, Wire]) -> None:
    """To shut one makes objects, and so the collector may run and forget another that is overdue too."""
    deadlines = Deadlines(PATIENCE_S)
    shut: list[Wire] = []
    for wire, other in (wires, wires[::-1]):
        deadlines._watch(wire)
        assert wire.answer is not None
        wire.answer.until_s = 0

        def collect(wire: Wire = wire, other: Wire = other) -> None:
            shut.append(wire)
            other.forget()

        wire.answer.shut = collect  # type: ignore[method-assign]
    deadlines._shut_overdue(1)
    assert len(shut) == 1
