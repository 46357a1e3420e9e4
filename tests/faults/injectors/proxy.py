"""One TCP proxy for all faults of a network, between any two: a node, its database, an executor.

One thread moves the bytes of all connections. What a fault does is set from outside at any time; each call returns
once it is in force, for open and new connections alike. Until the first one, and after :meth:`Proxy.restore`, bytes
pass. While nothing listens at the server the proxy refuses connections, as the server would; the first one is reset.
"""

from __future__ import annotations

import contextlib
import errno
import heapq
import random
import re
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, Flag, auto
from typing import Final

from sqlalchemy import make_url

from tests.support.ports import free_port

# whole statements only, in either protocol: BEGIN names READ COMMITTED
COMMIT: Final = re.compile(rb"COMMIT(\x00|$)")
BUFFER: Final = 65_536
MOST_WAITING: Final = 1 << 22
"""Bytes that may wait for one end before its peer is read no further, as a full window would have it."""

RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER that lets a close send RST and throws away what was not sent."""

PROBE_S: Final = 0.02
"""How often a server that refuses is tried; also how long a try may take."""

BACKLOG: Final = 1024
SELECTABLE: Final = 1024
"""File numbers below this can be given to select."""

ANSWER_S: Final = 30
READ, WRITE = select.EPOLLIN, select.EPOLLOUT
BROKEN: Final = select.EPOLLHUP | select.EPOLLERR


class Cut(Enum):
    """Where a connection breaks.

    BEFORE: the server never sees the request. AFTER: it does, and its answer is lost.
    """

    BEFORE = "before"
    AFTER = "after"


class Toward(Flag):
    """The direction in which bytes travel: to the server that was connected to, or back to its client."""

    SERVER = auto()
    CLIENT = auto()
    BOTH = SERVER | CLIENT


class _Way:
    """What happens in one direction."""

    __slots__ = ("delay_s", "is_silent")

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.is_silent = False


class _End:
    """One socket of a connection, and what waits to be written to it.

    Attributes:
        way: How bytes travel that are written here.
        waiting: When each may be written at the earliest, and what; empty bytes for the end of the stream.
        size: How many bytes wait.
        is_lost: Something that was to be written here is lost, so the rest is worth nothing.
        is_blocked: Its window is full, or it is not connected yet.
        has_ended: It says no more.
        is_shut: It was told that the other one says no more.
        mask: What the poll watches; 0 if it is not watched.
    """

    __slots__ = (
        "connection", "has_ended", "is_blocked", "is_lost", "is_shut", "mask", "number", "peer", "size", "socket",
        "waiting", "way",
    )  # fmt: skip

    def __init__(self, item: socket.socket, way: _Way, connection: _Connection) -> None:
        self.socket = item
        self.number = item.fileno()
        self.way = way
        self.connection = connection
        self.peer = self
        self.waiting: deque[tuple[float, bytes]] = deque()
        self.size = 0
        self.mask = 0
        self.is_lost = self.is_blocked = self.has_ended = self.is_shut = False


class _Connection:
    """The two ends of a connection; without a server for one that was made into silence.

    Attributes:
        is_asked: The server has not answered yet what the client said last.
        loses_answer: The server's next word breaks it.
        is_last: Once it broke, the proxy takes no connection any more.
    """

    __slots__ = ("client", "is_asked", "is_broken", "is_connected", "is_last", "loses_answer", "server")

    def __init__(self) -> None:
        self.client: _End
        self.server: _End | None = None
        self.is_asked = self.is_broken = self.is_connected = self.is_last = self.loses_answer = False


class Proxy:
    """Listens on a port of its own and passes bytes on to a server, as far as it is told to.

    A request is what a client says first, or first after an answer; in PostgreSQL's and MariaDB's protocol and in HTTP
    that is one statement or call.

    Thread-safety: all methods may be called from any thread; after :meth:`close` they do nothing.

    Attributes:
        port: Where it listens on 127.0.0.1.
        cuts: How many connections it broke at a request.
        accepted: How many connections it took.
        said: What each request began with, if this is set to a list.

    Args:
        host: Where the server is.
        port: Its port.
        listen: The port to listen on, as :func:`tests.support.ports.free_port` gave it; 0 for one of its own.
    """

    def __init__(self, host: str, port: int, *, listen: int = 0) -> None:
        self.port = listen or free_port()
        self.cuts = self.accepted = 0
        self.said: list[bytes] | None = None
        self._where = (socket.gethostbyname(host), port)
        self._ways = {Toward.SERVER: _Way(), Toward.CLIENT: _Way()}
        self._is_cut = self._is_resetting = self._is_away = self._is_closed = False
        self._next: tuple[Cut, re.Pattern[bytes] | Callable[[bytes], bool] | None, bool] | None = None
        self._nth = 0
        self._share, self._dice, self._choice = 0.0, random.Random(0), tuple(Cut)
        self._connections: set[_Connection] = set()
        self._ends: dict[int, _End] = {}
        # with none in place of an end, the server is tried again
        self._due: list[tuple[float, int, _End | None]] = []
        self._count = 0
        self._buffer = bytearray(BUFFER)
        self._orders: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._guard = threading.Lock()
        self._failure: Exception | None = None
        self._listener = socket.create_server(("127.0.0.1", self.port), backlog=BACKLOG)
        self._listener.setblocking(False)
        self._poll = select.epoll()
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._poll.register(self._ear, READ)
        self._poll.register(self._listener, READ)
        self._thread = threading.Thread(target=self._run, name=f"proxy-{self.port}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # faults

    def restore(self) -> None:
        """Pass again: new connections work at once, what was delayed arrives, and no cut is armed any more.

        A connection of which silence took something stays mute until one of its ends gives up.
        """
        self._tell(self._restore)

    def delay(self, ms: float, toward: Toward = Toward.BOTH) -> None:
        """Let each chunk arrive this much later; 5 ms to a database's client are 5 ms a round trip.

        Chunks follow one another as closely as they came, and connections do not wait for one another. A long delay
        that :meth:`restore` ends keeps everything back and delivers it late.
        """

        def change() -> None:
            for way in self._chosen(toward):
                way.delay_s = ms / 1000

        self._tell(change)

    def silence(self, toward: Toward = Toward.BOTH) -> None:
        """Take all that is said and deliver nothing, not even that an end closes.

        New connections are taken and are mute too; toward the server they never reach it.
        """

        def change() -> None:
            for way in self._chosen(toward):
                way.is_silent = True

        self._tell(change)

    def cut(self) -> None:
        """Close all connections, and refuse new ones."""

        def change() -> None:
            self._is_cut = True
            self._stop_listening()
            self._break_all()

        self._tell(change)

    def reset(self) -> None:
        """Reset all connections, and each new one at once."""

        def change() -> None:
            self._is_resetting = True
            self._break_all(reset=True)

        self._tell(change)

    def cut_next(
        self,
        where: Cut = Cut.AFTER,
        matching: re.Pattern[bytes] | Callable[[bytes], bool] | None = None,
        *,
        nth: int = 1,
        stays: bool = False,
    ) -> None:
        """Break the connection of the next request, or of the next chunk of a client in which a pattern is found; once.

        AFTER delivers the request, and breaks the connection in place of the answer.

        Args:
            where: Before the request, or in place of its answer.
            matching: What is found in it, or what says whether it is meant, of each request; None for each request.
            nth: Not the next one, but the one with this number from now on.
            stays: Close all other connections with it, and refuse new ones, as :meth:`cut` does.
        """

        def change() -> None:
            self._next, self._nth = (where, matching, stays), nth

        self._tell(change)

    def cut_next_commit(self, where: Cut) -> None:
        """Break the connection at the next COMMIT, once."""
        self.cut_next(where, COMMIT)

    def cut_at_random(self, share: float, seed: int = 0, where: Sequence[Cut] = tuple(Cut)) -> None:
        """Break connections at this share of the requests; 0 ends it."""

        def change() -> None:
            self._share, self._dice, self._choice = share, random.Random(seed), tuple(where)

        self._tell(change)

    def close(self) -> None:
        """Break everything and listen no more."""
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            self._bell.send(b".")
        self._thread.join(ANSWER_S)

    # orders from outside

    def _tell(self, order: Callable[[], None]) -> None:
        done = threading.Event()
        with self._guard:
            if self._failure is not None:
                raise RuntimeError(f"the proxy on port {self.port} is dead") from self._failure
            if self._is_closed:
                return
            self._orders.append((order, done))
            self._bell.send(b".")
        done.wait()

    def _chosen(self, toward: Toward) -> Iterator[_Way]:
        return (way for direction, way in self._ways.items() if direction in toward)

    def _restore(self) -> None:
        for way in self._ways.values():
            way.delay_s, way.is_silent = 0.0, False
        self._is_resetting, self._next, self._share = False, None, 0.0
        if self._is_cut:
            self._is_cut = False
            self._listen_again()
        for connection in list(self._connections):
            for end in (connection.client, connection.server):
                if end is None or connection.is_broken:
                    continue
                if end.is_lost and end.peer.has_ended:
                    self._break(connection)  # what silence kept to itself
                elif end.waiting and not end.is_blocked:
                    end.waiting = deque((0.0, data) for _, data in end.waiting)
                    self._write(end)

    def _stop_listening(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._poll.unregister(self._listener)
            # refuses, but keeps the port bound
            self._listener.shutdown(socket.SHUT_RDWR)

    def _listen_again(self) -> None:
        if not (self._is_cut or self._is_away):
            # the port stayed ours meanwhile
            self._listener.listen(BACKLOG)
            self._poll.register(self._listener, READ)

    # the thread

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._turn()
        except Exception as error:
            self._failure = error
            raise
        finally:
            self._break_all()
            with self._guard:
                self._is_closed = True
                for item in (self._listener, self._bell, self._ear, self._poll):
                    item.close()
                for _, done in self._orders:
                    done.set()

    def _turn(self) -> None:
        """Serve what is ready; sockets are made last, so that no number means another one than the poll meant."""
        has_news = False
        for number, events in self._wait():
            end = self._ends.get(number)
            if end is None:
                has_news = True
                continue
            if events & (READ | BROKEN) and end.mask & READ:
                self._read(end)
            if events & (WRITE | BROKEN) and end.mask & WRITE:
                self._unblock(end)
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            end = heapq.heappop(self._due)[2]
            if end is None:
                self._probe()
            elif not end.connection.is_broken and not end.is_blocked:
                self._write(end)
        if has_news:
            self._obey()
            if not (self._is_cut or self._is_away):
                self._accept()

    def _wait(self) -> list[tuple[int, int]]:
        if not self._due:
            return self._poll.poll()
        rest_s = max(0.0, self._due[0][0] - time.monotonic())
        if self._poll.fileno() >= SELECTABLE:
            return self._poll.poll(rest_s)
        # epoll counts whole milliseconds, select microseconds
        select.select([self._poll], [], [], rest_s)
        return self._poll.poll(0)

    def _obey(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._ear.recv(BUFFER)
        while self._orders:
            order, done = self._orders.popleft()
            order()
            done.set()

    def _accept(self) -> None:
        while True:
            try:
                item, _ = self._listener.accept()
            except OSError:  # there is no more, or it has gone again
                return
            self.accepted += 1
            if self._is_resetting:
                _close(item, reset=True)
                continue
            self._open(item)

    def _open(self, item: socket.socket) -> None:
        connection = _Connection()
        connection.client = self._end(item, Toward.CLIENT, connection)
        self._connections.add(connection)
        if self._ways[Toward.SERVER].is_silent:
            connection.client.is_lost = connection.client.peer.is_lost = True
        else:
            server = self._end(socket.socket(), Toward.SERVER, connection)
            connection.server, server.peer, connection.client.peer = server, connection.client, server
            server.is_blocked = True
            if (error := server.socket.connect_ex(self._where)) not in (0, errno.EINPROGRESS):
                self._give_up(connection, error)
                return
            self._watch(server)
        self._watch(connection.client)

    def _end(self, item: socket.socket, toward: Toward, connection: _Connection) -> _End:
        item.setblocking(False)
        item.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end = _End(item, self._ways[toward], connection)
        self._ends[end.number] = end
        return end

    def _watch(self, end: _End) -> None:
        """Let the poll wait for what the end is needed for, and for nothing else: a closed one is always ready."""
        connection = end.connection
        is_there = connection.is_connected or end is connection.client
        reads = is_there and not end.has_ended and end.peer.size <= MOST_WAITING
        mask = (READ if reads else 0) | (WRITE if end.is_blocked else 0)
        if mask == end.mask:
            return
        if not mask:
            self._poll.unregister(end.number)
        elif end.mask:
            self._poll.modify(end.number, mask)
        else:
            self._poll.register(end.number, mask)
        end.mask = mask

    def _read(self, end: _End) -> None:
        try:
            count = end.socket.recv_into(self._buffer)
        except BlockingIOError:
            return
        except OSError:
            self._break(end.connection, reset=True)
            return
        target, connection = end.peer, end.connection
        if not count:
            end.has_ended = True
            self._watch(end)
        if target.way.is_silent:
            target.is_lost = True
        elif target.is_lost or (connection.loses_answer and end is connection.server):
            if not count or connection.loses_answer:
                self._break(connection)
        elif not count:
            self._pass(target, b"")
        elif end is connection.client:
            self._request(connection, memoryview(self._buffer)[:count])
        else:
            connection.is_asked = False
            self._pass(target, memoryview(self._buffer)[:count])

    def _request(self, connection: _Connection, said: memoryview) -> None:
        where = self._decide(said, connection)
        connection.is_asked = True
        if where is Cut.BEFORE:
            self._break(connection)
            return
        connection.loses_answer = connection.loses_answer or where is Cut.AFTER
        self._pass(connection.client.peer, said)

    def _decide(self, said: memoryview, connection: _Connection) -> Cut | None:
        is_first = not connection.is_asked
        where: Cut | None = None
        if self.said is not None and is_first:
            self.said.append(bytes(said))
        if self._next is not None:
            chosen, matching, stays = self._next
            if isinstance(matching, re.Pattern):
                is_meant = matching.search(said) is not None
            else:
                is_meant = is_first and (matching is None or matching(bytes(said)))
            self._nth -= is_meant
            if is_meant and not self._nth:
                where, self._next, connection.is_last = chosen, None, stays
        if where is None and self._share and is_first and self._dice.random() < self._share:
            where = self._dice.choice(self._choice)
        self.cuts += where is not None
        return where

    def _pass(self, end: _End, data: memoryview | bytes) -> None:
        """Write to an end what its peer said, now or when it is due; empty bytes if it says no more."""
        delay_s = end.way.delay_s
        if data and not delay_s and not end.waiting and not end.is_blocked:
            try:
                sent = end.socket.send(data)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._break(end.connection, reset=True)
                return
            if sent == len(data):
                return
            data = data[sent:]
            end.is_blocked = True
            self._watch(end)
        is_next = not end.waiting
        due = time.monotonic() + delay_s if delay_s else 0.0
        end.waiting.append((due, bytes(data)))
        end.size += len(data)
        self._watch(end.peer)
        if is_next and not end.is_blocked:
            self._write(end)

    def _write(self, end: _End) -> None:
        """Write what is due, and note when more is."""
        now = time.monotonic()
        while end.waiting and not end.is_blocked and end.waiting[0][0] <= now:
            due, data = end.waiting.popleft()
            try:
                sent = end.socket.send(data) if data else self._shut(end)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._break(end.connection, reset=True)
                return
            end.size -= sent
            if sent < len(data):
                end.waiting.appendleft((due, data[sent:]))
                end.is_blocked = True
        if end.connection.is_broken:
            return
        self._watch(end)
        self._watch(end.peer)
        if end.waiting and not end.is_blocked:
            self._remember(end.waiting[0][0], end)

    def _shut(self, end: _End) -> int:
        """Tell an end that its peer says no more; when both know it, the connection is over."""
        end.is_shut = True
        if end.peer.is_shut:
            self._break(end.connection)
        else:
            end.socket.shutdown(socket.SHUT_WR)
        return 0

    def _unblock(self, end: _End) -> None:
        connection = end.connection
        if end is connection.server and not connection.is_connected:
            if error := end.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._give_up(connection, error)
                return
            connection.is_connected = True
        end.is_blocked = False
        self._write(end)

    def _give_up(self, connection: _Connection, error: int) -> None:
        """End a connection that the server does not take; refuse others if it refuses."""
        if error == errno.ECONNREFUSED and not self._is_away:
            self._is_away = True
            self._stop_listening()
            self._remember(time.monotonic() + PROBE_S, None)
        self._break(connection, reset=True)

    def _probe(self) -> None:
        """Listen again if the server does."""
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.settimeout(PROBE_S)
            probe.connect(self._where)
            self._is_away = False
            self._listen_again()
        if self._is_away:
            self._remember(time.monotonic() + PROBE_S, None)

    def _remember(self, at_s: float, end: _End | None) -> None:
        self._count += 1  # ends have no order
        heapq.heappush(self._due, (at_s, self._count, end))

    def _break_all(self, *, reset: bool = False) -> None:
        for connection in list(self._connections):
            self._break(connection, reset=reset)

    def _break(self, connection: _Connection, *, reset: bool = False) -> None:
        if connection.is_broken:
            return
        connection.is_broken = True
        self._connections.discard(connection)
        if connection.is_last:
            self._is_cut = True
            self._stop_listening()
            self._break_all()
        for end in (connection.client, connection.server):
            if end is None:
                continue
            if end.mask:
                self._poll.unregister(end.number)
                end.mask = 0
            del self._ends[end.number]
            end.waiting.clear()
            _close(end.socket, reset=reset)


def _close(item: socket.socket, *, reset: bool) -> None:
    with contextlib.suppress(OSError):
        if reset:
            item.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        else:
            item.shutdown(socket.SHUT_RDWR)
    item.close()


@contextlib.contextmanager
def before(url: str) -> Iterator[tuple[str, Proxy]]:
    """Put a proxy before a database; give the URL through it, and the proxy."""
    real = make_url(url)
    with Proxy(str(real.host), int(real.port or 0)) as proxy:
        yield real.set(port=proxy.port).render_as_string(hide_password=False), proxy
