"""Jobs declared in code: a function, when it runs, and what else is said of the job."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from xwheel.errors import ConfigError, FieldError
from xwheel.executor.handlers import MARK, Handler, job

UNIX_CRON_FIELDS: Final = 5
NO_SCHEDULE: Final = "NONE"
OURS: Final = frozenset({"name", "group_id", "enabled", "glue_type", "glue_source", "handler", "anchor_ms"})
"""Fields of a job that follow from its declaration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A job as code declares it.

    Attributes:
        name: Names the job in the group of embedded jobs.
        function: What it runs, with the mark of a handler.
        fields: What is said of the job, by the management API's names; all others are left alone.
    """

    name: str
    function: Callable[..., object]
    fields: Mapping[str, Any]

    @property
    def handler(self) -> Handler:
        """The function as the executor knows it."""
        found: Handler = getattr(self.function, MARK)
        return found


def declare(
    function: Callable[..., object],
    name: str | None,
    schedule: Mapping[str, object],
    handler_options: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Declaration:
    """Return a function as a declared job.

    Args:
        function: What it runs.
        name: The job's name; None takes the function's.
        schedule: ``cron``, ``every``, ``delay`` and ``at``; those that are None are not meant.
        handler_options: Options of :func:`xwheel.executor.job`.
        fields: Further fields of the job.

    Raises:
        ConfigError: Says which job, which field and what is allowed.
    """
    known = getattr(function, MARK, None)
    own = known.name if isinstance(known, Handler) else getattr(function, "__name__", "")
    name = name or own
    if not name:
        raise ConfigError(f"{function!r} has no name of its own: give the job one")
    marked = _marked(function, name, handler_options)
    handler: Handler = getattr(marked, MARK)
    try:
        said = {"handler": handler.name, **_schedule_fields(schedule), **_checked(fields)}
        return Declaration(name=name, function=marked, fields=_validated(name, said))
    except FieldError as error:
        raise ConfigError(f"job {name!r}: {error}") from None


def _marked(function: Callable[..., object], name: str, options: Mapping[str, Any]) -> Callable[..., object]:
    """Return the function with the mark of a handler; one that has it keeps it, and may serve several jobs."""
    if isinstance(getattr(function, MARK, None), Handler):
        if options:
            raise ConfigError(
                f"job {name!r}: the function is a handler already, which settles {', '.join(options)}"
            )
        return function
    try:
        return job(name, **options)(function)
    except AttributeError:  # a bound method takes no attribute
        return job(name, **options)(functools.partial(function))


def _schedule_fields(schedule: Mapping[str, object]) -> dict[str, str]:
    """Return schedule type and its text.

    Raises:
        FieldError: More than one kind is given, or a value is of the wrong type.
    """
    given = {kind: value for kind, value in schedule.items() if value is not None}
    if len(given) > 1:
        raise FieldError(" and ".join(given), "exclude each other: give one of them")
    for kind, value in given.items():
        if kind == "cron":
            return _cron(value)
        if kind == "at":
            return {"schedule_type": "ONCE", "schedule_conf": _instant(value)}
        return {
            "schedule_type": "FIX_RATE" if kind == "every" else "FIX_DELAY",
            "schedule_conf": _duration(kind, value),
        }
    return {"schedule_type": NO_SCHEDULE, "schedule_conf": ""}


def _cron(value: object) -> dict[str, str]:
    if not isinstance(value, str):
        raise FieldError("cron", 'must be text, such as "*/5 * * * *"')
    is_unix = value.lstrip().startswith("@") or len(value.split()) == UNIX_CRON_FIELDS
    return {"schedule_type": "UNIX_CRON" if is_unix else "CRON", "schedule_conf": value}


def _instant(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise FieldError(
                "at", "needs a time zone: datetime.now(UTC) + …, or a text in the job's timezone"
            )
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    if isinstance(value, str):
        return value
    raise FieldError("at", "must be a datetime with a time zone, or a text such as 2030-01-31T12:00:00")


def _duration(kind: str, value: object) -> str:
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() * 1000)}ms"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{round(value * 1000)}ms"
    if isinstance(value, str):
        return value
    raise FieldError(kind, "must be seconds, a timedelta, or a text such as 500ms, 10s, 5m, 2h or 1d")


def _checked(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    for name in fields:
        if name in OURS or name.startswith("schedule_"):
            raise FieldError(name, "follows from the declaration and cannot be given")
    return fields


def _validated(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields as the management API would take them; raises FieldError for those that it would not."""
    from xwheel.api.http.body import read_fields
    from xwheel.api.schema.messages import JobCreate

    message = read_fields(JobCreate, {**said, "name": name, "group_id": 1})
    return {field: getattr(message, field) for field in said}
