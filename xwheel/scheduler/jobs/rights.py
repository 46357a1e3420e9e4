"""What the actor may do to jobs whose rows are locked: the group that a job is in now counts, not that of the call.

All raise NotFoundError where the actor may not even read, ForbiddenError where it may not do the thing.
"""

from __future__ import annotations

from collections.abc import Mapping

from xwheel.errors import ForbiddenError, NotFoundError, RevisionError, XwheelError
from xwheel.model import Job, NewSource
from xwheel.model.access import Permission, current_actor
from xwheel.storage import jobs
from xwheel.storage.database.engine import Connection


def lock_job(conn: Connection, job_id: int, revision: int | None, permission: Permission) -> Job:
    """Return a job, locked, if it is at this revision (None is for any) and the actor may do this to it."""
    job = jobs.get_job(conn, job_id, lock=True)
    current_actor().need(permission, job.group_id, "job", job_id)
    if revision is not None and job.revision != revision:
        raise RevisionError("job", job_id, job.revision, revision)
    return job


def check_new_job(values: Mapping[str, object], source: NewSource | None) -> None:
    """Check that the actor may create a job, with what it runs; asked before anything that may depend on the group."""
    group_id = values.get("group_id")
    if isinstance(group_id, int):
        actor = current_actor()
        actor.need(Permission.EDIT, group_id, "group", group_id)
        if source is not None:
            actor.need(Permission.SCRIPT, group_id, "group", group_id)


def check_move(job: Job, changes: Mapping[str, object]) -> None:
    """Check that the actor may bring a job to the group that changes name, if they do."""
    group_id = changes.get("group_id", job.group_id)
    if isinstance(group_id, int) and group_id != job.group_id:
        current_actor().need(Permission.EDIT, group_id, "group", group_id)


def check_script(job: Job, merged: Job, source: NewSource | None) -> None:
    """Check that the actor may change what a script runs, if an edit does.

    Another glue type takes the source, and a job that moves to another group brings it to the executors there.
    """
    is_other = merged.glue_type != job.glue_type or merged.group_id != job.group_id
    if source is not None or (is_other and job.glue_version):
        current_actor().need(Permission.SCRIPT, merged.group_id, "job", job.id)


def permitted(found: Mapping[int, Job], permission: Permission) -> tuple[Mapping[int, Job], dict[int, XwheelError]]:
    """Return those jobs with which the actor may do what needs a permission, and why not with the others."""
    actor = current_actor()
    if actor.grants.allows(permission):
        return found, {}
    refused: dict[int, XwheelError] = {}
    for job in found.values():
        try:
            actor.need(permission, job.group_id, "job", job.id)
        except (NotFoundError, ForbiddenError) as error:
            refused[job.id] = error
    return {job_id: job for job_id, job in found.items() if job_id not in refused}, refused
