"""Secrets of executors: what groups have of their own, and which one an address and a run were proven with.

Nodes of the version before go on working: they neither read nor write the new columns, which are null then.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.mysql import BINARY

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

INDEX = "ix_executor_address"
COLUMNS = (("executor", "secret_id"), ("executor", "earlier_secret_id"), ("run", "secret_id"))


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    if not sa.inspect(op.get_bind()).has_table("executor_secret"):
        op.create_table(
            "executor_secret",
            sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
            sa.Column("name", sa.String(length=64), nullable=False),
            sa.Column("group_id", sa.BigInteger(), nullable=False),
            sa.Column(
                "digest",
                sa.LargeBinary(length=32).with_variant(BINARY(32), "mysql", "mariadb"),
                nullable=False,
            ),
            sa.Column("sealed", sa.Text(), nullable=False),
            sa.Column("created_ms", sa.BigInteger(), nullable=False),
            sa.Column("expires_ms", sa.BigInteger(), nullable=True),
            sa.PrimaryKeyConstraint("id"),
            sa.UniqueConstraint("name", name="uq_executor_secret_name"),
            sa.UniqueConstraint("digest", name="uq_executor_secret_digest"),
            sqlite_autoincrement=True,
        )
    for table, column in COLUMNS:
        _add(table, sa.Column(column, sa.BigInteger(), nullable=True))
    if not _has_index():
        op.create_index(INDEX, "executor", ["address"])


def downgrade() -> None:
    """Drop the columns and the table, and with them the secrets."""
    if _has_index():
        op.drop_index(INDEX, "executor")
    for table, column in reversed(COLUMNS):
        if _has(table, column):
            op.drop_column(table, column)
    if sa.inspect(op.get_bind()).has_table("executor_secret"):
        op.drop_table("executor_secret")


def _add(table: str, column: sa.Column[Any]) -> None:
    if not _has(table, column.name):
        op.add_column(table, column)


def _has(table: str, column: str) -> bool:
    return any(known["name"] == column for known in sa.inspect(op.get_bind()).get_columns(table))


def _has_index() -> bool:
    return any(known["name"] == INDEX for known in sa.inspect(op.get_bind()).get_indexes("executor"))
