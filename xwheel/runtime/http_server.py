"""Serve a WSGI application under waitress, in a thread of its own, to callers that may be slow, many or hostile.

:class:`Server` accepts, counts and cuts connections within the limits of :mod:`~xwheel.runtime.http_limits`;
:class:`Connection` reads a request at a time, takes a large body only from a known caller, and keeps no thread waiting
for a peer.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ThreadedTaskDispatcher

from xwheel.config.sections import ConnectionsSection
from xwheel.errors import ConfigError
from xwheel.runtime.http_limits import (
    FRESH_S,
    LATE,
    ConnectionStage,
    ConnectionState,
    Cut,
    CutLog,
    gives_way,
    is_late,
    peer_of,
)

logger = logging.getLogger(__name__)

Admits = Callable[[dict[str, Any]], bool]
"""Whether an application knows the caller, from the WSGI environment without the body."""

LimitOf = Callable[[str, str], int]

TICK_S: Final = 0.5
MAX_HEAD_BYTES: Final = 32 * 1024
ACCEPTS: Final = 16
"""Connections taken before those that are open get their turn."""

WANT: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Errors of an accept for want of sockets."""

STRANGER_BYTES: Final = 32 * 1024
"""Bodies up to this size are read before the application sees them, from any caller; a hundred outcomes fit in."""

LEAST_BYTES_S: Final = 64 * 1024
"""A body that may be larger than the listener's others gets a second more for each this many bytes that came."""

OVERHEAD: Final = 2
"""A chunked body may take this many times the limit on the wire."""


class Listener:
    """One listening socket with its worker threads.

    Args:
        name: Thread name, ``xwheel-`` is put before it.
        app: The WSGI application.
        host: Bind address.
        port: Port; 0 takes a free one.
        threads: Worker threads.
        max_body_bytes: Larger bodies are not read: the application sees their length and no content, and must refuse.
        limits: What callers are granted.
        limit_of: Returns how large the body of a call may be, by method and path, where that is more; otherwise 0.
        admits: Asked before a body of more than 32 KiB is read; callers that it does not know are answered by the
            application without the body, and must be refused there by what the head says. None takes all bodies.
        own_threads: Paths that have a thread each, so that they are answered while all workers are busy.
        keep_forwarded: Leave X-Forwarded-For and its like in the head, for an application that judges them itself.

    Raises:
        ConfigError: The address cannot be bound.
    """

    def __init__(
        self,
        name: str,
        app: Callable[..., Any],
        *,
        host: str,
        port: int,
        threads: int,
        max_body_bytes: int,
        limits: ConnectionsSection | None = None,
        limit_of: LimitOf | None = None,
        admits: Admits | None = None,
        own_threads: Sequence[str] = (),
        keep_forwarded: bool = False,
    ) -> None:
        # bound here: waitress leaks a socket that it cannot bind
        bound = _bind(host, port)
        self._server = Server(
            name,
            app,
            bound,
            threads=threads,
            max_body_bytes=max_body_bytes,
            limits=limits or ConnectionsSection(),
            limit_of=limit_of,
            admits=admits,
            own_threads=own_threads,
            keep_forwarded=keep_forwarded,
        )
        self.host = host
        self.port = int(bound.getsockname()[1])
        self._thread = threading.Thread(target=self._server.run, name=f"xwheel-{name}", daemon=True)

    @property
    def cuts(self) -> CutLog:
        """What was refused and cut since the start."""
        return self._server.cuts

    def start(self) -> None:
        """Begin to answer."""
        # requests that wait for a thread are what the queue is for, and no warning
        logging.getLogger("waitress.queue").setLevel(logging.ERROR)
        self._thread.start()

    def disown(self) -> None:
        """Close this process's copy of the socket after a fork; the parent goes on listening."""
        if self._server.socket is not None:
            self._server.socket.close()

    def stop(self, timeout_s: float = 5) -> None:
        """Take no more connections, let running requests end and their answers leave, then close all connections."""
        server = self._server
        server.accepting = False
        deadline = time.monotonic() + timeout_s
        for dispatcher in server.dispatchers:
            dispatcher.set_thread_count(0)  # all at once, then each is waited for
        for dispatcher in server.dispatchers:
            left_s = max(0.0, deadline - time.monotonic())
            dispatcher.shutdown(cancel_pending=False, timeout=left_s)  # type: ignore[arg-type]
        if self._thread.ident is None:
            server.close()
            return
        deadline = time.monotonic() + timeout_s
        # a peer that reads nothing is not waited for
        while (now_s := time.monotonic()) < deadline and any(
            channel.is_read(now_s) for channel in list(server.active_channels.values())
        ):
            time.sleep(0.005)
        # on the server's own thread: its loop ends once no socket is left. A worker's last pull may wake it before
        # ours does, which then finds the trigger closed
        with contextlib.suppress(OSError):
            server.trigger.pull_trigger(lambda: wasyncore.close_all(server._map))
        self._thread.join(timeout_s)
        server.log_cuts(time.monotonic(), ends=True)


