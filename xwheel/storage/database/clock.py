"""The database's own clock."""

from __future__ import annotations

from sqlalchemy import Connection, text

# statement time, not transaction time: several samples are taken over one connection
_QUESTIONS = {
    "sqlite": "SELECT CAST(ROUND((julianday('now') - 2440587.5) * 86400000) AS INTEGER)",
    "postgresql": "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
    "mysql": "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
}


def database_now_ms(conn: Connection) -> int:
    """Return the database's time in epoch milliseconds."""
    return int(conn.execute(text(_QUESTIONS[conn.dialect.name])).scalar_one())
