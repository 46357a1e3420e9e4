"""Shapes that the table of runs could have, and the statements that carry one run through each of them.

What is measured is the server, so statements go through the bare drivers, in the forms that each database likes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
import pymysql
import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from xwheel.storage.database.bulk import array_text
from xwheel.storage.schema.tables import open_run

DIALECTS: Final[dict[str, Dialect]] = {
    kind: sa.make_url(f"{name}://").get_dialect()()
    for kind, name in {"sqlite": "sqlite", "mariadb": "mysql+pymysql", "postgresql": "postgresql+psycopg"}.items()
}
DAY_MS: Final = 86_400_000
TODAY: Final = 20_000 * DAY_MS
"""All runs are due in this day."""

DAYS: Final = 30
"""Partitions of the history; those of other days are empty."""

IDS_A_DAY: Final = 100_000_000
JOBS: Final = 1000
GROUPS: Final = 10
CHECK_MS: Final = 60_000

run: Final = sa.Table(
    "run",
    sa.MetaData(),
    *(sa.Column(c.name, c.type, nullable=c.nullable) for c in open_run.c),
    sa.Column("open_partition", sa.SmallInteger),
)
"""What held all runs when these shapes were compared."""

ALL: Final = tuple(run.c.keys())
HISTORY: Final = tuple(name for name in ALL if name not in {"open_partition", "check_ms"})
OPEN: Final = tuple(
    name for name in ALL if name not in {"open_partition", "result_code", "message", "skip_last_ms", "finished_ms"}
)
CHANGING: Final = (
    "id", "job_id", "group_id", "partition", "state", "epoch", "due_ms", "reason", "address", "instance",
    "dispatched_ms", "accepted_ms", "check_ms", "kill_requested", "secret_id",
)  # fmt: skip
IDENTITY: Final = ("job_id", "origin", "origin_key", "shard_index")
OUTCOME: Final = ("state", "reason", "result_code", "message", "finished_ms")
SENT: Final = ("address", "instance", "dispatched_ms", "accepted_ms", "epoch", "secret_id")
"""What a history that has the run from the beginning learns at its end."""

RARE: Final = "state NOT IN ('planned', 'dispatching', 'running', 'succeeded')"


class Shape(NamedTuple):
    """How runs are stored.

    Attributes:
        words: What it is.
        is_split: Open runs have a table of their own.
        is_early: The history has a run from its planning on; the table of open ones has only what changes.
        days: The column by which history is partitioned: ``due_ms``, ``id`` or none.
        identity: Where the identity of a run that ended is kept: ``unique`` in the history, ``key`` in a table of its
            own, ``job`` as a look at the runs of the job at that time, or nowhere.
        is_lean: Indexes leave out rows that they do not serve, and pages have room for changed rows.
        has_check: Open runs have an index on their next check.
        is_guarded: No row is locked before it is changed.
    """

    words: str
    is_split: bool = True
    is_early: bool = False
    days: str = ""
    identity: str = "unique"
    is_lean: bool = True
    has_check: bool = False
    is_guarded: bool = False

    @property
    def open_columns(self) -> tuple[str, ...]:
        """What a planned run has in the table that changes."""
        return CHANGING if self.is_early else OPEN if self.is_split else ALL


SHAPES: Final = {
    "A": Shape("one table as today", is_split=False, is_lean=False),
    "B": Shape("one table, partial indexes, room in pages", is_split=False),
    "C": Shape("open runs apart, history inserted once"),
    "K": Shape("C with an index on the next check", has_check=True),
    "G": Shape("C without locks before changes", is_guarded=True),
    "D": Shape("C by day, no identity in history", days="due_ms", identity=""),
    "E": Shape("what changes apart, history from the planning on", is_early=True),
    "FK": Shape("D with a table of identities", days="due_ms", identity="key"),
    "FD": Shape("D with the identity in each day", days="due_ms"),
    "I": Shape("C by ranges of ids, looks at the job's runs", days="id", identity="job"),
    "J": Shape("I with index on check, without locks", days="id", identity="job", has_check=True, is_guarded=True),
}  # fmt: skip


class Server:
    """Statements on one connection; ``tables`` are named after the shape."""

    kind = ""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.cursor = connection.cursor()

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """Execute and return all rows."""
        self.cursor.execute(statement, values)
        return list(self.cursor.fetchall()) if self.cursor.description else []

    def begin(self) -> None:
        self.run("BEGIN")

    def commit(self) -> None:
        self.run("COMMIT")

    def among(self, column: str, ids: Sequence[int]) -> tuple[str, list[Any]]:
        """Return the condition that a key is among some."""
        raise NotImplementedError

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        raise NotImplementedError

    def values(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
        """Return what stands behind FROM: rows ``v`` of these columns, each named as it is."""
        raise NotImplementedError

    def update(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], only: str) -> int:
        """Change rows by id, the first value of each."""
        source, values = self.values(("id", *columns), rows)
        sets = ", ".join(f"{name} = v.{name}" for name in columns)
        self.cursor.execute(f"UPDATE {table} SET {sets} FROM {source} WHERE {table}.id = v.id{only}", values)
        return int(self.cursor.rowcount)

    def move(self, shape: str, rows: Sequence[tuple[Any, ...]], now_ms: int) -> int:
        """Insert open runs into the history, with rows of id, state and message, and take them from their table."""
        source, values = self.values(("id", "state", "message"), rows)
        self.run(f"{self._into_history(shape, now_ms)} FROM {source} JOIN open_{shape} o ON o.id = v.id", values)
        return self.delete(f"open_{shape}", [row[0] for row in rows])

    def delete(self, table: str, ids: Sequence[int]) -> int:
        where, values = self.among("id", ids)
        self.cursor.execute(f"DELETE FROM {table} WHERE {where}", values)
        return int(self.cursor.rowcount)

    def _into_history(self, shape: str, now_ms: int) -> str:
        given = {
            "state": "v.state", "message": "v.message", "result_code": "200", "finished_ms": str(now_ms),
            "reason": "''", "skip_last_ms": "NULL",
        }  # fmt: skip
        taken = ", ".join(given.get(name, f"o.{name}") for name in HISTORY)
        return f"INSERT INTO history_{shape} ({', '.join(HISTORY)}) SELECT {taken}"

    def log_bytes(self) -> int:
        """Return how much was written to the log of changes so far."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until the server has done what it does later."""

    def type_of(self, name: str) -> str:
        text = run.c[name].type.compile(dialect=DIALECTS[self.kind])
        return f"{text}{'' if run.c[name].nullable else ' NOT NULL'}"

    # the tables

    def create(self, name: str, shape: Shape, rows: int) -> None:
        """Make the tables of a shape, with finished runs in the history, and its indexes after these."""
        tail, room = self._options(shape)
        if not shape.is_split:
            self._table(f"run_{name}", ALL, "id", room)
            self._fill(f"run_{name}", ALL, rows)
            self._one_table(f"run_{name}", shape)
            self._history(f"run_{name}", shape)
            return
        self._table(f"open_{name}", shape.open_columns, "id", room)
        if shape.identity != "key" and not shape.is_early:
            self.run(f"ALTER TABLE open_{name} ADD UNIQUE ({', '.join(IDENTITY)})" if self.kind != "sqlite"
                     else f"CREATE UNIQUE INDEX uq_open_{name} ON open_{name} ({', '.join(IDENTITY)})")  # fmt: skip
        self._index(f"open_{name}", "partition, due_ms" if self.kind != "mariadb" else "`partition`, due_ms")
        if shape.has_check:
            self._index(f"open_{name}", "check_ms", "check_ms IS NOT NULL")
        if shape.identity == "key":
            self._table(f"key_{name}", (*IDENTITY, "due_ms"), ", ".join(IDENTITY), "")
            self._fill(f"key_{name}", (*IDENTITY, "due_ms"), rows)
            self._index(f"key_{name}", "due_ms")
        table = f"history_{name}"
        self._table(table, HISTORY, "id, due_ms" if shape.days == "due_ms" else "id", tail)
        self._partitions(table, shape)
        self._fill(table, HISTORY, rows)
        if shape.identity == "unique":
            day = ", due_ms" if shape.days else ""
            self.run(f"CREATE UNIQUE INDEX uq_{table} ON {table} ({', '.join(IDENTITY)}{day})")
        self._history(table, shape)

    def _table(self, table: str, columns: Sequence[str], key: str, tail: str) -> None:
        quoted = [f"`{item}`" if self.kind == "mariadb" else item for item in columns]
        made = ", ".join(f"{item} {self.type_of(name)}" for item, name in zip(quoted, columns, strict=True))
        self.run(f"CREATE TABLE {table} ({made}, PRIMARY KEY ({key})){tail}")

    def _index(self, table: str, columns: str, only: str = "") -> None:
        name = f"ix_{table}_{columns.split(',', maxsplit=1)[0].strip('`')}"
        where = f" WHERE {only}" if only and self.kind != "mariadb" else ""
        self.run(f"CREATE INDEX {name} ON {table} ({columns}){where}")

    def _one_table(self, table: str, shape: Shape) -> None:
        self.run(f"CREATE UNIQUE INDEX uq_{table} ON {table} ({', '.join(IDENTITY)})")
        lean = shape.is_lean
        self._index(table, "open_partition, epoch, due_ms", "open_partition IS NOT NULL" if lean else "")
        self._index(table, "check_ms, group_id, job_id", "check_ms IS NOT NULL" if lean else "")

    def _history(self, table: str, shape: Shape) -> None:
        # where it is partitioned MariaDB does not know that its indexes end with the key, and sorts all that it finds
        key = ", id" if self.kind == "mariadb" and shape.days else ""
        for columns in ("job_id, due_ms", "group_id, due_ms", "due_ms", "root_id"):
            self._index(table, f"{columns}{key}")
        if self.kind == "mariadb" and not shape.is_split and shape.is_lean:
            # no partial indexes: a column that is null but for rare states
            self.run(f"ALTER TABLE {table} ADD COLUMN rare VARCHAR(16)")
            self._index(table, "rare, due_ms")
        else:
            self._index(table, "state, due_ms", RARE)
        self._index(table, "chain_id, due_ms", "chain_id <> root_id")

    def _options(self, _shape: Shape) -> tuple[str, str]:
        """Return how the history is divided, and how full pages of changing rows may be."""
        return "", ""

    def _partitions(self, table: str, shape: Shape) -> None:
        pass

    def _series(self, rows: int) -> str:
        raise NotImplementedError

    def _fill(self, table: str, columns: Sequence[str], rows: int) -> None:
        if not rows:
            return
        given: dict[str, str] = {
            "id": "n", "job_id": f"1 + n % {JOBS}", "group_id": f"1 + n % {GROUPS}", "partition": "n % 64",
            "origin": "'schedule'", "origin_key": f"{TODAY} + n * 80", "shard_index": "0", "shard_total": "1",
            "root_id": "n", "chain_id": "n", "chain_depth": "0", "attempt": "0", "retries_left": "0",
            "state": "CASE WHEN n % 100 = 0 THEN 'failed' ELSE 'succeeded' END", "epoch": "1",
            "due_ms": f"{TODAY} + n * 80", "planned_ms": f"{TODAY} + n * 80", "created_ms": f"{TODAY} + n * 80",
            "reason": "''", "address": "'http://127.0.0.1:9999'", "instance": "'instance'",
            "dispatched_ms": f"{TODAY} + n * 80", "accepted_ms": f"{TODAY} + n * 80",
            "finished_ms": f"{TODAY} + n * 80 + 5", "kill_requested": self.false, "result_code": "200",
            "message": "'greeted world'", "skip_count": "0", "secret_id": "0",
        }  # fmt: skip
        names = [name for name in columns if name in given]
        quoted = ", ".join(f"`{name}`" if self.kind == "mariadb" else name for name in names)
        self.run(f"INSERT INTO {table} ({quoted}) SELECT {', '.join(given[name] for name in names)} "
                 f"FROM {self._series(rows)}")  # fmt: skip

    false = "0"


