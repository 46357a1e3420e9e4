"""Serve a WSGI application under waitress, in a thread of its own, to callers that may be slow, many or hostile.

:class:`Listener` accepts, counts and cuts connections within the limits of :mod:`~xwheel.runtime.http_limits`;
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
from types import SimpleNamespace
from typing import Any, Final

from waitress import wasyncore
from waitress.adjustments import Adjustments
from waitress.channel import ClientDisconnected, HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError
from waitress.server import TcpWSGIServer
from waitress.task import ErrorTask, ThreadedTaskDispatcher, WSGITask

from xwheel.config.sections import ConnectionsSection
from xwheel.errors import ConfigError
from xwheel.runtime.http_limits import (
    FRESH_S,
    LATE,
    ConnectionStage,
    ConnectionState,
    Cut,
    CutLog,
    FewLines,
    gives_way,
    is_late,
    peer_of,
)

logger = logging.getLogger(__name__)

Admits = Callable[[dict[str, Any]], bool]
"""Says whether an application knows the caller, from the WSGI environment without the body.

Asked before a body of more than 32 KiB is read; callers that it does not know are answered by the application without
the body, and must be refused there by what the head says.
"""
LimitOf = Callable[[str, str], int]
"""Says how large the body of a call may be, by method and path, where that is more than usual; otherwise 0."""

# what waitress says of our listeners; its own loggers are left to programs that serve with it besides
_waitress: Final = logging.getLogger("xwheel.runtime.waitress")
_waitress.addFilter(FewLines())
# requests that wait for a thread are what the queue is for, and no warning
_queue: Final = logging.getLogger("xwheel.runtime.waitress.queue")
_queue.setLevel(logging.ERROR)
TICK_S: Final = 0.5
MAX_HEAD_BYTES: Final = 32 * 1024
ACCEPTS: Final = 16  # connections taken before those that are open get their turn
WANT: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}  # of an accept for want of sockets
# bodies up to this size are read before the application sees them, from any caller; a hundred outcomes fit in
STRANGER_BYTES: Final = 32 * 1024
# a body that may be larger than the listener's others gets a second more for each this many bytes that came
LEAST_BYTES_S: Final = 64 * 1024
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
SENT_TOGETHER: Final = 64 * 1024  # bytes of a body's first piece that are copied behind the answer's head
OVERHEAD: Final = 2  # a chunked body may take this many times the limit on the wire


class IncomingRequest(HTTPRequestParser):
    """A request as it comes in."""

    is_known = False  # the application said that it knows the caller
    most_bytes: int | None = None  # how large its body may be; None as long as that was not asked
    command: str = ""  # type: ignore[assignment]  # what could not be read has none
    path: str = ""

    def parse_header(self, header_plus: bytes) -> None:
        """Read the head. Raises ParsingError: it is malformed."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # a number that Python reads no further, a host that is none
            raise ParsingError("Header is invalid") from error


class Answering(WSGITask):
    """Sends the head of an answer together with the begin of its body: one packet for most, and one wake-up there."""

    logger = _waitress
    channel: Connection
    request: Any

    def execute(self) -> None:
        """Call the application, unless its caller has gone: who gave up may have asked another node for more since."""
        if self.request.command not in READS and self.channel.is_left():
            raise ClientDisconnected
        super().execute()

    def write(self, data: bytes) -> None:
        """Queue a piece of the body."""
        if self.complete and not self.wrote_header and len(data) <= SENT_TOGETHER:
            self.channel.head = self.build_response_header()
            self.wrote_header = True
        super().write(data)
        if self.channel.head:
            self.channel.write_soon(b"")  # an answer without a body


class Refusing(ErrorTask):
    """Answers a head that cannot be read."""

    logger = _waitress


class Connection(HTTPChannel):
    """A channel of waitress whose peer cannot keep more than the channel itself.

    Waitress takes all requests that came in one piece, and answers them one after the other whether they are read or
    not: a thread then waits in ``write_soon`` until the peer goes away. Here the next request is read once the last
    answer has left, so at most one answer waits, and the server closes the connection if it waits too long.

    Thread-safety: everything runs on the server's thread, but ``service``, ``write_soon`` and :meth:`ask`, which run
    on a worker.
    """

    parser_class = IncomingRequest
    task_class = Answering
    error_task_class = Refusing
    logger = _waitress
    head = b""  # of an answer; leaves with the first piece of its body
    server: Listener
    request: IncomingRequest | None
    requests: list[HTTPRequestParser]

    requests_lock: threading.Lock
    _flush_exception: Any
    _fileno: int | None

    def __init__(self, server: Listener, sock: socket.socket, addr: Any, adj: Adjustments, **further: Any) -> None:
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
            if request.content_length <= self.server.small_bytes and not (request.chunked or request.expect_continue):
                return
        if request.body_rcv is None:  # pragma: no cover - a request without a body is complete with its head
            return
        arrived = request.body_bytes_received
        limit = self._limit(request)
        if max(request.content_length, len(request.body_rcv)) > limit or arrived > OVERHEAD * limit:
            self._cut(request)
        elif max(request.content_length, arrived) > STRANGER_BYTES and not (
            request.is_known or self.server.admits is None
        ):
            self._is_asked = True
            # in the place of a request
            question = SimpleNamespace(service=self.ask, cancel=lambda: None)
            self.server.task_dispatcher.add_task(question)  # type: ignore[arg-type]
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
        head, self.head = self.head, b""
        return HTTPChannel.write_soon(self, head + data if head else data)

    def _flush_some(self, do_close: bool = True) -> bool:
        sent: bool = HTTPChannel._flush_some(self, do_close)  # type: ignore[attr-defined]
        if sent:
            self._progress_s = time.monotonic()
        return sent

    def is_read(self, now_s: float) -> bool:
        """Return whether part of an answer waits for a peer that took some of it just now."""
        return bool(self.total_outbufs_len) and now_s - self._progress_s < FRESH_S

    def is_left(self) -> bool:
        """Return whether the peer closed its side, so that it reads no answer."""
        peer = self.socket  # the listener's thread may take it away meanwhile
        try:
            return peer is None or not peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError as error:
            return not isinstance(error, BlockingIOError)

    def close_now(self) -> None:
        """Close, whatever waits; a worker that is writing learns it with its next piece."""
        with contextlib.suppress(OSError):
            self.handle_close()


