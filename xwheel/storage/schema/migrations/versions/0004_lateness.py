"""Lateness: a job's misfire threshold may be null, which means the setting ``schedule.misfire_threshold_ms``."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

COLUMN = "misfire_threshold_ms"
BESIDE = "misfire_threshold_ms_then"
OLD_DEFAULT_MS = 5000


def upgrade() -> None:
    """Let the threshold be null, and make the old default null; MariaDB may do both again after a failure."""
    values = f"NULLIF({COLUMN}, {OLD_DEFAULT_MS})"
    if op.get_bind().dialect.name == "sqlite":
        _replace(sa.Column(BESIDE, sa.Integer(), nullable=True), values)
        return
    op.alter_column("job", COLUMN, existing_type=sa.Integer(), existing_nullable=False, nullable=True)
    op.execute(f"UPDATE job SET {COLUMN} = {values} WHERE {COLUMN} = {OLD_DEFAULT_MS}")  # noqa: S608 - constants


def downgrade() -> None:
    """Write the old default where there is null."""
    values = f"COALESCE({COLUMN}, {OLD_DEFAULT_MS})"
    if op.get_bind().dialect.name == "sqlite":
        _replace(sa.Column(BESIDE, sa.Integer(), nullable=False, server_default="0"), values)
        return
    op.execute(f"UPDATE job SET {COLUMN} = {values} WHERE {COLUMN} IS NULL")  # noqa: S608 - constants
    op.alter_column("job", COLUMN, existing_type=sa.Integer(), existing_nullable=True, nullable=False)


def _replace(column: "sa.Column[int]", values: str) -> None:
    """Put a new column in the place of the old one: SQLite alters none, and a new table would count ids again."""
    op.add_column("job", column)
    op.execute(f"UPDATE job SET {BESIDE} = {values}")  # noqa: S608 - constants
    op.execute(f"ALTER TABLE job DROP COLUMN {COLUMN}")
    op.execute(f"ALTER TABLE job RENAME COLUMN {BESIDE} TO {COLUMN}")
