"""The table of the logs that are in log stores; the lines themselves are there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, SmallInteger, String, Table, inspect
from xwheel.plugin import Migration

NAME: Final = "run_log"
"""Of the table, and of the plugin, which therefore may have it."""

metadata: Final = MetaData()

run_log: Final = Table(
    NAME,
    metadata,
    # the run's
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    # the name of the store
    Column("store", String(64), nullable=False),
    # whether all of it is in the store
    Column("ended", Boolean, nullable=False),
    # when its executor is asked for more of it; null if the executor ships it, and once all is there
    Column("fetch_ms", BigInteger),
    # when it may be deleted
    Column("delete_ms", BigInteger, nullable=False),
    Index("ix_run_log_fetch", "fetch_ms"),
    Index("ix_run_log_delete", "delete_ms"),
    Index("ix_run_log_job", "job_id", "created_ms"),
)


class RunLogTables:
    """The table and its migrations."""

    name = NAME

    def migrations(self) -> Sequence[Migration]:
        """Return what makes it, or takes over the one that xwheel itself had."""
        return [Migration("0001", _make)]

    def tables(self) -> Sequence[str]:
        """Return its name."""
        return [NAME]


def _make(conn: Any) -> None:
    """Make what is not there: MariaDB keeps what was done before a failure."""
    metadata.create_all(conn)
    known = {index["name"] for index in inspect(conn).get_indexes(NAME)}
    for index in run_log.indexes:
        if index.name not in known:
            index.create(conn)
