"""Addresses of executors that people entered for a group, and which executors are there because of that.

Nodes of the version before go on working: they route to the rows of such executors, and check none.
"""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.tables import collated

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

TABLE = "entered_address"


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    if not sa.inspect(op.get_bind()).has_table(TABLE):
        words = collated(op.get_bind(), sa.String(length=255))
        op.create_table(
            TABLE,
            sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
            sa.Column("group_id", sa.BigInteger(), nullable=False),
            sa.Column("address", words, nullable=False),
            sa.Column("secret_id", sa.BigInteger(), nullable=False),
            sa.Column("error", words, nullable=False),
            sa.PrimaryKeyConstraint("id"),
            sa.UniqueConstraint("group_id", "address", name="uq_entered_address_group_address"),
            sqlite_autoincrement=True,
        )
    if not _has_column():
        op.add_column(
            "executor", sa.Column("by_hand", sa.Boolean(), nullable=False, server_default=sa.false())
        )


def downgrade() -> None:
    """Drop the column and the table, and with them what was entered."""
    if _has_column():
        op.drop_column("executor", "by_hand")
    if sa.inspect(op.get_bind()).has_table(TABLE):
        op.drop_table(TABLE)


def _has_column() -> bool:
    return any(known["name"] == "by_hand" for known in sa.inspect(op.get_bind()).get_columns("executor"))
