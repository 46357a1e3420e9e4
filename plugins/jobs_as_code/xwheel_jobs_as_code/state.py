"""What files want and what a node has: the same records, so that they can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from xwheel.api.schema.messages import JobCreate

NOT_FIELDS: Final = frozenset({"group_id", "name", "enabled"})
JOB_FIELDS: Final = tuple(name for name in JobCreate.__struct_fields__ if name not in NOT_FIELDS)
"""What a job's author sets, apart from its place, its name and whether it is started."""


def values_of(message: JobCreate) -> dict[str, Any]:
    """Return what a job's author sets, as JSON and YAML have it."""
    plain = msgspec.to_builtins(message)
    return {name: list(value) if isinstance(value := plain[name], tuple) else value for name in JOB_FIELDS}


JOB_DEFAULTS: Final[Mapping[str, Any]] = values_of(JobCreate(group_id=1, name="x"))

LATENESS_FIELDS: Final = ("misfire_policy", "misfire_threshold_ms")
"""Left out of a file they stay as they are: the default was another one once."""


class Ref(NamedTuple):
    """A job by the names that people know."""

    app_name: str
    name: str

    def __str__(self) -> str:
        return f"{self.app_name}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """A job as its author means it.

    Attributes:
        values: :data:`JOB_FIELDS` to plain values; ``anchor_ms`` and ``glue_source`` may be null, which keeps what
            is there.
        left_out: Those of :data:`LATENESS_FIELDS` that the file does not name; a job that is there keeps its values.
        children: The jobs that run after it, with the template of their parameter or null for their own.
        id: Its id, 0 if it is only wanted.
        revision: What the node has it at, 0 if it is only wanted.
        place: Where the file wants it, for errors.
    """

    ref: Ref
    values: Mapping[str, Any]
    enabled: bool
    left_out: frozenset[str] = frozenset()
    children: Mapping[Ref, str | None] = field(default_factory=dict)
    id: int = 0
    revision: int = 0
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupState:
    """A group of executors; ``glue_types`` of a file may be None, which keeps what there is."""

    app_name: str
    title: str
    max_running: int
    glue_types: tuple[str, ...] | None = None
    id: int = 0
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Groups by app name, jobs by group and name, calendars by name.

    Attributes:
        calendar_names: Every calendar that is known, also those whose definition was not read.
        duplicates: Names that several jobs of one group bear; such jobs are not in ``jobs``.
        others: Jobs of groups outside, which are only referred to, with their ids.
        places: Where the file wants a calendar, for errors.
    """

    groups: Mapping[str, GroupState] = field(default_factory=dict)
    jobs: Mapping[Ref, JobState] = field(default_factory=dict)
    calendars: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    calendar_names: frozenset[str] = frozenset()
    duplicates: Mapping[Ref, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[Ref, int] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
