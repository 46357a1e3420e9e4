"""Jobs declared in code: whose declarations a group follows, what code owns of which job, and releases of executors.

Nodes of the version before go on working: they neither read nor write the new columns and tables.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.tables import collated

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COLUMNS = ("release", "declared")
INDEX = "ix_declared_job_group"


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    for name in COLUMNS:
        if not _has_column(name):
            kind = collated(op.get_bind(), sa.String(length=64))
            op.add_column("executor", sa.Column(name, kind, nullable=True))
    if not _has_table("declaration_owner"):
        op.create_table(
            "declaration_owner",
            sa.Column("group_id", sa.BigInteger(), autoincrement=False, nullable=False),
            sa.Column("release", sa.String(length=64), nullable=False),
            sa.Column("digest", sa.String(length=64), nullable=False),
            sa.Column("seen_ms", sa.BigInteger(), nullable=True),
            sa.Column("synced_ms", sa.BigInteger(), nullable=True),
            sa.PrimaryKeyConstraint("group_id"),
        )
    if not _has_table("declared_job"):
        op.create_table("declared_job", *_columns())
    if not _has_index():
        op.create_index(INDEX, "declared_job", ["group_id", "job_id"])


def downgrade() -> None:
    """Drop the tables and columns: the jobs stay, and code owns nothing of them."""
    for table in ("declared_job", "declaration_owner"):
        if _has_table(table):
            op.drop_table(table)
    for name in reversed(COLUMNS):
        if _has_column(name):
            op.drop_column("executor", name)


def _columns() -> list[Any]:
    return [
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.String(length=255), nullable=False),
        sa.Column("fields", sa.String(length=1024), nullable=False),
        sa.Column("released", sa.String(length=1024), nullable=False),
        sa.Column("is_released", sa.Boolean(), nullable=False),
        sa.Column("is_retired", sa.Boolean(), nullable=False),
        sa.Column("was_started", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.String(length=512), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id"),
    ]


def _has_table(name: str) -> bool:
    return sa.inspect(op.get_bind()).has_table(name)


def _has_column(name: str) -> bool:
    return any(known["name"] == name for known in sa.inspect(op.get_bind()).get_columns("executor"))


def _has_index() -> bool:
    return any(known["name"] == INDEX for known in sa.inspect(op.get_bind()).get_indexes("declared_job"))
