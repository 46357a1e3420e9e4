"""How long a database may keep a thread waiting: a connection whose answer is overdue is shut.

A server that is frozen, or behind a network that acknowledges and delivers nothing, ends no wait of its client. So each
connection notes when its answer must be there, and one loop for each database shuts those that are overdue: the
driver's wait ends with an error at once, and the work is done again on another connection.
"""

from __future__ import annotations

import math
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import Engine, event

from xwheel.clock import SystemClock
from xwheel.runtime.loops import Service
from xwheel.storage.database.errors import OVERDUE

T = TypeVar("T")

STEP_MS: Final = 100
"""How often the deadlines are checked while an answer is awaited; a wait may end later by that much."""

IDLE_STEP_MS: Final = 500  # the same while none is: no limit is so short that it could pass unseen
STOOD_STILL_S: Final = 1.1
TRUSTED_S: Final = 1.0  # how long after its last use a connection is taken to be whole without a question
STOP_S: Final = 5.0
NAME: Final = "database"


class ThreadLimits(threading.local):
    """How long each thread may wait: in seconds for one answer, until a time of the monotonic clock for all of them."""

    def __init__(self, statement_s: float) -> None:
        self.statement_s = statement_s
        self.until_s = math.inf


class AnswerDeadline:
    """The answer that one connection waits for; the descriptor ``number`` of its socket belongs to this object.

    ``server`` is the name and port of the one of several that is to give it.
    """

    def __init__(self, limits: ThreadLimits, number: int, server: tuple[str, int] | None) -> None:
        self.until_s = math.inf
        self.took_s = 0.0
        self._asked_s = -math.inf
        self._limits = limits
        self.number = number
        self.server = server
        self._end = select.poll()
        self._end.register(number, select.POLLIN)

    def expect(self) -> None:
        """Note that the server is to answer from now on."""
        now_s = self._asked_s = time.monotonic()
        self.until_s = min(now_s + self._limits.statement_s, self._limits.until_s)
        self.took_s = max(0.0, self.until_s - now_s)

    def is_trusted(self) -> bool:
        """Return whether the connection was just used, and has not ended since: nothing waits to be read."""
        return time.monotonic() - self._asked_s < TRUSTED_S and not self._end.poll(0)

    def shut(self) -> None:
        """End the wait: the connection is of no use any more."""
        self.until_s = math.inf
        self.took_s = min(self.took_s, time.monotonic() - self._asked_s)
        twin = socket.socket(fileno=self.number)
        try:
            twin.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it broke by itself
        finally:
            twin.detach()


