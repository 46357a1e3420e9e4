"""End a run by request: what waits is cancelled, what was sent is marked, and a check sends the kill."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import ConflictError, NotFoundError, StorageError
from xwheel.model import FINAL_STATES, Run, RunReason, RunState
from xwheel.model.access import Permission, current_actor
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.records import Outcome
from xwheel.scheduler.send.recall import EarlyRuns
from xwheel.storage import open_runs, runs
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)

ATTEMPTS = 5


@dataclass(eq=False, repr=False)
class RunKiller:
    """Takes kills, on any node; the node that holds the run's partition sends them."""

    db: Database
    clock: Clock
    finisher: Finisher
    audit: AuditTrail
    early: EarlyRuns  # what waits at executors for its due time
    wake: Callable[[], None]  # ends the wait of the checks on this node

    def kill(self, run_id: int) -> Run:
        """End a run, or begin to; asking again changes nothing.

        Returns it as it stands now: cancelled if no executor got it yet, otherwise open with ``kill_requested``. Raises
        NotFoundError without such a run, ConflictError if it ended already.
        """
        for _ in range(ATTEMPTS):
            run = self.db.transaction(lambda conn: self._request(conn, run_id))
            is_early = run.state is not RunState.PLANNED and run.instance and run.due_ms > self.clock.now_ms()
            recalled = bool(is_early and self.early.recall([run]))  # written as sent, and taken back before it was due
            if run.state is not RunState.PLANNED and not recalled:
                self.wake()
                return run
            end = RunReason.KILLED_BY_USER
            outcome = Outcome(
                run_id=run_id, state=RunState.CANCELLED, reason=end, created_ms=run.created_ms, recalled=recalled
            )
            self.finisher.finish([outcome], also=self._record_cancelled)
            with self.db.read() as conn:
                run = runs.get_run(conn, run_id)
            if run.state is RunState.CANCELLED and run.reason == end:
                logger.info("run %d of job %d was cancelled before it began", run_id, run.job_id)
                return run
            # it was sent in between: mark it
        raise StorageError(f"run {run_id} changes faster than it can be killed; try again")

    def _request(self, conn: Connection, run_id: int) -> Run:
        run = runs.lock_runs(conn, [run_id]).get(run_id)
        if run is None:
            raise NotFoundError("run", run_id)
        current_actor().need(Permission.RUN, run.group_id, "run", run_id)
        if run.state in FINAL_STATES:
            raise ConflictError(f"run {run_id} ended already: it is {run.state}")
        if run.state is RunState.PLANNED or run.kill_requested:
            return run
        now_ms = self.clock.now_ms()
        open_runs.request_kill(conn, run_id, now_ms)
        self._record(conn, run, {"kill_requested": True})
        return replace(run, kill_requested=True, check_ms=now_ms)

    def _record_cancelled(self, conn: Connection, closed: Sequence[Run]) -> None:
        for run in closed:
            self._record(conn, run, {"state": RunState.CANCELLED})

    def _record(self, conn: Connection, run: Run, after: Mapping[str, object]) -> None:
        before = {"state": run.state, "kill_requested": run.kill_requested}
        now = {**before, **after, "job_id": run.job_id}
        self.audit.record(conn, "run.kill", "run", run.id, group_id=run.group_id, before=before, after=now)
