"""When the handler of a run began, as its executor told.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa

from xwheel.storage.schema.migrations.steps import add_columns

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column to what is open and to the history; older rows say nothing."""
    for table in ("open_run", "run_history"):
        add_columns(table, sa.Column("started_ms", sa.BigInteger(), nullable=True))
