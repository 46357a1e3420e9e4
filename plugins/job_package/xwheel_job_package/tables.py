"""The store's tables: packages, the jobs in them, which job of xwheel each is, and what operators did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)
from xwheel.plugin import Migration

NAME: Final = "job_package"

metadata = MetaData()
_AutoId = BigInteger().with_variant(Integer, "sqlite")

PACKAGE = Table(
    "job_package_file",
    metadata,
    Column("id", _AutoId, primary_key=True),
    Column("project", String(200), nullable=False),
    Column("version", String(200), nullable=False),
    Column("file", String(200), nullable=False),
    Column("sha256", String(64), nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("container", String(16), nullable=False),
    # incoming, stored, missing, deleting
    Column("state", String(16), nullable=False),
    Column("uploaded_ms", BigInteger, nullable=False),
    Column("uploaded_by", String(128), nullable=False),
    Column("report", Text, nullable=False),
    Column("signature", String(200), nullable=False, server_default=""),
    UniqueConstraint("project", "version", name="uq_job_package_file"),
    sqlite_autoincrement=True,
)

FOUND = Table(
    "job_package_found",
    metadata,
    Column("package_id", BigInteger, primary_key=True, autoincrement=False),
    Column("place", Integer, primary_key=True, autoincrement=False),
    Column("group_name", String(200), nullable=False),
    Column("name", String(200), nullable=False),
    Column("call", String(16), nullable=False),
    Column("cron", String(200), nullable=False),
    Column("misfire", String(32), nullable=False),
    Column("time_zone", String(64), nullable=False),
)

JOB = Table(
    "job_package_job",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("project", String(200), nullable=False),
    Column("group_name", String(200), nullable=False),
    Column("name", String(200), nullable=False),
    Column("package_id", BigInteger, nullable=False),
    Column("cron", String(200), nullable=False),
    Column("misfire", String(32), nullable=False),
    Column("time_zone", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("version", BigInteger, nullable=False),
    Index("ix_job_package_job_package", "package_id"),
    Index("ix_job_package_job_project", "project"),
)

OPERATION = Table(
    "job_package_operation",
    metadata,
    Column("id", _AutoId, primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("operation", String(16), nullable=False),
    Column("result", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("error", Text, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("before", Text, nullable=False),
    Column("after", Text, nullable=False),
    Column("begun_ms", BigInteger, nullable=False),
    Column("ended_ms", BigInteger),
    Index("ix_job_package_operation_job", "job_id", "id"),
    sqlite_autoincrement=True,
)


class PackageTables:
    """The tables, and the steps that lead to their present form."""

    name = NAME

    def migrations(self) -> Sequence[Migration]:
        """Return all migrations in their order."""
        return [Migration("0001_store", _make_all), Migration("0002_signatures", _add_signature)]

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return sorted(metadata.tables)


def _make_all(conn: Any) -> None:
    """Make what is not there; MariaDB keeps what was done before a failure."""
    metadata.create_all(conn)


def _add_signature(conn: Any) -> None:
    """Add the column to a store of before; a new one has it, and so has one whose migration is begun again."""
    if "signature" not in {column["name"] for column in inspect(conn).get_columns(PACKAGE.name)}:
        conn.execute(
            text("ALTER TABLE job_package_file ADD COLUMN signature VARCHAR(200) NOT NULL DEFAULT ''")
        )
