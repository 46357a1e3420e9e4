"""An index of the runs that followed from a fire.

Nodes of the version before go on working: an index changes no row.
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

INDEX = "ix_run_chain"


def upgrade() -> None:
    """Add the index if it is not there."""
    if INDEX not in _indexes():
        follows = sa.text("chain_id <> root_id")
        op.create_index(INDEX, "run", ["chain_id", "due_ms"], sqlite_where=follows, postgresql_where=follows)


def downgrade() -> None:
    """Drop it."""
    if INDEX in _indexes():
        op.drop_index(INDEX, "run")


def _indexes() -> set[str | None]:
    return {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("run")}
