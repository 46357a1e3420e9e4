"""What a node remembers of the logs that grow, so that it need not ask for each chunk."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, NamedTuple

from xwheel_run_logs import LogKey

from xwheel_log_s3.parts import Part

MAX_LOGS: Final = 4096
MAX_BYTES: Final = 16 * 1024 * 1024


class Known(NamedTuple):
    """How far a log's objects go; never wrong but for logs that were deleted, though there may be more meanwhile.

    Attributes:
        next_line: The first line that is missing.
        tail_line: Number of the tail's first line.
        tail: The text of the last object, if it is short: what comes next is written with it.
        tail_part: That object.
        is_sure: Whether the service was asked; else this node wrote the first lines without asking.
        is_complete: Whether the last chunk is there.
    """

    next_line: int = 1
    tail_line: int = 1
    tail: bytes = b""
    tail_part: Part | None = None
    is_sure: bool = False
    is_complete: bool = False


class Memory:
    """The logs that were written last, bounded in number and in bytes."""

    def __init__(self, max_logs: int = MAX_LOGS, max_bytes: int = MAX_BYTES) -> None:
        self._guard = threading.Lock()
        self._known: OrderedDict[LogKey, Known] = OrderedDict()
        self._bytes = 0
        self._max_logs, self._max_bytes = max_logs, max_bytes

    def get(self, key: LogKey) -> Known | None:
        """Return what is known of a log."""
        with self._guard:
            return self._known.get(key)

    def note(self, key: LogKey, known: Known) -> None:
        """Remember a log, unless another thread knows more; what was not written for long is forgotten."""
        with self._guard:
            before = self._known.get(key)
            if before is not None and before.next_line > known.next_line:
                return
            self._drop(key)
            self._known[key] = known
            self._bytes += len(known.tail)
            while len(self._known) > self._max_logs or self._bytes > self._max_bytes:
                self._drop(next(iter(self._known)))

    def forget(self, keys: Iterable[LogKey]) -> None:
        """Forget logs."""
        with self._guard:
            for key in keys:
                self._drop(key)

    def _drop(self, key: LogKey) -> None:
        before = self._known.pop(key, None)
        if before is not None:
            self._bytes -= len(before.tail)
