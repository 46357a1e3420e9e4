"""Write down each change of a job in the transaction that makes it: a version of the job, and rows of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import replace

from xwheel.model import ChildLink, Job, NewSource
from xwheel.model.access import UNKNOWN_ACTOR, Actor, current_actor
from xwheel.model.deeds import Deed, clean
from xwheel.model.versions import CHILDREN, CHILDREN_BEFORE, JobAction, JobVersion, children_of, definition_of
from xwheel.scheduler.audit_trail import AuditTrail
from xwheel.storage import job_versions
from xwheel.storage.database.engine import Connection

MAX_ACTOR: Final = 255
MAX_REASON: Final = 500


class JobStep(NamedTuple):
    """What became of one job."""

    before: Job | None  # the job as it was; None for a new one
    after: Job  # the job as it is, deleted or not
    source: NewSource | None = None  # the source that was saved with it, if any
    # its children before and after, if these were changed
    children: tuple[Sequence[ChildLink], Sequence[ChildLink]] | None = None


@dataclass(frozen=True)
class JobHistory:
    """Keeps versions of jobs, and records who made them; nothing is kept between calls."""

    audit: AuditTrail

    def record(self, conn: Connection, action: JobAction, steps: Sequence[JobStep], now_ms: int) -> None:
        """Write down what the actor of this thread did to jobs whose rows are locked; what did not change is left out.

        With each goes the version before, which is not there if a node of an older xwheel wrote it: one statement for
        the versions of all, and one for the audit.
        """
        made = [step for step in steps if step.before is None or step.before.revision != step.after.revision]
        if not made:
            return
        versions = []
        for step in made:
            if step.before is not None:
                before_ms = step.before.updated_ms
                versions.append(_version(step.before, JobAction.FOUND, before_ms, UNKNOWN_ACTOR, {}))
            versions.append(_version(step.after, action, now_ms, current_actor(), _children(step)))
        job_versions.insert_versions(conn, versions)
        self.audit.record_many(conn, [_entry(action, step) for step in made])


def stopped(job: Job, now_ms: int) -> Job:
    """Return a job as it is once it was stopped or deleted, without reading it again."""
    return replace(
        job, enabled=False, next_fire_ms=None, awaits_root=None, revision=job.revision + 1, updated_ms=now_ms
    )


def _version(job: Job, action: JobAction, at_ms: int, actor: Actor, children: Mapping[str, object]) -> JobVersion:
    return JobVersion(
        job_id=job.id,
        revision=job.revision,
        at_ms=at_ms,
        actor_kind=str(actor.kind),
        actor=clean(actor.name, MAX_ACTOR),
        action=str(action),
        reason=clean(actor.reason, MAX_REASON),
        glue_version=job.glue_version,
        definition={**definition_of(job), **children},
    )


def _children(step: JobStep) -> dict[str, object]:
    """Return the children of a job as its version keeps them, with those before: other versions say nothing of them."""
    if step.children is None:
        return {}
    before, after = (children_of(links) for links in step.children)
    return {CHILDREN: after, CHILDREN_BEFORE: before}


def _entry(action: JobAction, step: JobStep) -> Deed:
    """Return the row of the audit; a source stands in it by its length and digest."""
    before = None if step.before is None else _shown(step.before)
    after = _shown(step.after)
    if step.children is not None and before is not None:
        before["children"], after["children"] = (children_of(links) for links in step.children)
    if step.source is not None:
        after["source"] = step.source.source
    return Deed(
        action="script.save" if action is JobAction.SCRIPT else f"job.{action}",
        kind="job",
        object_id=step.after.id,
        group_id=step.after.group_id,
        before=before,
        after=None if action is JobAction.DELETE else after,
    )


def _shown(job: Job) -> dict[str, object]:
    return {**definition_of(job), "revision": job.revision, "glue_version": job.glue_version}
