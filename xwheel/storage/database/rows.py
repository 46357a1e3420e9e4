"""Small questions that many modules ask alike: one row or an error, a new row's id, rows in parts, the time."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

from sqlalchemy import CompoundSelect, Connection, Insert, Row, Select, Table, insert, text

from xwheel.errors import NotFoundError

T = TypeVar("T")

# SQLite's default limit of bound parameters is 32,766; other databases take as many or more
IN_LIMIT: Final = 10_000

IS_MEMBER: Final = "is_member"
"""Among what is known of a connection: whether its server is a member of a Galera cluster."""
MEMBER_OF: Final = "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'"
NAMES: Final = 256  # of locks of one kind
_HOLD: Final = "INSERT INTO setting (name, value) VALUES (:name, :value) ON DUPLICATE KEY UPDATE value = VALUES(value)"


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Give the items in slices of at most ``size``."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def in_parts(
    conn: Connection, items: Sequence[T], size: int, query: Callable[[Sequence[T]], Select[Any]]
) -> Iterator[Any]:
    """Yield the rows of a query that is asked for at most ``size`` items at a time."""
    for part in chunks(items, size):
        yield from conn.execute(query(part))


def groups_among(groups: Collection[int] | None, group_id: int | None) -> list[int] | None:
    """Return the groups whose rows are wanted, in order; None for all.

    ``groups`` are those whose rows may be seen, None for all; ``group_id`` is the one asked for, None for any.
    """
    if group_id is not None:
        return [group_id] if groups is None or group_id in groups else []
    return None if groups is None else sorted(groups)


def one_row(
    conn: Connection, query: Select[Any] | CompoundSelect[Any], kind: str, key: object, *, lock: bool = False
) -> Row[Any]:
    """Return the one row of a query; ``lock`` holds it until the transaction ends, as :func:`hold` does.

    Raises NotFoundError if there is none; its message names the kind (``job``) and the key.
    """
    row = conn.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise NotFoundError(kind, key)
    if lock:
        hold(conn, kind, [key])
    return row


def hold(conn: Connection, kind: str, keys: Collection[object]) -> None:
    """Let a transaction that locked rows and may not write them exclude others that did, on whichever server.

    A lock binds the member of a Galera cluster that gave it. Of two transactions that write the same row on different
    members only one is committed, so each also writes a row of the lock's name; some keys share one, so that there are
    not more and more. Elsewhere nothing is written.
    """
    if keys and conn.info.get(IS_MEMBER):
        numbers = sorted({key % NAMES if isinstance(key, int) else 0 for key in keys})
        rows = [{"name": f"lock of {kind} {number}", "value": secrets.token_hex(8)} for number in numbers]
        conn.execute(text(_HOLD), rows)


@cache  # to build a statement costs as much as to execute it
def _insert(table: Table) -> Insert:
    return insert(table)


def insert_row(conn: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row and return the id that the database gave it."""
    key = conn.execute(_insert(table), values).inserted_primary_key
    assert key is not None  # noqa: S101 - a single insert always has one
    return int(key[0])


# statement time, not transaction time: several samples are taken over one connection
_TIMES: Final = {
    "sqlite": "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "mysql": "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
}

# what names a server: for each kind of database one question, whose last column says it
SERVERS: Final = {
    # all members have what one has committed
    IS_MEMBER: MEMBER_OF,
    "mysql": "SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id)",
    # not its address: one server may have several
    "postgresql": "SELECT EXTRACT(EPOCH FROM pg_postmaster_start_time())",
}


def database_now_ms(conn: Connection) -> int:
    """Return the database's time in epoch milliseconds."""
    return int(conn.execute(text(_TIMES[conn.dialect.name])).scalar_one())


def server_of(conn: Connection) -> str:
    """Return which server this is: another one after a failover, and on PostgreSQL after a new start; empty for a file.

    All members of a Galera cluster are one. For what a failover may have lost: PostgreSQL's timeline would say it, but
    not every managed one tells it.
    """
    name = IS_MEMBER if conn.info.get(IS_MEMBER) else conn.dialect.name
    return str(conn.execute(text(SERVERS[name])).one()[-1]) if name in SERVERS else ""
