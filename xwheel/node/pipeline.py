"""The stages of a node and who is wired to whom: the only module that imports every stage."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from xwheel import ring
from xwheel.alarms.service import AlarmService
from xwheel.clock import Clock, OffsetFilter, SystemClock
from xwheel.config import Config
from xwheel.config.sections import ScheduleSection, TriggerSection
from xwheel.errors import ConfigError
from xwheel.model import Job, Run
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.questions import PluginQuestions
from xwheel.runtime.plugin_threads import PluginThreads
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.check.decide import CheckRules, first_check_ms
from xwheel.scheduler.check.loop import Checker
from xwheel.scheduler.check.questions import IN_FLIGHT
from xwheel.scheduler.cluster.balance import decide_moves
from xwheel.scheduler.cluster.clock_sync import Timekeeper
from xwheel.scheduler.cluster.lease import ClusterLease
from xwheel.scheduler.cluster.node_locks import NodeLocks, default_lock_dir
from xwheel.scheduler.cluster.sqlite_lease import SqliteLease
from xwheel.scheduler.finish.child_runs import Offspring
from xwheel.scheduler.finish.finish import Completer, Verdict
from xwheel.scheduler.finish.retry import decide_retry
from xwheel.scheduler.finish.template import MAX_DEPTH, check_template, render, succeeded
from xwheel.scheduler.fire.batch import Firing
from xwheel.scheduler.fire.deferred import ParkedRuns
from xwheel.scheduler.fire.fence import Fence
from xwheel.scheduler.fire.limits import Gate
from xwheel.scheduler.fire.parcels import BodyLimits, Placing, pack_again
from xwheel.scheduler.fire.pool import TriggerPool
from xwheel.scheduler.fire.tick import RingLoop
from xwheel.scheduler.listeners import RunFeed
from xwheel.scheduler.manage.bulk import BulkManager
from xwheel.scheduler.manage.dependencies import ChildManager
from xwheel.scheduler.manage.jobs import JobManager
from xwheel.scheduler.manage.kill import RunKiller
from xwheel.scheduler.manage.pause import CalendarBook, Switchboard
from xwheel.scheduler.manage.scripts import Scripts
from xwheel.scheduler.manage.validate import check_job
from xwheel.scheduler.plan.adopt import AdoptLoop
from xwheel.scheduler.plan.batches import PlanBatches
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.scheduler.plan.rules import new_run, plan, recheck
from xwheel.scheduler.plan.timetable import AskedTimetable, Timetable
from xwheel.scheduler.records import Outcome, Parcel
from xwheel.scheduler.route.async_choose import Asker
from xwheel.scheduler.route.choose import Chooser, route
from xwheel.scheduler.route.executors import FLUSH_MS, ExecutorRegistry
from xwheel.scheduler.route.loads import Loads
from xwheel.scheduler.route.probes import Beats
from xwheel.scheduler.route.secrets import ExecutorSecrets
from xwheel.scheduler.send.lane import Lane
from xwheel.scheduler.send.resend import Resender
from xwheel.scheduler.send.results import AnswerWriter
from xwheel.scheduler.upkeep.hourly_report import ReportLoop
from xwheel.scheduler.upkeep.retention import RetentionLoop
from xwheel.storage import executors, open_runs
from xwheel.storage.database.engine import Database
from xwheel.storage.run_ids import RunIds
from xwheel.wire.http import MultiClient
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.http.tls import NO_FILES, TlsFiles

ANSWER_GRACE_MS: Final = 2000
GATHER_MS: Final = 5


class Pipeline:
    """The stages of a node; what each of them owns stands in ``docs/explanation/pipeline.md``.

    Nothing here runs by itself: :class:`~xwheel.node.loops.Scheduler` has the loops.

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
        self.config, self.db, self.plugins = config, db, plugins
        system = SystemClock()
        self.clock: Clock = clock or system
        schedule, trigger = config.schedule, config.trigger
        check_after_ms, answer_ms = trigger.check_after_s * 1000, trigger.send_timeout_ms + ANSWER_GRACE_MS
        bells = {
            name: threading.Event()
            for name in ("adopting", "alarming", "checking", "claiming", "leasing", "ticking", "writing")
        }
        self.bells = bells
        self.listeners = RunFeed(plugins.run_listeners, self.clock, limit=config.plugins.listener_queue)
        db.listen(self.listeners.put if plugins.run_listeners else None)
        self.run_ids = RunIds(db)
        self.parking = ParkedRuns(bells["ticking"].set, limit=trigger.waiting_limit)
        self.networks = networks = ExecutorNetworks.from_config(config)
        self.secrets = ExecutorSecrets(db, self.clock, executor_token, keys or KeyRing())
        self.registry = ExecutorRegistry(
            db,
            self.secrets,
            dead_after_ms=trigger.dead_after_s * 1000,
            on_arrival=self.parking.arrived,
            check_address=networks.check,
            shared_addresses=config.security.shared_addresses,
        )
        check_lease(schedule, trigger)
        self.lease = _lease_for(
            db,
            self.clock,
            lease_ms=schedule.lease_s * 1000,
            renew_ms=round(schedule.lease_renew_s * 1000),
            lock_dir=schedule.lock_dir or default_lock_dir(),
            on_change=self._on_partitions,
        )
        self.alarms = AlarmService(
            db, self.lease, self.clock, plugins.alarm_channels, config.alarm, bells["alarming"].set
        )
        self.calendars = CalendarBook(db)
        self.plugin_threads = PluginThreads(config.plugins.call_timeout_s)
        questions = PluginQuestions(self.plugin_threads)
        self.timetable = AskedTimetable(
            plugins.schedule_types,
            self.calendars.current,
            plugins.schedule_types.trusted,
            questions,
        )
        self.completer = _Completer(
            db,
            self.run_ids,
            self.clock,
            decide_retry,
            self.timetable.next_fire,
            Offspring(succeeded, render, new_run, max_depth=MAX_DEPTH),
            self._wake_planning,
            self.alarms.observer,
        )
        self.completer.on_finished = self.parking.ended
        self.scripts = Scripts(
            db,
            self.clock,
            plugins.glue_types,
            questions,
            trusted=plugins.glue_types.trusted,
            keep=config.upkeep.glue_versions,
        )
        self.manager = JobManager(
            db,
            self.clock,
            self.run_ids,
            partial(check_job, plugins=plugins, check_schedule=self.timetable.check, ask=questions.ask),
            self.timetable,
            self.scripts,
            new_run,
            self._wake_planning,
            questions.around,
        )
        self.family = ChildManager(db, self.clock, check_template, max_depth=MAX_DEPTH)
        self.bulk = BulkManager(
            db, self.clock, self.run_ids, self.manager, new_run, self._wake_planning, questions.around
        )
        self.switchboard = Switchboard(
            db, self.clock, self.calendars, self.manager, self._wake_planning, questions.around
        )
        self.pool = TriggerPool(
            trigger.fast_pool,
            trigger.slow_pool,
            ring.PoolSelector(trigger.slow_threshold_ms, trigger.slow_count, trigger.slow_window_ms),
        )
        self.answers = AnswerWriter(
            db,
            self.pool,
            self.completer.finish,
            self._suspect,
            bells["writing"].set,
            bells["ticking"].set,
            first_check=partial(
                first_check_ms,
                check_after_ms=check_after_ms,
                deadline_grace_ms=trigger.deadline_grace_s * 1000,
            ),
            has_asked=self._has_asked,
            # who moves the clock by hand wants each answer written at once
            gather_ms=GATHER_MS if clock is None else 0,
        )
        limits = BodyLimits(trigger.batch_bytes, self.clock)
        self.lanes = {
            lane: Lane(
                MultiClient(max_in_flight=size, tls=tls, guard=networks.refusal),
                self.answers.put,
                lambda fenced_ms: self.lease.may_send(fenced_ms, trigger.send_timeout_ms),
                self.registry.app_name,
                self.registry.token,
                limits.refused,
                timeout_ms=trigger.send_timeout_ms,
            )
            for lane, size in ((ring.FAST, trigger.fast_pool), (ring.SLOW, trigger.slow_pool))
        }
        gate = Gate(lambda: self.registry.limited_groups, self.parking)
        fence = Fence(db, self.lease, gate, self.run_ids.ensure, self.run_ids.take, answer_ms=answer_ms)
        self.loads = Loads(self._count_runs, self.clock)
        self.beats = Beats(
            MultiClient(max_in_flight=IN_FLIGHT, tls=tls, guard=networks.refusal),
            self.registry.app_name,
            self.registry.token_at,
            self.registry.suspect,
            self.clock,
            timeout_ms=trigger.send_timeout_ms,
        )
        self.asker = Asker(
            partial(route, routers=plugins.routers, load=self.loads.load),
            self.beats,
            self._route_again,
            self.clock,
        )
        self.firing = Firing(
            db,
            self.registry.live,
            Chooser(plugins.routers, self.asker, self.loads, plugins.routers.trusted).choose,
            self.pool,
            partial(Placing, self.pool, limits.of),
            gate,
            self.parking,
            fence.pass_through,
            self._send,
            self.completer.finish,
            self.scripts,
        )
        self.ring_loop = RingLoop(
            ring.TimeRing(self.clock.now_ms(), schedule.tick_ms),
            self.firing.fire,
            bells["ticking"].set,
            self.parking,
            tick_ms=schedule.tick_ms,
            waiting_limit=trigger.waiting_limit,
            may_fire=lambda: self.lease.may_act(trigger.send_timeout_ms),
        )
        planning = _planning(config, plugins, self.calendars, self.plugin_threads)
        self.claiming = ClaimLoop(
            db,
            self.lease,
            self.run_ids,
            planning.plan,
            self.ring_loop.enqueue,
            self.clock,
            remember=self.firing.remember,
            pre_read_ms=schedule.pre_read_ms,
            batch=schedule.claim_batch,
            split=planning.split,
            behind_ms=schedule.misfire_threshold_ms,
            alarms=self.alarms.observer,
        )
        self.resender = Resender(
            db,
            self.lease,
            self.registry.find_instance,
            self.pool,
            self._send,
            self.completer.finish,
            self.scripts,
            partial(pack_again, ring.FAST, limits.of),
            lane=ring.FAST,
            answer_ms=answer_ms,
            gone_ms=trigger.dead_after_s * 1000,
            check_after_ms=check_after_ms,
        )
        self.adopting = AdoptLoop(
            db,
            self.lease,
            self.ring_loop.enqueue,
            self._is_held,
            self.resender.settle,
            self.completer.finish,
            self._recheck,
            self.parking.is_beyond,
            lambda: self.ring_loop.overflowed,
            pre_read_ms=schedule.pre_read_ms,
            interval_ms=schedule.adopt_interval_ms,
            reconcile_ms=schedule.reconcile_interval_ms,
        )
        self.checker = Checker(
            db,
            self.lease,
            self.registry,
            MultiClient(max_in_flight=IN_FLIGHT, tls=tls, guard=networks.refusal),
            self.completer.finish,
            _check_rules(trigger, answer_ms),
            timeout_ms=trigger.send_timeout_ms,
        )
        self.killer = RunKiller(db, self.clock, self.completer.finish, bells["checking"].set)
        self.timekeeper = Timekeeper(db, self.clock, OffsetFilter(system), self._on_clock_step)
        upkeep = config.upkeep
        self.reporting = ReportLoop(db, self.lease, self.clock, interval_ms=upkeep.report_interval_s * 1000)
        self.sweeping = RetentionLoop(
            db,
            self.lease,
            self.clock,
            run_days=upkeep.run_retention_days,
            report_days=upkeep.report_retention_days,
            interval_ms=upkeep.sweep_interval_s * 1000,
            batch=upkeep.sweep_batch,
        )

    def _is_held(self, run_id: int) -> bool:
        return (
            self.ring_loop.is_held(run_id)
            or any(lane.is_sending(run_id) for lane in self.lanes.values())
            or self.answers.is_held(run_id)
            or self.asker.is_held(run_id)
        )

    def _on_clock_step(self, _jump_ms: int) -> None:
        self.lease.halt()
        self.bells["leasing"].set()

    def _on_partitions(self, came_back: bool) -> None:
        if came_back:
            self.adopting.look_again()
        self._wake_planning()

    def _recheck(self, stale: Sequence[Run], owners: Mapping[int, Job], now_ms: int) -> Mapping[int, str]:
        threshold_ms = self.config.schedule.misfire_threshold_ms

        def last_missed(job_ids: Collection[int], after_ms: int) -> Mapping[int, int]:
            with self.db.read() as conn:
                return open_runs.find_last_missed(
                    conn, job_ids, now_ms, after_ms=after_ms, threshold_ms=threshold_ms
                )

        return recheck(
            stale,
            owners,
            now_ms,
            threshold_ms=threshold_ms,
            last_missed=last_missed,
            limited=self.registry.limited_groups,
        )

    def _suspect(self, address: str, now_ms: int) -> None:
        self.registry.suspect(address, now_ms)
        self.beats.doubt(address)

    def _has_asked(self, run_id: int) -> bool:
        return self.asker.has_chosen(run_id)

    def _route_again(self, asked: Sequence[Run]) -> None:
        self.ring_loop.enqueue(asked)

    def _count_runs(self) -> Mapping[str, int]:
        with self.db.read() as conn:
            return executors.count_runs(conn)

    def _send(self, parcel: Parcel) -> None:
        self.loads.sent(parcel.executor.address, len(parcel.whole().shards))
        self.lanes[parcel.lane].send(parcel)

    def _wake_planning(self) -> None:
        self.bells["claiming"].set()
        self.bells["adopting"].set()


