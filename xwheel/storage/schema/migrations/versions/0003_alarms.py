"""Alarms are the rows of a plugin, which takes over the tables that earlier versions made here."""

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Change nothing."""


def downgrade() -> None:
    """Change nothing: the tables are the plugin's."""
