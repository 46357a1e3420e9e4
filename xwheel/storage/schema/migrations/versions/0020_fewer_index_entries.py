"""Fewer index entries: the run queue has planned runs alone.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.migrations.steps import add_index

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index again, where the database can leave rows out; find due jobs past those that moved on."""
    if op.get_bind().dialect.name == "mysql":
        return
    op.drop_index("ix_open_run_queue", table_name="open_run")
    add_index("ix_open_run_queue", "open_run", ["partition", "epoch", "due_ms"], sa.text("state = 'planned'"))
    if op.get_bind().dialect.name == "postgresql":
        op.execute("ALTER INDEX ix_job_due SET (deduplicate_items = off)")
