"""The stages of a node and what each is given: five subsystems on what they share, each complete once constructed.

Later stages come first, so that earlier ones hold them: finishing, sending, routing, planning; management next to them.
What goes back is a row, an event of :class:`~xwheel.scheduler.wakeups.Wakeups`, or a callback.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from xwheel import ring
from xwheel.clock import Clock, OffsetFilter, SystemClock
from xwheel.config import Config
from xwheel.config.sections import ScheduleSection, TriggerSection
from xwheel.errors import ConfigError
from xwheel.plugin.discovery import Plugins
from xwheel.runtime.loops import Service
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.check.decide import CheckRules
from xwheel.scheduler.check.loop import CheckLoop
from xwheel.scheduler.check.questions import RunQuestions
from xwheel.scheduler.cluster.clock_sync import ClockSync
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.cluster.lease import ClusterLease
from xwheel.scheduler.cluster.node_locks import NodeLocks, default_lock_dir
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.scheduler.executors.by_hand import AddressChecks
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.executors.registry import FLUSH_MS
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.fire.batch import Firing
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.fire.fence import Fence
from xwheel.scheduler.fire.limits import RunLimits
from xwheel.scheduler.fire.tick import Inbox, TickLoop
from xwheel.scheduler.job_cache import JobCache
from xwheel.scheduler.parts import ManagementParts, SharedParts, Transport
from xwheel.scheduler.plan.adopt import AdoptLoop
from xwheel.scheduler.plan.batches import BatchPlanner
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.scheduler.route.async_choose import AsyncChooser
from xwheel.scheduler.route.choose import Chooser
from xwheel.scheduler.route.due import DueRouting
from xwheel.scheduler.route.probes import Probes
from xwheel.scheduler.send.lane import Lane, Lanes
from xwheel.scheduler.send.not_yet import NotYet
from xwheel.scheduler.send.parcels import BodyLimits
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.scheduler.send.resend import Resender
from xwheel.scheduler.send.results import ResultWriter
from xwheel.scheduler.timetable import Timetable
from xwheel.scheduler.upkeep.retention import RetentionLoop
from xwheel.scheduler.wakeups import Wakeups
from xwheel.storage.database.engine import Database
from xwheel.wire.http.tls import NO_FILES, TlsFiles

ANSWER_GRACE_MS: Final = 2000
GATHER_MS: Final = 5
# a sweep may take long; what is late here delays no run
UPKEEP_STALE_MS: Final = 300_000
LANES: Final = {"fast": ring.FAST, "slow": ring.SLOW}


class Subsystem:
    """Stages that belong together, with their loops."""

    _loops: Sequence[Service]

    def services(self) -> Sequence[Service]:
        """Return the loops, in the order in which they start; they end in the opposite order."""
        return self._loops


class Core(SharedParts, Subsystem):
    """What the subsystems share: database, time, leases, executors, schedules, scripts.

    Args:
        config: The settings.
        db: The database, at this version's schema.
        plugins: What jobs may name.
        executor_token: The token that all executors share.
        clock: Where time comes from; None for the system's.
        keys: What executor secrets are sealed under; None keeps them plain.
        tls: The authority that calls to executors trust, and the certificate that they show.
        transport: Makes the clients of such calls; None for real ones.

    Raises:
        ConfigError: The lease is too short for a send.
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
        transport: Transport | None = None,
    ) -> None:
        check_lease(config.schedule, config.trigger)
        system, trigger = SystemClock(), config.trigger
        self.wakeups = Wakeups()
        self.deferred = DeferredRuns(self.wakeups.tick.set, limit=trigger.waiting_limit)
        self.not_yet = NotYet()
        super().__init__(
            config,
            db,
            plugins,
            executor_token,
            clock or system,
            keys or KeyRing(),
            tls,
            self.deferred.arrived,
            transport,
        )
        # a clock that is moved by hand wants each answer written at once
        self.gather_ms = GATHER_MS if clock is None else 0
        self.answer_ms = trigger.send_timeout_ms + ANSWER_GRACE_MS
        self.loads = Loads(db, self.clock)
        self.lease = _lease_for(config, db, self.clock, self.wakeups)
        self.clock_sync = ClockSync(db, self.clock, OffsetFilter(system), self._on_clock_step)
        self._loops = [
            Service("lease", self.lease.step, self.clock, wakeup=self.wakeups.lease),
            Service("registry", self.registry.step, self.clock),
            Service("calendars", self.calendars.step, self.clock),
            Service("time", self.clock_sync.step, self.clock, stale_ms=30_000),
        ]
        if self.observers:
            self._loops.append(Service("observers", self.observers.step, self.clock, stale_ms=30_000))

    def _on_clock_step(self, _jump_ms: int) -> None:
        self.lease.halt()
        self.wakeups.lease.set()


