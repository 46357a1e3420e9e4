"""The tables, which were xwheel's own once: a database of then has them, with what is in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Boolean, Column, Index, MetaData, String, Table
from xwheel.plugin import Migration

metadata = MetaData()

# the release of an application whose declarations the jobs of its group follow
declaration_owner = Table(
    "declaration_owner",
    metadata,
    Column("group_id", BigInteger, primary_key=True, autoincrement=False),
    # empty until the first sync is complete
    Column("release", String(64), nullable=False),
    Column("digest", String(64), nullable=False),
    # when one of its executors last said so; null after a sync that no executor made
    Column("seen_ms", BigInteger),
    Column("synced_ms", BigInteger),
)

# what code says of a job, as long as the job is there
declared_job = Table(
    "declared_job",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("group_id", BigInteger, nullable=False),
    # module and function
    Column("place", String(255), nullable=False),
    # JSON lists of names: fields that code owns, and fields that people released from it
    Column("fields", String(1024), nullable=False),
    Column("released", String(1024), nullable=False),
    Column("is_released", Boolean, nullable=False),
    # code does not declare it any more; whether it fired until then, and so does again when it comes back
    Column("is_retired", Boolean, nullable=False),
    Column("was_started", Boolean, nullable=False),
    # why what code says of it now cannot be done, or empty
    Column("problem", String(512), nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Index("ix_declared_job_group", "group_id", "job_id"),
)


class DeclarationTables:
    """The tables of jobs that code declares."""

    name = "jobs_as_code"
    of_jobs: Mapping[str, str] = {"declared_job": "job_id"}
    of_groups: Mapping[str, str] = {"declaration_owner": "group_id"}

    def migrations(self) -> Sequence[Migration]:
        """Return all migrations."""
        return [Migration("0001", _make)]

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return sorted(metadata.tables)


def _make(conn: Any) -> None:
    """Make what is not there; what is there is as it is needed."""
    for table in metadata.sorted_tables:
        table.create(conn, checkfirst=True)
        for index in table.indexes:  # MariaDB keeps a table without its index after a failure between the two
            index.create(conn, checkfirst=True)
