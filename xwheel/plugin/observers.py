"""Observers of what ends, is skipped or is stopped: they answer with rows, which are written with it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from xwheel.errors import PluginError
from xwheel.model import Job, Run, RunState
from xwheel.plugin.contracts import PluginDatabase

MOST_ROWS: Final = 10_000  # rows that an observer may have for one transaction
_COLUMN: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_VALUES: Final = (str, int, float, bytes, type(None))
_EXACT: Final = frozenset({*_VALUES, bool})

Rows = Mapping[str, Sequence[Mapping[str, object]]]
"""Table of the plugin's to rows: column to text, number, boolean, bytes or None, the same columns in all its rows."""


class RunEnd(Protocol):
    """How a run ends.

    Attributes:
        state: The final state.
        reason: Short word for the cause; empty if the state says it all.
        code: Result code, or None.
        message: What the handler or the scheduler said.
    """

    @property
    def state(self) -> RunState: ...  # noqa: D102 - told by the class
    @property
    def reason(self) -> str: ...  # noqa: D102
    @property
    def code(self) -> int | None: ...  # noqa: D102
    @property
    def message(self) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one transaction of the scheduler changes."""

    now_ms: int  #: the time, as all nodes count it
    ended: Sequence[tuple[Run, RunEnd]] = ()  #: runs that end now, as they were before, and how they end
    retried: Collection[int] = frozenset()  #: ids of those of them that get another attempt
    inserted: Sequence[Run] = ()  #: runs that are inserted now, among them those that are skipped
    #: jobs that are stopped since their schedule fails, with the error
    stopped: Sequence[tuple[Job, str]] = ()
    #: runs that are sent once this is written, with their jobs; an executor without an ``instance`` is not one of
    #: xwheel's. Only observers that :class:`SeesDispatches` get these, and nothing else with them
    dispatched: Sequence[tuple[Run, Job]] = ()


@runtime_checkable
class Observer(Protocol):
    """Writes rows of the plugin's tables in the transactions that end runs, skip fires and stop jobs.

    Routes or resources of a plugin that can do this are observers, too, without being registered as such.
    It is asked while rows of runs are locked, on several threads at once: it answers from memory, in microseconds, and
    calls nothing. If it raises, or the database refuses its rows, the log names it, and the change is written without
    them.
    """

    name: str  #: the plugin's own name, with which the names of its tables begin

    def refresh(self, database: PluginDatabase, now_ms: int) -> None:
        """Read what it must know before it is asked: before the first change of a process, then once a second."""

    def rows(self, changes: Changes) -> Rows:
        """Return the rows that are to be written with these changes; mostly none.

        The transaction may be repeated, or fail: nothing is known to have happened before :meth:`committed`.
        """

    def committed(self, rows: Rows) -> None:
        """Note that these rows, which it returned, are in the database; not called for none."""


@runtime_checkable
class SeesDispatches(Protocol):
    """An observer that is also asked in the transaction after which runs are sent: each run passes it once."""

    sees_dispatches: bool  #: it must be there; what it is does not matter


@runtime_checkable
class SaysWhatChanged(Protocol):
    """An observer that refreshes within a second of a change and each 30 s, not each second."""

    #: a select of SQLAlchemy for a number that changes with what ``refresh`` reads. It is asked once a second, so an
    #: index must answer it in microseconds
    version: Any


def check_rows(plugin: str, rows: object, tables: Collection[str] = ()) -> Rows:
    """Return what a plugin wants to be written, once it is known to be rows of its own tables; a copy of it.

    ``tables`` are those of its tables whose names do not begin with its own.
    """
    if not isinstance(rows, Mapping):
        raise PluginError(f"{plugin}: rows must be a mapping of table to rows, not {type(rows).__name__}")
    made, left = {}, MOST_ROWS
    for table, given in rows.items():
        is_text = isinstance(table, str)
        if not is_text or not (table == plugin or table.startswith(f"{plugin}_") or table in tables):
            raise PluginError(f"{plugin}: {str(table)[:60]!r} is none of its own tables")
        if not isinstance(given, Sequence) or not all(isinstance(item, Mapping) for item in given):
            raise PluginError(f"{plugin}: rows of {table} must be a sequence of mappings of column to value")
        # content that is no longer in a plugin's hands
        made[table] = items = [dict(item) for item in given]
        left -= len(items)
        if left < 0:
            raise PluginError(f"{plugin}: more than {MOST_ROWS} rows for one transaction")
        if items:
            _check_items(plugin, table, items)
    return made


def _check_items(plugin: str, table: str, items: Sequence[Mapping[str, object]]) -> None:
    columns = items[0].keys()
    if any(item.keys() != columns for item in items):
        raise PluginError(f"{plugin}: rows of {table} have different columns")
    for column in columns:
        # by type, which is known for a thousand rows at once; by instance where one is of a class of its own
        kinds = {type(item[column]) for item in items}
        is_plain = kinds <= _EXACT or all(isinstance(item[column], _VALUES) for item in items)
        if not is_plain or not isinstance(column, str) or not _COLUMN.fullmatch(column):
            wrong = next((kind for kind in kinds if not issubclass(kind, _VALUES)), str)
            raise PluginError(
                f"{plugin}: {table}.{str(column)[:60]} must be a text, a number, bytes or None, not {wrong.__name__}"
            )
