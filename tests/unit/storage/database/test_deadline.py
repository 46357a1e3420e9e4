"""Who shuts overdue connections, and forgets those that the garbage collector finds at any moment."""

from __future__ import annotations

import gc
import math
import socket
import threading
from collections.abc import Iterator

import pytest

from xwheel.storage.database.deadline import TRUSTED_S, Deadlines, Watched
from xwheel.storage.database.engine import Database

PATIENCE_S = 30


class Wire(Watched):
    """A driver's connection that is only a socket."""

    failure = OSError
    server = ("one", 1)

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
    for wire in wires:
        deadlines._watch(wire)
    with deadlines._guard:  # the loop waits meanwhile
        for wire, other in (wires, wires[::-1]):

            def collect(wire: Wire = wire, other: Wire = other) -> None:
                shut.append(wire)
                other.forget()

            assert wire.answer is not None
            wire.answer.until_s = 0
            wire.answer.shut = collect  # type: ignore[method-assign]
        deadlines._shut_overdue(1)
        for wire in wires:
            wire.forget()
    assert len(shut) == 1


def test_an_error_in_the_watch_ends_no_deadline(wires: tuple[Wire, Wire], caplog: pytest.LogCaptureFixture) -> None:
    deadlines = Deadlines(PATIENCE_S)
    broken, other = wires
    for wire in wires:
        deadlines._watch(wire)
    failed = threading.Event()

    def fail() -> None:
        assert broken.answer is not None
        broken.answer.until_s = math.inf
        failed.set()
        raise OSError("no such socket")

    assert broken.answer is not None
    assert other.answer is not None
    broken.answer.shut = fail  # type: ignore[method-assign]
    broken.answer.until_s = 0
    assert failed.wait(PATIENCE_S)
    other.answer.until_s = 0
    other.near.settimeout(PATIENCE_S)
    assert other.near.recv(1) == b""
    (service,) = deadlines.services
    assert service.is_healthy()
    assert service.failures == 1
    assert "loop database fails and is repeated" in caplog.text
    for wire in wires:
        wire.forget()
    deadlines.close()
    assert not service.is_alive()
    assert not deadlines.services


def test_the_watch_of_a_database_that_is_not_closed_ends_with_it() -> None:
    """A later connection begins another one: a closed database may be used again."""
    db = Database("mysql+pymysql://ada@db.example/x")
    wires = Wire(), Wire()
    db._deadlines._watch(wires[0])
    (first,) = db.services
    wires[0].close()
    db.close()
    assert not first.is_alive()
    db._deadlines._watch(wires[1])
    (second,) = db.services
    assert second.is_alive()
    del db
    gc.collect()
    wires[1].close()
    second._thread.join(PATIENCE_S)
    assert not second.is_alive()


def test_who_waits_while_the_database_is_closed_waits_no_longer_than_else(wires: tuple[Wire, Wire]) -> None:
    """A thread that did not end in time may wait for a frozen server: nothing else ends that wait."""
    deadlines = Deadlines(PATIENCE_S)
    waiting, other = wires
    for wire in wires:
        deadlines._watch(wire)
    deadlines.close()
    assert waiting.answer is not None
    waiting.answer.until_s = 0
    waiting.near.settimeout(PATIENCE_S)
    assert waiting.near.recv(1) == b""
    (service,) = deadlines.services
    for wire in (waiting, other):
        wire.forget()
    service._thread.join(PATIENCE_S)
    assert not service.is_alive()
    assert deadlines.services == ()


def test_only_what_waits_for_a_server_that_is_left_ends_at_once(wires: tuple[Wire, Wire]) -> None:
    deadlines = Deadlines(PATIENCE_S)
    for wire, name in zip(wires, ("left", "kept"), strict=True):
        wire.server = (name, 1)
        wire.near.setblocking(False)
        deadlines._watch(wire)
    deadlines.end_waits([("left", 1)])
    assert [is_shut(wire) for wire in wires] == [False, False]  # none waits
    for wire in wires:
        assert wire.answer is not None
        wire.answer.expect()
    deadlines.end_waits([("left", 1)])
    assert [is_shut(wire) for wire in wires] == [True, False]


def is_shut(wire: Wire) -> bool:
    try:
        return wire.near.recv(1) == b""
    except BlockingIOError:
        return False


def test_a_wait_that_is_ended_says_how_long_it_was(wires: tuple[Wire, Wire]) -> None:
    """It is shorter than what the server was given."""
    deadlines = Deadlines(PATIENCE_S)
    wire, _ = wires
    wire.server = ("left", 1)
    deadlines._watch(wire)

    def ask() -> None:
        deadlines.end_waits([("left", 1)])
        raise OSError("it broke")

    with pytest.raises(OSError, match=r"no answer within 0\.\d s"):
        wire.awaited(ask)


def test_a_statement_is_waited_for_no_longer_than_all_the_work_of_its_thread(wires: tuple[Wire, Wire]) -> None:
    deadlines = Deadlines(PATIENCE_S)
    wire, _ = wires
    deadlines._watch(wire)
    assert wire.answer is not None
    with deadlines._guard, deadlines.limited(0, None):  # the loop waits meanwhile
        wire.answer.expect()
        assert wire.answer.until_s == deadlines._limits.until_s
        wire.answer.until_s = math.inf


def test_a_connection_begins_another_watch_where_the_one_that_is_there_does_not_run(wires: tuple[Wire, Wire]) -> None:
    """As in a forked process, which has the object and not its thread."""
    deadlines = Deadlines(PATIENCE_S)
    deadlines._watch(wires[0])
    (first,) = deadlines.services
    first.stop(PATIENCE_S)
    assert not first.is_alive()
    deadlines._watch(wires[1])
    (second,) = deadlines.services
    assert second.is_alive()
    deadlines.close()


def test_an_inner_block_does_not_outlast_the_outer_one() -> None:
    deadlines = Deadlines(3600)
    with deadlines.limited(60_000, None), deadlines.limited(3_000_000, None):
        assert deadlines.left_s() <= 60
    assert deadlines.left_s() == 3600


def test_a_connection_is_trusted_for_a_moment_unless_something_waits_to_be_read(
    wires: tuple[Wire, Wire], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 1000.0
    monkeypatch.setattr("xwheel.storage.database.deadline.time.monotonic", lambda: now_s)
    deadlines = Deadlines(PATIENCE_S)
    for wire in wires:
        deadlines._watch(wire)
        assert wire.answer is not None
        assert not wire.answer.is_trusted()  # it was not used yet
        wire.answer.expect()
        assert wire.answer.is_trusted()
    ended, idle = wires
    ended.far.close()
    assert ended.answer is not None
    assert not ended.answer.is_trusted()
    now_s += TRUSTED_S
    assert idle.answer is not None
    assert not idle.answer.is_trusted()
