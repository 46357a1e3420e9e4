"""End runs: every final state is written by :meth:`Finisher.finish`, and what follows is planned with it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.model import FINAL_STATES, OPEN_STATES, TRANSITIONS, Job, Origin, Run, RunReason, RunState
from xwheel.model.jobs import MAX_PARAM_BYTES
from xwheel.model.reasons import WAITS
from xwheel.plugin.observers import Changes
from xwheel.scheduler.finish.acceptances import Acceptances
from xwheel.scheduler.finish.child_runs import family_of, plan_children
from xwheel.scheduler.finish.retry import decide_retry
from xwheel.scheduler.observers import Noted, Observers
from xwheel.scheduler.records import Outcome
from xwheel.scheduler.timetable import Timetable
from xwheel.storage import jobs, runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import CommitUnknownError, Connection, Database
from xwheel.storage.database.rows import chunks
from xwheel.storage.run_ids import IdsShortError, RunIds

logger = logging.getLogger(__name__)

BATCH = 500
UNKNOWN_COMMITS = 3  # how often a connection may break at COMMIT before the executor must deliver again
CHILDREN = 2000  # child runs planned in one transaction, unless a single outcome calls for more
# after so many batches without a job that has children or a fixed delay, jobs are no longer looked at first
FEW_FOLLOWED = 20
MESSAGE_LENGTH = 15_000
ERROR_LENGTH = 512
FAILURES = FINAL_STATES - {RunState.SUCCEEDED}

# called in each transaction that closes runs, with these runs as they were
Also = Callable[[Connection, Sequence[Run]], None] | None


class OutcomeStatus(StrEnum):
    """What became of an outcome."""

    FINISHED = "finished"
    UNKNOWN = "unknown"
    REPEATED = "repeated"


class _Done(NamedTuple):
    """What a transaction did: what became of its outcomes, how much it planned, and whose rows it wrote."""

    statuses: dict[int, OutcomeStatus]
    planned: int
    noted: Noted


class _UnaskedError(Exception):
    """Fires end for which the next one was not asked for yet, or under another revision; the work is given up."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        super().__init__()
        self.jobs = jobs  # the jobs whose schedule must be asked


class _FollowedError(Exception):
    """Jobs have children or wait for a root, and so must be locked before their runs; the work is given up."""


class _Next(NamedTuple):
    """What a schedule said before the transaction: the next fire, or why there is none any more."""

    revision: int
    next_ms: int | None
    error: str


class _TooManyError(Exception):
    """A batch sets more in motion than one transaction should hold; it is given up and halved."""


