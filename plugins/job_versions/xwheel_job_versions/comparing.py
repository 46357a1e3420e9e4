"""What differs between two versions of a job."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xwheel.model.versions import CHILDREN, CHILDREN_BEFORE, KEPT, JobVersion


class FieldDifference(NamedTuple):
    """A field that two versions have otherwise.

    Attributes:
        before: Its value in the one; None too if that version does not have the field.
        after: Its value in the other.
    """

    field: str
    before: Any
    after: Any


def children_at(revision: int, changes: Sequence[JobVersion], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the children that a job had at a revision.

    Args:
        revision: Which.
        changes: Its versions that changed its children, oldest first.
        now: Those that it has now.
    """
    for version in reversed(changes):
        if version.revision <= revision:
            return list(version.definition.get(CHILDREN, now))
    return list(changes[0].definition.get(CHILDREN_BEFORE, now)) if changes else now


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[FieldDifference]:
    """Return the fields that two definitions have otherwise, in the order of a job's fields."""
    names = [*KEPT, *sorted({*old, *new} - set(KEPT))]
    return [FieldDifference(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def source_difference(old: str, new: str, names: tuple[str, str]) -> str:
    """Return what differs between two sources as a unified diff; empty if they are the same."""
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), fromfile=names[0], tofile=names[1], lineterm="")
    return "".join(f"{line}\n" for line in lines)
