"""Adopt planned rows that nobody holds: the one path for restart, run-now, retries and rows of other processes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from xwheel.model import Job, Run, RunState
from xwheel.scheduler.ports import LeaseView
from xwheel.scheduler.records import Outcome
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.runs import QueuedRun

logger = logging.getLogger(__name__)

BATCH = 1000
OVERDUE_MS = 1000
PAGE = 10_000
PAGES = 20


class AdoptLoop:
    """Brings rows into memory, and looks for rows that memory lost.

    Args:
        db: The database.
        lease: Our partitions.
        enqueue: Gets adopted runs once they are committed.
        is_held: Tells whether the ring or a lane has a run.
        resend: Gets runs whose send ended without an answer.
        finish: Closes runs that the misfire rule skips.
        recheck: The misfire rule for rows that waited: run id to reason, for those to skip.
        is_beyond: Tells whether memory has no room for a run behind others that wait.
        overflowed: Returns how many due runs memory has let go because too many waited.
        pre_read_ms: Rows due later stay rows.
        interval_ms: How often to look for rows nobody holds.
        reconcile_ms: How often to look for rows that memory lost.
    """

    def __init__(
        self,
        db: Database,
        lease: LeaseView,
        enqueue: Callable[[Sequence[QueuedRun]], None],
        is_held: Callable[[int], bool],
        resend: Callable[[Sequence[Run], int], None],
        finish: Callable[[Sequence[Outcome]], object],
        recheck: Callable[[Sequence[Run], Mapping[int, Job], int], Mapping[int, str]],
        is_beyond: Callable[[QueuedRun], bool],
        overflowed: Callable[[], int] = lambda: 0,
        *,
        pre_read_ms: int,
        interval_ms: int,
        reconcile_ms: int,
    ) -> None:
        self.recovered = 0
        self._db = db
        self._lease = lease
        self._enqueue = enqueue
        self._is_held = is_held
        self._resend = resend
        self._finish = finish
        self._recheck = recheck
        self._is_beyond = is_beyond
        self._overflowed = overflowed
        self._overflowed_before = 0
        self._pre_read_ms = pre_read_ms
        self._interval_ms = interval_ms
        self._reconcile_ms = reconcile_ms
        self._reconcile_at_ms = 0
        self._doubts = 0
        self._doubts_settled = 0
        self._taken_over: dict[int, int] = {}

    def look_again(self) -> None:
        """Let the next step look for all rows that memory lost, those not due yet included; from any thread.

        For after a transaction that failed: it may have been committed, and what it planned is in no memory.
        """
        self._doubts += 1  # one that another thread overwrites makes no difference: it only has to change

    def step(self, now_ms: int) -> int:
        """Adopt one batch; return how long to wait in milliseconds, 0 if there is more."""
        if not self._lease.may_act():
            return self._interval_ms
        doubts = self._doubts
        has_doubts = doubts != self._doubts_settled
        if has_doubts or now_ms >= self._reconcile_at_ms:
            self.reconcile(now_ms, now_ms + self._pre_read_ms if has_doubts else None)
            self._reconcile_at_ms = now_ms + self._reconcile_ms
            self._doubts_settled = doubts
        epochs = self._lease.epochs
        came = {part: epoch for part, epoch in epochs.items() if self._taken_over.get(part) != epoch}
        with self._db.read() as conn:
            found, unfinished = runs.find_left(conn, came, BATCH) if came else ([], ())
            if not unfinished:
                found += runs.find_unadopted(conn, epochs.keys(), now_ms + self._pre_read_ms, BATCH)
            late = [run_id for run_id, due_ms in found if due_ms < now_ms - OVERDUE_MS]
            stale = runs.list_planned(conn, late) if late else []
            owners = jobs.get_jobs(conn, {run.job_id for run in stale})
        finished = {part: epoch for part, epoch in came.items() if part not in unfinished}
        if not found:
            self._taken_over |= finished
            return self._interval_ms
        ids = [run_id for run_id, _ in found]
        skipped = self._recheck(stale, owners, now_ms)
        if skipped:
            self._finish(
                [Outcome(run_id=item, state=RunState.SKIPPED, reason=why) for item, why in skipped.items()]
            )
        self._enqueue(self._db.transaction(lambda conn: self._adopt(conn, ids)))
        self._taken_over |= finished
        return 0 if unfinished or len(ids) >= BATCH else self._interval_ms

    def reconcile(self, now_ms: int, before_ms: int | None = None) -> None:
        """Find planned rows of ours that no memory holds, and sends that nobody answered.

        Args:
            now_ms: The shared time.
            before_ms: Look at rows due before this; None for those that are overdue.
        """
        epochs = dict(self._lease.epochs)
        horizon_ms = now_ms - OVERDUE_MS if before_ms is None else before_ms
        missing: list[QueuedRun] = []
        with self._db.read() as conn:
            unanswered = runs.list_unanswered(conn, epochs.keys(), now_ms, BATCH)
            after: QueuedRun | None = None
            for _ in range(PAGES):  # rows that memory holds must not hide those it lost
                page = runs.find_overdue(conn, epochs, horizon_ms, PAGE, after)
                after = page[-1] if page else None
                missing += [run for run in page if self._is_missing(run, epochs)]
                if len(page) < PAGE or len(missing) >= PAGE:
                    break
        if missing:
            self._take_up(missing)
        waiting = [run for run in unanswered if not self._is_held(run.id)]
        if waiting:
            self._resend(waiting, now_ms)

    def _take_up(self, missing: Sequence[QueuedRun]) -> None:
        overflowed = self._overflowed()
        waited = min(len(missing), overflowed - self._overflowed_before)
        self._overflowed_before = overflowed
        if waited:
            logger.info(
                "%d due runs were over trigger.waiting_limit and waited as rows; they are taken in again,"
                " first run %d",
                waited,
                missing[0].id,
            )
        if len(missing) > waited:
            self.recovered += len(missing) - waited
            logger.info(
                "%d runs are planned and in no memory, as after a failed transaction; they are taken up again,"
                " first run %d",
                len(missing) - waited,
                missing[0].id,
            )
        self._enqueue(missing)

    def _is_missing(self, run: QueuedRun, epochs: Mapping[int, int]) -> bool:
        is_ours = epochs.get(run.partition) == run.epoch
        return is_ours and not self._is_held(run.id) and not self._is_beyond(run)

    def _adopt(self, conn: Connection, ids: Sequence[int]) -> list[QueuedRun]:
        epochs = self._lease.lock(conn)
        found = [run for run in runs.lock_planned_rows(conn, ids) if run.epoch < epochs.get(run.partition, 0)]
        runs.update_epochs(conn, [(run.id, epochs[run.partition]) for run in found])
        return [replace(run, epoch=epochs[run.partition]) for run in found]