@dataclass(eq=False, repr=False)
class Finisher:
    """Closes runs. Outcomes are in the database when :meth:`finish` returns."""

    db: Database
    run_ids: RunIds
    clock: Clock
    timetable: Timetable
    observers: Observers
    wake: Callable[[], None]  # called when something was planned, so that it is adopted at once
    on_finished: Callable[[Iterable[int]], None]  # gets the ids of runs once their ends are committed
    _: KW_ONLY
    max_param_bytes: int = MAX_PARAM_BYTES  # what the parameter of a child run may have, as UTF-8
    acceptances: Acceptances = field(default_factory=Acceptances)  # what an end overtakes is written with it

    def __post_init__(self) -> None:
        self._has_delays = False
        # how many batches more are looked at for jobs with children or a fixed delay before their runs are locked
        self._careful = 0

    def finish(self, outcomes: Sequence[Outcome], *, also: Also = None) -> dict[int, OutcomeStatus]:
        """Close runs and plan what follows, at most 500 a transaction, in id order.

        A repeated id in one call counts once, the first wins. A final state is final, except that an outcome corrects
        ``lost``.
        """
        unique: dict[int, Outcome] = {}
        for outcome in outcomes:
            unique.setdefault(outcome.run_id, outcome)
        statuses: dict[int, OutcomeStatus] = {}
        for part in chunks(sorted(unique.values(), key=lambda outcome: outcome.run_id), BATCH):
            done = self._finish_part(part, also)
            statuses.update(done.statuses)
            if done.planned:
                self.wake()
            self.observers.committed(done.noted)
        # a report that does not count leaves the run open
        self.acceptances.forget(key for key, what in statuses.items() if what is not OutcomeStatus.UNKNOWN)
        self.on_finished(statuses)
        return statuses

    def _finish_part(self, part: Sequence[Outcome], also: Also) -> _Done:
        """Close a batch in one transaction, or in halves; what follows is known only inside: it may be done again."""
        needed = len(part)
        unknown = 0
        # one end for the row and for a delay that counts from it, whatever the transaction has to wait for
        now_ms = self.clock.now_ms()
        # schedules are asked before the transaction; which, is known only inside until a job with a delay was seen
        asked = self._ask(self._awaiting(part), now_ms) if self._has_delays else {}
        while True:
            self.run_ids.ensure(needed)
            try:
                work = partial(self._finish, outcomes=part, asked=asked, also=also, now_ms=now_ms)
                return self.db.transaction(work)
            except _FollowedError:
                self._careful = FEW_FOLLOWED
            except _UnaskedError as unasked:
                self._has_delays = True
                asked = {**asked, **self._ask(unasked.jobs, now_ms)}
            except CommitUnknownError:
                # done again it changes nothing that was done: those outcomes count as repeated
                unknown += 1
                if unknown == UNKNOWN_COMMITS:
                    raise
            except IdsShortError as short:
                # retries and children of the batch, and as many again: other threads take from the same source
                needed = 2 * (needed + short.count)
            except _TooManyError:
                middle = len(part) // 2
                one, two = (self._finish_part(half, also) for half in (part[:middle], part[middle:]))
                return _Done(one.statuses | two.statuses, one.planned + two.planned, [*one.noted, *two.noted])

    def _awaiting(self, part: Sequence[Outcome]) -> list[Job]:
        with self.db.read() as conn:
            fires = runs.find_roots(conn, [outcome.run_id for outcome in part])
            followed = jobs.find_followed(conn, {job_id for job_id, _ in fires})
            waiting = {job_id for job_id, root_id in fires if followed.get(job_id) == root_id}
            return list(jobs.get_jobs(conn, waiting, deleted=False).values()) if waiting else []

    def _ask(self, awaiting: Sequence[Job], now_ms: int) -> dict[int, _Next]:
        """Ask schedules for the fires after an end now; outside of any transaction, since they are plugins."""
        asked: dict[int, _Next] = {}
        for job in awaiting:
            try:
                next_ms, error = self.timetable.next_fire(job, now_ms), ""
            except Exception as failure:  # whatever it raises stops this job only
                next_ms, error = None, str(failure)[:ERROR_LENGTH] or type(failure).__name__
            asked[job.id] = _Next(job.revision, next_ms, error)
        return asked

    def _finish(
        self, conn: Connection, outcomes: Sequence[Outcome], asked: Mapping[int, _Next], also: Also, now_ms: int
    ) -> _Done:
        ids = [outcome.run_id for outcome in outcomes]
        fires = runs.find_roots(conn, ids) if self._careful else []
        followed = jobs.find_followed(conn, {job_id for job_id, _ in fires}) if fires else {}
        self._careful = FEW_FOLLOWED if followed else max(0, self._careful - 1)
        family = family_of(conn, followed.keys())
        awaited = {root_id for job_id, root_id in fires if followed.get(job_id) == root_id}
        # jobs before runs, parents and children together: the one lock order
        concerned = {job_id for job_id, root_id in fires if root_id in awaited}
        concerned |= {job_id for link in family.links for job_id in (link.parent_id, link.child_id)}
        owners = jobs.lock_jobs(conn, concerned)
        awaiting = [job for _, job in sorted(owners.items()) if job.awaits_root in awaited]
        known = runs.lock_runs(conn, ids)
        if known and not fires and jobs.find_followed(conn, {run.job_id for run in known.values()}):
            raise _FollowedError
        statuses: dict[int, OutcomeStatus] = {}
        closing: list[tuple[Run, Outcome]] = []
        for outcome in outcomes:
            run = known.get(outcome.run_id)
            if run is None or not _counts(outcome, run):
                statuses[outcome.run_id] = OutcomeStatus.UNKNOWN
            elif not _may_end(outcome, run):
                statuses[outcome.run_id] = OutcomeStatus.REPEATED
            else:
                statuses[outcome.run_id] = OutcomeStatus.FINISHED
                closing.append((run, _corrected(run, outcome)))
        corrected = [run for run, _ in closing if run.state is RunState.LOST]
        rows = [self._row(run, outcome, now_ms) for run, outcome in closing]
        runs.close_runs(conn, rows, corrected={run.id for run in corrected})
        changes.note(conn, (changes.change(run, end.state, now_ms, end.reason, end.message) for run, end in closing))
        self._withdraw(conn, corrected, now_ms)
        retries = self._retries(conn, closing, now_ms)
        runs.insert_runs(conn, retries)
        parents = {link.parent_id for link in family.links}
        roots = {run.root_id for run, _ in closing if run.job_id in parents}
        still_open = runs.find_open_roots(conn, roots | awaited) if roots or awaited else set()
        drafts = plan_children(conn, roots - still_open, family, owners, now_ms, max_param_bytes=self.max_param_bytes)
        if len(drafts) > CHILDREN and len(outcomes) > 1:
            raise _TooManyError
        new_ids = self.run_ids.take(len(drafts))
        children = [replace(run, id=new, root_id=new) for run, new in zip(drafts, new_ids, strict=True)]
        runs.insert_runs(conn, children)
        ended = [job for job in awaiting if job.awaits_root not in still_open]
        unasked = [job for job in ended if job.id not in asked or asked[job.id].revision != job.revision]
        if unasked:
            raise _UnaskedError(unasked)
        seen = Changes(
            now_ms=now_ms,
            ended=closing,
            retried={retry.origin_key for retry in retries},
            inserted=children,
            stopped=self._end_delays(conn, ended, asked),
        )
        noted = self.observers.record(conn, seen)
        if also is not None:
            also(conn, [run for run, _ in closing])
        return _Done(statuses, len(retries) + len(children) + len(awaiting), noted)

    def _row(self, run: Run, outcome: Outcome, now_ms: int) -> tuple[object, ...]:
        message = outcome.message
        if len(message) > MESSAGE_LENGTH:
            message = message[: MESSAGE_LENGTH - 3] + "..."
        accepted_ms = self.acceptances.find(run.id) if run.accepted_ms is None else run.accepted_ms
        message = message.replace("\x00", "")
        started_ms = _started(run, outcome, accepted_ms, now_ms)
        return (run.id, outcome.state, outcome.reason, outcome.code, message, accepted_ms, started_ms, now_ms)

    def _retries(self, conn: Connection, closing: Sequence[tuple[Run, Outcome]], now_ms: int) -> list[Run]:
        candidates = [
            (run, outcome)
            for run, outcome in closing
            if outcome.state is RunState.LOST
            or (run.retries_left > 0 and outcome.state in FAILURES)
            or outcome.reason == RunReason.FAILED_OVER
        ]
        if not candidates:
            return []
        owners = jobs.get_jobs(conn, {run.job_id for run, _ in candidates}, deleted=False)
        # why these fires began matters only for stopped jobs
        stopped = {run.root_id for run, _ in candidates if (job := owners.get(run.job_id)) and not job.enabled}
        origins = runs.get_origins(conn, stopped) if stopped else {}
        lost = [(run.root_id, run.shard_index) for run, end in candidates if RunState.LOST in (run.state, end.state)]
        recovered = jobs.find_recovered(conn, set(lost)) if lost else set()
        retries = []
        for run, end in candidates:
            job, origin = owners.get(run.job_id), origins.get(run.root_id, Origin.SCHEDULE)
            has_recovery = (run.root_id, run.shard_index) in recovered
            retry = decide_retry(
                run, end.state, job, now_ms, root_origin=origin, reason=end.reason, recovered=has_recovery
            )
            if retry is not None:
                retries.append(retry)
        ids = self.run_ids.take(len(retries))
        return [replace(run, id=new) for run, new in zip(retries, ids, strict=True)]

    def _end_delays(
        self, conn: Connection, awaiting: Sequence[Job], asked: Mapping[int, _Next]
    ) -> list[tuple[Job, str]]:
        """Set the next fire of jobs whose awaited fire has no open run left; any final state counts.

        Returns the jobs that are stopped because their schedule fails, with the error.
        """
        cursors: list[jobs.JobCursor] = []
        stops: list[tuple[Job, str]] = []
        for job in awaiting:
            _, next_ms, error = asked[job.id]
            if error:
                logger.warning("job %d is stopped, its schedule fails: %s", job.id, error)
                stops.append((job, error))
            cursors.append(jobs.JobCursor(job.id, next_ms, job.last_fire_ms, None, not error, error))
        jobs.update_fires(conn, cursors)
        return stops

    def _withdraw(self, conn: Connection, corrected: Sequence[Run], now_ms: int) -> None:
        """Cancel what is planned because runs were taken for lost, and are not."""
        if not corrected:
            return
        made_by = (str(Origin.RECOVERY), str(Origin.RETRY))
        keys = [(run.job_id, origin, run.id, run.shard_index) for run in corrected for origin in made_by]
        locked = runs.lock_runs(conn, runs.find_planned(conn, keys))
        planned = [run for run in locked.values() if run.state is RunState.PLANNED]
        runs.cancel_runs(conn, [run.id for run in planned], reason=RunReason.LATE_OUTCOME, now_ms=now_ms)
        changes.note_cancelled(conn, planned, "late_outcome", now_ms)


