"""Runs by hand: planned to be due at once, whether their jobs are started or not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import DuplicateError, FieldError, NotFoundError, XwheelError
from xwheel.model import Job, Origin, Run
from xwheel.scheduler.manage.scripts import Scripts
from xwheel.scheduler.plan.rules import new_run
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.run_ids import RunIds

KEY_BITS: Final = 62


class RunNow:
    """Plans runs by hand.

    Args:
        db: The database.
        clock: Where time comes from.
        run_ids: Source of run ids.
        scripts: Knows which jobs lack their source.
        wake: Called when something is to be adopted.
    """

    def __init__(
        self, db: Database, clock: Clock, run_ids: RunIds, scripts: Scripts, wake: Callable[[], None]
    ) -> None:
        self._db = db
        self._clock = clock
        self._run_ids = run_ids
        self._scripts = scripts
        self._wake = wake

    def run(
        self,
        job_id: int,
        *,
        param: str | None = None,
        idempotency_key: str | None = None,
        address: str | None = None,
    ) -> Run:
        """Plan a run of a job.

        Args:
            job_id: The job.
            param: Replaces the job's parameter; an empty one counts.
            idempotency_key: A second call with the same key returns the first call's run.
            address: The one registered executor that may get it; None lets the job's router choose.

        Raises:
            NotFoundError: The job does not exist.
            FieldError: It lacks its source.
        """
        now_ms = self._clock.now_ms()
        (run_id,) = self._run_ids.reserve(1)
        origin_key = run_id if idempotency_key is None else _hash_key(idempotency_key)

        def work(conn: Connection) -> Run:
            job = jobs.get_job(conn, job_id)
            self._scripts.check(job)
            run = replace(_due_now(job, run_id, origin_key, param, now_ms), address=address)
            runs.insert_runs(conn, [run])
            return run

        try:
            run = self._db.transaction(work)
        except DuplicateError:
            with self._db.read() as conn:
                known = runs.find_run(conn, (job_id, Origin.API, origin_key, 0))
            if known is None:
                raise
            return known
        self._wake()
        return run

    def run_many(self, ids: Sequence[int], param: str | None) -> Mapping[int, int | XwheelError]:
        """Plan a run of each of many jobs, in one transaction; those waiting for them are woken by the caller.

        Args:
            ids: The jobs, each once.
            param: Replaces their parameters; None for each job's own.

        Returns:
            The run of each job, or why it has none.
        """
        now_ms = self._clock.now_ms()
        run_ids = dict(zip(ids, self._run_ids.reserve(len(ids)), strict=True))

        def work(conn: Connection) -> dict[int, int | XwheelError]:
            done: dict[int, int | XwheelError] = {job_id: NotFoundError("job", job_id) for job_id in ids}
            made = []
            for job in jobs.get_jobs(conn, ids, deleted=False).values():
                run_id = done[job.id] = run_ids[job.id]
                try:
                    self._scripts.check(job)
                except FieldError as error:
                    done[job.id] = error
                else:
                    made.append(_due_now(job, run_id, run_id, param, now_ms))
            runs.insert_runs(conn, made)
            return done

        return self._db.transaction(work)


def _due_now(job: Job, run_id: int, origin_key: int, param: str | None, now_ms: int) -> Run:
    return new_run(
        job,
        origin=Origin.API,
        origin_key=origin_key,
        due_ms=now_ms,
        planned_ms=now_ms,
        now_ms=now_ms,
        param=param,
        run_id=run_id,
    )


def _hash_key(key: str) -> int:
    """Return a positive 62-bit number for an idempotency key; ids and cancelled keys never meet it."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - KEY_BITS) | 1 << (KEY_BITS - 1)
