"""A plugin that records what is done in a table of its own, as plainly as it can."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import text

from xwheel.plugin import Book, Deed, Migration, PluginDatabase, RefusedCall, Rows
from xwheel.plugin.registries import Registry

COLUMNS: Final = ("action", "kind", "object_id", "actor", "reason", "outcome", "detail")
MAKE: Final = "CREATE TABLE IF NOT EXISTS notes (place {}, {})"
PLACES: Final = {
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "mysql": "BIGINT PRIMARY KEY AUTO_INCREMENT",
    "postgresql": "BIGSERIAL PRIMARY KEY",
}


class Notes:
    """What is recorded in a database.

    Attributes:
        refused: Calls that were refused.
        failure: What is raised in place of recording.
    """

    def __init__(self) -> None:
        self.refused: list[RefusedCall] = []
        self.failure: BaseException | None = None

    def rows(self, deeds: Sequence[Deed], now_ms: int) -> Rows:
        del now_ms
        if self.failure is not None:
            raise self.failure
        return {"notes": [_row(deed) for deed in deeds]}

    def note_refused(self, call: RefusedCall) -> None:
        if self.failure is not None:
            raise self.failure
        self.refused.append(call)


class NoteRecorder:
    """Records in the table ``notes``, which it makes."""

    name = "notes"

    def __init__(self, book: Book | None = None) -> None:
        self.book: Any = book or Notes()

    def open(self, database: PluginDatabase) -> Book:
        words = ", ".join(f"{name} TEXT" for name in COLUMNS)
        database.transaction(lambda conn: conn.execute(text(MAKE.format(PLACES[database.backend], words))))
        made: Book = self.book
        return made

    def migrations(self) -> Sequence[Migration]:
        return [Migration("1", lambda conn: None)]

    def tables(self) -> Sequence[str]:
        return ["notes"]


def recorders(recorder: object | None = None) -> Registry[Any]:
    """Return the table of recorders with this one, or with one that notes."""
    return Registry("recorder", {"notes": recorder or NoteRecorder()}, {"notes": "a test"})


def noted(database: PluginDatabase) -> list[dict[str, Any]]:
    """Return what was recorded, in its order; what changed in ``detail``."""
    with database.read() as conn:
        rows = conn.execute(text(f"SELECT {', '.join(COLUMNS)} FROM notes ORDER BY place")).mappings()
        return [{**row, "detail": json.loads(row["detail"])} for row in rows]


def _row(deed: Deed) -> dict[str, object]:
    old, new = _fields(deed.before), _fields(deed.after)
    if deed.before is not None and deed.after is not None:
        same = {name for name in old if name in new and old[name] == new[name]}
        old, new = _but(old, same), _but(new, same)
    detail = {name: part for name, part in (("before", old), ("after", new)) if part}
    return {
        "action": deed.action,
        "kind": deed.kind,
        "object_id": str(deed.object_id),
        "actor": deed.actor.name,
        "reason": deed.actor.reason,
        "outcome": str(deed.outcome),
        "detail": msgspec.json.encode(detail, enc_hook=str).decode(),
    }


def _fields(record: object) -> dict[str, Any]:
    if record is None:
        return {}
    if isinstance(record, Mapping):
        return dict(record)
    if is_dataclass(record) and not isinstance(record, type):
        return asdict(record)
    assert isinstance(record, msgspec.Struct)
    return msgspec.structs.asdict(record)


def _but(fields: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names and name != "updated_ms"}