class _Completer(Completer):
    """Closes runs, and then tells of it whoever waits for their end."""

    on_finished: Callable[[Iterable[int]], None]

    def finish(self, outcomes: Sequence[Outcome]) -> dict[int, Verdict]:
        verdicts = super().finish(outcomes)
        self.on_finished(verdicts)
        return verdicts


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


def _planning(
    config: Config, plugins: Plugins, calendars: CalendarBook, threads: PluginThreads
) -> PlanBatches:
    kinds = plugins.schedule_types
    return PlanBatches(
        partial(plan, threshold_ms=config.schedule.misfire_threshold_ms),
        Timetable(kinds, calendars.current),
        kinds,
        kinds.trusted,
        threads,
    )


def _lease_for(
    db: Database,
    clock: Clock,
    *,
    lease_ms: int,
    renew_ms: int,
    lock_dir: Path,
    on_change: Callable[[bool], None],
) -> SqliteLease | ClusterLease:
    """Return the lease that fits the database: one scheduler a SQLite file, several share any other."""
    owner = secrets.token_hex(8)
    if db.backend == "sqlite":
        return SqliteLease(db, owner, clock, lease_ms=lease_ms, renew_ms=renew_ms)
    return ClusterLease(
        db,
        owner,
        clock,
        decide_moves,
        lease_ms=lease_ms,
        renew_ms=renew_ms,
        on_change=on_change,
        locks=NodeLocks(lock_dir),
    )


def _check_rules(trigger: TriggerSection, answer_ms: int) -> CheckRules:
    dead_ms = trigger.dead_after_s * 1000
    return CheckRules(
        check_after_ms=trigger.check_after_s * 1000,
        # beats that other nodes took are seen a flush late
        gone_ms=dead_ms + min(FLUSH_MS, dead_ms // 3),
        answer_ms=answer_ms,
        idle_grace_ms=trigger.idle_grace_s * 1000,
        deadline_grace_ms=trigger.deadline_grace_s * 1000,
    )