def _started(run: Run, outcome: Outcome, accepted_ms: int | None, now_ms: int) -> int | None:
    """Return when a run that ends now began, 0 if it never did, None if its executor has not told.

    The executor's clock may be wrong: the run began after it was accepted, and took as long as is told.
    """
    if run.started_ms:
        return run.started_ms
    if outcome.started_ms is None:
        return 0 if run.reason.startswith(WAITS) else run.started_ms
    if outcome.started_ms == 0:
        # some say nothing of a run that was running
        is_told = outcome.state is not RunState.SUCCEEDED and outcome.reason is not RunReason.INTERRUPTED
        return 0 if is_told else None
    told_ms = min(outcome.started_ms, now_ms - max(0, outcome.took_ms))
    return min(now_ms, max(told_ms, accepted_ms or run.dispatched_ms or 0))


def _counts(outcome: Outcome, run: Run) -> bool:
    """Return whether an outcome is about this very run, and from where it was sent.

    Ids are easily guessed. So a report counts from the group that has the run, or under the shared token if the run was
    sent under it; and about a run that an xwheel executor took, only with the time that this executor was told, from
    its instance. Those of older versions do not say which instance they are.
    """
    is_unsent = (run.state, run.epoch) == (RunState.PLANNED, outcome.epoch)
    if outcome.created_ms not in (0, run.created_ms) or (outcome.epoch and not is_unsent):
        return False
    reporter = outcome.reporter
    if reporter is None:
        return True
    if run.instance and outcome.created_ms != run.created_ms:
        return False
    if outcome.instance and outcome.instance != run.instance:
        return False
    return reporter.may_report(run.group_id, run.secret_id)


def _may_end(outcome: Outcome, run: Run) -> bool:
    """Return whether a run may end so; given back is only what left before it was due, so that none runs twice."""
    if not outcome.recalled:
        return outcome.state in TRANSITIONS.get(run.state, frozenset())
    is_sent = run.state in OPEN_STATES and run.state is not RunState.PLANNED and bool(run.instance)
    return is_sent and run.dispatched_ms is not None and run.dispatched_ms < run.due_ms


def _corrected(run: Run, outcome: Outcome) -> Outcome:
    """Call a failure that a kill asked for what it is."""
    if not run.kill_requested:
        return outcome
    if outcome.recalled:
        return replace(outcome, state=RunState.CANCELLED, reason=RunReason.KILLED_BY_USER)
    return replace(outcome, state=RunState.KILLED) if outcome.state is RunState.FAILED else outcome
