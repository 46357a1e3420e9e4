"""The alarms of one node: its parts, wired to each other, and their stop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from xwheel.alarms.channels import AlarmChannels
from xwheel.alarms.delivery import AlarmDelivery
from xwheel.alarms.matching import AlarmMatcher, RuleIndex
from xwheel.alarms.rules import AlarmManager
from xwheel.alarms.watch import AlarmWatch
from xwheel.clock import Clock
from xwheel.config.sections import AlarmSection
from xwheel.plugin import AlarmChannel
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.cluster.contract import Lease
from xwheel.storage.database.engine import Database

PAUSE_MS: Final = 20
LAST_MS: Final = 3000


class AlarmService:
    """The alarms of one node.

    Attributes:
        observer: What the scheduler's stages call.
        channels: The installed channels.
        manager: What the management API calls.
        step: One round of the alarm loop.

    Args:
        db: The database.
        lease: Our partitions.
        clock: Where time comes from.
        plugins: The plugins' channels by name.
        settings: The section ``alarm`` of the configuration.
        audit: Where changes of rules are recorded.
        wake: Ends the alarm loop's wait.
    """

    def __init__(
        self,
        db: Database,
        lease: Lease,
        clock: Clock,
        plugins: Mapping[str, AlarmChannel],
        settings: AlarmSection,
        audit: AuditTrail,
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._index = index = RuleIndex(db)
        self.observer = AlarmMatcher(index, wake)
        self.channels = AlarmChannels(
            plugins,
            clock,
            wake,
            lambda partition: lease.may_act() and partition in lease.epochs,
            queue_size=settings.queue_size,
            timeout_s=settings.send_timeout_s,
        )
        self.manager = AlarmManager(db, clock, self.channels, audit, lambda: index.refresh(clock.now_ms()))
        watch = AlarmWatch(
            db, lease, index, self.observer.written, interval_ms=settings.watch_interval_s * 1000
        )
        self._delivery = AlarmDelivery(db, lease, index, self.channels, settings, watch.step)
        self.step = self._delivery.step

    def begin(self) -> None:
        """Read the rules, before anything happens that they ask for."""
        self._index.step(self._clock.now_ms())

    def close(self, until_ms: int) -> None:
        """Send nothing more, and let sends under way end: for three seconds, or until a monotonic time.

        Comes after the end of the loop. What is not sent, or not written down, is for the next holder of the partition.
        """
        self.channels.close()
        pause = threading.Event()
        until_ms = min(until_ms, self._clock.monotonic_ms() + LAST_MS)
        while self.channels.is_busy() and self._clock.monotonic_ms() < until_ms:
            self._clock.wait(pause, PAUSE_MS)

    def write_ends(self) -> None:
        """Write down what came of the last sends."""
        self._delivery.write_ends(self._clock.now_ms())
