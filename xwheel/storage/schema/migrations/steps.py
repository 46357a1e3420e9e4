"""Steps of migrations, each of which does nothing where it was done: MariaDB keeps what was done before a failure."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from xwheel.storage.schema.tables import collated

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
DIGEST = sa.LargeBinary(length=32).with_variant(mysql.BINARY(32), "mysql", "mariadb")
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")


def add_table(name: str, *parts: sa.schema.SchemaItem, **options: Any) -> None:
    """Add a table."""
    if not sa.inspect(op.get_bind()).has_table(name):
        op.create_table(name, *parts, **options)


def add_columns(table: str, *columns: sa.Column[Any]) -> None:
    """Add columns; texts of them compare by bytes."""
    known = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
    for column in columns:
        if column.name not in known:
            if isinstance(column.type, sa.String):
                column.type = collated(op.get_bind(), column.type)
            op.add_column(table, column)


def add_index(name: str, table: str, columns: list[str], where: sa.TextClause | None = None) -> None:
    """Add an index, of some rows alone where the database knows such."""
    if name not in {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(table)}:
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def run_columns() -> list[sa.Column[Any]]:
    """Return the columns that both tables of runs have had from the first release on."""
    return [
        sa.Column("id", ID, autoincrement=False, primary_key=True),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("origin", sa.String(length=16), nullable=False),
        sa.Column("origin_key", sa.BigInteger(), nullable=False),
        sa.Column("shard_index", sa.Integer(), nullable=False),
        sa.Column("shard_total", sa.Integer(), nullable=False),
        sa.Column("root_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_id", sa.BigInteger(), nullable=False),
        sa.Column("chain_depth", sa.SmallInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("retries_left", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=False),
        sa.Column("planned_ms", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("param", sa.Text(), nullable=True),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=True),
        sa.Column("instance", sa.String(length=64), nullable=True),
        sa.Column("dispatched_ms", sa.BigInteger(), nullable=True),
        sa.Column("accepted_ms", sa.BigInteger(), nullable=True),
        sa.Column("finished_ms", sa.BigInteger(), nullable=True),
        sa.Column("kill_requested", sa.Boolean(), nullable=False),
        sa.Column("result_code", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("skip_last_ms", sa.BigInteger(), nullable=True),
        sa.Column("skip_count", sa.Integer(), nullable=False),
    ]
