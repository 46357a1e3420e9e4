"""Everything about alarms of one node, wired to each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from xwheel.alarms.delivery import AlarmLoop, Patience
from xwheel.alarms.matching import AlarmMatcher, RuleIndex
from xwheel.alarms.rule_check import check_rule
from xwheel.alarms.rules import AlarmRules
from xwheel.alarms.senders import Senders
from xwheel.alarms.watch import Watch
from xwheel.clock import Clock
from xwheel.config.sections import AlarmSection
from xwheel.plugin import AlarmChannel
from xwheel.scheduler.ports import LeaseView
from xwheel.storage.database.engine import Database

LOOK_MS: Final = 20
LAST_MS: Final = 3000


class AlarmDesk:
    """The parts of alarms, and their end.

    Attributes:
        rules: What people change and look at.
        observer: What the stages ask.

    Args:
        db: The database.
        lease: Our partitions.
        clock: Where time comes from.
        channels: The plugins' channels by name.
        settings: The section ``alarm`` of the configuration.
        wake: Ends the loop's wait.
    """

    def __init__(
        self,
        db: Database,
        lease: LeaseView,
        clock: Clock,
        channels: Mapping[str, AlarmChannel],
        settings: AlarmSection,
        wake: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._pause = threading.Event()
        self.index = RuleIndex(db)
        self.observer = AlarmMatcher(self.index, wake)
        self.senders = Senders(
            db,
            channels,
            clock,
            wake,
            lambda partition: lease.may_act() and partition in lease.epochs,
            queue_size=settings.queue_size,
            timeout_ms=settings.send_timeout_s * 1000,
        )
        self._loop = AlarmLoop(
            db,
            lease,
            self.index,
            self.senders,
            Patience(
                attempts=settings.attempts,
                first_ms=settings.retry_delay_s * 1000,
                longest_ms=settings.retry_max_delay_s * 1000,
            ),
            Watch(
                db,
                lease,
                self.index,
                self.observer.committed,
                interval_ms=settings.watch_interval_s * 1000,
            ).step,
        )
        self.step = self._loop.step
        self.rules = AlarmRules(
            db, clock, check_rule, self.senders, lambda: self.index.refresh(clock.now_ms())
        )

    def begin(self) -> None:
        """Read the rules, before anything happens that they ask for."""
        self.index.step(self._clock.now_ms())

    def close(self, until_ms: int) -> None:
        """Send nothing more, and let sends under way end: for three seconds, or until a monotonic time.

        Comes after the end of the loop. What is not sent, or not written down, is for the next holder of the partition.
        """
        self.senders.close()
        until_ms = min(until_ms, self._clock.monotonic_ms() + LAST_MS)
        while self.senders.is_busy() and self._clock.monotonic_ms() < until_ms:
            self._clock.wait(self._pause, LOOK_MS)

    def write_ends(self) -> None:
        """Write down what came of the last sends."""
        self._loop.write_ends(self._clock.now_ms())
