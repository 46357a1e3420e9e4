"""One connection: a request at a time, a large body only from a known caller, and no thread that waits for a peer."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from waitress.adjustments import Adjustments
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser, ParsingError

from xwheel.listener.limits import FRESH_S, Stage, Standing, peer_of

if TYPE_CHECKING:
    from xwheel.listener.server import Server

logger = logging.getLogger(__name__)

STRANGER_BYTES: Final = 32 * 1024
"""Bodies up to this size are read before the application sees them, whoever sends them; a hundred outcomes fit in."""

OVERHEAD: Final = 2
"""A chunked body may take so many times the limit on the wire."""


class Request(HTTPRequestParser):
    """A request as it comes in.

    Attributes:
        is_known: The application said that it knows the caller.
    """

    is_known = False

    def parse_header(self, header_plus: bytes) -> None:
        """Read the head.

        Raises:
            ParsingError: It is malformed.
        """
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # a number that Python reads no further, a host that is none
            raise ParsingError("Header is invalid") from error


class Connection(HTTPChannel):
    """A channel of waitress whose peer cannot keep more than the channel itself.

    Waitress takes all requests that came in one piece, and answers them one after the other whether somebody reads or
    not: a thread then waits in ``write_soon`` until the peer goes away. Here the next request is looked at once the
    last answer has left, so at most one answer waits, and the server closes the connection if it waits too long.

    Thread-safety: everything runs on the server's thread, but ``service``, ``write_soon`` and :meth:`ask`, which run
    on a worker.
    """

    parser_class = Request
    server: Server
    request: Request | None
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

    def standing(self) -> Standing:
        """Return what it is at; for the server's thread."""
        stage, since_s = Stage.IDLE if self._was_served else Stage.NEW, self._progress_s
        if self._drains_s is not None:
            stage, since_s = Stage.DRAINING, self._drains_s
        elif self.total_outbufs_len:
            stage = Stage.WRITING
        elif self.requests or self._is_asked:
            stage = Stage.SERVED
        elif self.close_when_flushed or self.will_close:
            stage = Stage.WRITING
        elif self._body_s is not None:
            stage, since_s = Stage.BODY, self._body_s
        elif self._head_s is not None:
            stage, since_s = Stage.HEAD, self._head_s
        return Standing(self.peer, stage, since_s)

    def del_channel(self, *arguments: Any) -> None:
        """Leave the server's count."""
        self.server.left(self)
        super().del_channel(*arguments)

    def readable(self) -> bool:
        """Return whether to wait for data; goes on first with what waited for the last answer to leave."""
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
        """Take what came; see the class about when it is looked at."""
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

    def _judge(self, request: Request) -> None:
        """Decide about a body that is not whole yet: go on, ask who sends it, or leave it."""
        if self._body_s is None:
            self._body_s = time.monotonic()
            if request.content_length <= self.server.small_bytes and not (
                request.chunked or request.expect_continue
            ):
                return
        if request.body_rcv is None:  # pragma: no cover - a request without a body is complete with its head
            return
        arrived = request.body_bytes_received
        limit = self.server.max_body_bytes
        if max(request.content_length, len(request.body_rcv)) > limit or arrived > OVERHEAD * limit:
            self._cut(request)
        elif max(request.content_length, arrived) > STRANGER_BYTES and self.server.asks_about(request):
            self._is_asked = True
            self.server.ask(self)
        elif request.expect_continue and not self.sent_continue:
            self.send_continue()

    def ask(self) -> None:
        """Ask the application whether it knows the caller, who announced a large body; on a worker's thread."""
        known = False
        try:
            if self.request is not None and self.server.admits is not None:
                environ = self.task_class(self, self.request).get_environment()  # type: ignore[arg-type]
                known = self.server.admits(environ)
        except Exception:
            # the application meets the same failure when it answers, and has words for it
            logger.exception("cannot find out who sends a large body")
        self._answered = known
        self._is_asked = False
        self.server.pull_trigger()

    def _cut(self, request: Request) -> None:
        """Let the application answer without the body: by the head alone, in the form that its callers know."""
        size = max(request.content_length, request.body_bytes_received)
        request.close()
        request.body_rcv = None
        request.headers = {**request.headers, "CONTENT_LENGTH": str(size), "CONNECTION": "close"}
        self._ahead = b""
        self._must_drain = True
        self._complete(request)

    def _complete(self, request: Request) -> None:
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
        """Send on; after a refusal the peer gets time to read it, as closing at once would take it from him."""
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
        """Return whether part of an answer waits for a peer who took some of it just now."""
        return bool(self.total_outbufs_len) and now_s - self._progress_s < FRESH_S

    def close_now(self) -> None:
        """Close, whatever waits; a worker that is writing learns it with its next piece."""
        with contextlib.suppress(OSError):
            self.handle_close()
