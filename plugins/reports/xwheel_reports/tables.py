"""The table of the hourly report: what became of a job's runs that were due in an hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Index, Integer, MetaData, Table, inspect
from xwheel.plugin import Migration

metadata: Final = MetaData()

hourly_report: Final = Table(
    "hourly_report",
    metadata,
    Column("hour_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("group_id", BigInteger, nullable=False),
    Column("open_runs", Integer, nullable=False),
    Column("succeeded", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("timed_out", Integer, nullable=False),
    Column("killed", Integer, nullable=False),
    Column("lost", Integer, nullable=False),
    Column("refused", Integer, nullable=False),
    Column("cancelled", Integer, nullable=False),
    # due times, not rows: one skip row covers many
    Column("skipped", Integer, nullable=False),
    # from begun to finished, over runs that ended
    Column("duration_sum_ms", BigInteger, nullable=False),
    Column("duration_max_ms", BigInteger, nullable=False),
    # from due to accepted
    Column("lateness_max_ms", BigInteger, nullable=False),
    Index("ix_hourly_report_job", "job_id", "hour_ms"),
)


class ReportTables:
    """The table and its migrations; its rows outlast the jobs that they count."""

    name = "reports"

    def migrations(self) -> Sequence[Migration]:
        """Return what makes it, or takes over the one that xwheel itself had."""
        return [Migration("0001", _make)]

    def tables(self) -> Sequence[str]:
        """Return its name."""
        return [hourly_report.name]


def _make(conn: Any) -> None:
    """Make what is not there: MariaDB keeps what was done before a failure."""
    metadata.create_all(conn)
    known = {index["name"] for index in inspect(conn).get_indexes(hourly_report.name)}
    for index in hourly_report.indexes:
        if index.name not in known:
            index.create(conn)
