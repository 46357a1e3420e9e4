"""The proxy does to connections what it is told, and no more."""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.faults.injectors.proxy import Cut, Proxy, Toward
from tests.support.executors import wait_until
from tests.support.ports import free_port

PATIENCE_S = 30
QUIET_S = 0.2
LONG_MS = 3_600_000


class Line:
    """A server that accepts by hand, and a proxy before it."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.proxy = Proxy("127.0.0.1", self.listener.getsockname()[1])
        self._open: list[socket.socket] = [self.listener]

    def dial(self) -> socket.socket:
        client = socket.create_connection(("127.0.0.1", self.proxy.port), PATIENCE_S)
        self._open.append(client)
        return client

    def connect(self) -> tuple[socket.socket, socket.socket]:
        """Return a client's end and the server's."""
        client = self.dial()
        self.listener.settimeout(PATIENCE_S)
        server, _ = self.listener.accept()
        server.settimeout(PATIENCE_S)
        self._open.append(server)
        return client, server

    def close(self) -> None:
        self.proxy.close()
        for item in self._open:
            item.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    try:
        yield made
    finally:
        made.close()


def take(end: socket.socket, count: int) -> bytes:
    said = b""
    while len(said) < count and (more := end.recv(count - len(said))):
        said += more
    return said


def is_quiet(*ends: socket.socket) -> bool:
    """Return whether none of them has anything to read, not even an end, for a while."""
    return select.select(ends, [], [], QUIET_S)[0] == []


def exchange(client: socket.socket, server: socket.socket) -> None:
    client.sendall(b"ask")
    assert take(server, 3) == b"ask"
    server.sendall(b"answer")
    assert take(client, 6) == b"answer"


def test_bytes_and_ends_pass(line: Line) -> None:
    client, server = line.connect()
    exchange(client, server)
    client.sendall(b"last")
    client.shutdown(socket.SHUT_WR)
    assert take(server, 10) == b"last"
    server.sendall(b"words")  # the other direction is still open
    server.close()
    assert take(client, 10) == b"words"
    assert (line.proxy.accepted, line.proxy.cuts) == (1, 0)


def test_a_port_that_was_chosen_is_used() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        proxy = Proxy("127.0.0.1", listener.getsockname()[1], listen=port)
        with proxy, socket.create_connection(("127.0.0.1", port), PATIENCE_S):
            assert proxy.port == port


def test_a_server_that_is_away_is_refused_until_it_is_back(line: Line) -> None:
    port = line.listener.getsockname()[1]
    client, server = line.connect()
    line.listener.close()
    with pytest.raises(ConnectionResetError):
        line.dial().recv(1)
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            line.dial()
    exchange(client, server)  # what is open goes on
    line.proxy.cut()
    line.proxy.restore()
    assert is_quiet()  # it is tried several times meanwhile
    with pytest.raises(ConnectionRefusedError):
        line.dial()
    with socket.create_server(("127.0.0.1", port)) as line.listener:
        wait_until(lambda: is_open(line), PATIENCE_S)
        line.proxy.cut()
        with pytest.raises(ConnectionRefusedError):
            line.dial()


def is_open(line: Line) -> bool:
    """Return whether a new connection passes words both ways."""
    try:
        client = line.dial()
    except ConnectionRefusedError:
        return False
    client.sendall(b"ask")
    line.listener.settimeout(PATIENCE_S)
    while True:
        server, _ = line.listener.accept()  # the first one only tried whether it is there
        with server:
            if server.recv(3) == b"ask":
                return True


def test_more_than_the_windows_hold_passes_whole(line: Line) -> None:
    client, server = line.connect()
    sent = bytes(range(256)) * 100_000
    writer = threading.Thread(target=client.sendall, args=(sent,))
    writer.start()
    assert is_quiet(client)  # the writer waits until somebody reads
    assert writer.is_alive()
    assert take(server, len(sent)) == sent
    writer.join(PATIENCE_S)


def test_a_reset_of_an_end_reaches_the_other_one(line: Line) -> None:
    client, server = line.connect()
    exchange(client, server)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    client.close()
    with pytest.raises(ConnectionResetError):
        server.recv(1)


def test_what_is_delayed_comes_later_and_in_order(line: Line) -> None:
    client, server = line.connect()
    line.proxy.delay(50)
    began_s = time.monotonic()
    client.sendall(b"a")
    client.sendall(b"b")
    client.close()
    assert take(server, 3) == b"ab"
    assert time.monotonic() - began_s >= 0.05


@pytest.mark.parametrize("toward", [Toward.SERVER, Toward.CLIENT])
def test_one_direction_alone_is_delayed(line: Line, toward: Toward) -> None:
    client, server = line.connect()
    line.proxy.delay(LONG_MS, toward)
    late, early = (server, client) if toward is Toward.SERVER else (client, server)
    early.sendall(b"late")
    late.sendall(b"early")
    assert take(early, 5) == b"early"
    assert is_quiet(late)
    line.proxy.restore()
    assert take(late, 4) == b"late"
    exchange(client, server)


def test_a_cut_ends_and_refuses_until_it_is_over(line: Line) -> None:
    client, server = line.connect()
    line.proxy.cut()
    line.proxy.cut()
    assert client.recv(1) == server.recv(1) == b""
    for _ in range(2):
        with pytest.raises(ConnectionRefusedError):
            line.dial()
    line.proxy.restore()
    exchange(*line.connect())


def test_a_reset_is_for_open_and_new_connections(line: Line) -> None:
    client, server = line.connect()
    line.proxy.reset()
    for end in (client, server):
        with pytest.raises(ConnectionResetError):
            end.recv(1)
    with pytest.raises(ConnectionResetError):
        line.dial().recv(1)
    line.proxy.restore()
    exchange(*line.connect())


def test_silence_takes_everything_and_delivers_nothing(line: Line) -> None:
    client, server = line.connect()
    idle, other = line.connect()
    line.proxy.silence()
    client.sendall(b"x" * 1_000_000)  # more than buffers hold: it is taken
    server.sendall(b"y")
    fresh = line.dial()
    fresh.sendall(b"z" * 1_000_000)
    assert is_quiet(client, server, fresh, line.listener)
    line.proxy.restore()
    client.sendall(b"more")
    fresh.sendall(b"more")
    assert is_quiet(client, server, fresh, line.listener)  # a stream with a hole in it is no stream
    exchange(idle, other)
    exchange(*line.connect())
    client.close()
    assert server.recv(1) == b""  # it need not wait for ever


def test_silence_keeps_ends_to_itself(line: Line) -> None:
    client, server = line.connect()
    line.proxy.silence()
    client.close()
    assert is_quiet(server)
    line.proxy.restore()
    assert server.recv(1) == b""


@pytest.mark.parametrize("toward", [Toward.SERVER, Toward.CLIENT])
def test_one_direction_alone_is_silent(line: Line, toward: Toward) -> None:
    client, server = line.connect()
    line.proxy.silence(toward)
    deaf, heard = (server, client) if toward is Toward.SERVER else (client, server)
    heard.sendall(b"lost")
    deaf.sendall(b"there")
    assert take(heard, 5) == b"there"
    assert is_quiet(deaf)


@pytest.mark.parametrize("matching", [None, re.compile(rb"/commit")], ids=["any", "matching"])
def test_an_answer_is_lost_after_its_request_was_delivered(line: Line, matching: re.Pattern[bytes] | None) -> None:
    client, server = line.connect()
    exchange(client, server)
    line.proxy.cut_next(Cut.AFTER, matching)
    client.sendall(b"/head ")
    client.sendall(b"/commit ")
    client.sendall(b"rest")
    assert take(server, 18) == b"/head /commit rest"
    assert is_quiet(client)
    server.sendall(b"done")
    assert client.recv(1) == server.recv(1) == b""
    assert line.proxy.cuts == 1
    exchange(*line.connect())


def test_a_request_is_cut_off_before_the_server_sees_it(line: Line) -> None:
    client, server = line.connect()
    line.proxy.cut_next_commit(Cut.BEFORE)
    exchange(client, server)  # no COMMIT
    client.sendall(b"COMMIT")
    assert client.recv(1) == server.recv(1) == b""
    assert line.proxy.cuts == 1


def test_a_share_of_the_requests_is_cut(line: Line) -> None:
    def ask(count: int) -> int:
        broken = 0
        for _ in range(count):
            client, server = line.connect()
            client.sendall(b"ask")
            if take(server, 3):
                server.sendall(b"answer")
            broken += take(client, 6) != b"answer"
            client.close()
            server.close()
        return broken

    line.proxy.cut_at_random(0.5, seed=1)
    broken = ask(40)
    assert 0 < broken < 40
    assert line.proxy.cuts == broken
    line.proxy.cut_at_random(0)
    assert ask(10) == 0


@pytest.mark.parametrize(
    "begin",
    [
        lambda proxy: proxy.cut(),
        lambda proxy: proxy.reset(),
        lambda proxy: proxy.silence(),
        lambda proxy: proxy.delay(LONG_MS),
        lambda proxy: proxy.cut_at_random(1),
        lambda proxy: proxy.cut_next(),
    ],
    ids=["cut", "reset", "silence", "delay", "random", "next"],
)
def test_whatever_was_is_over_when_it_is_restored(line: Line, begin: Callable[[Proxy], None]) -> None:
    line.proxy.restore()
    begin(line.proxy)
    line.proxy.restore()
    line.proxy.restore()
    exchange(*line.connect())


class Talk:
    """Clients that say words to a server that says them back, on new connections whenever one ends."""

    def __init__(self, line: Line) -> None:
        self.wrong: list[bytes] = []
        self.answered = [0] * 4
        self._port = line.proxy.port
        self._listener = line.listener
        self._listener.settimeout(0.1)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._serve),
            *(threading.Thread(target=self._talk, args=(number,)) for number in range(4)),
        ]

    def __enter__(self) -> Talk:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def wait_for(self, count: int) -> None:
        wait_until(lambda: sum(self.answered) > count, PATIENCE_S)

    def _serve(self) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                end, _ = self._listener.accept()
                threading.Thread(target=self._echo, args=(end,), daemon=True).start()

    def _echo(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError), end:
            while said := end.recv(4096):
                end.sendall(said)

    def _talk(self, number: int) -> None:
        while not self._stop.is_set():
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), 1) as end:
                end.settimeout(0.2)
                while self._say(end, number):
                    pass

    def _say(self, end: socket.socket, number: int) -> bool:
        word = b"%d/%d " % (number, self.answered[number]) * (self.answered[number] % 50 + 1)
        end.sendall(word)
        heard = take(end, len(word))
        if not word.startswith(heard):
            self.wrong.append(heard)
        self.answered[number] += heard == word
        return heard == word and not self._stop.is_set()


def test_modes_change_under_load_and_no_byte_is_out_of_place(line: Line) -> None:
    """What arrives is what was said, up to where a connection ended."""
    faults: list[Callable[[], None]] = [
        line.proxy.cut,
        line.proxy.reset,
        line.proxy.silence,
        lambda: line.proxy.delay(5),
        lambda: line.proxy.silence(Toward.CLIENT),
        lambda: line.proxy.cut_at_random(0.1),
    ]
    with Talk(line) as talk:
        for begin in faults:
            begin()
            is_quiet()
            line.proxy.restore()
            seen = sum(talk.answered)
            talk.wait_for(seen + 100)
    assert talk.wrong == []
    assert line.proxy.cuts > 0


def test_a_closed_proxy_leaves_nothing_behind(line: Line) -> None:
    client, server = line.connect()
    line.proxy.close()
    line.proxy.close()
    line.proxy.restore()
    assert client.recv(1) == server.recv(1) == b""
    assert not any(item.name == f"proxy-{line.proxy.port}" for item in threading.enumerate())
    with pytest.raises(ConnectionRefusedError):
        line.dial()
