"""Jobs declared in code: a function, when it runs, and what else is said of the job.

What is said is checked here only so far as an executor can: names of fields, and how schedules are spelled. Nodes
check the rest.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from xwheel.errors import FieldError
from xwheel.model.jobs import DECLARABLE
from xwheel.model.shorthand import SHORT_NAMES, long_names, schedule_fields

MAX_JOB_NAME: Final = 128
MAX_PLACE: Final = 1024
MAX_FIELD: Final = 64
MAX_REASON: Final = 1024
# fields of a job that follow from its declaration
OURS: Final = frozenset({"name", "group_id", "enabled", "glue_type", "glue_source", "handler", "anchor_ms"})
SCHEDULE: Final = ("schedule_type", "schedule_conf")
SCALARS: Final = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A job as code declares it."""

    name: str  # names the job in its group
    function: Callable[..., object]
    fields: Mapping[str, Any]  # by the management API's names; all others are left alone
    # what code calls those fields that it has other names for
    spelled: Mapping[str, str] = field(default_factory=dict)
    problem: FieldError | None = None  # why it cannot be declared so

    @property
    def place(self) -> str:
        """Module and function, as messages name them."""
        function = self.function
        return f"{getattr(function, '__module__', '?')}:{getattr(function, '__qualname__', function)}"


def declare(
    name: str, function: Callable[..., object], schedule: Mapping[str, object], fields: Mapping[str, Any]
) -> Declaration | None:
    """Return the job that a handler's options declare, None if they declare none; a mistake becomes its problem.

    ``schedule`` has ``cron``, ``every``, ``delay`` and ``at``; those that are None are not meant.
    """
    given = {kind: value for kind, value in schedule.items() if value is not None}
    if not given and not fields:
        return None
    spelled = {long: short for short, long in SHORT_NAMES.items() if short in fields}
    spelled |= {known: " and ".join(given) for known in SCHEDULE if given}
    said: dict[str, Any] = {}
    problem = None
    try:
        if len(name) > MAX_JOB_NAME:
            raise FieldError("name", f"has {len(name)} characters, jobs may have {MAX_JOB_NAME}")
        found = said_fields(name, schedule, fields)
        _check_names(found)
        # all or nothing: what JSON does not have could not be told, nor have a digest
        said = {known: _plain(known, value) for known, value in found.items()}
    except FieldError as error:
        problem = error
    return Declaration(name=name, function=function, fields=said, spelled=spelled, problem=problem)


def said_fields(handler: str, schedule: Mapping[str, object], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a declaration says of its job, by the management API's names.

    Raises FieldError if a schedule is not spelled right, or a field follows from the declaration.
    """
    for name in fields:
        if name in OURS or name.startswith("schedule_"):
            raise FieldError(name, "follows from the declaration and cannot be given")
    return {"handler": handler, **schedule_fields(schedule), **long_names(fields)}


def nearest(name: str, known: Collection[str]) -> str:
    """Return the name that a mistyped one was meant to be, or an empty text."""
    return next(iter(difflib.get_close_matches(name, known, n=1)), "")


def digest_of(declarations: Collection[Declaration]) -> str:
    """Return what tells one set of declarations from another, whatever their order and their modules."""
    ordered = sorted(declarations, key=lambda item: item.name)
    said = [[item.name, dict(item.fields), str(item.problem or "")] for item in ordered]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()


def _check_names(said: Mapping[str, Any]) -> None:
    known = {*DECLARABLE, *SHORT_NAMES}
    for name in said:
        if name not in DECLARABLE and name not in SCHEDULE and name != "handler":
            close = nearest(name, known)
            hint = f"did you mean {close}?" if close else f"known: {', '.join(sorted(known))}"
            raise FieldError(name, f"is no field of jobs; {hint}")


def _plain(name: str, value: object) -> object:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [_plain(name, item) for item in items]
    if not isinstance(value, SCALARS):
        raise FieldError(name, f"must be text, a number, true, false or a list, not {type(value).__name__}")
    return value


def declared_body(declarations: Collection[Declaration]) -> dict[str, Any]:
    """Return what a node is told of declarations: the jobs, and those that cannot be declared so."""
    good = [item for item in declarations if item.problem is None]
    return {
        "jobs": [{"name": item.name, "place": item.place[:MAX_PLACE], **item.fields} for item in good],
        "broken": [
            {
                "name": item.name[:MAX_JOB_NAME],
                "place": item.place[:MAX_PLACE],
                "field": item.problem.field[:MAX_FIELD],
                "reason": item.problem.reason[:MAX_REASON],
            }
            for item in declarations
            if item.problem is not None
        ],
    }


def problem_line(declaration: Declaration | None, problem: Mapping[str, Any]) -> str:
    """Return in a line what is wrong with a declaration: the job, its module and function, the field, the way out.

    ``problem`` is what a node says of it: ``name``, ``place``, ``field``, ``reason``. No declaration: it is not here.
    """
    field, place = str(problem["field"]), str(problem["place"])
    if declaration is not None:
        field, place = declaration.spelled.get(field, field), declaration.place
    return f"job {problem['name']!r} ({place}): {field}: {problem['reason']}; correct it there"
