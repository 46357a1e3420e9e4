"""What ends the waits of the loops, so that work that one stage leaves for another need not wait for its turn."""

from __future__ import annotations

from threading import Event


class Wakeups:
    """One event for each loop that others wake; any thread may set them."""

    def __init__(self) -> None:
        self.lease, self.claim, self.adopt = Event(), Event(), Event()
        self.tick, self.results, self.check = Event(), Event(), Event()
        self.registry, self.calendars, self.observers = Event(), Event(), Event()
        # counts transactions that failed and may have been committed nevertheless; adopting then looks for what they
        # planned. A count that another thread overwrites makes no difference: it only has to change
        self.failures = 0

    def plan(self) -> None:
        """Let due jobs be claimed and planned rows be adopted at once."""
        self.claim.set()
        self.adopt.set()

    def note_failure(self) -> None:
        """Let adopting look at once for all rows that memory lost, those not due yet included."""
        self.failures += 1
        self.adopt.set()

    def note_partitions(self, came_back: bool) -> None:
        """Plan for partitions that came; some that came back may have rows that memory let go of."""
        if came_back:
            self.note_failure()
        self.plan()
