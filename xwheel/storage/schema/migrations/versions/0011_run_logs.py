"""How long jobs keep their logs; which logs are in log stores are the rows of a plugin.

Nodes of the version before go on working: they neither read nor write it.
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
    if not _has_column():
        op.add_column("job", sa.Column(COLUMN, sa.Integer(), server_default=sa.text("0"), nullable=False))


def downgrade() -> None:
    """Drop it."""
    if _has_column():
        op.drop_column("job", COLUMN)


def _has_column() -> bool:
    return any(known["name"] == COLUMN for known in sa.inspect(op.get_bind()).get_columns("job"))
