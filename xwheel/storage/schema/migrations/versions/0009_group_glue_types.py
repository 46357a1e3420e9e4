"""Glue types that a group's executors run though no plugin here has them.

Nodes of the version before go on working: they write null, and refuse the runs of such jobs.
"""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.tables import collated

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COLUMN = "glue_types"


def upgrade() -> None:
    """Add the column, unless it is there: MariaDB keeps what was done before a failure."""
    if not _has_column():
        kind = collated(op.get_bind(), sa.String(length=1024))
        op.add_column("executor_group", sa.Column(COLUMN, kind, nullable=True))


def downgrade() -> None:
    """Drop the column, and with it what groups list."""
    if _has_column():
        op.drop_column("executor_group", COLUMN)


def _has_column() -> bool:
    return any(known["name"] == COLUMN for known in sa.inspect(op.get_bind()).get_columns("executor_group"))