class PostgreSQL(Server):
    kind = "postgresql"
    false = "false"

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        self.cursor.execute(statement, values or None, prepare=bool(values))
        return self.cursor.fetchall() if self.cursor.description else []

    def among(self, column: str, ids: Sequence[int]) -> tuple[str, list[Any]]:
        return f"{column} = ANY(%s::bigint[])", [array_text(ids)]

    def values(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
        arrays = ", ".join(f"%s::{self._array(name)}[]" for name in columns)
        return f"unnest({arrays}) AS v ({', '.join(columns)})", [array_text(item) for item in zip(*rows, strict=True)]

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        source, values = self.values(columns, rows)
        self.run(f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM {source}", values)

    def move(self, shape: str, rows: Sequence[tuple[Any, ...]], now_ms: int) -> int:
        where, ids = self.among("id", [row[0] for row in rows])
        source, values = self.values(("id", "state", "message"), rows)
        gone = f"WITH o AS (DELETE FROM open_{shape} WHERE {where} RETURNING *)"
        self.run(f"{gone} {self._into_history(shape, now_ms)} FROM o JOIN {source} ON o.id = v.id", ids + values)
        return int(self.cursor.rowcount)

    def log_bytes(self) -> int:
        return int(self.run("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")[0][0])

    def _array(self, name: str) -> str:
        return str(run.c[name].type.compile(dialect=DIALECTS[self.kind]))

    def _options(self, shape: Shape) -> tuple[str, str]:
        tail = f" PARTITION BY RANGE ({shape.days})" if shape.days else ""
        return tail, " WITH (fillfactor = 50)" if shape.is_lean else ""

    def _partitions(self, table: str, shape: Shape) -> None:
        if shape.days:
            for number, (least, most) in enumerate(_ranges(shape)):
                bounds = f"FROM ({least}) TO ({most})"
                self.run(f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES {bounds}")

    def _series(self, rows: int) -> str:
        return f"generate_series(1::bigint, {rows}) AS s (n)"


class MariaDB(Server):
    kind = "mariadb"

    def run(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        return super().run(statement, values or None)  # type: ignore[arg-type]

    def among(self, column: str, ids: Sequence[int]) -> tuple[str, list[Any]]:
        return f"{column} IN ({','.join(map(str, ids))})", []

    def values(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
        parts = ", ".join(f"{name} {self._plain(name)} PATH '$[{place}]'" for place, name in enumerate(columns))
        return f"JSON_TABLE(%s, '$[*]' COLUMNS ({parts})) AS v", [json.dumps(rows)]

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        texts = ",".join(f"({','.join(map(_literal, row))})" for row in rows)
        names = ", ".join(f"`{name}`" for name in columns)
        self.run(f"INSERT INTO {table} ({names}) VALUES {texts}")

    def update(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]], only: str) -> int:
        source, values = self.values(("id", *columns), rows)
        sets = ", ".join(f"{table}.{name} = v.{name}" for name in columns)
        joined = f"{source} STRAIGHT_JOIN {table} ON {table}.id = v.id{only}"
        self.cursor.execute(f"UPDATE {joined} SET {sets}", values)
        return int(self.cursor.rowcount)

    def move(self, shape: str, rows: Sequence[tuple[Any, ...]], now_ms: int) -> int:
        source, values = self.values(("id", "state", "message"), rows)
        into = self._into_history(shape, now_ms).replace("partition", "`partition`").replace("o.`", "o.`")
        self.run(f"{into} FROM {source} STRAIGHT_JOIN open_{shape} o ON o.id = v.id", values)
        return self.delete(f"open_{shape}", [row[0] for row in rows])

    def log_bytes(self) -> int:
        return int(self.run("SHOW GLOBAL STATUS LIKE 'Innodb_os_log_written'")[0][1])

    def settle(self) -> None:
        # it purges deleted rows in the background
        left, last = self._unpurged(), -1
        while left != last:
            self.run("SELECT SLEEP(0.05)")
            left, last = self._unpurged(), left

    def _unpurged(self) -> int:
        return int(self.run("SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'")[0][1])

    def _plain(self, name: str) -> str:
        return str(run.c[name].type.compile(dialect=DIALECTS[self.kind]))

    def _options(self, shape: Shape) -> tuple[str, str]:
        if not shape.days:
            return "", ""
        parts = ", ".join(
            f"PARTITION p{number} VALUES LESS THAN ({most})" for number, (_, most) in enumerate(_ranges(shape))
        )
        return f" PARTITION BY RANGE ({shape.days}) ({parts})", ""

    def _series(self, rows: int) -> str:
        return f"(SELECT seq AS n FROM seq_1_to_{rows}) AS s"


class SQLite(Server):
    kind = "sqlite"

    def begin(self) -> None:
        self.run("BEGIN IMMEDIATE")

    def among(self, column: str, ids: Sequence[int]) -> tuple[str, list[Any]]:
        return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(ids)]

    def values(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> tuple[str, list[Any]]:
        parts = ", ".join(f"json_extract(value, '$[{place}]') AS {name}" for place, name in enumerate(columns))
        return f"(SELECT {parts} FROM json_each(?)) AS v", [json.dumps(rows)]

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        marks = ", ".join("?" * len(columns))
        self.cursor.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", rows)

    def log_bytes(self) -> int:
        with Path("/proc/self/io").open(encoding="ascii") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))

    def _series(self, rows: int) -> str:
        return f"(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s)"

    def type_of(self, name: str) -> str:
        text = super().type_of(name)
        return text.replace("BIGINT", "INTEGER")


def _ranges(shape: Shape) -> list[tuple[int, int]]:
    """Return the partitions' bounds; the first one of ids and the last one of days has all rows."""
    if shape.days == "id":
        return [(number * IDS_A_DAY, (number + 1) * IDS_A_DAY) for number in range(DAYS)]
    return [(TODAY + (number - DAYS + 1) * DAY_MS, TODAY + (number - DAYS + 2) * DAY_MS) for number in range(DAYS)]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(int(value))
    return str(value) if isinstance(value, int) else f"'{value}'"


def new_run(run_id: int) -> dict[str, Any]:
    """Return a planned run."""
    due_ms = TODAY + 80_000_000 + run_id % 6_000_000
    return {
        **dict.fromkeys(ALL),
        "id": run_id, "job_id": 1 + run_id % JOBS, "group_id": 1 + run_id % GROUPS, "partition": run_id % 64,
        "origin": "schedule", "origin_key": due_ms, "shard_index": 0, "shard_total": 1, "root_id": run_id,
        "chain_id": run_id, "chain_depth": 0, "attempt": 0, "retries_left": 0, "state": "planned",
        "open_partition": run_id % 64, "epoch": 1, "due_ms": due_ms, "planned_ms": due_ms, "created_ms": due_ms,
        "reason": "", "kill_requested": False, "message": "", "skip_count": 0,
    }  # fmt: skip


class Life:
    """The stages of runs in one shape, each one transaction."""

    def __init__(self, server: Server, name: str) -> None:
        self.server, self.name, self.shape = server, name, SHAPES[name]
        self.table = f"{'open' if self.shape.is_split else 'run'}_{name}"
        self.history = f"history_{name}" if self.shape.is_split else self.table

    def plan(self, ids: Sequence[int]) -> None:
        """Insert runs; refuse those that were there before, open or not."""
        rows = [new_run(item) for item in ids]
        shape, server = self.shape, self.server
        server.begin()
        if shape.is_early:
            self._insert(self.history, HISTORY, rows)
        if shape.identity == "key":
            self._insert(f"key_{self.name}", (*IDENTITY, "due_ms"), rows)
        self._insert(self.table, shape.open_columns, rows)
        if shape.is_split and not shape.is_early and shape.identity in {"unique", "job"}:
            assert not self._find_ended(rows), "planned again"
        server.commit()

    def load(self, ids: Sequence[int]) -> None:
        where, values = self.server.among("o.id", ids)
        joined = f" JOIN {self.history} h ON h.id = o.id" if self.shape.is_early else ""
        assert len(self.server.run(f"SELECT * FROM {self.table} o{joined} WHERE {where}", values)) == len(ids)

    def fence(self, ids: Sequence[int]) -> None:
        self.server.begin()
        self._lock(ids, "o.id, o.epoch, o.state")
        columns = ["address", "instance", "secret_id", "state", "dispatched_ms", "check_ms"]
        row: list[Any] = ["http://127.0.0.1:9999", "instance", 0, "dispatching", TODAY, TODAY + CHECK_MS]
        if not self.shape.is_split:
            columns, row = [*columns, "open_partition"], [*row, None]
        only = f" AND {self.table}.state = 'planned' AND {self.table}.epoch = 1" if self.shape.is_guarded else ""
        assert self.server.update(self.table, columns, [(item, *row) for item in ids], only) == len(ids)
        self.server.commit()

    def accept(self, ids: Sequence[int]) -> None:
        self.server.begin()
        self._lock(ids, "o.id, o.state")
        where, values = self.server.among("id", ids)
        sets = f"state = 'running', accepted_ms = {TODAY}, check_ms = {TODAY + 2 * CHECK_MS}"
        self.server.run(f"UPDATE {self.table} SET {sets} WHERE {where} AND state = 'dispatching'", values)
        self.server.commit()

    def finish(self, ids: Sequence[int]) -> None:
        """Write outcomes, as of runs whose rows were read and locked before."""
        server, shape = self.server, self.shape
        server.begin()
        if shape.is_early:
            where, values = server.among("o.id", ids)
            server.run(f"SELECT * FROM {self.table} o JOIN {self.history} h ON h.id = o.id WHERE {where}"
                       f" ORDER BY o.id{self._for_update}", values)  # fmt: skip
        else:
            # without a lock it is read all the same: what follows from an outcome depends on the run
            self._lock(ids, "*", even=True)
        if not shape.is_split:
            columns: tuple[str, ...] = (*OUTCOME, "open_partition", "check_ms")
            rows: list[tuple[Any, ...]] = [
                (item, "succeeded", "", 200, "greeted world", TODAY, None, None) for item in ids
            ]
            assert server.update(self.table, columns, rows, "") == len(ids)
        elif shape.is_early:
            columns = (*OUTCOME, *SENT)
            sent = ("http://127.0.0.1:9999", "instance", TODAY, TODAY, 1, 0)
            rows = [(item, "succeeded", "", 200, "greeted world", TODAY, *sent) for item in ids]
            assert server.update(self.history, columns, rows, "") == len(ids)
            server.delete(self.table, ids)
        else:
            assert server.move(self.name, [(item, "succeeded", "greeted world") for item in ids], TODAY) == len(ids)
        server.commit()

    @property
    def _for_update(self) -> str:
        return "" if self.server.kind == "sqlite" or self.shape.is_guarded else " FOR UPDATE"

    def _insert(self, table: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> None:
        self.server.insert(table, columns, [tuple(row[name] for name in columns) for row in rows])

    def _lock(self, ids: Sequence[int], columns: str, *, even: bool = False) -> None:
        if self.shape.is_guarded and not even:
            return
        where, values = self.server.among("o.id", ids)
        query = f"SELECT {columns} FROM {self.table} o WHERE {where} ORDER BY o.id{self._for_update}"
        assert len(self.server.run(query, values)) == len(ids)

    def _find_ended(self, rows: Sequence[dict[str, Any]]) -> list[Any]:
        """Return runs of the history that have one of these identities."""
        names = ("job_id", "due_ms") if self.shape.identity == "job" else IDENTITY
        keys = [tuple(row[name] for name in names) for row in rows]
        bound = ""
        if self.shape.days == "id":
            bound = f" AND h.id BETWEEN 0 AND {2 * IDS_A_DAY - 1}"
        elif self.shape.days:
            names = (*names, "due_ms")
            keys = [(*key, row["due_ms"]) for key, row in zip(keys, rows, strict=True)]
            bound = f" AND h.due_ms BETWEEN {TODAY - DAY_MS} AND {TODAY + DAY_MS - 1}"
        if self.server.kind == "mariadb":
            texts = ",".join(f"({','.join(map(_literal, key))})" for key in keys)
            columns = ", ".join(f"h.{name}" for name in names)
            return self.server.run(f"SELECT h.id FROM {self.history} h WHERE ({columns}) IN ({texts}){bound}")
        source, values = self.server.values(names, keys)
        if self.server.kind == "postgresql":
            # row by row: of a new day it has no statistics, and would read all of that day
            same = " AND ".join(f"h.{name} = v.{name}" for name in names)
            each = f"SELECT h.id FROM {self.history} h WHERE {same}{bound} LIMIT 1"
            return self.server.run(f"SELECT found.id FROM {source} CROSS JOIN LATERAL ({each}) AS found", values)
        on = " AND ".join(f"h.{name} = v.{name}" for name in names)
        cross = "CROSS JOIN" if self.server.kind == "sqlite" else "JOIN"
        tail = f"WHERE {on}{bound}" if self.server.kind == "sqlite" else f"ON {on}{bound}"
        return self.server.run(f"SELECT h.id FROM {source} {cross} {self.history} h {tail}", values)


def connect(kind: str, place: str) -> Server:
    """Open a connection to a server's database, or to a file."""
    if kind == "sqlite":
        file = sqlite3.connect(place, isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "temp_store=MEMORY", "cache_size=-32768"):
            file.execute(f"PRAGMA {pragma}")
        return SQLite(file)
    url = sa.make_url(place)
    given: dict[str, Any] = {"host": url.host, "port": url.port, "user": url.username, "password": url.password}
    if kind == "mariadb":
        server = MariaDB(
            pymysql.connect(
                **given, database=url.database, autocommit=True, client_flag=pymysql.constants.CLIENT.FOUND_ROWS
            )
        )
        server.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return server
    connection: psycopg.Connection[Any] = psycopg.connect(**given, dbname=url.database, autocommit=True)
    connection.prepared_max = 1000
    return PostgreSQL(connection)
