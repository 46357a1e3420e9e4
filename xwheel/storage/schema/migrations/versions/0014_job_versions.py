"""Versions of jobs: how each was after each change, who changed it, and why.

Nodes of the version before go on working: they neither read nor write them. What is changed under them is written with
the next change under this one.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    if not sa.inspect(op.get_bind()).has_table("job_version"):
        op.create_table(
            "job_version",
            sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
            sa.Column("job_id", sa.BigInteger(), nullable=False),
            sa.Column("revision", sa.BigInteger(), nullable=False),
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("actor_kind", sa.String(length=16), nullable=False),
            sa.Column("actor", sa.String(length=255), nullable=False),
            sa.Column("action", sa.String(length=16), nullable=False),
            sa.Column("reason", sa.String(length=500), nullable=False),
            sa.Column(
                "definition", sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), nullable=False
            ),
            sa.Column("glue_version", sa.Integer(), nullable=False),
            sa.PrimaryKeyConstraint("id"),
            sa.UniqueConstraint("job_id", "revision", name="uq_job_version"),
            sqlite_autoincrement=True,
        )


def downgrade() -> None:
    """Drop them."""
    if sa.inspect(op.get_bind()).has_table("job_version"):
        op.drop_table("job_version")
