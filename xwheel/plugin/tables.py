"""Tables that plugins bring into a node's database, and the migrations that make and change them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from xwheel.plugin.validation import require

MOST_MIGRATIONS: Final = 1000
MOST_TABLES: Final = 100
MAX_MIGRATION: Final = 64
MAX_TABLE: Final = 60
"""Characters of a table's name; every database takes this many, with those of an index's prefix besides."""

HANDED_OVER: Final = frozenset(
    {"account", "account_session", "account_setting", "alarm", "alarm_attempt", "alarm_episode", "alarm_rule"}
    | {"audit", "audit_head", "declaration_owner", "declared_job", "hourly_report", "run_log"}
    | {"sign_in_failure", "sign_in_link"}
)
"""Tables that xwheel itself had once: a plugin may have one of them under this name, and finds its rows in it."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,29}")
_COLUMN: Final = re.compile(r"[a-z][a-z0-9_]{0,62}")
_TABLE: Final = re.compile(r"[a-z][a-z0-9_]*")
_MIGRATION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step from one form of a plugin's tables to the next."""

    name: str  #: unique among the plugin's migrations and never changed: databases remember it
    #: called with a connection of SQLAlchemy, inside a transaction of the one process that changes the schema. MariaDB
    #: keeps what was done before a failure, so it must be able to begin again: it makes what is not there
    apply: Callable[[Any], None]


@runtime_checkable
class Tables(Protocol):
    """Tables of a plugin in the database that all nodes share.

    ``xwheel db upgrade`` applies the migrations that a database lacks, after those of xwheel itself, each in a
    transaction of its own; a node does so at its start with a database of SQLite that has none of them yet, and refuses
    any other database that lacks one. Texts compare by bytes on every server, as those of xwheel's tables do.
    """

    #: the plugin's own name; the names of its tables begin with it and an underscore, or are this name. What begins
    #: with the names of two plugins belongs to the longer one. A table that an earlier version of xwheel had itself
    #: keeps its name: the first migration makes what is not there
    name: str

    def migrations(self) -> Sequence[Migration]:
        """Return all migrations in their order; new ones come at the end."""

    def tables(self) -> Sequence[str]:
        """Return the names of the tables that are there after the last migration."""


@runtime_checkable
class RowsGoAlong(Protocol):
    """Tables of a plugin with rows that are deleted with a job or a group, in the transaction that deletes that."""

    of_jobs: Mapping[str, str]  #: tables to their columns with the id of a job
    of_groups: Mapping[str, str]  #: tables to their columns with the id of a group


class KnownTables:
    """What a plugin's tables are, read once and checked; their names begin with ``prefix``, or are handed over."""

    def __init__(self, item: Tables) -> None:
        self.name = item.name
        words = "a plugin with tables has a name of 1 to 30 small letters, digits and underscores, a letter first"
        require(_NAME.fullmatch(self.name) is not None, f"tables {self.name[:40]}: {words}")
        self.prefix = f"{self.name}_"
        self.migrations = tuple(item.migrations())
        self.tables = tuple(item.tables())
        self._handed_over = HANDED_OVER.intersection(self.tables)
        self._check_migrations()
        self._check_tables()
        if isinstance(item, RowsGoAlong):
            self._check_columns("of_jobs", item.of_jobs)
            self._check_columns("of_groups", item.of_groups)

    def owns(self, table: str, plugins: Collection[str] = ()) -> bool:
        """Return whether a table is the plugin's: its name says so, or it is one that was handed over to it.

        Of ``plugins`` that a table's name begins with, it belongs to the one with the longest name.
        """
        if table in self._handed_over:
            return True
        owners = {name for name in (self.name, *plugins) if table == name or table.startswith(f"{name}_")}
        return max(owners, key=len, default="") == self.name

    def _require(self, holds: bool, words: str) -> None:
        require(holds, f"tables {self.name}: {words}")

    def _check_migrations(self) -> None:
        count, seen = len(self.migrations), set()
        is_fit = 0 < count <= MOST_MIGRATIONS
        self._require(is_fit, f"{count} migrations; from 1 to {MOST_MIGRATIONS} are allowed")
        for one in self.migrations:
            is_one = isinstance(one, Migration) and isinstance(one.name, str) and callable(one.apply)
            self._require(is_one, "migrations() must return objects of Migration")
            is_name = len(one.name) <= MAX_MIGRATION and _MIGRATION.fullmatch(one.name) is not None
            words = f"a migration's name has 1 to {MAX_MIGRATION} letters, digits, dots, dashes and underscores, not"
            self._require(is_name, f"{words} {one.name[:MAX_MIGRATION]!r}")
            self._require(one.name not in seen, f"two migrations are called {one.name}")
            seen.add(one.name)

    def _check_tables(self) -> None:
        is_fit = 0 < len(self.tables) <= MOST_TABLES and len(set(self.tables)) == len(self.tables)
        self._require(is_fit, f"tables() must return 1 to {MOST_TABLES} different names")
        for one in self.tables:
            fits = isinstance(one, str) and len(one) <= MAX_TABLE and _TABLE.fullmatch(one) is not None
            words = f"begins with {self.prefix} and has at most {MAX_TABLE} small letters, digits and underscores"
            self._require(fits and self.owns(one), f"a table's name {words}, not {str(one)[:MAX_TABLE]!r}")

    def _check_columns(self, field: str, found: Mapping[str, str]) -> None:
        self._require(isinstance(found, Mapping), f"{field} must be a mapping of table to column")
        for table, column in found.items():
            self._require(table in self.tables, f"{field}: {str(table)[:MAX_TABLE]!r} is none of its tables")
            is_column = isinstance(column, str) and _COLUMN.fullmatch(column) is not None
            self._require(is_column, f"{field}: {table} needs the name of a column")
