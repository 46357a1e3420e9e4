"""Which nodes are on their way out: others take over from them and hand nothing to them."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column if it is not there: MariaDB keeps what was done before a failure."""
    if not _has():
        op.add_column("node", sa.Column("draining", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Drop the column."""
    if _has():
        op.drop_column("node", "draining")


def _has() -> bool:
    return any(known["name"] == "draining" for known in sa.inspect(op.get_bind()).get_columns("node"))
