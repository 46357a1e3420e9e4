"""Open runs have a table of their own; the table of all runs becomes the history of those that ended.

Revision ID: 0018
Revises: 0017
"""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.migrations.steps import add_index, add_table, run_columns

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

# planned runs were in the queue, and those at an executor had a time of their next check
OPEN = "open_partition >= 0 OR check_ms > 0"


def upgrade() -> None:
    """Make the table of open runs and move them there; then call the other one what it is."""
    _add_table()
    if sa.inspect(op.get_bind()).has_table("run"):
        _move()
        op.rename_table("run", "run_history")
    columns = {column["name"] for column in sa.inspect(op.get_bind()).get_columns("run_history")}
    for name in ("open_partition", "check_ms"):
        if name in columns:
            op.execute(f"ALTER TABLE run_history DROP COLUMN {name}")


def _move() -> None:
    """Move what is open, found by its indexes, and then drop these."""
    names = [column["name"] for column in sa.inspect(op.get_bind()).get_columns("open_run")]
    quote = op.get_bind().dialect.identifier_preparer.quote
    columns = ", ".join(quote(name) for name in names)
    op.execute(f"INSERT INTO open_run ({columns}) SELECT {columns} FROM run WHERE {OPEN}")  # noqa: S608 - our names
    op.execute(f"DELETE FROM run WHERE {OPEN}")  # noqa: S608 - a constant
    found = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes("run")}
    for name in ("ix_run_queue", "ix_run_check"):
        if name in found:
            op.drop_index(name, table_name="run")


def _add_table() -> None:
    add_table(
        "open_run",
        *run_columns(),
        sa.Column("secret_id", sa.BigInteger(), nullable=True),
        sa.Column("check_ms", sa.BigInteger(), nullable=True),
        sa.UniqueConstraint("job_id", "origin", "origin_key", "shard_index", name="uq_open_run_identity"),
        postgresql_with={"fillfactor": 50},
    )
    sent, not_first, follows = map(sa.text, ("check_ms > 0", "root_id <> id", "chain_id <> root_id"))
    add_index("ix_open_run_queue", "open_run", ["partition", "epoch", "due_ms"])
    add_index("ix_open_run_check", "open_run", ["check_ms", "group_id", "job_id"], sent)
    add_index("ix_open_run_root", "open_run", ["root_id"], not_first)
    add_index("ix_open_run_chain", "open_run", ["chain_id"], follows)
