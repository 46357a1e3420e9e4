"""From 0.1.0 to the second release, whose numbers 0004 to 0016 were steps on the way that no release had.

Nodes of 0.1.0 go on working: they neither read nor write the new tables and columns. So executors that they write have
null where secrets, releases and declared jobs are noted; they check no entered address; they refuse runs of glue types
that no plugin of theirs has; and they open nothing with a token of an account, or with a role, an end or networks,
which they take for that of a group that is not there. What is changed under them becomes a version of the job with the
next change under this release.
"""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.migrations.steps import DIGEST, ID, LONG_TEXT, add_columns, add_index, add_table

revision = "0017"
down_revision = "0003"
branch_labels = None
depends_on = None

THRESHOLD = "misfire_threshold_ms"
BESIDE = "misfire_threshold_ms_then"
OLD_DEFAULT_MS = 5000


def upgrade() -> None:
    """Add tables, columns and indexes; let jobs have no misfire threshold of their own."""
    _free_threshold()
    add_columns("node", sa.Column("draining", sa.Boolean(), nullable=False, server_default=sa.false()))
    add_columns(
        "executor",
        sa.Column("secret_id", sa.BigInteger(), nullable=True),
        sa.Column("earlier_secret_id", sa.BigInteger(), nullable=True),
        sa.Column("by_hand", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("release", sa.String(length=64), nullable=True),
        sa.Column("declared", sa.String(length=64), nullable=True),
    )
    add_columns("run", sa.Column("secret_id", sa.BigInteger(), nullable=True))
    add_columns("executor_group", sa.Column("glue_types", sa.String(length=1024), nullable=True))
    add_columns("job", sa.Column("log_retention_days", sa.Integer(), server_default=sa.text("0"), nullable=False))
    add_columns(
        "api_token",
        sa.Column("grants", sa.Text(), nullable=True),
        sa.Column("account_id", sa.BigInteger(), nullable=True),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.Column("networks", sa.Text(), nullable=True),
        sa.Column("used_ms", sa.BigInteger(), nullable=True),
    )
    add_index("ix_executor_address", "executor", ["address"])
    add_index("ix_job_name", "job", ["group_id", "name"])
    add_index("ix_api_token_account", "api_token", ["account_id"])
    add_index("ix_run_chain", "run", ["chain_id", "due_ms"], sa.text("chain_id <> root_id"))
    _add_tables()


def _free_threshold() -> None:
    """Let the threshold be null, which means a setting, and make the old default null; it may be done again."""
    values = f"NULLIF({THRESHOLD}, {OLD_DEFAULT_MS})"
    if op.get_bind().dialect.name != "sqlite":
        op.alter_column("job", THRESHOLD, existing_type=sa.Integer(), existing_nullable=False, nullable=True)
        op.execute(f"UPDATE job SET {THRESHOLD} = {values} WHERE {THRESHOLD} = {OLD_DEFAULT_MS}")  # noqa: S608 - constants
        return
    # a new column in its place: SQLite alters none, and a new table would count ids again
    op.add_column("job", sa.Column(BESIDE, sa.Integer(), nullable=True))
    op.execute(f"UPDATE job SET {BESIDE} = {values}")  # noqa: S608 - constants
    op.execute(f"ALTER TABLE job DROP COLUMN {THRESHOLD}")
    op.execute(f"ALTER TABLE job RENAME COLUMN {BESIDE} TO {THRESHOLD}")


def _add_tables() -> None:
    add_table(
        "executor_secret",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("sealed", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("expires_ms", sa.BigInteger(), nullable=True),
        sa.UniqueConstraint("name", name="uq_executor_secret_name"),
        sa.UniqueConstraint("digest", name="uq_executor_secret_digest"),
        sqlite_autoincrement=True,
    )
    add_table(
        "entered_address",
        sa.Column("id", ID, primary_key=True),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("secret_id", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.String(length=255), nullable=False),
        sa.UniqueConstraint("group_id", "address", name="uq_entered_address_group_address"),
        sqlite_autoincrement=True,
    )
    add_table(
        "job_version",
        sa.Column("id", ID, primary_key=True),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("actor_kind", sa.String(length=16), nullable=False),
        sa.Column("actor", sa.String(length=255), nullable=False),
        sa.Column("action", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("definition", LONG_TEXT, nullable=False),
        sa.Column("glue_version", sa.Integer(), nullable=False),
        sa.UniqueConstraint("job_id", "revision", name="uq_job_version"),
        sqlite_autoincrement=True,
    )
    add_table(
        "plugin_migration",
        sa.Column("plugin", sa.String(length=64), primary_key=True),
        sa.Column("name", sa.String(length=64), primary_key=True),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("applied_ms", sa.BigInteger(), nullable=False),
    )
