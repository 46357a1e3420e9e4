"""The store's tables: packages, the jobs in them, which job of xwheel each is, and what operators did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    column,
    insert,
    inspect,
    select,
    table,
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

PROJECT = Table(
    "job_package_project",
    metadata,
    Column("project", String(200), primary_key=True),
    # whether all groups have it, those too that are made later
    Column("everywhere", Boolean, nullable=False),
)

OWNER = Table(
    "job_package_owner",
    metadata,
    Column("project", String(200), primary_key=True),
    # an executor group's
    Column("group_id", BigInteger, primary_key=True, autoincrement=False),
    # the order in which they were named
    Column("place", Integer, nullable=False),
    Index("ix_job_package_owner_group", "group_id"),
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
        return [
            Migration("0001_store", _make_all),
            Migration("0002_signatures", _add_signature),
            Migration("0003_groups", _add_groups),
        ]

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return sorted(metadata.tables)


def _make_all(conn: Any) -> None:
    """Make what is not there; MariaDB keeps what was done before a failure."""
    metadata.create_all(conn)


def _add_signature(conn: Any) -> None:
    """Add the column to a store of before; a new one has it, and so has one whose migration is begun again."""
    if "signature" not in {column["name"] for column in inspect(conn).get_columns(PACKAGE.name)}:
        conn.execute(text("ALTER TABLE job_package_file ADD COLUMN signature VARCHAR(200) NOT NULL DEFAULT ''"))


# of xwheel's own tables, what says which groups use a package
_CORE_JOB: Final = table(
    "job", column("id"), column("group_id"), column("glue_type"), column("glue_version"), column("deleted_ms")
)
_CORE_SOURCE: Final = table("glue_version", column("job_id"), column("number"), column("source"))


def _add_groups(conn: Any) -> None:
    """Let each project that is there belong to the groups whose jobs use it; one without any to none."""
    metadata.create_all(conn, tables=[PROJECT, OWNER])
    projects = set(conn.scalars(select(PACKAGE.c.project).distinct()))
    projects -= set(conn.scalars(select(PROJECT.c.project)))
    conn.execute(OWNER.delete().where(OWNER.c.project.in_(sorted(projects))))
    owners = sorted({owner for owner in _users(conn) if owner[0] in projects})
    if projects:
        conn.execute(insert(PROJECT), [{"project": one, "everywhere": False} for one in sorted(projects)])
    if owners:
        rows = [{"project": one, "group_id": group, "place": 0} for one, group in owners]
        conn.execute(insert(OWNER), rows)


def _users(conn: Any) -> Iterator[tuple[str, int]]:
    """Give projects with groups that have a job of them: one that the store made, or one whose source names it."""
    known = {row.id: row for row in conn.execute(select(PACKAGE.c.id, PACKAGE.c.project, PACKAGE.c.sha256))}
    if not known:
        return
    is_there = _CORE_JOB.c.deleted_ms.is_(None)
    made = select(JOB.c.project, _CORE_JOB.c.group_id).join(_CORE_JOB, _CORE_JOB.c.id == JOB.c.job_id)
    for row in conn.execute(made.where(is_there)):
        yield row.project, row.group_id
    is_present = (_CORE_SOURCE.c.job_id == _CORE_JOB.c.id) & (_CORE_SOURCE.c.number == _CORE_JOB.c.glue_version)
    named = select(_CORE_JOB.c.group_id, _CORE_SOURCE.c.source).join(_CORE_SOURCE, is_present)
    for row in conn.execute(named.where(is_there, _CORE_JOB.c.glue_type == "PACKAGE")):
        try:
            source = json.loads(row.source)
            package = known.get(source["package_id"])
            is_right = package is not None and source["sha256"] == package.sha256
        except (ValueError, TypeError, KeyError, RecursionError):
            continue
        if package is not None and is_right:  # a wrong hash never ran
            yield package.project, row.group_id