class Listener(TcpWSGIServer):
    """One listening socket with its worker threads: accepts, counts and cuts connections.

    Raises ConfigError: the address cannot be bound.
    """

    channel_class = Connection
    logger = _waitress
    active_channels: dict[int, Connection]  # type: ignore[assignment]
    trigger: Any
    _map: dict[int, Any]

    def __init__(
        self,
        name: str,  # of the thread, ``xwheel-`` is put before it
        app: Callable[..., Any],
        *,
        host: str,
        port: int,  # 0 takes a free one
        threads: int,
        # larger bodies are not read: the application sees their length and no content, and must refuse
        max_body_bytes: int,
        limits: ConnectionsSection | None = None,
        limit_of: LimitOf | None = None,
        admits: Admits | None = None,  # None takes all bodies
        # paths that have a thread each, so that they are answered while all workers are busy
        own_threads: Sequence[str] = (),
        # leave X-Forwarded-For and its like in the head, for an application that judges them itself
        keep_forwarded: bool = False,
        bound: socket.socket | None = None,  # in place of host and port: another process shares it
    ) -> None:
        # bound here: waitress leaks a socket that it cannot bind
        bound = bound or bind(host, port)
        self.host, self.port = host, int(bound.getsockname()[1])
        self.max_body_bytes, self.limit_of, self.admits = max_body_bytes, limit_of, admits
        self.small_bytes = min(max_body_bytes, STRANGER_BYTES)  # a body up to this is read without a question
        self.cuts = CutLog()  # what was refused and cut since the start
        self._name = name
        self._limits = limits or ConnectionsSection()
        self._peers: Counter[str] = Counter()
        self._next_tick_s = 0.0
        self._pause_until_s = 0.0
        self._thread = threading.Thread(target=self.run, name=f"xwheel-{name}", daemon=True)
        self._own = {path: _dispatcher(1) for path in own_threads}
        super().__init__(
            app,
            map={},
            _sock=bound,
            dispatcher=_dispatcher(threads),
            bind_socket=False,
            _start=False,  # what is asked before all is there would wait, and be done once its caller has given up
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

    def start(self) -> None:
        """Begin to answer."""
        self.accept_connections()
        self._thread.start()

    def disown(self) -> None:
        """Close this process's copy of the socket after a fork; the parent goes on listening."""
        if self.socket is not None:
            self.socket.close()

    def stop(self, timeout_s: float = 5) -> None:
        """Take no more connections, let running requests end and their answers leave, then close all connections."""
        self.accepting = False
        deadline = time.monotonic() + timeout_s
        dispatchers = [self.task_dispatcher, *self._own.values()]
        for dispatcher in dispatchers:
            dispatcher.set_thread_count(0)  # all at once, then each is waited for
        for dispatcher in dispatchers:
            left_s = max(0.0, deadline - time.monotonic())
            dispatcher.shutdown(cancel_pending=False, timeout=left_s)  # type: ignore[arg-type]
        if self._thread.ident is None:
            self.close()
            return
        deadline = time.monotonic() + timeout_s
        # a peer that reads nothing is not waited for
        while (now_s := time.monotonic()) < deadline and any(
            channel.is_read(now_s) for channel in list(self.active_channels.values())
        ):
            time.sleep(0.005)
        # on the listener's own thread: its loop ends once no socket is left. A worker's last pull may wake it before
        # ours does, which then finds the trigger closed
        with contextlib.suppress(OSError):
            self.trigger.pull_trigger(lambda: wasyncore.close_all(self._map))
        self._thread.join(timeout_s)
        self.log_cuts(time.monotonic(), ends=True)

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
        for _ in range(ACCEPTS if self.accepting else 0):
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
            sock, addr = accepted
            peer, now_s = peer_of(addr[0]), time.monotonic()
            if not self._has_room(peer, now_s):
                self.cuts.note(Cut.REFUSED, peer, now_s)
                sock.close()
                continue
            try:
                self.set_socket_options(sock)
            except OSError:  # it has gone already
                sock.close()
                continue
            self._peers[peer] += 1
            self.channel_class(self, sock, self.fix_addr(addr), self.adj, map=self._map)

    def _has_room(self, peer: str, now_s: float) -> bool:
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

    def log_cuts(self, now_s: float, *, ends: bool = False) -> None:
        """Log what was refused and cut, one line for each window of time."""
        line = self.cuts.line(now_s, ends=ends)
        if line is not None:
            logger.warning("%s listener closed %s", self._name, line)


def _dispatcher(threads: int) -> ThreadedTaskDispatcher:
    made = ThreadedTaskDispatcher()
    made.logger, made.queue_logger = _waitress, _queue
    made.set_thread_count(threads)
    return made


def bind(host: str, port: int, *, listens: bool = False) -> socket.socket:
    """Return a bound socket, which takes connections if it ``listens``. Raises ConfigError: the address is taken."""
    try:
        with contextlib.ExitStack() as undo:
            family, kind, protocol, _, address = socket.getaddrinfo(
                host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0]
            bound = undo.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            if listens:
                bound.listen()
            undo.pop_all()
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
    return bound
