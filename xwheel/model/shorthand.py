"""Schedules in short, as code and the command line spell them: ``cron``, ``every``, ``delay``, ``at``.

Other fields of jobs that code has shorter names for stand here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from xwheel.errors import FieldError

UNIX_CRON_FIELDS: Final = 5
NO_SCHEDULE: Final = "NONE"

# what code may call fields of jobs, besides their names of the management API
SHORT_NAMES: Final = {"retries": "max_retries"}


def schedule_fields(schedule: Mapping[str, object]) -> dict[str, str]:
    """Return schedule type and its text, from ``cron``, ``every``, ``delay`` and ``at``.

    Those that are None are not meant. Raises FieldError for more than one kind, or a value of the wrong type.
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


def long_names(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields of a job by the management API's names; raises FieldError for one given under both its names."""
    for short, name in SHORT_NAMES.items():
        if short in fields and name in fields:
            raise FieldError(short, f"is {name} in short: give one of them")
    return {SHORT_NAMES.get(name, name): value for name, value in fields.items()}


def _cron(value: object) -> dict[str, str]:
    if not isinstance(value, str):
        raise FieldError("cron", 'must be text, such as "*/5 * * * *"')
    is_unix = value.lstrip().startswith("@") or len(value.split()) == UNIX_CRON_FIELDS
    return {"schedule_type": "UNIX_CRON" if is_unix else "CRON", "schedule_conf": value}


def _instant(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise FieldError("at", "needs a time zone: datetime.now(UTC) + …, or a text in the job's timezone")
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
