"""What routers go by: the labels of executors, and options of a job's router."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.tables import collated

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns that are not there: MariaDB keeps what was done before a failure."""
    text, words = collated(op.get_bind(), sa.Text()), collated(op.get_bind(), sa.String(length=512))
    _add("executor", sa.Column("labels", text, nullable=True))
    _add("job", sa.Column("route_options", words, nullable=False, server_default=""))


def downgrade() -> None:
    """Drop the columns, and with them what they hold."""
    for table, column in (("job", "route_options"), ("executor", "labels")):
        if _has(table, column):
            op.drop_column(table, column)


def _add(table: str, column: sa.Column[Any]) -> None:
    if not _has(table, column.name):
        op.add_column(table, column)


def _has(table: str, column: str) -> bool:
    return any(known["name"] == column for known in sa.inspect(op.get_bind()).get_columns(table))
