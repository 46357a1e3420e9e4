"""Names of jobs within a group: whether one is taken is asked before each create, edit and copy."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

INDEX = "ix_job_name"


def upgrade() -> None:
    """Add the index if it is not there: MariaDB keeps what was done before a failure."""
    if not _has():
        op.create_index(INDEX, "job", ["group_id", "name"])


def downgrade() -> None:
    """Drop the index."""
    if _has():
        op.drop_index(INDEX, "job")


def _has() -> bool:
    return any(known["name"] == INDEX for known in sa.inspect(op.get_bind()).get_indexes("job"))
