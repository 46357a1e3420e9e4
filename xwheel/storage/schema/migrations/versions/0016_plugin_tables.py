"""Which migrations of plugins' own tables a database has.

Nodes of the version before go on working: they neither read nor write it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table if it is not there."""
    if "plugin_migration" not in sa.inspect(op.get_bind()).get_table_names():
        op.create_table(
            "plugin_migration",
            sa.Column("plugin", sa.String(length=64), nullable=False),
            sa.Column("name", sa.String(length=64), nullable=False),
            sa.Column("position", sa.Integer(), nullable=False),
            sa.Column("applied_ms", sa.BigInteger(), nullable=False),
            sa.PrimaryKeyConstraint("plugin", "name"),
        )


def downgrade() -> None:
    """Drop it; tables of plugins stay."""
    if "plugin_migration" in sa.inspect(op.get_bind()).get_table_names():
        op.drop_table("plugin_migration")
