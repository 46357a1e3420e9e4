"""When a run that came before it was due is to start, by the clock of this process."""

from __future__ import annotations

import threading
from typing import Final

from xwheel.wire.messages import TriggerRequest

KEPT_MS: Final = 30_000
MOST_MS: Final = 50  # how much of a message's time on its way is made up for


class SchedulersClock:
    """How far the scheduler's clock is from our monotonic one, by the message that took least time of late.

    Whatever this machine's clock of the day says makes no difference. A message that seems to have taken long may as
    well tell of a clock that was set back, or of a scheduler with another one: its run starts later then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since_ms = 0
        self._least: tuple[int, int] | None = None  # of the last while, and of the one before it

    def start_ms(self, request: TriggerRequest, received_ms: int) -> int:
        """Return when a run is due, by the clock that says when it was received."""
        offset_ms = received_ms - request.sent_ms
        with self._lock:
            if self._least is None:
                self._least, self._since_ms = (offset_ms, offset_ms), received_ms
            elif received_ms - self._since_ms > KEPT_MS:
                self._least, self._since_ms = (offset_ms, self._least[0]), received_ms
            else:
                self._least = (min(offset_ms, self._least[0]), self._least[1])
            # both clocks are cut to whole milliseconds, and no run may start too early
            return request.due_ms + max(min(self._least), offset_ms - MOST_MS) + 1
