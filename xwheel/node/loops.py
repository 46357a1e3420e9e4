"""One scheduler node: the loops of its pipeline, in what order they start, and how they end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from xwheel.errors import XwheelError
from xwheel.node.pipeline import Core, Finishing, Management, Planning, Routing, Sending
from xwheel.runtime.loops import Service, StallMonitor
from xwheel.scheduler.fire.tick import Inbox

logger = logging.getLogger(__name__)

DRAIN_S: Final = 20
LEAVE_S: Final = 10
HAND_OVER_S: Final = 5
HAND_OVER_PAUSE_MS: Final = 20


class Scheduler:
    """A node without its HTTP listeners: its subsystems, and how their loops start and end.

    What each of them owns stands in ``docs/explanation/pipeline.md``.
    """

    def __init__(self, core: Core) -> None:
        inbox = Inbox(core.wakeups.tick.set)
        self.core = core
        self.finishing = Finishing(core)
        self.routing = Routing(core, inbox)
        self.sending = Sending(core, self.routing, self.finishing)
        self.planning = Planning(core, inbox, self.routing, self.sending, self.finishing)
        self.management = Management(core, self.finishing)
        self.stall_monitor = StallMonitor(lambda: self.services, self.core.clock)
        self._watching = Service("watch", self.stall_monitor.step, self.core.clock)

    @property
    def services(self) -> Sequence[Service]:
        """All loops, in the order in which they start."""
        parts = (self.core, self.sending, self.finishing, self.routing, self.planning, self.management)
        return [self._watching, *(service for part in parts for service in part.services)]

    def start(self, until_done: Callable[[Callable[[], None]], None] = lambda part: part()) -> None:
        """Take the leases and start all loops, or raise a LockError: another scheduler has the database.

        ``until_done`` does what is given to it, again while the database is away.
        """
        watching, *others = self.services
        watching.start()
        try:
            until_done(self._begin)
        except BaseException:
            watching.stop()
            self._close_clients()
            raise
        for service in others:
            service.start()

    def _begin(self) -> None:
        """Do what must be done before the first step of any loop; it may be done again, however far it came."""
        core = self.core
        with self.stall_monitor.noting("start"):
            core.clock_sync.begin()
            core.lease.acquire()
            core.registry.step(core.clock.now_ms())
            core.calendars.step(core.clock.now_ms())
            core.observers.step(core.clock.now_ms())

    def stop(self, timeout_s: float = DRAIN_S, *, end_work: Callable[[], bool] = lambda: True) -> bool:
        """Hand the partitions over, then plan and fence nothing more, let sends end, write their answers, leave.

        ``end_work`` ends what plugins do along with the node, and returns whether that worked; it is called while the
        leases still hold, when all that ended is written. Returns whether everything ended in time; what did not is in
        the rows.
        """
        core, clock = self.core, self.core.clock
        deadline_ms = clock.monotonic_ms() + round(timeout_s * 1000)
        self._hand_over(min(deadline_ms, clock.monotonic_ms() + HAND_OVER_S * 1000))
        first = [*self.management.services, *self.finishing.services, *reversed(self.planning.services)]
        planning = self._end(first, deadline_ms)
        self.planning.tick.drain()
        self.routing.async_chooser.stop()
        self.routing.probes.stop()
        pause = threading.Event()
        while self.sending.is_busy() and clock.monotonic_ms() < deadline_ms:
            clock.wait(pause, 10)
        ended = self._end([*reversed(self.sending.services), *self.routing.services], deadline_ms)
        ended = end_work() and ended
        ended = self._end([*reversed(core.services), self._watching], deadline_ms) and ended
        self._close_clients()
        left = self._leave()
        core.listeners.stop()
        return planning and ended and left

    def _close_clients(self) -> None:
        for lane in self.sending.lanes.by_number.values():
            lane.client.close()
        self.finishing.check.questions.calls.client.close()
        self.routing.probes.calls.client.close()
        self.routing.addresses.calls.client.close()

    def _hand_over(self, deadline_ms: int) -> None:
        """Let other nodes go on with our partitions, a few at a time, while this one still fires the rest."""
        core, (leasing, *_) = self.core, self.core.services
        core.lease.drain()
        pause, failures = threading.Event(), leasing.failures
        while not core.lease.is_drained() and leasing.is_alive() and core.clock.monotonic_ms() < deadline_ms:
            if leasing.failures == failures:  # a database that is away is asked when the loop itself does so
                leasing.wake()
            core.clock.wait(pause, HAND_OVER_PAUSE_MS)

    def _end(self, services: Sequence[Service], deadline_ms: int) -> bool:
        clock = self.core.clock
        ended = [service.stop(max(0.1, (deadline_ms - clock.monotonic_ms()) / 1000)) for service in services]
        return all(ended)

    def _leave(self) -> bool:
        """Write what is left and give the leases back; return whether that worked: the database may be away."""
        core = self.core
        done = threading.Event()

        def leave() -> None:
            try:
                core.registry.flush(core.clock.now_ms())
                core.lease.release()
            except XwheelError as error:
                logger.warning("the leases are not given back, they end by themselves: %s", error)
            else:
                done.set()

        # in a thread: a database that hangs must not hold up the end
        thread = threading.Thread(target=leave, name="xwheel-leave", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # from Python 3.12 on, an interpreter that ends starts no threads
            leave()
            return done.is_set()
        thread.join(LEAVE_S)
        if thread.is_alive():
            why = "the database does not answer"
            logger.warning("the leases are not given back, they end by themselves: %s", why)
        return done.is_set()
