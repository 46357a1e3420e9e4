"""How long a database may keep a thread waiting: a connection whose answer is overdue is shut.

A server that is frozen, or behind a network that acknowledges and delivers nothing, ends no wait of its client. So each
connection notes when its answer must be there, and one loop for each database shuts those that are overdue: the
driver's wait ends with an error at once, and the work is done again on another connection.
"""

from __future__ import annotations

import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Engine, event

from xwheel.clock import SystemClock
from xwheel.runtime.loops import Service
from xwheel.storage.database.errors import OVERDUE

STEP_MS: Final = 100
"""How often the deadlines are checked; a wait may end later by that much."""

STOOD_STILL_S: Final = 1.1
STOP_S: Final = 5.0
NAME: Final = "database"


class ThreadLimits(threading.local):
    """How long each thread may wait.

    Attributes:
        statement_s: For one answer, in seconds.
        until_s: For all of them, as a time of the monotonic clock.
    """

    def __init__(self, statement_s: float) -> None:
        self.statement_s = statement_s
        self.until_s = math.inf


class AnswerDeadline:
    """The answer that one connection waits for.

    The file descriptor ``number`` of the connection's socket belongs to this object.
    """

    def __init__(self, limits: ThreadLimits, number: int) -> None:
        self.until_s = math.inf
        self.took_s = 0.0
        self._limits = limits
        self._number = number

    def expect(self) -> None:
        """Note that the server is to answer from now on."""
        now_s = time.monotonic()
        self.until_s = min(now_s + self._limits.statement_s, self._limits.until_s)
        self.took_s = max(0.0, self.until_s - now_s)

    def is_shut(self) -> bool:
        """Return whether the wait that ends now was ended by :meth:`shut`."""
        return self.until_s == math.inf

    def words(self) -> str:
        """Return the message for that."""
        return f"{OVERDUE} {self.took_s:.1f} s"

    def shut(self) -> None:
        """End the wait: the connection is of no use any more."""
        self.until_s = math.inf
        twin = socket.socket(fileno=self._number)
        try:
            twin.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it broke by itself
        finally:
            twin.detach()

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._number)


class Deadlines:
    """Shuts the connections of one engine whose answers are overdue.

    The loop runs from the first connection until :meth:`close`, and then until no connection is left: a thread that
    did not end in time may wait for an answer still.

    One answer may take ``statement_s`` where no other limit is set.
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

    def attach(self, engine: Engine, make: Callable[[Any, dict[str, Any], float], Any]) -> None:
        """Let the engine open connections that note their waits.

        ``make`` opens one: the driver's arguments and options, and how long it may take in seconds.
        """

        def connect(_dialect: object, _record: object, arguments: Any, options: Any) -> Any:
            connection = make(arguments, options, self.left_s())
            self._watch(connection)
            return connection

        event.listen(engine, "do_connect", connect)

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

    def _watch(self, connection: Any) -> None:
        answer = AnswerDeadline(self._limits, os.dup(connection.fileno()))
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
            answer.close()

    def close(self, timeout_s: float | None = STOP_S) -> None:
        """End the loop, and wait so long for that, with None not at all; the next connection begins another one.

        While a connection is in use the loop goes on, and ends by itself after it.
        """
        with self._guard:
            self._is_closed = True
            service = self._leave()
        if service is not None:
            service.stop(timeout_s)

    def _leave(self) -> Service | None:
        """Return the loop if it is to end now; under the guard."""
        if not self._is_closed or self._answers:
            return None
        service, self._service = self._service, None
        return service

    def _step(self, now_ms: int) -> int:
        """Shut what is overdue; return how long to wait in milliseconds."""
        del now_ms  # answers are awaited by the monotonic clock
        before_s, self._seen_s = self._seen_s, time.monotonic()
        # after a longer time this process stood still: what came meanwhile has still to be read
        if self._seen_s - before_s <= STOOD_STILL_S:
            with self._guard:
                self._shut_overdue(self._seen_s)
        with self._guard:
            ending = self._leave()
        if ending is not None:
            ending.stop(None)
        return STEP_MS

    def _shut_overdue(self, now_s: float) -> None:
        for answer in list(self._answers):
            # one may be forgotten meanwhile, and its descriptor be another's
            if answer.until_s <= now_s and answer in self._answers:
                answer.shut()


class Watched:
    """A driver's connection that notes when its answers must be there.

    Attributes:
        answer: What it notes; None until it is watched.
        forget: Ends the watch.
    """

    answer: AnswerDeadline | None = None
    forget: Callable[[], object] = staticmethod(lambda: None)
