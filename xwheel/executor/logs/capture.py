"""Sends what handlers print and log to the log of their run, and everything else where it went before."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Callable
from typing import Final, TextIO

from xwheel.errors import JobKilledError, JobTimeoutError
from xwheel.executor.context import CURRENT


class _Stream:
    """Stands in for ``sys.stdout``: inside a run it writes to the run's log, or to both, elsewhere to the original."""

    def __init__(self, original: TextIO | None, both: bool) -> None:
        self.original = original  # None in a process that was started without it
        self._both = both

    def write(self, text: str) -> int:
        """Write text; return its length."""
        context = None if CAPTURE.forked else CURRENT.get(None)
        if context is not None:
            context.sink.raw(text)
        if self.original is not None and (context is None or self._both):
            self.original.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush the original; run logs flush themselves."""
        if self.original is not None:
            self.original.flush()

    def close(self) -> None:
        """Stay open: other runs and the executor itself write here, too."""
        self.flush()

    def __getattr__(self, name: str) -> object:
        return getattr(self.original, name)


class _Handler(logging.Handler):
    """Writes records of a run into its log; shows others on stderr if no other handler would."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self.alone = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Write one record, without the lock that handlers have: runs must not wait for each other's formatting.

        Each run's log has a lock of its own, and formatting calls whatever ``__str__`` the record's arguments have.
        """
        passed = self.filter(record)
        if passed:
            self.emit(passed if isinstance(passed, logging.LogRecord) else record)
        return bool(passed)

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        context = CURRENT.get(None)
        try:
            if context is not None and not CAPTURE.forked:
                context.sink.line(self.format(record))
            elif self.alone and record.levelno >= logging.WARNING and logging.lastResort is not None:
                logging.lastResort.handle(record)
        except (JobKilledError, JobTimeoutError):
            raise
        except Exception:
            self.handleError(record)


class _RecordFactory:
    """Makes the log records of a process, as before, and writes those of a run into its log."""

    def __init__(self, original: Callable[..., logging.LogRecord], handler: _Handler) -> None:
        self._original = original
        self._handler = handler
        self._has_ended = False

    def __call__(self, *arguments: object, **further: object) -> logging.LogRecord:
        """Return a record."""
        record = self._original(*arguments, **further)
        if not self._has_ended:
            self._handler.emit(record)
        return record

    def end(self) -> None:
        """Write no more, and let the original stand alone unless another factory was put around this one."""
        self._has_ended = True
        if logging.getLogRecordFactory() is self:
            logging.setLogRecordFactory(self._original)


class Capture:
    """Takes over ``sys.stdout``, ``sys.stderr`` and the root logger while at least one executor runs.

    Threads that a handler starts by itself have no current run, so what they print goes where it always went. If
    logging is not configured, the root level is INFO while the capture lasts.
    """

    def __init__(self) -> None:
        # set in forked children: they have copies of the logs' buffers, but no thread that flushes them
        self.forked = False
        self._lock = threading.Lock()
        self._users = 0
        self._streams: dict[str, _Stream] = {}
        self._handler = _Handler()
        self._level: int | None = None
        self._factory: _RecordFactory | None = None

    def install(self, *, is_guest: bool = False) -> None:
        """Begin, unless another executor of this process began already.

        The process of a guest is an application's: its own streams get everything too, and neither handlers nor levels
        of its logging are touched, so that it may configure logging later.
        """
        with self._lock:
            self._users += 1
            if self._users > 1:
                return
            for name in ("stdout", "stderr"):
                stream = self._streams[name] = _Stream(getattr(sys, name), is_guest)
                setattr(sys, name, stream)
            if is_guest:
                self._factory = _RecordFactory(logging.getLogRecordFactory(), self._handler)
                logging.setLogRecordFactory(self._factory)
                return
            root = logging.getLogger()
            self._handler.alone = not root.handlers
            if self._handler.alone and root.level == logging.WARNING:
                self._level = root.level
                root.setLevel(logging.INFO)
            root.addHandler(self._handler)

    def remove(self) -> None:
        """End, if the last executor of this process ended."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            for name, stream in self._streams.items():
                # another stream may stand in front of ours meanwhile; then it stays
                if getattr(sys, name) is stream:
                    setattr(sys, name, stream.original)
            if self._factory is not None:
                self._factory.end()
                self._factory = None
                return
            root = logging.getLogger()
            with contextlib.suppress(ValueError):
                root.removeHandler(self._handler)
            if self._level is not None:
                root.setLevel(self._level)
                self._level = None


CAPTURE: Final = Capture()  # one for the process, since there is one ``sys.stdout``
