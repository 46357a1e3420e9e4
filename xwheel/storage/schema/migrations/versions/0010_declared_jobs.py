"""Releases of executors, and what they declare; jobs declared in code are the rows of a plugin.

Nodes of the version before go on working: they neither read nor write the new columns.
"""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.tables import collated

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

COLUMNS = ("release", "declared")


def upgrade() -> None:
    """Add what is not there: MariaDB keeps what was done before a failure."""
    for name in COLUMNS:
        if not _has_column(name):
            kind = collated(op.get_bind(), sa.String(length=64))
            op.add_column("executor", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Drop the columns."""
    for name in reversed(COLUMNS):
        if _has_column(name):
            op.drop_column("executor", name)


def _has_column(name: str) -> bool:
    return any(known["name"] == name for known in sa.inspect(op.get_bind()).get_columns("executor"))
