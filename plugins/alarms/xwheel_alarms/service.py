"""The alarms of one process: its parts, wired to each other, and their stop."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final, cast

from xwheel import Config
from xwheel.plugin import Changes, PartHealth, PluginDatabase, PluginSite, ResourceRoute, Rows
from xwheel.storage.database.engine import Database

from xwheel_alarms.channels import AlarmChannels
from xwheel_alarms.delivery import AlarmDelivery
from xwheel_alarms.mails import AlarmMails
from xwheel_alarms.matching import AlarmMatcher, RuleIndex
from xwheel_alarms.news import AlarmNews
from xwheel_alarms.resources import alarm_routes
from xwheel_alarms.rules import AlarmManager
from xwheel_alarms.settings import AlarmSection
from xwheel_alarms.storage.due import DUE, VERSION
from xwheel_alarms.sweep import AlarmSweep
from xwheel_alarms.watch import AlarmWatch

PAUSE_MS: Final = 20
LAST_MS: Final = 3000


class Alarms(AlarmNews):
    """What this plugin registers: it observes, answers calls, brings news, and sends what is due between them.

    Attributes:
        config: The settings.
        wakeup: Ends the wait between two steps.
        index: The rules.
        matcher: Finds the rules that ask for something.

    Args:
        config: The settings.
    """

    name = "alarm"
    due = DUE
    version = VERSION
    chapters: Mapping[str, str] = {"alarms": "What is sent where when runs go wrong, and what became of it."}

    def __init__(self, config: Config) -> None:
        self.config = config
        self.wakeup = threading.Event()
        self.index = RuleIndex()
        self.matcher = AlarmMatcher(self.index, self.wakeup.set)
        self._service: AlarmService | None = None

    @property
    def service(self) -> AlarmService:
        """What works with a database; there is none before :meth:`resources`."""
        assert self._service is not None, "resources() comes first"  # noqa: S101 - the contract says so
        return self._service

    def refresh(self, database: PluginDatabase, now_ms: int) -> None:
        """Read what others changed of the rules."""
        self.index.refresh(database, now_ms)

    def rows(self, changes: Changes) -> Rows:
        """Return the alarms that rules ask for."""
        return self.matcher.rows(changes)

    def committed(self, rows: Rows) -> None:
        """Note the open alarms, and have them grouped."""
        self.matcher.committed(rows)

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the resources."""
        self._service = service = AlarmService(site, self.config, self.index, self.matcher, self.wakeup)
        return alarm_routes(service.manager, self.config.api)

    def step(self, now_ms: int) -> int:
        """Do one round; return how long to wait in milliseconds."""
        return self.service.step(now_ms)

    def end(self) -> None:
        """Send nothing more, let sends under way end, and write down what came of them."""
        self.service.end()

    def health(self) -> Sequence[PartHealth]:
        """Return how each channel fares."""
        return self.service.channels.health()

    def keep_mails(self, job_id: int, addresses: str) -> str:
        """Let a job's alarms be mailed to addresses, or no longer."""
        return AlarmMails(self.service.manager, self.service.channels.names).keep_mails(job_id, addresses)


class AlarmService:
    """What works with a database.

    Attributes:
        channels: The installed channels.
        manager: Changes rules and shows alarms.
        sweep: Deletes what is old.

    Args:
        site: What it works with.
        config: The settings.
        index: The rules.
        matcher: Gets what the watch wrote.
        wakeup: Ends the wait between two steps.
    """

    def __init__(
        self, site: PluginSite, config: Config, index: RuleIndex, matcher: AlarmMatcher, wakeup: threading.Event
    ) -> None:
        db, settings = site.database, config.section("alarm", AlarmSection)
        self._clock = site.clock
        self.channels = AlarmChannels(
            site.registered("xwheel_register_alarms"),
            site.clock,
            wakeup.set,
            lambda partition: partition in site.partitions.held(),
            queue_size=settings.queue_size,
            timeout_s=settings.send_timeout_s,
        )
        self.manager = AlarmManager(
            db, site.clock, self.channels, site.record, lambda: index.refresh(db, site.now_ms())
        )
        watch = AlarmWatch(db, site.partitions, index, matcher.written, interval_ms=settings.watch_interval_s * 1000)
        self._delivery = AlarmDelivery(db, site.partitions, index, self.channels, settings, watch.step)
        self.sweep = AlarmSweep(cast(Database, db), site.partitions, site.clock, config.upkeep)

    def step(self, now_ms: int) -> int:
        """Do one round; return how long to wait in milliseconds."""
        return min(self._delivery.step(now_ms), self.sweep.step(now_ms))

    def end(self) -> None:
        """Send nothing more, let sends under way end for three seconds, and write down what came of them.

        What is not sent, or not written down, is for the next holder of the partition.
        """
        self.channels.close()
        pause = threading.Event()
        until_ms = self._clock.monotonic_ms() + LAST_MS
        while self.channels.is_busy() and self._clock.monotonic_ms() < until_ms:
            self._clock.wait(pause, PAUSE_MS)
        self._delivery.write_ends(self._clock.now_ms())
