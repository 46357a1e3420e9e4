"""A node that is stepped by hand and the management API over one database and clock, to make things happen and ask."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec
from sqlalchemy import update

from tests.product.api import product_api
from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.model import FINAL_STATES, OPEN_STATES, Job, Origin, Run, RunReason, RunState
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


class World:
    """Jobs are changed over the API, by the token ``tests``; the node plans, fires and writes what comes of runs."""

    def __init__(self, db: Database) -> None:
        self.api = product_api(db, {})
        self.db, self.clock = db, self.api.clock
        self.node = HandNode(db, self.clock)
        self.group = self.node.group()

    def job(self, **fields: Any) -> int:
        """Create a job, started unless told otherwise, each minute from a minute after the start on; return its id."""
        minutely = {"schedule_type": "FIX_RATE", "schedule_conf": "60s", "anchor_ms": NOW + MINUTE_MS, "enabled": True}
        made: dict[str, Any] = self.api.job(group_id=self.group, **{**minutely, **fields})
        return int(made["id"])

    def change(self, method: str, path: str, body: object = None, *, why: str = "") -> Any:
        """Call the API, which must do it."""
        answer = self.api.call(method, path, body, headers={"Xwheel-Reason": quote(why)} if why else {})
        assert answer.status_code < 300, answer.text
        return answer.json if answer.text else None

    def why(self, job_id: int, at: int | str | None = None, status: int = 200) -> dict[str, Any]:
        """Return the answer of the API."""
        answer = self.api.call("GET", f"jobs/{job_id}/why", params={} if at is None else {"at": str(at)})
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json
        return found

    def plan_at(self, at_ms: int) -> None:
        """Let the time come, without anything that happens meanwhile, then claim and adopt."""
        self.clock.advance(at_ms - self.clock.now_ms())
        self.node.keep_lease()
        self.node.plan()

    def fire_at(self, at_ms: int) -> list[Run]:
        """Plan what is due then, send it, and return it once its executors accepted it."""
        self.plan_at(at_ms - 1000)
        self.node.run_for(1100, step_ms=50)
        return self.node.answer()

    def row(self, job_id: int, state: RunState, reason: str = "", **changes: Any) -> Run:
        """Write a run as the core would, of the job's due time a minute after the start unless told otherwise."""
        known = self.load(job_id)
        due_ms = changes.get("planned_ms", NOW + MINUTE_MS)
        ended = {"finished_ms": due_ms + 5000} if state in FINAL_STATES else {}
        values = {
            "job_id": job_id, "group_id": known.group_id, "partition": known.partition, "origin_key": due_ms,
            "planned_ms": due_ms, "due_ms": due_ms, "created_ms": due_ms - 4000, "state": state, "reason": reason,
            **ended, **changes,
        }  # fmt: skip
        made = make_run(changes.pop("id", 7_000 + len(self.node.runs())), **{**values, "chain_id": 1})
        if state not in {RunState.PLANNED, RunState.SKIPPED, RunState.CANCELLED, RunState.REFUSED}:
            made = msgspec.structs.replace(made, dispatched_ms=made.due_ms + 10, accepted_ms=made.due_ms + 30)
        if state in OPEN_STATES - {RunState.PLANNED}:
            made = msgspec.structs.replace(made, check_ms=NOW + DAY_MS)
        self.db.transaction(lambda conn: runs.insert_runs(conn, [made]))
        return made

    def load(self, job_id: int) -> Job:
        with self.db.read() as conn:
            return jobs.get_jobs(conn, {job_id})[job_id]

    def rewrite(self, job_id: int, **values: Any) -> None:
        """Write columns of a job as a node does, without a version."""
        self.db.transaction(
            lambda conn: conn.execute(update(tables.job).where(tables.job.c.id == job_id).values(**values))
        )


def child_row(world: World, job_id: int, reason: RunReason) -> Run:
    """Write a run of a child that its parent's success led to, and that was skipped."""
    return world.row(job_id, RunState.SKIPPED, reason, origin=Origin.CHILD, origin_key=5, skip_count=1, message="why")