class Deadlines:
    """Shuts the connections of one engine whose answers are overdue.

    The loop runs from the first connection until :meth:`close`, and then until no connection is left: a thread that
    did not end in time may wait for an answer still. One may take ``statement_s`` where no other limit is set.
    """

    def __init__(self, statement_s: float) -> None:
        self._limits = ThreadLimits(statement_s)
        # the garbage collector forgets connections on any thread, at any moment: on one that holds it, too
        self._guard = threading.RLock()
        self._answers: set[AnswerDeadline] = set()
        self._service: Service | None = None
        self._is_closed = False
        self._seen_s = 0.0

    @property
    def services(self) -> Sequence[Service]:
        """The loop; none before the first connection, and for a database that is a file."""
        service = self._service
        return () if service is None else (service,)

    def attach(self, engine: Engine, connect: Callable[[Any, dict[str, Any], float], Any]) -> None:
        """Let the engine open connections that note their waits; ``connect`` opens one within a time in seconds."""

        def watched(_dialect: object, _record: object, arguments: Any, options: Any) -> Any:
            connection = connect(arguments, options, self.left_s())
            self._watch(connection)
            return connection

        event.listen(engine, "do_connect", watched)
        # to ask it before each use would be a third of a small transaction
        ping = engine.dialect.do_ping

        def ping_if_old(dbapi_connection: Any) -> bool:
            return dbapi_connection.answer.is_trusted() or ping(dbapi_connection)

        engine.dialect.do_ping = ping_if_old  # type: ignore[method-assign]

    @contextmanager
    def limited(self, deadline_ms: int | None, statement_ms: int | None) -> Iterator[None]:
        """Limit what this thread does inside the block; an outer block's deadline holds as well.

        All of it may take ``deadline_ms`` (None: no limit), one answer ``statement_ms`` (None: what is usual).
        """
        limits = self._limits
        before = limits.until_s, limits.statement_s
        if deadline_ms is not None:
            limits.until_s = min(limits.until_s, time.monotonic() + deadline_ms / 1000)
        if statement_ms is not None:
            limits.statement_s = statement_ms / 1000
        try:
            yield
        finally:
            limits.until_s, limits.statement_s = before

    def left_s(self) -> float:
        """Return how long this thread may still wait now."""
        return min(self._limits.statement_s, self._limits.until_s - time.monotonic())

    def is_over(self) -> bool:
        """Return whether the deadline that this thread was given has passed."""
        return time.monotonic() >= self._limits.until_s

    def end_waits(self, servers: Collection[tuple[str, int]]) -> None:
        """End all that waits for an answer of these servers: what they write is lost."""
        with self._guard:
            for answer in list(self._answers):
                if answer.server in servers and answer.until_s < math.inf and answer in self._answers:
                    answer.shut()

    def _watch(self, connection: Any) -> None:
        answer = AnswerDeadline(self._limits, os.dup(connection.fileno()), getattr(connection, "server", None))
        with self._guard:
            self._answers.add(answer)
            self._is_closed = False
            # the copy of a forked process does not run there
            if self._service is None or not self._service.is_alive():
                self._seen_s = time.monotonic()
                self._service = Service(NAME, self._step, SystemClock())
                self._service.start()
        # a connection that is not closed is finalized by the garbage collector
        connection.forget = weakref.finalize(connection, self._forget, answer)
        connection.forget.atexit = False
        connection.answer = answer

    def _forget(self, answer: AnswerDeadline) -> None:
        with self._guard:
            self._answers.discard(answer)
            os.close(answer.number)

    def close(self, timeout_s: float | None = STOP_S) -> None:
        """End the loop, and wait so long for that, with None not at all; the next connection begins another one.

        While a connection is in use the loop goes on, and ends by itself after it.
        """
        with self._guard:
            self._is_closed = True
        self._leave(timeout_s)

    def _leave(self, timeout_s: float | None) -> None:
        """End the loop if no connection is left after :meth:`close`."""
        with self._guard:
            if not self._is_closed or self._answers:
                return
            service, self._service = self._service, None
        if service is not None:
            service.stop(timeout_s)

    def _step(self, _now_ms: int) -> int:
        before_s, self._seen_s = self._seen_s, time.monotonic()
        # after a longer time this process stood still: what came meanwhile has still to be read
        if self._seen_s - before_s <= STOOD_STILL_S:
            with self._guard:
                self._shut_overdue(self._seen_s)
        self._leave(None)
        return STEP_MS if any(answer.until_s < math.inf for answer in list(self._answers)) else IDLE_STEP_MS

    def _shut_overdue(self, now_s: float) -> None:
        for answer in list(self._answers):
            # one may be forgotten meanwhile, and its descriptor be another's
            if answer.until_s <= now_s and answer in self._answers:
                answer.shut()


class Watched:
    """Mixed into a driver's connection, lets it note when its answers must be there."""

    answer: AnswerDeadline | None = None  # what it notes; None until it is watched
    forget: Callable[[], object] = staticmethod(lambda: None)  # ends the watch
    failure: type[Exception]  # the driver's error about a connection that broke
    number: tuple[int, ...] = ()  # what it calls that, before the message; nothing if it has no numbers

    def close(self) -> None:
        """Close it, and end the watch."""
        super().close()  # type: ignore[misc] # the driver's
        self.forget()

    def awaited(self, ask: Callable[..., T], *args: Any, **options: Any) -> T:
        """Do what waits for the server, but not beyond the limit."""
        answer = self.answer
        if answer is None:
            return ask(*args, **options)
        answer.expect()
        try:
            return ask(*args, **options)
        except self.failure as error:
            if answer.until_s == math.inf:  # it was shut
                raise self.failure(*self.number, f"{OVERDUE} {answer.took_s:.1f} s") from error
            raise
        finally:
            answer.until_s = math.inf