class IncomingRequest(HTTPRequestParser):
    """A request as it comes in.

    Attributes:
        is_known: The application said that it knows the caller.
        most_bytes: How large its body may be; None as long as that was not asked.
    """

    is_known = False
    most_bytes: int | None = None
    command: str  # type: ignore[assignment]
    path: str

    def parse_header(self, header_plus: bytes) -> None:
        """Read the head. Raises ParsingError: it is malformed."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # a number that Python reads no further, a host that is none
            raise ParsingError("Header is invalid") from error


class Connection(HTTPChannel):
    """A channel of waitress whose peer cannot keep more than the channel itself.

    Waitress takes all requests that came in one piece, and answers them one after the other whether they are read or
    not: a thread then waits in ``write_soon`` until the peer goes away. Here the next request is read once the last
    answer has left, so at most one answer waits, and the server closes the connection if it waits too long.

    Thread-safety: everything runs on the server's thread, but ``service``, ``write_soon`` and :meth:`ask`, which run
    on a worker.
    """

    parser_class = IncomingRequest
    server: Server
    request: IncomingRequest | None
    requests: list[HTTPRequestParser]

    requests_lock: threading.Lock
    _flush_exception: Any
    _fileno: int | None

    def __init__(
        self, server: Server, sock: socket.socket, addr: Any, adj: Adjustments, **further: Any
    ) -> None:
        self.peer = peer_of(addr[0])
        self._progress_s = time.monotonic()
        self._head_s: float | None = None
        self._body_s: float | None = None
        self._drains_s: float | None = None
        self._was_served = False
        self._ahead = b""
        self._is_asked = False
        self._answered: bool | None = None
        self._must_drain = False
        super().__init__(server, sock, addr, adj, **further)

    def state(self) -> ConnectionState:
        """Return what it is at; for the server's thread."""
        stage, since_s = ConnectionStage.IDLE if self._was_served else ConnectionStage.NEW, self._progress_s
        if self._drains_s is not None:
            stage, since_s = ConnectionStage.DRAINING, self._drains_s
        elif self.total_outbufs_len:
            stage = ConnectionStage.WRITING
        elif self.requests or self._is_asked:
            stage = ConnectionStage.SERVED
        elif self.close_when_flushed or self.will_close:
            stage = ConnectionStage.WRITING
        elif self._body_s is not None:
            stage, since_s = ConnectionStage.BODY, self._body_s + self._earned_s()
        elif self._head_s is not None:
            stage, since_s = ConnectionStage.HEAD, self._head_s
        return ConnectionState(self.peer, stage, since_s)

    def del_channel(self, *arguments: Any) -> None:
        """Leave the server's count."""
        self.server.left(self)
        super().del_channel(*arguments)

    def readable(self) -> bool:
        """Return whether to wait for data; goes on first with what waited for the last answer to leave."""
        if self.requests or self.total_outbufs_len or self._is_asked:
            return False  # a worker that ends, and an answer that leaves, wake the server
        if self._ahead or self._answered is not None:
            self._go_on()
        return not (
            self.requests
            or self.total_outbufs_len
            or self._ahead
            or self._is_asked
            or self.will_close
            or self.close_when_flushed
            or self.socket is None
        )

    def received(self, data: bytes) -> bool:
        """Take what came; see the class about when it is read."""
        if self._drains_s is not None:
            return False
        with self.requests_lock:
            if self.will_close or self.close_when_flushed:
                return False
            self._ahead += data
            self._read()
        return True

    def _go_on(self) -> None:
        with self.requests_lock:
            if self._is_asked or self.requests or self.total_outbufs_len:
                return
            if self.will_close or self.close_when_flushed or self.socket is None:
                return
            known, self._answered = self._answered, None
            if known is not None and self.request is not None:
                self.request.is_known = known
                # the time until the answer was not the sender's
                self._body_s = time.monotonic()
                if known:
                    self._judge(self.request)
                else:
                    self._cut(self.request)
            self._read()

    def _read(self) -> None:
        """Read on until a request is there; what follows it waits."""
        while self._ahead and not self.requests and not self._is_asked:
            request = self.request
            if request is None:
                request = self.request = self.parser_class(self.adj)
                if self._head_s is None:  # blank lines between requests begin no new time
                    self._head_s = time.monotonic()
            used = request.received(self._ahead)
            self._ahead = self._ahead[used:]
            if request.completed:
                self._complete(request)
            elif request.headers_finished and (request.chunked or self._body_s is None):
                self._judge(request)  # an announced length is judged once

    def _judge(self, request: IncomingRequest) -> None:
        """Decide about a body that is not whole yet: go on, ask for its sender, or leave it."""
        if self._body_s is None:
            self._body_s = time.monotonic()
            if request.content_length <= self.server.small_bytes and not (
                request.chunked or request.expect_continue
            ):
                return
        if request.body_rcv is None:  # pragma: no cover - a request without a body is complete with its head
            return
        arrived = request.body_bytes_received
        limit = self._limit(request)
        if max(request.content_length, len(request.body_rcv)) > limit or arrived > OVERHEAD * limit:
            self._cut(request)
        elif max(request.content_length, arrived) > STRANGER_BYTES and self.server.asks_about(request):
            self._is_asked = True
            self.server.ask(self)
        elif request.expect_continue and not self.sent_continue:
            self.send_continue()

    def _limit(self, request: IncomingRequest) -> int:
        if request.most_bytes is None:
            usual, limit_of = self.server.max_body_bytes, self.server.limit_of
            request.most_bytes = max(usual, limit_of(request.command, request.path)) if limit_of else usual
        return request.most_bytes

    def _earned_s(self) -> float:
        """Return how much longer a body may take that may be larger than others: it is measured by what came."""
        request = self.request
        is_large = request is not None and (request.most_bytes or 0) > self.server.max_body_bytes
        return request.body_bytes_received / LEAST_BYTES_S if request is not None and is_large else 0

    def ask(self) -> None:
        """Ask the application whether it knows the caller that announced a large body; on a worker's thread."""
        known = False
        try:
            if self.request is not None and self.server.admits is not None:
                environ = self.task_class(self, self.request).get_environment()  # type: ignore[arg-type]
                known = self.server.admits(environ)
        except Exception:
            # the application fails alike when it answers, and reports it
            logger.exception("cannot find out which caller sends a large body")
        self._answered = known
        self._is_asked = False
        self.server.pull_trigger()

    def _cut(self, request: IncomingRequest) -> None:
        """Let the application answer without the body: by the head alone, in the form that its callers know."""
        size = max(request.content_length, request.body_bytes_received)
        request.close()
        request.body_rcv = None
        request.headers = {**request.headers, "CONTENT_LENGTH": str(size), "CONNECTION": "close"}
        self._ahead = b""
        self._must_drain = True
        self._complete(request)

    def _complete(self, request: IncomingRequest) -> None:
        self.sent_continue = False
        self.request = None
        self._body_s = None
        if request.empty:
            return
        self._head_s = None
        if request.error:
            self._must_drain = True
        self._was_served = True
        self.requests.append(request)
        self.server.add_task(self)

    def handle_write(self) -> None:
        """Send on; after a refusal the peer gets time to read it, as closing at once would discard it."""
        if not (self._must_drain and self.close_when_flushed) or self.will_close:
            super().handle_write()
            return
        _, failed = self._flush_exception(self._flush_some)
        if failed:
            self.handle_close()
        elif self.socket is not None and not self.total_outbufs_len:
            self.close_when_flushed = False
            self._drains_s = time.monotonic()
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self.handle_close()

    def write_soon(self, data: bytes) -> int:
        """Queue a piece of an answer."""
        if not self.total_outbufs_len:
            self._progress_s = time.monotonic()
        return HTTPChannel.write_soon(self, data)  # twice an answer, and super() is slow

    def _flush_some(self, do_close: bool = True) -> bool:
        sent: bool = HTTPChannel._flush_some(self, do_close)  # type: ignore[attr-defined]
        if sent:
            self._progress_s = time.monotonic()
        return sent

    def is_read(self, now_s: float) -> bool:
        """Return whether part of an answer waits for a peer that took some of it just now."""
        return bool(self.total_outbufs_len) and now_s - self._progress_s < FRESH_S

    def close_now(self) -> None:
        """Close, whatever waits; a worker that is writing learns it with its next piece."""
        with contextlib.suppress(OSError):
            self.handle_close()


