"""What makes a job what code declares: pure functions of the declaration, the job and what code said before."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from msgspec import structs
from xwheel.errors import FieldError, PluginError, ScheduleError
from xwheel.model import Job
from xwheel.model.jobs import draft_job
from xwheel.model.shorthand import NO_SCHEDULE

from xwheel_jobs_as_code.declarations.owners import DeclarationOwner
from xwheel_jobs_as_code.declarations.ownership import Declared, OwnershipDecision
from xwheel_jobs_as_code.declarations.records import MAX_PLACE, MAX_PROBLEM, DeclaredJob


class SyncAction(StrEnum):
    """What a sync does to a job."""

    CREATE = "create"
    UPDATE = "update"
    START = "start"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedJob:
    """A job as code declares it.

    Attributes:
        place: Module and function.
        fields: What code says of it.
        draft: Every field, with defaults for those that code does not mention: what a new job gets.
    """

    name: str
    place: str
    fields: Mapping[str, object]
    draft: Mapping[str, object] = field(default_factory=dict)


class BadDeclaration(NamedTuple):
    """A declaration that cannot be carried out; what the job was before, it stays.

    Attributes:
        field: What is wrong, in our words.
    """

    name: str
    place: str
    field: str
    reason: str


class FieldChange(NamedTuple):
    """A field that differs; ``old`` is None for a new job."""

    field: str
    old: object
    new: object


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What makes a job what code declares.

    Attributes:
        wanted: As code declares it.
        job: As it is, None if it is not there.
        record: What code said of it before, None if it did not.
        changes: Field by field, without those that people released.
        starts: It shall fire from now on.
        stops: It shall not fire any more.
    """

    wanted: WantedJob
    job: Job | None
    record: DeclaredJob | None = None
    changes: tuple[FieldChange, ...] = ()
    starts: bool = False
    stops: bool = False

    @property
    def values(self) -> dict[str, object]:
        """The changes as new values."""
        return {change.field: change.new for change in self.changes}

    def recorded(self, record: DeclaredJob) -> DeclaredJob:
        """Return what is kept of the declaration, in place of what was kept before."""
        return replace(
            record,
            place=self.wanted.place[:MAX_PLACE],
            fields=tuple(sorted(self.wanted.fields)),
            is_retired=False,
            was_started=False,
            problem="",
        )

    @property
    def differs(self) -> bool:
        """Whether anything is to be written."""
        return self.action is not None or self.record is None or self.recorded(self.record) != self.record

    @property
    def action(self) -> SyncAction | None:
        """What is done in a word; None if nothing is."""
        if self.job is None:
            return SyncAction.CREATE
        if self.changes or self.stops:
            return SyncAction.UPDATE
        return SyncAction.START if self.starts else None


class SyncStep(NamedTuple):
    """What a sync did to a job, or would do; the action is None if that is nothing."""

    action: SyncAction | None
    name: str
    job_id: int | None
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """What became of a sync.

    Attributes:
        verdict: Whether the caller may write.
        owner: Whom the group follows now.
        needs_jobs: The caller owns, and must say what it declares.
        steps: What was done; in a dry run, what would be.
        problems: What could not be.
        conflicts: Other declarations of live executors under the owner's release.
    """

    verdict: OwnershipDecision
    owner: DeclarationOwner
    needs_jobs: bool = False
    steps: tuple[SyncStep, ...] = ()
    problems: tuple[BadDeclaration, ...] = ()
    conflicts: tuple[Declared, ...] = ()


def plan_job(wanted: WantedJob, job: Job | None, record: DeclaredJob | None) -> JobPlan:
    """Return what makes a job what code declares; what a person stopped stays stopped."""
    if job is not None and record is not None and record.is_released:
        return JobPlan(wanted=wanted, job=job, record=record)
    released = frozenset() if record is None else frozenset(record.released)
    said = {name: value for name, value in wanted.fields.items() if name not in released}
    changes = tuple(
        FieldChange(name, None if job is None else getattr(job, name), value)
        for name, value in said.items()
        if job is None or getattr(job, name) != value
    )
    schedule = said.get("schedule_type", NO_SCHEDULE if job is None else job.schedule_type)
    comes_back = record is not None and record.is_retired and record.was_started
    return JobPlan(
        wanted=wanted,
        job=job,
        record=record,
        changes=changes,
        starts=schedule != NO_SCHEDULE
        and (job is None or (not job.enabled and (comes_back or job.schedule_type == NO_SCHEDULE))),
        stops=job is not None and job.enabled and schedule == NO_SCHEDULE,
    )


def settled(record: DeclaredJob, job: Job, kept: Collection[str], told: Mapping[str, BadDeclaration]) -> DeclaredJob:
    """Return what is kept of a job after a sync: whether code declares it still, and what is wrong with that.

    Args:
        record: What was kept before.
        job: The job.
        kept: Names of all jobs that code declares, right or wrong.
        told: What is wrong, by name.
    """
    made = replace(record, problem=_words(told[job.name]) if job.name in told else "")
    if job.name in kept or record.is_retired:
        return made
    return replace(made, is_retired=True, was_started=job.enabled and not record.is_released)


def _words(problem: BadDeclaration) -> str:
    text = f"{problem.place}: {problem.field}: {problem.reason}"
    return text.replace("\x00", "")[:MAX_PROBLEM]


def draft_of(plan: JobPlan, group_id: int, now_ms: int) -> Job:
    """Return the job that a plan would create, stopped and without an id."""
    values = {**plan.wanted.draft, **plan.values, "name": plan.wanted.name, "group_id": group_id}
    return draft_job({**values, "enabled": False}, now_ms)


def fires_anew(plan: JobPlan, group_id: int, now_ms: int) -> Job | None:
    """Return the job whose next fire a plan asks for, as it will be then; None if it asks for none."""
    if plan.job is None:
        return draft_of(plan, group_id, now_ms) if plan.starts else None
    if not (plan.starts or (plan.job.enabled and plan.changes and not plan.stops)):
        return None
    merged = structs.replace(plan.job, **plan.values)
    same = all(getattr(merged, name) == getattr(plan.job, name) for name in ("schedule_type", "schedule_conf"))
    return merged if same else structs.replace(merged, anchor_ms=now_ms)


def step_of(plan: JobPlan) -> SyncStep:
    """Return what a plan does, for people."""
    job_id = None if plan.job is None else plan.job.id
    return SyncStep(plan.action, plan.wanted.name, job_id, plan.changes)


def bad_declaration(wanted: WantedJob, error: FieldError | PluginError) -> BadDeclaration:
    """Return a declaration that was refused, with what is wrong."""
    if isinstance(error, FieldError):
        return BadDeclaration(wanted.name, wanted.place, error.field, error.reason)
    return BadDeclaration(wanted.name, wanted.place, "schedule_type", str(error))


def beyond_time(error: Exception) -> ScheduleError:
    """Return the error of a schedule whose times no calendar has."""
    return ScheduleError("schedule_conf", f"leads beyond the year 9999: {error}")


def released(known: DeclaredJob, fields: Collection[str], *, undo: bool, now_ms: int) -> DeclaredJob:
    """Return what is known of a job once fields, none for all, are released from code, or given back to it."""
    if not fields:
        return replace(known, is_released=not undo, released=() if undo else known.released, updated_ms=now_ms)
    names = set(known.released).difference(fields) if undo else set(known.released).union(fields)
    return replace(known, released=tuple(sorted(names)), updated_ms=now_ms)
