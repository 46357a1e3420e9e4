"""What management works with: all that is known of executors, schedules and scripts, and what changes jobs and runs.

Nothing here plans, fires or sends, and nothing has a loop: a node adds these, and a process that only serves the
management API reads again what others changed when it is called.
"""

from __future__ import annotations

from collections.abc import Callable

from xwheel.clock import Clock
from xwheel.config import Config
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.observers import Observer
from xwheel.plugin.questions import PluginQuestions
from xwheel.runtime.foreign import PluginThreads
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.check.questions import IN_FLIGHT
from xwheel.scheduler.executors.calls import ExecutorClient
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.jobs.dependencies import DependencyManager
from xwheel.scheduler.jobs.jobs import JobManager, ManyJobsWriter
from xwheel.scheduler.jobs.owners import JobOwners
from xwheel.scheduler.jobs.pause import ScheduleManager
from xwheel.scheduler.jobs.validate import TextLimits
from xwheel.scheduler.jobs.versions import JobHistory
from xwheel.scheduler.listeners import RunFeed
from xwheel.scheduler.observers import Observers
from xwheel.scheduler.runs.kill import RunKiller
from xwheel.scheduler.runs.logs import ExecutorLogs
from xwheel.scheduler.runs.run_now import RunNow
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.scheduler.send.recall import EarlyRuns
from xwheel.scheduler.sources import Sources
from xwheel.scheduler.timetable import AskedTimetable, CalendarCache
from xwheel.storage.database.engine import Database
from xwheel.storage.run_ids import RunIds
from xwheel.wire.http import HttpClient, MultiClient
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.http.tls import NO_FILES, TlsFiles

# ``transport(purpose, most)`` makes a client for this many calls in flight; the purpose is the name of its loop
Transport = Callable[[str, int], HttpClient]


class SharedParts:
    """What management shares with the stages of a node: database, time, executors, schedules, scripts.

    ``tls`` has the authority that calls to executors trust, and the certificate that they show; ``transport`` makes
    their clients, None real ones; ``on_arrival`` is called with a group in which an executor became live. Raises
    ConfigError if the executor token is empty.
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
        transport: Transport | None = None,
    ) -> None:
        self.config, self.db, self.plugins, self.clock, self.tls = config, db, plugins, clock, tls
        self.foreign = PluginThreads(config.plugins.call_timeout_s)
        self.audit = AuditTrail(plugins, db, clock, self.foreign)
        self.run_ids = RunIds(db, clock.now_ms)
        self.listeners = RunFeed(plugins.run_listeners, clock, limit=config.plugins.listener_queue)
        db.listen(self.listeners.put if plugins.run_listeners else None)
        self.observers = Observers(plugins.offering(Observer), db)
        self.networks = ExecutorNetworks.from_config(config)
        self.transport: Transport = transport or (
            lambda _, most: MultiClient(max_in_flight=most, tls=tls, guard=self.networks.refusal)
        )
        self.secrets = ExecutorSecrets(db, clock, executor_token, keys)
        self.registry = ExecutorRegistry(
            db,
            self.secrets,
            dead_after_ms=config.trigger.dead_after_s * 1000,
            on_arrival=on_arrival,
            check_address=self.networks.check,
            shared_addresses=config.security.shared_addresses,
        )
        self.calendars = CalendarCache(db)
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

    def calls(self, purpose: str) -> ExecutorClient:
        """Return a way to ask executors, with connections of its own."""
        timeout_ms = self.config.trigger.send_timeout_ms
        return ExecutorClient(self.transport(purpose, IN_FLIGHT), self.registry, timeout_ms=timeout_ms)


class ManagementParts:
    """What people and scripts change, and the logs that they read.

    ``wake`` is called when something is to be claimed or adopted, ``wake_check`` when a kill is to be sent.
    """

    def __init__(
        self,
        shared: SharedParts,
        finisher: Finisher,
        wake: Callable[[], None] = lambda: None,
        wake_check: Callable[[], None] = lambda: None,
    ) -> None:
        db, clock, limits = shared.db, shared.clock, shared.text_limits
        early = EarlyRuns(shared.questions, shared.registry, clock, networks=shared.networks, tls=shared.tls)
        self.run_now = RunNow(db, clock, shared.run_ids, shared.scripts, shared.audit, wake, limits=limits)
        self.owners = JobOwners(db, shared.plugins, shared.questions)
        self.jobs = JobManager(
            db,
            clock,
            shared.plugins,
            shared.timetable,
            shared.scripts,
            shared.history,
            self.run_now,
            shared.questions,
            self.owners,
            wake,
            early,
            limits=limits,
        )
        self.job_writer = ManyJobsWriter(self.jobs)
        self.dependencies = DependencyManager(db, clock, shared.history, limits=limits)
        self.schedules = ScheduleManager(self.jobs, shared.calendars, shared.audit)
        self.killer = RunKiller(db, clock, finisher, shared.audit, early, wake_check)
        self.logs = ExecutorLogs(
            shared.registry,
            clock.now_ms,
            timeout_s=shared.config.trigger.send_timeout_ms / 1000,
            networks=shared.networks,
            tls=shared.tls,
        )
