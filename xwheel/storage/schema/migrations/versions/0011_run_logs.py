"""Logs of runs in log stores, and how long jobs keep theirs.

Nodes of the version before go on working: they neither read nor write these, and what runs under them has no log in a
store.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMN = "log_retention_days"


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    if not sa.inspect(op.get_bind()).has_table("run_log"):
        op.create_table(
            "run_log",
            sa.Column(
                "id",
                sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
                autoincrement=False,
                nullable=False,
            ),
            sa.Column("job_id", sa.BigInteger(), nullable=False),
            sa.Column("partition", sa.SmallInteger(), nullable=False),
            sa.Column("created_ms", sa.BigInteger(), nullable=False),
            sa.Column("store", sa.String(length=64), nullable=False),
            sa.Column("ended", sa.Boolean(), nullable=False),
            sa.Column("fetch_ms", sa.BigInteger(), nullable=True),
            sa.Column("delete_ms", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("id"),
        )
    known = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("run_log")}
    for name, columns in INDEXES.items():
        if name not in known:
            op.create_index(name, "run_log", columns)
    if not _has_column():
        op.add_column("job", sa.Column(COLUMN, sa.Integer(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    """Drop them; the logs themselves stay where they are."""
    if _has_column():
        op.drop_column("job", COLUMN)
    if sa.inspect(op.get_bind()).has_table("run_log"):
        op.drop_table("run_log")


def _has_column() -> bool:
    return any(known["name"] == COLUMN for known in sa.inspect(op.get_bind()).get_columns("job"))


INDEXES = {
    "ix_run_log_fetch": ["fetch_ms"],
    "ix_run_log_delete": ["delete_ms"],
    "ix_run_log_job": ["job_id", "created_ms"],
}
