"""What management works with: all that is known of executors, schedules and scripts, and what changes jobs and runs.

Nothing here plans, fires or sends, and nothing has a loop: a node adds these, and a process that only serves the
management API reads again what others changed when it is called.
"""

from __future__ import annotations

from collections.abc import Callable

from xwheel.clock import Clock
from xwheel.config import Config
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.questions import PluginQuestions
from xwheel.runtime.foreign import PluginThreads
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.jobs.declared_jobs import DeclarationManager
from xwheel.scheduler.jobs.dependencies import DependencyManager
from xwheel.scheduler.jobs.jobs import JobManager
from xwheel.scheduler.jobs.pause import ScheduleManager
from xwheel.scheduler.jobs.validate import TextLimits
from xwheel.scheduler.jobs.versions import JobHistory
from xwheel.scheduler.listeners import RunFeed
from xwheel.scheduler.logs.reading import ExecutorLogs, LogReader
from xwheel.scheduler.logs.shipped import ShippedLogs
from xwheel.scheduler.logs.stores import LogStores
from xwheel.scheduler.runs.kill import RunKiller
from xwheel.scheduler.runs.run_now import RunNow
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.scheduler.sources import Sources
from xwheel.scheduler.timetable import AskedTimetable, CalendarCache
from xwheel.storage.database.engine import Database
from xwheel.storage.run_ids import RunIds
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.http.tls import NO_FILES, TlsFiles


class SharedParts:
    """What management shares with the stages of a node: database, time, executors, schedules, scripts.

    Args:
        config: The settings.
        db: The database, at this version's schema.
        plugins: What jobs may name.
        executor_token: The token that all executors share.
        clock: Where time comes from.
        keys: What executor secrets are sealed under.
        tls: The authority that calls to executors trust, and the certificate that they show.
        on_arrival: Called with a group in which an executor became live.

    Raises:
        ConfigError: The executor token is empty, or the log store cannot be used.
    """

    def __init__(
        self,
        config: Config,
        db: Database,
        plugins: Plugins,
        executor_token: str,
        clock: Clock,
        keys: KeyRing,
        tls: TlsFiles = NO_FILES,
        on_arrival: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.config, self.db, self.plugins, self.clock, self.tls = config, db, plugins, clock, tls
        self.audit = AuditTrail(plugins, db, clock)
        self.run_ids = RunIds(db)
        self.listeners = RunFeed(plugins.run_listeners, clock, limit=config.plugins.listener_queue)
        db.listen(self.listeners.put if plugins.run_listeners else None)
        self.networks = ExecutorNetworks.from_config(config)
        self.secrets = ExecutorSecrets(db, clock, executor_token, keys)
        self.registry = ExecutorRegistry(
            db,
            self.secrets,
            dead_after_ms=config.trigger.dead_after_s * 1000,
            on_arrival=on_arrival,
            check_address=self.networks.check,
            shared_addresses=config.security.shared_addresses,
        )
        self.log_stores = LogStores(plugins.log_stores, config.run_logs, clock)
        self.calendars = CalendarCache(db)
        self.foreign = PluginThreads(config.plugins.call_timeout_s)
        self.questions = PluginQuestions(self.foreign)
        kinds = plugins.schedule_types
        self.timetable = AskedTimetable(kinds, self.calendars.current, kinds.trusted, self.questions)
        self.history = JobHistory(self.audit)
        self.text_limits = TextLimits(config.api.max_param_bytes, config.api.max_source_bytes)
        self.sources = Sources(db, clock, plugins.glue_types)
        self.scripts = Scripts(
            db,
            clock,
            self.sources,
            plugins.glue_types,
            self.questions,
            self.history,
            trusted=plugins.glue_types.trusted,
            keep=config.upkeep.glue_versions,
            limits=self.text_limits,
        )


class ManagementParts:
    """What people and scripts change, and the logs that they read.

    Args:
        shared: What it shares with the stages of a node.
        finisher: Closes runs that no executor got yet.
        wake: Called when something is to be claimed or adopted.
        wake_check: Called when a kill is to be sent.
    """

    def __init__(
        self,
        shared: SharedParts,
        finisher: Finisher,
        wake: Callable[[], None] = lambda: None,
        wake_check: Callable[[], None] = lambda: None,
    ) -> None:
        db, clock, limits = shared.db, shared.clock, shared.text_limits
        self.run_now = RunNow(db, clock, shared.run_ids, shared.scripts, shared.audit, wake, limits=limits)
        self.jobs = JobManager(
            db,
            clock,
            shared.plugins,
            shared.timetable,
            shared.scripts,
            shared.history,
            self.run_now,
            shared.questions,
            wake,
            limits=limits,
        )
        self.declarations = DeclarationManager(
            db,
            clock,
            self.jobs,
            shared.history,
            shared.timetable,
            shared.questions,
            shared.registry,
            shared.audit,
            wake,
            gone_ms=shared.config.trigger.dead_after_s * 1000,
        )
        self.dependencies = DependencyManager(db, clock, shared.history, limits=limits)
        self.schedules = ScheduleManager(
            db,
            clock,
            shared.calendars,
            shared.timetable,
            self.jobs,
            shared.history,
            shared.questions,
            shared.audit,
            wake,
        )
        self.killer = RunKiller(db, clock, finisher, shared.audit, wake_check)
        executors = ExecutorLogs(
            shared.registry,
            clock.now_ms,
            timeout_s=shared.config.trigger.send_timeout_ms / 1000,
            networks=shared.networks,
            tls=shared.tls,
        )
        self.logs = LogReader(db, shared.log_stores, executors)
        self.shipped_logs = ShippedLogs(db, shared.log_stores)
