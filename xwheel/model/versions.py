"""Versions of jobs: how a job was after each change, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from xwheel.errors import FieldError
from xwheel.model.jobs import KEPT_BY_NODES, ChildLink, Job

# fields of a job that its author writes, and to which a job can be rolled back
DEFINED: Final = tuple(name for name in Job.__struct_fields__ if name not in KEPT_BY_NODES)
KEPT: Final = (*DEFINED, "enabled")  # fields of a job that a version has


CHILDREN: Final = "children"
# what a version keeps besides if it changed which jobs run after its own
CHILDREN_BEFORE: Final = "children_before"


class JobAction(StrEnum):
    """What made a version."""

    FOUND = "found"  # nothing: so the job was before its first change that was kept
    CREATE = "create"
    EDIT = "edit"
    START = "start"
    STOP = "stop"
    DELETE = "delete"
    RESTORE = "restore"
    SCRIPT = "script"  # a new source of its script
    CHILDREN = "children"  # which jobs run after it
    SYNC = "sync"  # what code declares of it
    RELEASE = "release"  # what code owns of it
    CALENDAR = "calendar"  # a calendar that it follows was changed
    CLOCK = "clock"  # the clock had been ahead, and its fires were worked out again
    PAUSE = "pause"  # schedules were paused, and it got back what was planned


class JobVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was from one change to the next."""

    job_id: int
    revision: int  # the job's revision from then on
    at_ms: int  # when it was changed
    actor_kind: str  # how who changed it came to act
    actor: str  # who; empty if that is not known
    action: str  # what was done
    reason: str  # why, in their words, or empty
    glue_version: int  # which version of the source counted, 0 for none
    definition: Mapping[str, Any] = {}  # the fields of the job; empty in lists


def definition_of(job: Job) -> dict[str, Any]:
    """Return what a version keeps of a job, as plain values."""
    return {name: msgspec.to_builtins(getattr(job, name)) for name in KEPT}


def children_of(links: Iterable[ChildLink]) -> list[dict[str, Any]]:
    """Return the children of a job as plain values, by child."""
    return [{"child_id": link.child_id, "param": link.param} for link in sorted(links, key=lambda one: one.child_id)]


def changes_back(job: Job, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that must be changed, and to what, for a job to be as a definition says.

    Whether it is started stays as it is, and so does what the definition, being older, does not have. Raises FieldError
    for a value that this version of xwheel does not know.
    """
    wanted = {name: value for name, value in definition.items() if name in DEFINED}
    try:
        made = msgspec.convert({**msgspec.to_builtins(job), **wanted}, Job)
    except msgspec.ValidationError as error:
        raise FieldError("revision", f"cannot be restored here: {error}") from error
    return {name: getattr(made, name) for name in wanted if getattr(made, name) != getattr(job, name)}
