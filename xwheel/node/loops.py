"""One scheduler node: the loops of its pipeline, in what order they start, and how they end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Final

from xwheel import ring
from xwheel.clock import Clock
from xwheel.config import Config
from xwheel.errors import XwheelError
from xwheel.node.pipeline import Pipeline
from xwheel.plugin.discovery import Plugins
from xwheel.runtime.loops import Service, StallMonitor
from xwheel.runtime.sealing import KeyRing
from xwheel.storage.database.engine import Database
from xwheel.wire.http.tls import NO_FILES, TlsFiles

logger = logging.getLogger(__name__)

DRAIN_S: Final = 20
LEAVE_S: Final = 10
HAND_OVER_S: Final = 5
HAND_OVER_PAUSE_MS: Final = 20
# counting an hour may take long; what is late here delays no run
UPKEEP_STALE_MS: Final = 300_000


class Scheduler(Pipeline):
    """A node without its HTTP listeners. Every loop is a :class:`~xwheel.runtime.loops.Service`.

    Args:
        config: The settings.
        db: The database, at this version's schema.
        plugins: What jobs may name.
        executor_token: The token that all executors share.
        clock: Where time comes from; None for the system's.
        keys: What executor secrets are sealed under; None keeps them plain.
        tls: Whom calls to executors trust, and what they show.
    """

    def __init__(
        self,
        config: Config,
        db: Database,
        plugins: Plugins,
        executor_token: str,
        clock: Clock | None = None,
        *,
        keys: KeyRing | None = None,
        tls: TlsFiles = NO_FILES,
    ) -> None:
        super().__init__(config, db, plugins, executor_token, clock, keys=keys, tls=tls)
        # what fails may have been committed nevertheless: then the rows say more than memory
        self._ticking, self._claiming = (
            Service(
                name, step, self.clock, wakeup=self.bells[f"{name}ing"], on_failure=self.adopting.look_again
            )
            for name, step in (("tick", self.ring_loop.step), ("claim", self.claiming.step))
        )
        self._adopting = Service("adopt", self.adopting.step, self.clock, wakeup=self.bells["adopting"])
        self._writing = Service("answers", self.answers.step, self.clock, wakeup=self.bells["writing"])
        self._leasing = Service("lease", self.lease.step, self.clock, wakeup=self.bells["leasing"])
        self._calendaring = Service("calendars", self.calendars.step, self.clock)
        self._registering = Service("registry", self.registry.step, self.clock)
        self._timekeeping = Service("time", self.timekeeper.step, self.clock, stale_ms=30_000)
        self._checking = Service("check", self.checker.step, self.clock, wakeup=self.bells["checking"])
        self._alarming = Service("alarms", self.alarms.step, self.clock, wakeup=self.bells["alarming"])
        self.watchman = StallMonitor(lambda: self.services, self.clock)
        self._watching = Service("watch", self.watchman.step, self.clock)
        self._keeping = [
            Service(name, step, self.clock, stale_ms=UPKEEP_STALE_MS)
            for name, step in (("report", self.reporting.step), ("sweep", self.sweeping.step))
        ]
        self._sending = [
            Service(name, self.lanes[lane].step, self.clock)
            for name, lane in (("fast", ring.FAST), ("slow", ring.SLOW))
        ]

        self._routing = [
            Service(name, step, self.clock)
            for name, step in (
                ("beats", self.beats.step),
                ("ask", self.asker.step),
                ("loads", self.loads.step),
            )
        ]

    @property
    def services(self) -> Sequence[Service]:
        """All loops, in the order in which they start."""
        return [
            self._watching,
            self._leasing,
            self._registering,
            self._calendaring,
            self._timekeeping,
            self._writing,
            *self._sending,
            self._checking,
            *self._routing,
            self._alarming,
            self._ticking,
            self._adopting,
            self._claiming,
            *self._keeping,
        ]

    def start(self) -> None:
        """Take the leases and start all loops.

        Raises:
            LockError: Another scheduler has the database.
        """
        watching, *others = self.services
        watching.start()
        try:
            with self.watchman.noting("start"):
                self.timekeeper.begin()
                self.lease.acquire()
                self.registry.step(self.clock.now_ms())
                self.calendars.step(self.clock.now_ms())
                self.alarms.begin()
        except BaseException:
            watching.stop()
            raise
        for service in others:
            service.start()

    def stop(self, timeout_s: float = DRAIN_S) -> bool:
        """Hand the partitions over, then plan and fence nothing more, let sends end, write their answers, leave.

        Returns:
            Whether everything ended in time; what did not is in the rows.
        """
        deadline_ms = self.clock.monotonic_ms() + round(timeout_s * 1000)
        self._hand_over(min(deadline_ms, self.clock.monotonic_ms() + HAND_OVER_S * 1000))
        self.checker.wake()
        planning = self._end(
            [*self._keeping, self._claiming, self._adopting, self._checking, self._ticking], deadline_ms
        )
        self.ring_loop.drain()
        self.asker.stop()
        self.beats.stop()
        pause = threading.Event()
        while (
            any(self.pool.in_flight().values()) or self.answers.pending()
        ) and self.clock.monotonic_ms() < deadline_ms:
            self.clock.wait(pause, 10)
        for lane in self.lanes.values():
            lane.wake()
        ended = self._end(
            [
                *self._sending,
                *self._routing,
                self._writing,
                self._alarming,
                self._timekeeping,
                self._calendaring,
                self._registering,
                self._leasing,
                self._watching,
            ],
            deadline_ms,
        )
        self.alarms.close(deadline_ms)
        for lane in self.lanes.values():
            lane.close()
        self.checker.close()
        self.beats.close()
        left = self._leave()
        self.listeners.stop()
        return planning and ended and left

    def _hand_over(self, deadline_ms: int) -> None:
        """Let other nodes go on with our partitions, a few at a time, while this one still fires the rest."""
        self.lease.drain()
        pause = threading.Event()
        while (
            not self.lease.is_drained()
            and self._leasing.is_alive()
            and self.clock.monotonic_ms() < deadline_ms
        ):
            self._leasing.wake()
            self.clock.wait(pause, HAND_OVER_PAUSE_MS)

    def _end(self, services: Sequence[Service], deadline_ms: int) -> bool:
        """Stop loops one after the other; tell whether all ended in time."""
        ended = [
            service.stop(max(0.1, (deadline_ms - self.clock.monotonic_ms()) / 1000)) for service in services
        ]
        return all(ended)

    def _leave(self) -> bool:
        """Write what is left and give the leases back; tell whether that worked, which a dead database may forbid."""
        done = threading.Event()

        def leave() -> None:
            try:
                self.alarms.write_ends()
                self.registry.flush(self.clock.now_ms())
                self.lease.release()
            except XwheelError as error:
                logger.warning("the leases are not given back, they end by themselves: %s", error)
            else:
                done.set()

        # in a thread: a database that hangs may hold nobody up for ever
        thread = threading.Thread(target=leave, name="xwheel-leave", daemon=True)
        thread.start()
        thread.join(LEAVE_S)
        if thread.is_alive():
            logger.warning(
                "the leases are not given back, they end by themselves: the database does not answer"
            )
        return done.is_set()
