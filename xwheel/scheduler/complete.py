"""Every way to a final state goes through :meth:`Completer.finish`; what follows is planned in the same transaction."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

import msgspec

from xwheel.clock import Clock
from xwheel.model import TRANSITIONS, Job, Origin, Run, RunState
from xwheel.scheduler.ports import Outcome
from xwheel.storage import jobs, runs
from xwheel.storage.bulk import chunks
from xwheel.storage.engine import Connection, Database
from xwheel.storage.ids import RunIds

logger = logging.getLogger(__name__)

BATCH = 500
MESSAGE_LENGTH = 15_000
ERROR_LENGTH = 512

NextFire = Callable[[Job, int], "int | None"]

DecideRetry = Callable[..., "Run | None"]
"""``decide_retry(run, state, job, now_ms, root_origin=…)``."""


class Verdict(StrEnum):
    """What became of an outcome."""

    FINISHED = "finished"
    UNKNOWN = "unknown"
    REPEATED = "repeated"


class Completer:
    """Closes runs. Outcomes are in the database when :meth:`finish` returns.

    Args:
        db: The database.
        run_ids: Source of run ids for what follows.
        clock: Where time comes from.
        decide_retry: The pure decision about another attempt.
        next_fire: When a job fires next, for jobs whose fires wait for the end of the last one.
        wake: Told when something was planned, so that it need not wait for the next look.
    """

    def __init__(
        self,
        db: Database,
        run_ids: RunIds,
        clock: Clock,
        decide_retry: DecideRetry,
        next_fire: NextFire,
        wake: Callable[[], None],
    ) -> None:
        self._db = db
        self._run_ids = run_ids
        self._clock = clock
        self._decide_retry = decide_retry
        self._next_fire = next_fire
        self._wake = wake

    def finish(self, outcomes: Sequence[Outcome]) -> dict[int, Verdict]:
        """Close runs and plan what follows, at most 500 a transaction, in id order.

        A repeated id in one call counts once, the first wins. A final state is final, except that an outcome
        corrects ``lost``.

        Returns:
            What became of each run id.
        """
        unique: dict[int, Outcome] = {}
        for outcome in outcomes:
            unique.setdefault(outcome.run_id, outcome)
        verdicts: dict[int, Verdict] = {}
        for part in chunks(sorted(unique.values(), key=lambda outcome: outcome.run_id), BATCH):
            self._run_ids.ensure(len(part))
            answers, planned = self._db.transaction(lambda conn, part=part: self._finish(conn, part))  # type: ignore[misc]
            verdicts.update(answers)
            if planned:
                self._wake()
        return verdicts

    def _finish(self, conn: Connection, outcomes: Sequence[Outcome]) -> tuple[dict[int, Verdict], int]:
        now_ms = self._clock.now_ms()
        ids = [outcome.run_id for outcome in outcomes]
        awaiting = jobs.lock_awaiting(conn, ids)  # jobs before runs: the one lock order
        known = runs.lock_runs(conn, ids)
        verdicts: dict[int, Verdict] = {}
        closing: list[tuple[Run, Outcome]] = []
        for outcome in outcomes:
            run = known.get(outcome.run_id)
            if run is None or outcome.created_ms not in (0, run.created_ms):
                verdicts[outcome.run_id] = Verdict.UNKNOWN
            elif outcome.state not in TRANSITIONS.get(run.state, frozenset()):
                verdicts[outcome.run_id] = Verdict.REPEATED
            else:
                verdicts[outcome.run_id] = Verdict.FINISHED
                closing.append((run, _corrected(run, outcome)))
        runs.update_finished(conn, [_row(outcome, now_ms) for _, outcome in closing])
        self._withdraw_retries(conn, [run for run, _ in closing if run.state is RunState.LOST], now_ms)
        retries = self._retries(conn, closing, now_ms)
        runs.insert_runs(conn, retries)
        self._end_delays(conn, awaiting, now_ms)
        return verdicts, len(retries) + len(awaiting)

    def _retries(self, conn: Connection, closing: Sequence[tuple[Run, Outcome]], now_ms: int) -> list[Run]:
        hopeful = [(run, outcome) for run, outcome in closing if run.retries_left > 0]
        if not hopeful:
            return []
        owners = jobs.get_jobs(conn, {run.job_id for run, _ in hopeful}, deleted=False)
        origins = self._root_origins(conn, [run for run, _ in hopeful], owners)
        found = (
            self._decide_retry(
                run,
                outcome.state,
                owners.get(run.job_id),
                now_ms,
                root_origin=origins.get(run.root_id, Origin.SCHEDULE),
            )
            for run, outcome in hopeful
        )
        decided = [retry for retry in found if retry is not None]
        ids = self._run_ids.take(len(decided))
        return [msgspec.structs.replace(retry, id=new) for retry, new in zip(decided, ids, strict=True)]

    def _end_delays(self, conn: Connection, awaiting: Sequence[Job], now_ms: int) -> None:
        """Set the next fire of jobs whose awaited fire has no open run left; any final state counts."""
        still_open = (
            runs.find_open_roots(conn, {job.awaits_root for job in awaiting if job.awaits_root})
            if awaiting
            else set()
        )
        cursors: list[jobs.JobCursor] = []
        for job in awaiting:
            if job.awaits_root in still_open:
                continue
            try:
                next_ms, error = self._next_fire(job, now_ms), ""
            except (
                Exception
            ) as failure:  # a schedule type is a plugin: whatever it raises stops this job only
                logger.warning("job %d is stopped, its schedule fails: %s", job.id, failure)
                next_ms, error = None, str(failure)[:ERROR_LENGTH] or type(failure).__name__
            cursors.append(jobs.JobCursor(job.id, next_ms, job.last_fire_ms, None, not error, error))
        jobs.update_fires(conn, cursors)

    def _root_origins(
        self, conn: Connection, failed: Sequence[Run], owners: Mapping[int, Job]
    ) -> dict[int, Origin]:
        """Return why these fires began; asked only for stopped jobs, where it matters."""
        stopped = {run.root_id for run in failed if run.job_id in owners and not owners[run.job_id].enabled}
        return runs.get_origins(conn, stopped) if stopped else {}

    def _withdraw_retries(self, conn: Connection, corrected: Sequence[Run], now_ms: int) -> None:
        """Cancel the planned retries of runs that were taken for lost and are not."""
        for run in corrected:
            retry = runs.find_run(conn, (run.job_id, Origin.RETRY, run.id, run.shard_index))
            if retry is not None and retry.state is RunState.PLANNED:
                runs.cancel_runs(conn, [retry.id], reason="late_outcome", now_ms=now_ms)


def _corrected(run: Run, outcome: Outcome) -> Outcome:
    """Call a failure that a kill asked for what it is."""
    if run.kill_requested and outcome.state is RunState.FAILED:
        return dataclasses.replace(outcome, state=RunState.KILLED)
    return outcome


def _row(outcome: Outcome, now_ms: int) -> tuple[object, ...]:
    message = outcome.message
    if len(message) > MESSAGE_LENGTH:
        message = message[: MESSAGE_LENGTH - 3] + "..."
    return (outcome.run_id, outcome.state, outcome.reason, outcome.code, message.replace("\x00", ""), now_ms)
