"""Decide which runs due jobs get: pure functions of rows and ``now_ms``.

A due time is *on time* while it lies ahead, *late* while it is at most the job's misfire threshold old (that of the
settings, if the job has none), and then *misfired*. Late ones still fire as themselves; what happens to misfired ones
is the job's policy. Every due time ends as a run of its own or inside exactly one skip row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from xwheel.model import BlockScope, Job, MisfirePolicy, Origin, Run, RunReason, RunState
from xwheel.scheduler.records import new_run
from xwheel.scheduler.timetable import Timetable
from xwheel.storage.jobs import JobCursor

logger = logging.getLogger(__name__)

FIRE_ALL_PER_CLAIM = 10
RUNS_PER_JOB = 1000
SKIPS_COUNTED = 1000
ERROR_LENGTH = 512


@dataclass(slots=True)
class Planned:
    """What one claim writes."""

    runs: list[Run] = field(default_factory=list)  # rows to insert: planned ones and skip rows
    # where the schedules of the claimed jobs stand now
    job_updates: list[JobCursor] = field(default_factory=list)
    unfinished: bool = False  # some job still has due times inside the window; claim again at once


def plan(
    jobs: Sequence[Job],
    now_ms: int,
    *,
    pre_read_ms: int,
    threshold_ms: int,
    timetable: Timetable,
    take_ids: Callable[[int], Sequence[int]],
    epochs: Mapping[int, int],
    max_runs: int = 5000,
    max_questions: int = 20_000,
    goes_on: Callable[[Job], bool] = lambda _: True,
) -> Planned:
    """Plan the fires of claimed jobs.

    Jobs come as they stand in the locked rows. Those whose fires no longer fit into ``max_runs`` wait for the next
    claim, and so do the others once schedules were asked ``max_questions`` times, which is what counting missed fires
    costs; ``goes_on`` is asked before the schedule of each job, and lets it and the others wait. Planned runs are born
    adopted, by the epochs of partitions. A job whose schedule fails is stopped with the reason; the others go on.
    """
    result = Planned()
    drafts: list[_Draft] = []
    questions = count = 0
    for job in jobs:
        if questions >= max_questions or not goes_on(job):
            result.unfinished = True
            break
        draft = _Draft(job, now_ms, timetable, epochs.get(job.partition, 0), now_ms + pre_read_ms)
        try:
            draft.fill(now_ms - _threshold_of(job, threshold_ms))
        except Exception as error:  # a schedule type is a plugin: whatever it raises stops this job only
            logger.warning("job %d is stopped, its schedule fails: %s", job.id, error)
            draft.fail(str(error) or type(error).__name__)
        questions += draft.questions
        if count and count + len(draft.runs) > max_runs:
            result.unfinished = True
            break
        count += len(draft.runs)
        drafts.append(draft)
        result.unfinished |= draft.capped
    ids = iter(take_ids(count))
    for draft in drafts:
        numbered = [replace(run, id=new, root_id=new, chain_id=new) for run, new in zip(draft.runs, ids)]  # noqa: B905 - the ids go on
        result.runs.extend(numbered)
        result.job_updates.append(draft.cursor(numbered))
    return result


@dataclass(eq=False, repr=False)
class _Draft:
    job: Job
    now_ms: int
    timetable: Timetable
    epoch: int
    horizon_ms: int

    def __post_init__(self) -> None:
        self.runs: list[Run] = []
        self.questions = 0
        self.capped = self._awaits = False
        self._cursor, self._last_ms = self.job.next_fire_ms, self.job.last_fire_ms
        self._error = ""

    def fill(self, oldest_ms: int) -> None:
        """Plan everything due until the horizon; what is older than the oldest has misfired."""
        if self.timetable.awaits_completion(self.job):
            self._fire_and_await(oldest_ms)
            return
        if self._cursor is not None and self._cursor < oldest_ms:
            if self.job.misfire_policy is MisfirePolicy.FIRE_ALL:
                self._fire_missed(oldest_ms)
            else:
                self._skip_missed(oldest_ms)
        while self._cursor is not None and oldest_ms <= self._cursor <= self.horizon_ms:
            if len(self.runs) >= RUNS_PER_JOB:
                self.capped = True
                return
            self._fire(self._cursor, self.timetable.due_ms(self.job, self._cursor), RunReason.PLAIN)
            self._advance(self._cursor)

    def fail(self, reason: str) -> None:
        """Stop the job, keeping what is planned already."""
        self._cursor = None
        self._error = reason[:ERROR_LENGTH]

    def cursor(self, runs: Sequence[Run]) -> JobCursor:
        """Return the cursor to write, given the runs with their ids.

        An exhausted job stays enabled without a next fire, a broken one is stopped.
        """
        awaited = None
        if self._awaits:
            awaited = next((run.id for run in runs if run.state is RunState.PLANNED), None)
        return JobCursor(self.job.id, self._cursor, self._last_ms, awaited, not self._error, self._error)

    def _advance(self, after_ms: int) -> None:
        self.questions += 1
        self._last_ms = after_ms
        self._cursor = None  # if the next line raises, the fire just planned must not come again
        self._cursor = self.timetable.next_fire(self.job, after_ms)

    def _fire_and_await(self, oldest_ms: int) -> None:
        """Plan one fire of a fixed delay; its end will set the next one. A skipped one counts as ended now."""
        if self._cursor is None or self._cursor > self.horizon_ms:
            return
        planned_ms = self._cursor
        is_missed = planned_ms < oldest_ms
        self._last_ms = planned_ms
        if is_missed and self.job.misfire_policy is MisfirePolicy.SKIP:
            self._fire(planned_ms, planned_ms, RunReason.MISFIRE, skipped=(planned_ms, 1))
            self._advance(self.now_ms)
            self._last_ms = planned_ms
            return
        due_ms = self.now_ms if is_missed else self.timetable.due_ms(self.job, planned_ms)
        self._fire(planned_ms, due_ms, RunReason.MISFIRE if is_missed else RunReason.PLAIN)
        self._cursor, self._awaits = None, True

    def _fire_missed(self, oldest_ms: int) -> None:
        while self._cursor is not None and self._cursor < oldest_ms:
            if len(self.runs) >= FIRE_ALL_PER_CLAIM:
                self.capped = True
                return
            self._fire(self._cursor, self.now_ms, RunReason.MISFIRE)
            self._advance(self._cursor)

    def _skip_missed(self, oldest_ms: int) -> None:
        """Cover missed due times with one skip row; FIRE_ONCE spares the last of them."""
        missed: list[int] = []
        while self._cursor is not None and self._cursor < oldest_ms:
            missed.append(self._cursor)
            if len(missed) > SKIPS_COUNTED:
                self._advance(oldest_ms - 1)
                self._last_ms = missed[-1]
                break
            self._advance(self._cursor)
        uncounted = len(missed) > SKIPS_COUNTED
        if self.job.misfire_policy is MisfirePolicy.FIRE_ONCE:
            # with too many to count the last one is not known, so the first stays outside of the range
            self._fire(missed.pop(0 if uncounted else -1), self.now_ms, RunReason.MISFIRE)
        if missed:
            range_end = (oldest_ms - 1, SKIPS_COUNTED + 1) if uncounted else (missed[-1], len(missed))
            self._fire(missed[0], missed[0], RunReason.MISFIRE, skipped=range_end)

    def _fire(self, planned_ms: int, due_ms: int, reason: RunReason, skipped: tuple[int, int] | None = None) -> None:
        run = new_run(
            self.job,
            origin=Origin.SCHEDULE,
            origin_key=planned_ms,
            due_ms=due_ms,
            planned_ms=planned_ms,
            now_ms=self.now_ms,
            # what jitter moves beyond the window stays a row until it comes near
            epoch=self.epoch if due_ms <= self.horizon_ms else 0,
            reason=reason,
            skipped=skipped,
        )
        self.runs.append(run)


def recheck(
    runs: Sequence[Run],
    jobs: Mapping[int, Job],
    now_ms: int,
    *,
    threshold_ms: int,
    last_missed: Callable[[Collection[int], int], Mapping[int, int]],
    limited: Collection[int] = (),
) -> dict[int, RunReason]:
    """Apply the misfire rule again to planned rows that no node held for a while, such as after a takeover.

    Returns the runs to be skipped. Those that a person, a retry or the fire-all policy asked for stay, and so do those
    that were on time and may have been waiting for an executor, for room in their group (``limited`` are those where
    runs queue for it) or for the end of another run of their job; a run whose job is missing is left alone.
    ``last_missed`` is asked at most once, for jobs whose last missed fire runs, and the planned time of the earliest of
    those seen: it gives the planned time of the last missed fire that has a row, by job.
    """
    stale: dict[int, list[Run]] = {}
    for run in runs:
        job = jobs.get(run.job_id)
        if job is None or run.origin is not Origin.SCHEDULE or job.misfire_policy is MisfirePolicy.FIRE_ALL:
            continue
        if job.block_scope is BlockScope.CLUSTER or job.group_id in limited:
            continue
        if run.due_ms < now_ms - max(_threshold_of(job, threshold_ms), job.wait_for_executor_s * 1000):
            stale.setdefault(job.id, []).append(run)
    spared: dict[int, Run] = {}
    for job_id, missed in stale.items():
        job = jobs[job_id]
        # where the next fire is missed as well, the claim that plans it spares a later one
        next_ms, oldest_ms = job.next_fire_ms, now_ms - _threshold_of(job, threshold_ms)
        is_next_missed = next_ms is not None and next_ms < oldest_ms
        if job.misfire_policy is MisfirePolicy.FIRE_ONCE and not is_next_missed:
            spared[job_id] = max(missed, key=lambda run: run.planned_ms)
    # the others of a job may be in the next batch
    last = last_missed(spared, min(run.planned_ms for run in spared.values())) if spared else {}
    kept = {run.id for run in spared.values() if last.get(run.job_id, 0) <= run.planned_ms}
    return {run.id: RunReason.MISFIRE for missed in stale.values() for run in missed if run.id not in kept}


def _threshold_of(job: Job, default_ms: int) -> int:
    return default_ms if job.misfire_threshold_ms is None else job.misfire_threshold_ms
