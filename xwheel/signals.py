"""SIGTERM and SIGINT, however often they come and whatever they interrupt."""

from __future__ import annotations

import signal
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Hears that this process shall end; a context manager, which belongs to the main thread.

    Before :meth:`be_up` the process ends at once and with status 0: it is still looking for what it needs, such as a
    database, and has nothing to bring to an end. Afterwards a signal only ends :meth:`wait`.

    Args:
        for_good: The process ends after the block: once told to, it stays deaf to further signals.
    """

    def __init__(self, *, for_good: bool = False) -> None:
        # a handler may interrupt anything, also itself: the lock within an Event would wait for itself
        self._heard: SimpleQueue[int] = SimpleQueue()
        self._is_up = False
        self._for_good = for_good
        self._was_told = False

    def __enter__(self) -> StopSignals:
        self._before = {number: signal.signal(number, self._hear) for number in ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        if self._for_good and self._was_told:
            return
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def be_up(self) -> bool:
        """Let signals wait from now on; tell whether one came before, and was overheard."""
        self._is_up = True
        return not self._heard.empty()

    def wait(self) -> None:
        """Wait for a signal, unless one came already."""
        self._heard.get()

    def heard(self, timeout_s: float) -> bool:
        """Wait for a signal so long at most; tell whether one has come by now, whoever waited for it."""
        if not self._was_told:
            with suppress(Empty):
                self._heard.get(timeout=timeout_s)
        return self._was_told

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._heard.put(number)
        self._was_told = True
        if not self._is_up:
            raise SystemExit(0)
