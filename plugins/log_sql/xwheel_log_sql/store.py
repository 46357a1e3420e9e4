"""The log store: statements on the rows of :mod:`xwheel_log_sql.pieces`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, and_, delete, func, select, tuple_
from xwheel_run_logs import LogChunk, LogEnd, LogKey

from xwheel_log_sql import tables
from xwheel_log_sql.connections import Connections, LogSqlError
from xwheel_log_sql.options import Options
from xwheel_log_sql.pieces import LEAST_PIECE, Log, Piece, behind, extend, pack, unpack, whole_lines

if TYPE_CHECKING:
    from xwheel import Config

__all__ = ["LogSqlError", "SqlLogs"]

T = TypeVar("T")

MAX_SPANS: Final = 4096


class SqlLogs:
    """Keeps logs in two tables; see :class:`~xwheel_run_logs.LogStore`.

    An append locks the rows of its logs, so what several nodes append at once comes one after the other: no gap and no
    line twice. All that is asked of the database in one call is one transaction of a few statements.

    Args:
        options: The plugin's options.
        config: The node's settings, with its own database: logs are kept there if the options name no other.
    """

    name = "sql"

    def __init__(self, options: Options, config: Config) -> None:
        self._connections = Connections(options, config)
        self._guard = threading.Lock()
        self._has_tables = False

    def check(self) -> None:
        """Refuse a database whose driver is not there."""
        self._connections.check()

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        """Append lines; one transaction whatever the number of chunks and logs."""
        if not chunks:
            return []
        groups: dict[LogKey, list[int]] = {}
        for number, chunk in enumerate(chunks):
            groups.setdefault(chunk.key, []).append(number)
        # always in the order of the key: two nodes that lock the same logs wait for one another, and not in a circle
        keys = sorted(groups, key=lambda key: (key.run_id, key.created_ms))
        answers = [0] * len(chunks)

        def work(conn: Connection) -> None:
            known = _read_logs(conn, keys)
            made: list[dict[str, Any]] = []
            changed: list[dict[str, Any]] = []
            pieces: list[dict[str, Any]] = []
            for key in keys:
                before = known.get(key)
                log, new, found = extend(before or Log(), [chunks[number] for number in groups[key]])
                for number, answer in zip(groups[key], found, strict=True):
                    answers[number] = answer
                if log != (before or Log()):
                    (changed if before else made).append(_log_row(key, log))
                    pieces += [_piece_row(key, piece) for piece in new]
            if made:
                conn.execute(tables.INSERT_LOG, made)
            if changed:
                conn.execute(tables.update_logs(conn.dialect.name), changed)
            if pieces:
                conn.execute(tables.INSERT_PIECE, pieces)

        self._run(work, write=True)
        return answers

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        """Return lines from one on."""

        def work(conn: Connection) -> bytes:
            log = _read_log(conn, key)
            if log is None or from_line >= log.next_line:
                return b""
            text, line = _read_pieces(conn, key, from_line, max_bytes) if from_line < log.tail_line else (b"", 0)
            if not line:
                return log.tail[behind(log.tail, from_line - log.tail_line) :]
            # what became a piece since the row was read is in the tail no more
            return text + log.tail if line == log.tail_line else text

        return whole_lines(self._run(work, write=False), max_bytes)

    def find(self, key: LogKey) -> LogEnd | None:
        """Return how far the log goes."""
        logs = tables.logs.c
        query = select(logs.next_line, logs.is_complete).where(_is(tables.logs, key))
        row = self._run(lambda conn: conn.execute(query).first(), write=False)
        return None if row is None else LogEnd(int(row.next_line), bool(row.is_complete))

    def delete(self, keys: Sequence[LogKey]) -> None:
        """Delete logs, in two statements."""
        if not keys:
            return

        def work(conn: Connection) -> None:
            for table in tables.TABLES:
                conn.execute(delete(table).where(_among(table, keys)))

        self._run(work, write=True)

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        self._connections.close()

    def _run(self, work: Callable[[Connection], T], *, write: bool) -> T:
        if not self._has_tables:
            self._create_tables()
        try:
            return self._connections.run(work, write=write)
        except LogSqlError:
            self._has_tables = False  # somebody may have taken them away: the next call looks
            raise

    def _create_tables(self) -> None:
        with self._guard:
            if not self._has_tables:
                tables.create(partial(self._connections.run, write=False), self._create)
                self._has_tables = True

    def _create(self, work: Callable[[Connection], T]) -> T:
        try:
            return self._connections.run(work, write=True)
        except LogSqlError as error:
            raise LogSqlError(f"{error}: let this user make the tables of logs, or make them for it") from None


def _read_logs(conn: Connection, keys: Sequence[LogKey]) -> dict[LogKey, Log]:
    """Return logs by key, locked until the end of the transaction."""
    logs = tables.logs
    order = (logs.c.run_id, logs.c.created_ms)
    rows = conn.execute(select(logs).where(_among(logs, keys)).order_by(*order).with_for_update())
    return {LogKey(row.run_id, row.created_ms): _log(row) for row in rows}


def _read_log(conn: Connection, key: LogKey) -> Log | None:
    row = conn.execute(select(tables.logs).where(_is(tables.logs, key))).first()
    return None if row is None else _log(row)


def _read_pieces(conn: Connection, key: LogKey, from_line: int, max_bytes: int) -> tuple[bytes, int]:
    """Return lines of pieces from one on, about as many bytes, and the line behind them; 0 if there is none."""
    pieces = tables.pieces.c
    ours = _is(tables.pieces, key)
    first = select(func.max(pieces.first_line)).where(ours, pieces.first_line <= from_line).scalar_subquery()
    limit = min(MAX_SPANS, max_bytes // LEAST_PIECE + 2)
    spans = conn.execute(
        select(pieces.first_line, pieces.size)
        .where(ours, pieces.first_line >= first)
        .order_by(pieces.first_line)
        .limit(limit)
    ).all()
    if not spans:
        return b"", 0
    # of the first one, perhaps only the last line is wanted
    last, size = spans[0].first_line, 0
    for span in spans[1:]:
        if size >= max_bytes:
            break
        last, size = span.first_line, size + span.size
    rows = conn.execute(
        select(pieces.first_line, pieces.body)
        .where(ours, pieces.first_line.between(spans[0].first_line, last))
        .order_by(pieces.first_line)
    ).all()
    texts = [unpack(bytes(row.body)) for row in rows]
    if not texts:  # deleted meanwhile
        return b"", 0
    line = rows[-1].first_line + texts[-1].count(b"\n")
    texts[0] = texts[0][behind(texts[0], from_line - rows[0].first_line) :]
    return b"".join(texts), line


def _log(row: Any) -> Log:
    return Log(row.next_line, bool(row.is_complete), row.tail_line, unpack(bytes(row.tail)))


def _log_row(key: LogKey, log: Log) -> dict[str, Any]:
    return {
        "run_id": key.run_id,
        "created_ms": key.created_ms,
        "next_line": log.next_line,
        "is_complete": log.is_complete,
        "tail_line": log.tail_line,
        "tail": pack(log.tail),
    }


def _piece_row(key: LogKey, piece: Piece) -> dict[str, Any]:
    return {
        "run_id": key.run_id,
        "created_ms": key.created_ms,
        "first_line": piece.first_line,
        "size": len(piece.text),
        "body": pack(piece.text),
    }


def _is(table: Any, key: LogKey) -> ColumnElement[bool]:
    return and_(table.c.run_id == key.run_id, table.c.created_ms == key.created_ms)


def _among(table: Any, keys: Iterable[LogKey]) -> ColumnElement[bool]:
    """Return the condition for rows of these logs; the first half of it is what every database looks up by index."""
    pairs = [(key.run_id, key.created_ms) for key in keys]
    return and_(
        table.c.run_id.in_([run_id for run_id, _ in pairs]), tuple_(table.c.run_id, table.c.created_ms).in_(pairs)
    )