class Server(TcpWSGIServer):
    """Accepts, counts and cuts connections; see :class:`Listener`.

    Attributes:
        cuts: What was refused and cut.
        small_bytes: A body of this size is read without a question.
        dispatchers: All worker threads.
    """

    channel_class = Connection
    active_channels: dict[int, Connection]  # type: ignore[assignment]
    trigger: Any
    _map: dict[int, Any]

    def __init__(
        self,
        name: str,
        app: Callable[..., Any],
        bound: socket.socket,
        *,
        threads: int,
        max_body_bytes: int,
        limits: ConnectionsSection,
        limit_of: LimitOf | None,
        admits: Admits | None,
        own_threads: Sequence[str],
        keep_forwarded: bool,
    ) -> None:
        self.max_body_bytes = max_body_bytes
        self.limit_of = limit_of
        self.small_bytes = min(max_body_bytes, STRANGER_BYTES)
        self.admits = admits
        self.cuts = CutLog()
        self._name = name
        self._limits = limits
        self._peers: Counter[str] = Counter()
        self._next_tick_s = 0.0
        self._pause_until_s = 0.0
        self._own = {path: _dispatcher(1) for path in own_threads}
        workers = _dispatcher(threads)
        self.dispatchers = [workers, *self._own.values()]
        super().__init__(
            app,
            map={},
            _sock=bound,
            dispatcher=workers,
            bind_socket=False,
            sockinfo=(bound.family, bound.type, bound.proto, bound.getsockname()),
            adj=Adjustments(
                sockets=[bound],
                ident="xwheel",
                max_request_header_size=MAX_HEAD_BYTES,
                # connections judge bodies themselves, by their sender
                max_request_body_size=1 << 62,
                asyncore_use_poll=True,  # select stops at 1024 descriptors
                clear_untrusted_proxy_headers=not keep_forwarded,
            ),
        )

    def readable(self) -> bool:
        """Return whether to accept; asked in every turn of the loop, it also keeps the deadlines."""
        now_s = time.monotonic()
        if now_s >= self._next_tick_s:
            self._next_tick_s = now_s + TICK_S
            self._cut_late(now_s)
            self.log_cuts(now_s)
        return self.accepting and now_s >= self._pause_until_s

    def handle_accept(self) -> None:
        """Accept the connections that wait."""
        for _ in range(ACCEPTS):
            try:
                accepted = self.accept()
            except OSError as error:
                # what went away before it was accepted is no matter
                if error.errno in WANT:
                    now_s = time.monotonic()
                    self.cuts.note(Cut.NO_SOCKET, "", now_s)
                    self._make_room(list(self.active_channels.values()), now_s)
                    self._pause_until_s = now_s + TICK_S
                return
            if accepted is None:
                return
            self._take(*accepted)

    def _take(self, sock: socket.socket, addr: Any) -> None:
        peer = peer_of(addr[0])
        now_s = time.monotonic()
        if not self._has_room(peer, now_s):
            self.cuts.note(Cut.REFUSED, peer, now_s)
            sock.close()
            return
        try:
            self.set_socket_options(sock)
        except OSError:  # it has gone already
            sock.close()
            return
        self._peers[peer] += 1
        self.channel_class(self, sock, self.fix_addr(addr), self.adj, map=self._map)

    def _has_room(self, peer: str, now_s: float) -> bool:
        """Return whether one more may come from a peer, after another connection made room if it had to."""
        most = self._limits.max_open_per_address
        if most and self._peers[peer] >= most:
            own = [channel for channel in self.active_channels.values() if channel.peer == peer]
            return self._make_room(own, now_s)
        if len(self.active_channels) >= self._limits.max_open:
            return self._make_room(list(self.active_channels.values()), now_s)
        return True

    def _make_room(self, channels: Sequence[Connection], now_s: float) -> bool:
        place = gives_way([channel.state() for channel in channels], now_s)
        if place is None:
            return False
        state = channels[place].state()
        if state.stage is not ConnectionStage.IDLE:  # to close an idle connection is ordinary
            self.cuts.note(Cut.MADE_ROOM, state.peer, now_s)
        channels[place].close_now()
        return True

    def _cut_late(self, now_s: float) -> None:
        for channel in list(self.active_channels.values()):
            state = channel.state()
            if is_late(state, self._limits, now_s):
                reason = LATE.get(state.stage)
                if reason is not None:
                    self.cuts.note(reason, state.peer, now_s)
                # waitress only marks it, and closes what is marked once its peer reads: these do not
                channel.close_now()

    def left(self, channel: Connection) -> None:
        """Count a connection out; may be called twice."""
        fileno = channel._fileno
        if fileno is not None and self.active_channels.get(fileno) is channel:
            self._peers[channel.peer] -= 1
            if self._peers[channel.peer] <= 0:
                del self._peers[channel.peer]

    def add_task(self, task: Any) -> None:
        """Give a connection's request to a worker, or to the thread that its path has."""
        path = getattr(task.requests[0], "path", "")
        self._own.get(path, self.task_dispatcher).add_task(task)

    def asks_about(self, request: IncomingRequest) -> bool:
        """Return whether the application must be asked before more of a body is read."""
        return self.admits is not None and not request.is_known

    def ask(self, channel: Connection) -> None:
        """Let a worker ask the application whether it knows the caller."""
        self.task_dispatcher.add_task(_Question(channel))  # type: ignore[arg-type]

    def log_cuts(self, now_s: float, *, ends: bool = False) -> None:
        """Log what was refused and cut, one line for each window of time."""
        line = self.cuts.line(now_s, ends=ends)
        if line is not None:
            logger.warning("%s listener closed %s", self._name, line)


class _Question:
    """A question about a caller, in the place of a request."""

    def __init__(self, channel: Connection) -> None:
        self._channel = channel

    def service(self) -> None:
        self._channel.ask()

    def cancel(self) -> None:
        """Waitress says so at the end; the connection is closed then."""


def _dispatcher(threads: int) -> ThreadedTaskDispatcher:
    made = ThreadedTaskDispatcher()
    made.set_thread_count(threads)
    return made


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return bound
