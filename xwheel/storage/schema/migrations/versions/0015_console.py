"""Settings of accounts and links that sign in are the rows of a plugin, which takes over the tables made here."""

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""


def downgrade() -> None:
    """Change nothing: the tables are the plugin's."""
