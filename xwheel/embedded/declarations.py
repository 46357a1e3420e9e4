"""Functions as declared jobs of the embedded scheduler, checked as its node would check them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from xwheel.errors import ConfigError, FieldError
from xwheel.executor.declarations import Declaration, said_fields
from xwheel.executor.handlers import MARK, Handler, job


def declare(
    function: Callable[..., object],
    name: str | None,
    schedule: Mapping[str, object],
    handler_options: Mapping[str, Any],
    fields: Mapping[str, Any],
) -> Declaration:
    """Return a function as a declared job, by default of the function's name.

    ``schedule`` has ``cron``, ``every``, ``delay`` and ``at``, of which those that are None are not meant. Raises
    ConfigError, which says which job, which field and what is allowed.
    """
    known = getattr(function, MARK, None)
    own = known.name if isinstance(known, Handler) else getattr(function, "__name__", "")
    name = name or own
    if not name:
        raise ConfigError(f"{function!r} has no name of its own: give the job one")
    marked = _marked(function, name, handler_options)
    handler: Handler = getattr(marked, MARK)
    try:
        said = said_fields(handler.name, schedule, fields)
        return Declaration(name=name, function=marked, fields=_validated(name, said))
    except FieldError as error:
        raise ConfigError(f"job {name!r}: {error}") from None


def _marked(function: Callable[..., object], name: str, options: Mapping[str, Any]) -> Callable[..., object]:
    """Return the function with the mark of a handler; one that has it keeps it, and may serve several jobs."""
    if isinstance(getattr(function, MARK, None), Handler):
        if options:
            settled = ", ".join(options)
            raise ConfigError(f"job {name!r}: the function is a handler already, which settles {settled}")
        return function
    try:
        return job(name, **options)(function)
    except AttributeError:  # a bound method takes no attribute
        return job(name, **options)(functools.partial(function))


def _validated(name: str, said: Mapping[str, Any]) -> dict[str, Any]:
    from xwheel.api.http.body import read_fields
    from xwheel.api.schema.messages import JobCreate

    message = read_fields(JobCreate, {**said, "name": name, "group_id": 1})
    return {field: getattr(message, field) for field in said}
