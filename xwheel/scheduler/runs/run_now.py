"""Runs by hand: planned to be due at once or later, whether their jobs are started or not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import DuplicateError, FieldError, NotFoundError, XwheelError
from xwheel.model import Origin, Run
from xwheel.model.access import Permission, current_actor
from xwheel.model.deeds import Deed
from xwheel.model.runs import MAX_ADDRESSES_LENGTH
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.scheduler.jobs.rights import permitted
from xwheel.scheduler.jobs.validate import DEFAULT_LIMITS, TextLimits
from xwheel.scheduler.records import new_run
from xwheel.scheduler.scripts.scripts import Scripts
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.run_ids import RunIds

KEY_BITS: Final = 62
MAX_DELAY_MS: Final = 366 * 86_400_000
# an instant that passed so lately was meant to be now: the caller's clock is another one
PAST_MS: Final = 60_000
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class When(NamedTuple):
    """When a run by hand is due: at once, unless it says something else."""

    delay_ms: int = 0  # this long after it was asked for
    at_ms: int | None = None  # at this instant; None for after the delay

    def due_ms(self, now_ms: int) -> int:
        """Return when a run is due that is asked for now; raises FieldError if that has passed, or is too far ahead."""
        if self.at_ms is None:
            return now_ms + self.delay_ms
        if self.at_ms < now_ms - PAST_MS:
            now = (EPOCH + timedelta(milliseconds=now_ms)).isoformat(timespec="seconds")
            raise FieldError("at", f"has passed: it is {now} now; a run that is due now has no at")
        if self.at_ms > now_ms + MAX_DELAY_MS:
            days = MAX_DELAY_MS // 86_400_000
            raise FieldError("at", f"must be at most {days} days ahead: use a job with the schedule ONCE")
        return max(now_ms, self.at_ms)

    def was_asked_for(self, run: Run) -> bool:
        """Return whether a run that was planned earlier is due when this says."""
        if self.at_ms is None:
            return run.planned_ms - run.created_ms == self.delay_ms
        return run.planned_ms == max(run.created_ms, self.at_ms)


AT_ONCE: Final = When()


def read_when(delay_ms: int | None, at: str | None) -> When:
    """Return when a run is due, of what a request says.

    ``at`` is ISO 8601 with an offset. Raises FieldError if both are given, or the instant cannot be read.
    """
    if at is None:
        return AT_ONCE if delay_ms is None else When(delay_ms)
    if delay_ms is not None:
        raise FieldError("at", "says what delay_ms says: give one of them")
    try:
        moment = datetime.fromisoformat(at)
        at_ms = (moment - EPOCH) // timedelta(milliseconds=1) if moment.tzinfo else None
    except (ValueError, OverflowError):
        raise FieldError("at", "is not ISO 8601, such as 2026-11-23T18:00:00Z") from None
    if at_ms is None:
        raise FieldError("at", "has no offset: write Z for UTC, or an offset such as +08:00")
    return When(at_ms=at_ms)


@dataclass(eq=False, repr=False)
class RunNow:
    """Plans runs by hand."""

    db: Database
    clock: Clock
    run_ids: RunIds
    scripts: Scripts
    audit: AuditTrail
    wake: Callable[[], None]  # called when something is to be adopted
    _: KW_ONLY
    limits: TextLimits = DEFAULT_LIMITS

    def run(
        self,
        job_id: int,
        *,
        param: str | None = None,
        idempotency_key: str | None = None,
        addresses: Sequence[str] = (),
        when: When = AT_ONCE,
        again: int | None = None,
    ) -> Run:
        """Plan a run of a job; one that is due later is a row until it comes near.

        An empty parameter replaces the job's, too. A second call with the same idempotency key returns the first call's
        run. The job's router chooses among the addresses, or, without any, among all that are live. ``again`` is the
        run that is to be done once more, for the audit. Raises NotFoundError without the job, FieldError if it lacks
        its source, the parameter or the addresses are too long, or its time has passed or is too far ahead.
        """
        self.limits.check_param(param)
        among = _joined(addresses)
        now_ms = self.clock.now_ms()
        due_ms = when.due_ms(now_ms)
        (run_id,) = self.run_ids.reserve(1)
        origin_key = run_id if idempotency_key is None else _hash_key(idempotency_key)
        plan = partial(new_run, origin=Origin.API, due_ms=due_ms, planned_ms=due_ms, now_ms=now_ms, param=param)

        def work(conn: Connection) -> Run:
            job = jobs.get_job(conn, job_id)
            current_actor().need(Permission.RUN, job.group_id, "job", job_id)
            self.scripts.check(job)
            run = replace(plan(job, origin_key=origin_key, run_id=run_id), address=among)
            runs.insert_runs(conn, [run])
            self._record(conn, [run], again)
            return run

        try:
            run = self.db.transaction(work)
        except DuplicateError:
            with self.db.read() as conn:
                known = runs.find_run(conn, (job_id, Origin.API, origin_key, 0))
            if known is None:
                raise
            return known
        self.wake()
        return run

    def run_many(self, ids: Sequence[int], param: str | None, when: When = AT_ONCE) -> Mapping[int, int | XwheelError]:
        """Plan a run of each of many jobs, in one transaction; those waiting for them are woken by the caller.

        Returns the run of each job, or why it has none. Raises FieldError if the parameter is too long, or the time has
        passed or is too far ahead.
        """
        self.limits.check_param(param)
        now_ms = self.clock.now_ms()
        due_ms = when.due_ms(now_ms)
        run_ids = dict(zip(ids, self.run_ids.reserve(len(ids)), strict=True))
        plan = partial(new_run, origin=Origin.API, due_ms=due_ms, planned_ms=due_ms, now_ms=now_ms, param=param)

        def work(conn: Connection) -> dict[int, int | XwheelError]:
            done: dict[int, int | XwheelError] = {job_id: NotFoundError("job", job_id) for job_id in ids}
            made = []
            found, refused = permitted(jobs.get_jobs(conn, ids, deleted=False), Permission.RUN)
            done |= refused
            for job in found.values():
                run_id = done[job.id] = run_ids[job.id]
                try:
                    self.scripts.check(job)
                    made.append(plan(job, origin_key=run_id, run_id=run_id))
                except FieldError as error:
                    done[job.id] = error
            runs.insert_runs(conn, made)
            self._record(conn, made)
            return done

        return self.db.transaction(work)

    def _record(self, conn: Connection, made: Sequence[Run], again: int | None = None) -> None:
        action = "run.create" if again is None else "run.rerun"
        deeds = []
        for run in made:
            said = {"job_id": run.job_id, "due_ms": run.due_ms, "param": run.param}
            said |= {"addresses": run.address, "again": again}
            after = {name: value for name, value in said.items() if value is not None}
            deeds.append(Deed(action=action, kind="run", object_id=run.id, group_id=run.group_id, after=after))
        self.audit.record_many(conn, deeds)


def _joined(addresses: Sequence[str]) -> str | None:
    """Return addresses as a run has them while it is planned, each once; raises FieldError if they are too many."""
    text = " ".join(dict.fromkeys(addresses))
    if len(text) > MAX_ADDRESSES_LENGTH:
        raise FieldError(
            "addresses",
            f"have {len(text)} characters with the blanks between them, {MAX_ADDRESSES_LENGTH} are allowed: name "
            "fewer, or none, so that the job's router chooses among all executors of the group",
        )
    return text or None


def _hash_key(key: str) -> int:
    """Return a positive 62-bit number for an idempotency key; ids and cancelled keys never meet it."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - KEY_BITS) | 1 << (KEY_BITS - 1)
