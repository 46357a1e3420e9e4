"""Wait for another thread."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_S = 60


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    until = time.monotonic() + LONGEST_S
    while not condition():
        assert time.monotonic() < until, "another thread did not get there"
        time.sleep(0.005)