class Finishing(Subsystem):
    """The ends of runs: outcomes with what follows them, checks of runs that stay open."""

    def __init__(self, core: Core) -> None:
        config, wakeups = core.config, core.wakeups
        trigger = config.trigger
        self.finisher = Finisher(
            core.db,
            core.run_ids,
            core.clock,
            core.timetable,
            core.observers,
            wakeups.plan,
            core.deferred.ended,
            max_param_bytes=config.api.max_param_bytes,
        )
        dead_ms = trigger.dead_after_s * 1000
        self.check = CheckLoop(
            core.db,
            core.lease,
            core.registry,
            RunQuestions(core.calls("check")),
            self.finisher,
            CheckRules(
                check_after_ms=trigger.check_after_s * 1000,
                # beats that other nodes took are seen a flush late
                gone_ms=dead_ms + min(FLUSH_MS, dead_ms // 3),
                answer_ms=core.answer_ms,
                idle_grace_ms=trigger.idle_grace_s * 1000,
                deadline_grace_ms=trigger.deadline_grace_s * 1000,
            ),
            timeout_ms=trigger.send_timeout_ms,
        )
        self.checking = Service("check", self.check.step, core.clock, wakeup=wakeups.check)
        self._loops = [self.checking]


class Routing(Subsystem):
    """Who gets a run; what must ask executors for that, or is not trusted, works off the tick thread."""

    def __init__(self, core: Core, inbox: Inbox) -> None:
        routers = core.plugins.routers
        self.probes = Probes(core.calls("beats"), core.registry, core.clock)
        self.async_chooser = AsyncChooser(routers, core.loads, self.probes, inbox.put, core.clock)
        self.chooser = Chooser(routers, self.async_chooser, core.loads, routers.trusted)
        self.job_cache = JobCache()
        self.due = DueRouting(
            core.db, core.registry, self.chooser, core.deferred, self.job_cache, core.not_yet
        )
        self.addresses = AddressChecks(
            core.db, core.lease, core.calls("addresses"), core.registry, core.secrets
        )
        self._loops = [
            Service("addresses", self.addresses.step, core.clock),
            Service("beats", self.probes.step, core.clock),
            Service("ask", self.async_chooser.step, core.clock),
            Service("loads", core.loads.step, core.clock),
        ]


class Sending(Subsystem):
    """From parcels to rows: lanes, what came back, and sends that ended without an answer."""

    def __init__(self, core: Core, routing: Routing, finishing: Finishing) -> None:
        self._registry, self._probes = core.registry, routing.probes
        trigger = core.config.trigger
        check_after_ms = trigger.check_after_s * 1000
        self.pool = TriggerPool(
            trigger.fast_pool,
            trigger.slow_pool,
            ring.PoolSelector(trigger.slow_threshold_ms, trigger.slow_count, trigger.slow_window_ms),
        )
        self.results = ResultWriter(
            core.db,
            self.pool,
            finishing.finisher,
            self._suspect,
            routing.async_chooser.has_chosen,
            core.not_yet,
            core.wakeups,
            check_after_ms=check_after_ms,
            deadline_grace_ms=trigger.deadline_grace_s * 1000,
            gather_ms=core.gather_ms,
        )
        self.body_limits = BodyLimits(trigger.batch_bytes, core.clock)
        by_name = {
            name: Lane(
                core.transport(name, size),
                self.results,
                core.lease,
                core.registry,
                self.body_limits,
                timeout_ms=trigger.send_timeout_ms,
            )
            for name, size in (("fast", trigger.fast_pool), ("slow", trigger.slow_pool))
        }
        self.lanes = Lanes({LANES[name]: lane for name, lane in by_name.items()}, core.loads)
        self.resender = Resender(
            core.db,
            core.lease,
            core.registry,
            self.pool,
            self.body_limits,
            self.lanes,
            finishing.finisher,
            core.sources,
            answer_ms=core.answer_ms,
            gone_ms=trigger.dead_after_s * 1000,
            check_after_ms=check_after_ms,
        )
        self._loops = [
            Service("answers", self.results.step, core.clock, wakeup=core.wakeups.results),
            *(Service(name, lane.step, core.clock) for name, lane in by_name.items()),
        ]

    def is_busy(self) -> bool:
        """Return whether requests are in flight or their answers are not written yet."""
        return any(self.pool.in_flight().values()) or self.results.pending() > 0

    def _suspect(self, address: str, now_ms: int) -> None:
        self._registry.suspect(address, now_ms)
        self._probes.discard(address)


class Planning(Subsystem):
    """From due jobs to parcels: claiming, adopting, the ring, and the tick thread's way to the fence."""

    def __init__(
        self, core: Core, inbox: Inbox, routing: Routing, sending: Sending, finishing: Finishing
    ) -> None:
        schedule, trigger, wakeups = core.config.schedule, core.config.trigger, core.wakeups
        finisher, job_cache = finishing.finisher, routing.job_cache
        limits = RunLimits(core.registry, core.deferred)
        self.firing = Firing(
            core.db,
            routing.due.route,
            core.sources,
            sending.pool,
            sending.body_limits,
            limits,
            core.deferred,
            Fence(
                core.db,
                core.lease,
                limits,
                core.run_ids,
                core.observers,
                answer_ms=core.answer_ms,
            ),
            sending.lanes,
            finisher,
            job_cache,
        )
        self.tick = TickLoop(
            lambda at_ms: ring.TimeRing(at_ms, schedule.tick_ms),
            core.clock.now_ms(),
            inbox,
            self.firing,
            core.deferred,
            core.lease,
            send_ms=trigger.send_timeout_ms,
            waiting_limit=trigger.waiting_limit,
        )
        kinds = core.plugins.schedule_types
        planner = BatchPlanner(
            Timetable(kinds, core.calendars.current),
            kinds,
            kinds.trusted,
            core.foreign,
            core.run_ids,
            pre_read_ms=schedule.pre_read_ms,
            threshold_ms=schedule.misfire_threshold_ms,
        )
        self.claim = ClaimLoop(
            core.db,
            core.lease,
            core.run_ids,
            planner,
            inbox,
            job_cache,
            core.clock,
            core.observers,
            pre_read_ms=schedule.pre_read_ms,
            batch=schedule.claim_batch,
            behind_ms=schedule.misfire_threshold_ms,
        )
        self.adopt = AdoptLoop(
            core.db,
            core.lease,
            inbox,
            (self.tick, *sending.lanes.by_number.values(), sending.results, routing.async_chooser),
            self.tick,
            sending.resender,
            finisher,
            core.registry,
            wakeups,
            pre_read_ms=schedule.pre_read_ms,
            threshold_ms=schedule.misfire_threshold_ms,
            interval_ms=schedule.adopt_interval_ms,
            reconcile_ms=schedule.reconcile_interval_ms,
        )
        # what fails may have been committed nevertheless: then the rows say more than memory
        failed = wakeups.note_failure
        self._loops = [
            Service("tick", self.tick.step, core.clock, wakeup=wakeups.tick, on_failure=failed),
            Service("adopt", self.adopt.step, core.clock, wakeup=wakeups.adopt),
            Service("claim", self.claim.step, core.clock, wakeup=wakeups.claim, on_failure=failed),
        ]


class Management(ManagementParts, Subsystem):
    """What people and scripts change, and what deletes in the background."""

    def __init__(self, core: Core, finishing: Finishing) -> None:
        super().__init__(core, finishing.finisher, core.wakeups.plan, core.wakeups.check.set)
        db, clock, upkeep = core.db, core.clock, core.config.upkeep
        self.retention = RetentionLoop(
            db,
            core.lease,
            clock,
            run_days=upkeep.run_retention_days,
            job_versions=upkeep.job_versions,
            interval_ms=upkeep.sweep_interval_s * 1000,
            batch=upkeep.sweep_batch,
        )
        self._loops = [Service("sweep", self.retention.step, clock, stale_ms=UPKEEP_STALE_MS)]


def check_lease(schedule: ScheduleSection, trigger: TriggerSection) -> None:
    """Refuse a lease that ends before a send that begins within it.

    Raises:
        ConfigError: It is too short for the time limit of sends and for one renewal that fails.
    """
    least_s = trigger.send_timeout_ms / 1000 + 2 * schedule.lease_renew_s
    if schedule.lease_s < least_s:
        raise ConfigError(
            f"schedule.lease_s is {schedule.lease_s}, but must be at least {least_s:g}: trigger.send_timeout_ms and"
            " twice schedule.lease_renew_s; make it longer, or renew more often"
        )


def _lease_for(config: Config, db: Database, clock: Clock, wakeups: Wakeups) -> Lease:
    """Return the lease that fits the database: one scheduler a SQLite file, several share any other."""
    schedule, owner = config.schedule, secrets.token_hex(8)
    lease_ms, renew_ms = schedule.lease_s * 1000, round(schedule.lease_renew_s * 1000)
    if db.backend == "sqlite":
        return SqliteLease(db, owner, clock, lease_ms=lease_ms, renew_ms=renew_ms)
    return ClusterLease(
        db,
        owner,
        clock,
        lease_ms=lease_ms,
        renew_ms=renew_ms,
        on_change=wakeups.note_partitions,
        locks=NodeLocks(schedule.lock_dir or default_lock_dir()),
    )
