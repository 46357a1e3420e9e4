"""Find what did not happen: jobs that did not run for a while, and runs that do not end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from xwheel.model.reasons import WAITS
from xwheel.plugin import PluginDatabase, PluginPartitions
from xwheel.storage import settings

from xwheel_alarms.matching import RuleIndex, of_job
from xwheel_alarms.records import AlarmKind, AlarmRule
from xwheel_alarms.storage import alarms, watch
from xwheel_alarms.storage.alarms import Episode, EpisodeKey, NewAlarm
from xwheel_alarms.storage.watch import WatchedJob, WatchedRun

BATCH: Final = 500
NAP_MS: Final = 30_000
FIRST_WINDOW_MS: Final = 60_000
WIDER: Final = 10
PIECE_MS: Final = 50
"""Between two pieces of one round, so that other work goes on."""


class AlarmWatch:
    """Reads jobs and runs in rounds, one batch a step; nothing where no rule asks for it.

    Args:
        db: The database.
        partitions: Those that this process holds.
        index: The rules.
        committed: Gets what was written.
        interval_ms: From the beginning of one round to the next, at least.
    """

    def __init__(
        self,
        db: PluginDatabase,
        partitions: PluginPartitions,
        index: RuleIndex,
        committed: Callable[[Sequence[NewAlarm]], None],
        *,
        interval_ms: int,
    ) -> None:
        self._db = db
        self._partitions = partitions
        self._index = index
        self._committed = committed
        self._interval_ms = interval_ms
        self._round: Iterator[None] | None = None
        self._round_at_ms = 0
        self._now_ms = 0

    def step(self, now_ms: int) -> int:
        """Do a piece of a round if it is time; return how long to wait in milliseconds."""
        self._now_ms = now_ms
        if self._round is None:
            if now_ms < self._round_at_ms:
                return min(NAP_MS, self._round_at_ms - now_ms)
            self._round_at_ms = now_ms + self._interval_ms
            self._round = self._check()
        try:
            next(self._round)
        except StopIteration:
            self._round = None
            return min(NAP_MS, self._interval_ms)
        return PIECE_MS

    def _check(self) -> Iterator[None]:
        if AlarmKind.STILL_RUNNING in self._index.kinds:
            yield from self._check_runs()
        for rule in self._index.enabled(AlarmKind.NOT_RUN):
            yield from self._check_jobs(rule)

    def _check_runs(self) -> Iterator[None]:
        place = (0, 0)
        while True:
            with self._db.read() as conn:
                page = watch.list_sent(conn, place, BATCH)
            found = [alarm for row in page for alarm in self._of_run(row)]
            if found:
                self._write(partial(_fresh, found=found))
            if len(page) < BATCH:
                return
            place = (page[-1].check_ms, page[-1].id)
            yield

    def _of_run(self, row: WatchedRun) -> Iterator[NewAlarm]:
        began_ms = row.started_ms or row.accepted_ms or row.dispatched_ms
        where = ", waiting on its executor" if row.reason.startswith(WAITS) else ""
        for rule in self._index.rules_for(AlarmKind.STILL_RUNNING, row.job_id, row.group_id):
            if began_ms <= self._now_ms - rule.still_running_s * 1000:
                yield NewAlarm(
                    rule_id=rule.id,
                    job_id=row.job_id,
                    group_id=row.group_id,
                    partition=row.partition,
                    kind=AlarmKind.STILL_RUNNING,
                    at_ms=self._now_ms,
                    run_id=row.id,
                    root_id=row.root_id,
                    shard_index=row.shard_index,
                    reason=f"for {(self._now_ms - began_ms) // 1000} s{where}",
                )

    def _check_jobs(self, rule: AlarmRule) -> Iterator[None]:
        """Check the jobs that one rule is for, but those to which another rule is nearer."""
        after_id: int | None = 0
        while after_id is not None:
            with self._db.read() as conn:
                if settings.find_setting(conn, settings.PAUSED) is not None:
                    return
                ids = () if rule.job_id is None else (rule.job_id,)
                page, after_id = watch.list_started_jobs(conn, after_id, BATCH, group_id=rule.group_id, ids=ids)
            mine = [job for job in page if rule in self._index.rules_for(AlarmKind.NOT_RUN, job.id, job.group_id)]
            if mine:
                self._write(partial(self._of_jobs, rule=rule, page=mine))
            yield

    def _of_jobs(
        self, conn: Any, ours: Collection[int], *, rule: AlarmRule, page: Sequence[WatchedJob]
    ) -> list[NewAlarm]:
        """Return alarms and recoveries of jobs of our partitions; an alarm stays open until a run is taken."""
        mine = [job for job in page if job.partition in ours]
        since_ms = self._now_ms - rule.not_run_s * 1000
        ran = self._ran(conn, {job.id for job in mine}, since_ms)
        known = alarms.lock_episodes(conn, [job.id for job in mine])
        raised: list[NewAlarm] = []
        opened: list[Episode] = []
        for job in mine:
            key = EpisodeKey(job.id, rule.id, AlarmKind.NOT_RUN)
            episode = known.get(key) or Episode(key=key)
            if job.id in ran and episode.is_open:
                raised.append(of_job(job, rule, AlarmKind.RECOVERED, self._now_ms, AlarmKind.NOT_RUN))
            elif job.id not in ran and not episode.is_open and job.updated_ms <= since_ms:
                raised.append(of_job(job, rule, AlarmKind.NOT_RUN, self._now_ms, f"for {rule.not_run_s} s"))
                opened.append(msgspec.structs.replace(episode, is_open=True, touched_ms=self._now_ms))
        alarms.save_episodes(conn, opened)
        return raised

    def _ran(self, conn: Any, job_ids: set[int], since_ms: int) -> set[int]:
        """Return which jobs ran since; longer times are read only for those that did not run lately."""
        ran: set[int] = set()
        from_ms, window_ms = self._now_ms, FIRST_WINDOW_MS
        while from_ms > since_ms and ran < job_ids:
            from_ms = max(since_ms, self._now_ms - window_ms)
            ran |= watch.find_ran(conn, job_ids - ran, from_ms)
            window_ms *= WIDER
        return ran

    def _write(self, work: Callable[[Any, Collection[int]], list[NewAlarm]]) -> None:
        def write(conn: Any) -> list[NewAlarm]:
            found = work(conn, self._partitions.lock(conn))
            alarms.insert_alarms(conn, found)
            return found

        self._committed(self._db.transaction(write))


def _fresh(conn: Any, ours: Collection[int], *, found: Sequence[NewAlarm]) -> list[NewAlarm]:
    """Return the alarms of runs of our partitions that have none of the same rule yet."""
    known = watch.find_told_runs(conn, {alarm.run_id for alarm in found if alarm.run_id is not None})
    return [alarm for alarm in found if alarm.partition in ours and (alarm.run_id, alarm.rule_id) not in known]
