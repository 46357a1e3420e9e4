"""The stages of a node and what each is given: five subsystems on what they share, each complete once constructed.

Later stages come first, so that earlier ones hold them: finishing, sending, routing, planning; management next to them.
What goes back is a row, an event of :class:`~xwheel.scheduler.wakeups.Wakeups`, or a callback.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from functools import partial
from threading import Event
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
from xwheel.scheduler.cluster.split_brain import RecentSends, SplitWatch, tell_jobs
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.scheduler.executors.by_hand import READ_MS, AddressChecks
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.executors.registry import FLUSH_MS
from xwheel.scheduler.finish.acceptances import Acceptances
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.fire.batch import Firing
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.fire.fence import Fence
from xwheel.scheduler.fire.limits import RunLimits
from xwheel.scheduler.fire.tick import Inbox, TickLoop
from xwheel.scheduler.job_cache import JobCache
from xwheel.scheduler.jobs.set_back import SetBackLoop
from xwheel.scheduler.parts import ManagementParts, SharedParts, Transport
from xwheel.scheduler.plan.adopt import AdoptLoop, HoldsRuns
from xwheel.scheduler.plan.batches import BatchPlanner
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.scheduler.pulse import LONG_REST_MS, REST_MS, Pulse
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
from xwheel.storage import news
from xwheel.storage.database.engine import Database
from xwheel.wire.http.tls import NO_FILES, TlsFiles

ANSWER_GRACE_MS: Final = 2000
GATHER_MS: Final = 5
HOLD_MS: Final = 200  # most runs end sooner than this after they were accepted, and are written once
# a sweep may take long; what is late here delays no run
UPKEEP_STALE_MS: Final = 300_000
REST_STALE_MS: Final = 60_000  # of a loop that no run waits for, and that rests long
LANES: Final = {"fast": ring.FAST, "slow": ring.SLOW}


class Subsystem:
    """Stages that belong together, with their loops."""

    services: Sequence[Service]  # the loops, in the order in which they start; they end in the opposite order


class Core(SharedParts, Subsystem):
    """What the subsystems share: database, time, leases, executors, schedules, scripts.

    The database is at this version's schema. Without a ``clock`` time is the system's, without ``keys`` executor
    secrets are kept plain. Raises ConfigError if the lease is too short for a send.
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
        keys, arrived = keys or KeyRing(), self.deferred.arrived
        super().__init__(config, db, plugins, executor_token, clock or system, keys, tls, arrived, transport)
        # a clock that is moved by hand wants each answer written at once
        self.gather_ms, self.hold_ms = (GATHER_MS, HOLD_MS) if clock is None else (0, 0)
        self.arm_ms = config.schedule.arm_ms if clock is None else 0
        self.acceptances = Acceptances()
        self.answer_ms = trigger.send_timeout_ms + ANSWER_GRACE_MS
        self.loads = Loads(db, self.clock)
        self.job_cache = JobCache()
        self.lease = _lease_for(config, db, self.clock, self.wakeups)
        self.clock_sync = ClockSync(db, self.clock, OffsetFilter(system), self._on_clock_step)
        self.pulse = Pulse(db, self.lease, config.schedule.adopt_interval_ms)
        pulse, clock, wakeups, registry = self.pulse, self.clock, self.wakeups, self.registry
        read, refresh, long_ms = self.calendars.step, self.observers.step, LONG_REST_MS
        reading = pulse.rests(read, wakeups.calendars, news.CALENDARS, rest_ms=long_ms)
        refreshing = pulse.rests(refresh, wakeups.observers, *self.observers.versions(), rest_ms=long_ms)
        registry.is_told, registry.on_news = pulse.is_awake, wakeups.check.set
        pulse.watch(self._read_registry, *news.REGISTRY)
        if isinstance(self.lease, ClusterLease):
            self.lease.is_told, self.lease.wake = pulse.is_awake, wakeups.lease.set
            self.lease.on_loss = self._begin_anew
            pulse.watch(self.lease.note_nodes, *news.NODES, prompt=True)
        changed = registry.note_change
        self.sends = RecentSends(clock)
        services = [
            Service("lease", self.lease.step, clock, wakeup=wakeups.lease),
            Service("registry", registry.step, clock, wakeup=wakeups.registry, on_failure=changed),
            Service("calendars", reading, clock, wakeup=wakeups.calendars, stale_ms=REST_STALE_MS),
            Service("time", self.clock_sync.step, clock, stale_ms=30_000),
            Service("pulse", pulse.step, clock, on_failure=pulse.failed),
            Service("observers", refreshing, clock, wakeup=wakeups.observers, stale_ms=REST_STALE_MS),
        ]
        self.services = services if self.observers else services[:-1]
        if db.survey is not None:
            watch = SplitWatch(db.survey, self.lease, wakeups.lease.set)
            self.services.append(Service("servers", watch.step, clock, stale_ms=REST_STALE_MS))

    def _read_registry(self) -> None:
        self.registry.note_change()
        self.wakeups.registry.set()

    def _begin_anew(self, since_ms: int) -> None:
        """Forget what memory has of the database, which may have lost commits; raises as a transaction does."""
        self.sends.tell(self.db, since_ms)
        tell_jobs(self.db, list(self.job_cache.jobs.values()))
        self.run_ids.restart()
        self.sources.forget()
        self.job_cache.forget()
        self._read_registry()

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
            acceptances=core.acceptances,
        )
        dead_ms = trigger.dead_after_s * 1000
        rules = CheckRules(
            check_after_ms=trigger.check_after_s * 1000,
            # beats that other nodes took are seen a flush late
            gone_ms=dead_ms + min(FLUSH_MS, dead_ms // 3),
            answer_ms=core.answer_ms,
            idle_grace_ms=trigger.idle_grace_s * 1000,
            deadline_grace_ms=trigger.deadline_grace_s * 1000,
        )
        asking, timeout_ms = RunQuestions(core.calls("check")), trigger.send_timeout_ms
        self.check = CheckLoop(core.db, core.lease, core.registry, asking, self.finisher, rules, timeout_ms=timeout_ms)
        checking = core.pulse.rests(self.check.step, wakeups.check, news.CHECK, ahead_ms=0)
        self.services = [
            Service("check", checking, core.clock, wakeup=wakeups.check, interrupt=asking.calls.client.wake)
        ]


class Routing(Subsystem):
    """Who gets a run; what must ask executors for that, or is not trusted, works off the tick thread."""

    def __init__(self, core: Core, inbox: Inbox) -> None:
        routers = core.plugins.routers
        self.probes = Probes(core.calls("beats"), core.registry, core.clock)
        self.async_chooser = AsyncChooser(routers, core.loads, self.probes, inbox.put, core.clock)
        self.chooser = Chooser(routers, self.async_chooser, core.loads, routers.trusted)
        db, registry = core.db, core.registry
        self.due = DueRouting(db, registry, self.chooser, core.deferred, core.job_cache, core.not_yet)
        self.addresses = AddressChecks(db, core.lease, core.calls("addresses"), registry, core.secrets)
        entered = Event()
        reading = core.pulse.rests(self.addresses.step, entered, news.ADDRESSES, least_ms=READ_MS)
        self.services = [
            Service("addresses", reading, core.clock, wakeup=entered),
            Service("beats", self.probes.step, core.clock, interrupt=self.probes.calls.client.wake),
            Service("ask", self.async_chooser.step, core.clock),
            Service("loads", core.loads.step, core.clock),
        ]


class Sending(Subsystem):
    """From parcels to rows: lanes, what came back, and sends that ended without an answer."""

    def __init__(self, core: Core, routing: Routing, finishing: Finishing) -> None:
        self._registry, self._probes = core.registry, routing.probes
        trigger = core.config.trigger
        check_after_ms = trigger.check_after_s * 1000
        selector = ring.PoolSelector(trigger.slow_threshold_ms, trigger.slow_count, trigger.slow_window_ms)
        self.pool = TriggerPool(trigger.fast_pool, trigger.slow_pool, selector)
        self.results = ResultWriter(
            core.db,
            self.pool,
            finishing.finisher,
            self._suspect,
            routing.async_chooser.has_chosen,
            core.not_yet,
            core.wakeups,
            core.acceptances,
            check_after_ms=check_after_ms,
            deadline_grace_ms=trigger.deadline_grace_s * 1000,
            gather_ms=core.gather_ms,
            hold_ms=core.hold_ms,
        )
        self.body_limits = limits = BodyLimits(trigger.batch_bytes, core.clock)
        lease, registry, timeout_ms = core.lease, core.registry, trigger.send_timeout_ms
        by_name = {
            name: Lane(
                core.transport(name, size),
                self.results,
                lease,
                registry,
                limits,
                core.clock,
                timeout_ms=timeout_ms,
                share=self.pool.share(LANES[name]),
            )
            for name, size in (("fast", trigger.fast_pool), ("slow", trigger.slow_pool))
        }
        sends = core.sends if isinstance(core.lease, ClusterLease) else None
        self.lanes = Lanes({LANES[name]: lane for name, lane in by_name.items()}, core.loads, sends)
        self.resender = Resender(
            core.db,
            lease,
            registry,
            self.pool,
            limits,
            self.lanes,
            finishing.finisher,
            core.sources,
            answer_ms=core.answer_ms,
            gone_ms=trigger.dead_after_s * 1000,
            check_after_ms=check_after_ms,
        )
        self.services = [
            Service("answers", self.results.step, core.clock, wakeup=core.wakeups.results),
            *(Service(name, lane.step, core.clock, interrupt=lane.client.wake) for name, lane in by_name.items()),
        ]

    def is_busy(self) -> bool:
        """Return whether requests are in flight or their answers are not written yet."""
        return any(self.pool.in_flight().values()) or self.results.pending() > 0

    def _suspect(self, address: str, now_ms: int, reached: bool) -> None:
        self._registry.suspect(address, now_ms, reached=reached)
        self._probes.discard(address)


class Planning(Subsystem):
    """From due jobs to parcels: claiming, adopting, the ring, and the tick thread's way to the fence."""

    def __init__(self, core: Core, inbox: Inbox, routing: Routing, sending: Sending, finishing: Finishing) -> None:
        schedule, trigger, wakeups = core.config.schedule, core.config.trigger, core.wakeups
        db, lease, finisher, job_cache = core.db, core.lease, finishing.finisher, core.job_cache
        limits = RunLimits(core.registry, core.deferred)
        self.firing = Firing(
            db,
            routing.due.route,
            core.sources,
            sending.pool,
            sending.body_limits,
            limits,
            core.deferred,
            Fence(db, lease, limits, core.run_ids, core.observers, answer_ms=core.answer_ms),
            sending.lanes,
            finisher,
            job_cache,
            core.registry,
        )
        self.tick = TickLoop(
            lambda at_ms: ring.TimeRing(at_ms, schedule.tick_ms),
            core.clock.now_ms(),
            inbox,
            self.firing,
            core.deferred,
            lease,
            send_ms=trigger.send_timeout_ms,
            waiting_limit=trigger.waiting_limit,
            arm_ms=core.arm_ms,
        )
        kinds = core.plugins.schedule_types
        timetable = Timetable(kinds, core.calendars.current)
        planner = BatchPlanner(timetable, kinds, core.foreign, core.run_ids, schedule)
        self.claim = ClaimLoop(db, lease, core.run_ids, planner, inbox, job_cache, core.clock, core.observers, schedule)
        holders: Sequence[HoldsRuns] = (
            self.tick,
            *sending.lanes.by_number.values(),
            sending.results,
            routing.async_chooser,
        )
        self.adopt = AdoptLoop(
            db, lease, inbox, holders, self.tick, sending.resender, finisher, core.registry, wakeups, schedule
        )
        # what fails may have been committed nevertheless: then the rows say more than memory
        failed = wakeups.note_failure
        rests, pre_read_ms = core.pulse.rests, schedule.pre_read_ms
        claiming = rests(self.claim.step, wakeups.claim, news.FIRE, ahead_ms=pre_read_ms)
        adopting = rests(
            self.adopt.step,
            wakeups.adopt,
            news.PLANNED,
            ahead_ms=pre_read_ms,
            least_ms=schedule.adopt_interval_ms,
            rest_ms=min(REST_MS, schedule.reconcile_interval_ms),
            prompt=True,
        )
        self.services = [
            Service("tick", self.tick.step, core.clock, wakeup=wakeups.tick, on_failure=failed),
            Service("adopt", adopting, core.clock, wakeup=wakeups.adopt),
            Service("claim", claiming, core.clock, wakeup=wakeups.claim, on_failure=failed),
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
        self.set_back = SetBackLoop(self.jobs, core.lease, lambda: core.clock_sync.steps, core.config.schedule)
        self.services = [
            Service("set-back", self.set_back.step, clock, stale_ms=UPKEEP_STALE_MS),
            Service("sweep", self.retention.step, clock, stale_ms=UPKEEP_STALE_MS),
        ]
        if db.backend == "sqlite":
            self.services.append(Service("checkpoint", partial(_checkpoint, db), clock, stale_ms=REST_STALE_MS))


def _checkpoint(db: Database, _now_ms: int) -> int:
    db.checkpoint()
    return LONG_REST_MS


def check_lease(schedule: ScheduleSection, trigger: TriggerSection) -> None:
    """Refuse, by a ConfigError, a lease too short for the time limit of sends and for one renewal that fails."""
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
    changed, locks = wakeups.note_partitions, NodeLocks(schedule.lock_dir or default_lock_dir())
    return ClusterLease(db, owner, clock, lease_ms=lease_ms, renew_ms=renew_ms, on_change=changed, locks=locks)
