"""The model as JSON: names as the tree has them, fields checked, and what a later version added kept as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from enum import StrEnum
from typing import Any, Final, TypeVar

from xwheel.plugin import XwheelError

from xwheel_cluster_zookeeper.model import (
    MOST_BYTES,
    MOST_ERROR_BYTES,
    Assignment,
    Drain,
    Epoch,
    JobRecord,
    JobState,
    JobStatus,
    NodeRecord,
    Owner,
    Result,
    Role,
    Wanted,
)

R = TypeVar("R", NodeRecord, JobRecord, Assignment, JobStatus, Owner, Drain, Epoch)

SCHEMA: Final = 1
NAMES: Final[Mapping[type[Any], Mapping[str, str]]] = {
    NodeRecord: {"role": "nodeState", "started_ms": "startedAt"},
    JobRecord: {
        "wanted": "desired",
        "operation": "jobOperation",
        "operation_id": "jobOperationLogId",
        "updated_ms": "updatedAt",
    },
    Assignment: {"not_before_ms": "notBefore"},
    JobStatus: {"result": "operationResult", "error": "errorMessage", "updated_ms": "updatedAt"},
    Epoch: {"number": "epoch", "since_ms": "since"},
    Owner: {},
    Drain: {"since_ms": "since"},
}
"""Names in the tree that are not just the field's in another spelling."""

FROM_PLACE: Final = {"key", "path"}
"""Fields that are the znode's name."""

ENUMS: Final[Mapping[str, type[StrEnum]]] = {"role": Role, "wanted": Wanted, "job_state": JobState, "result": Result}


class BadZnodeError(XwheelError):
    """A znode that holds something else than it should."""


def _name(kind: type[Any], field: str) -> str:
    first, *rest = field.split("_")
    return NAMES[kind].get(field) or first + "".join(part.capitalize() for part in rest)


def encode(record: NodeRecord | JobRecord | Assignment | JobStatus | Owner | Drain | Epoch) -> bytes:
    """Return a record as the value of its znode.

    Raises:
        BadZnodeError: It is larger than a znode may be.
    """
    kind = type(record)
    found: dict[str, Any] = {"schema": SCHEMA, **record.more}
    for field in fields(record):
        if field.name not in FROM_PLACE and field.name != "more":
            value = getattr(record, field.name)
            found[_name(kind, field.name)] = list(value) if isinstance(value, tuple) else value
    if isinstance(record, JobStatus):
        found["errorMessage"] = cut(record.error)
    data = json.dumps(found, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
    if len(data) >= MOST_BYTES:
        raise BadZnodeError(f"a znode has less than {MOST_BYTES} bytes, this {kind.__name__} has {len(data)}")
    return data


def cut(text: str, most: int = MOST_ERROR_BYTES) -> str:
    """Return as much of a text's beginning as has this many bytes."""
    return text.encode(errors="replace")[:most].decode(errors="ignore")


def decode(kind: type[R], data: bytes, place: str) -> R:
    """Return the record of a znode.

    Args:
        kind: What it shall be.
        data: Its value.
        place: The znode's name.

    Raises:
        BadZnodeError: It is none; the message names znode and field.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadZnodeError(f"{place}: no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadZnodeError(f"{place}: no JSON object")
    values: dict[str, Any] = {}
    for field in fields(kind):
        if field.name in FROM_PLACE:
            values[field.name] = place
        elif field.name != "more":
            name = _name(kind, field.name)
            if name in found:
                values[field.name] = _checked(field.name, str(field.type), found.pop(name), f"{place}: {name}")
            elif field.default is MISSING:
                raise BadZnodeError(f"{place}: {name} is missing")
    found.pop("schema", None)
    return kind(**values, more=found)


def _checked(field: str, kind: str, value: Any, what: str) -> Any:
    """Return a value as the model has it."""
    make = _MAKERS.get(kind)
    try:
        if field in ENUMS:
            return ENUMS[field](value)
        if make is None:
            raise TypeError(kind)
        return make(value)
    except (ValueError, TypeError):
        raise BadZnodeError(f"{what} cannot be {value!r:.60}") from None


def _exactly(kind: type[Any]) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        if type(value) is not kind:
            raise TypeError
        return value

    return make


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError
    return tuple(value)


_MAKERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "str": _exactly(str),
    "int": _exactly(int),
    "bool": _exactly(bool),
    "tuple[str, ...]": _texts,
}
