"""The tables of 0.1.0: groups, executors, jobs, runs, leases; those of alarms are the rows of a plugin."""

import sqlalchemy as sa
from alembic import op

from xwheel.storage.schema.migrations.steps import DIGEST, ID, LONG_TEXT, run_columns

revision = "0003"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "api_token",
        sa.Column("id", ID, primary_key=True),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("digest", name="uq_api_token_digest"),
        sa.UniqueConstraint("name", name="uq_api_token_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "calendar",
        sa.Column("name", sa.String(length=64), primary_key=True),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "executor",
        sa.Column("id", ID, primary_key=True),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("address", sa.String(length=255), nullable=False),
        sa.Column("registered_as", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("generation", sa.SmallInteger(), nullable=False),
        sa.Column("instance", sa.String(length=64), nullable=False),
        sa.Column("boot", sa.String(length=64), nullable=False),
        sa.Column("seen_ms", sa.BigInteger(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=True),
        sa.UniqueConstraint("group_id", "address", name="uq_executor_group_address"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "executor_group",
        sa.Column("id", ID, primary_key=True),
        sa.Column("app_name", sa.String(length=64), nullable=False),
        sa.Column("title", sa.String(length=128), nullable=False),
        sa.Column("max_running", sa.Integer(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.UniqueConstraint("app_name", name="uq_executor_group_app_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "job",
        sa.Column("id", ID, primary_key=True),
        sa.Column("group_id", sa.BigInteger(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("description", sa.String(length=1024), nullable=False),
        sa.Column("schedule_type", sa.String(length=32), nullable=False),
        sa.Column("schedule_conf", sa.String(length=512), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("anchor_ms", sa.BigInteger(), nullable=False),
        sa.Column("start_ms", sa.BigInteger(), nullable=True),
        sa.Column("end_ms", sa.BigInteger(), nullable=True),
        sa.Column("misfire_policy", sa.String(length=16), nullable=False),
        sa.Column("misfire_threshold_ms", sa.Integer(), nullable=False),
        sa.Column("route_strategy", sa.String(length=64), nullable=False),
        sa.Column("block_strategy", sa.String(length=64), nullable=False),
        sa.Column("block_scope", sa.String(length=16), nullable=False),
        sa.Column("glue_type", sa.String(length=64), nullable=False),
        sa.Column("handler", sa.String(length=255), nullable=False),
        sa.Column("param", sa.Text(), nullable=False),
        sa.Column("timeout_s", sa.Integer(), nullable=False),
        sa.Column("max_retries", sa.Integer(), nullable=False),
        sa.Column("retry_backoff", sa.String(length=16), nullable=False),
        sa.Column("retry_delay_ms", sa.Integer(), nullable=False),
        sa.Column("retry_delays_ms", sa.String(length=512), nullable=False),
        sa.Column("retry_max_delay_ms", sa.Integer(), nullable=False),
        sa.Column("retry_jitter_pct", sa.SmallInteger(), nullable=False),
        sa.Column("delivery", sa.String(length=16), nullable=False),
        sa.Column("recover_lost", sa.Boolean(), nullable=False),
        sa.Column("join_mode", sa.String(length=16), nullable=False),
        sa.Column("retention_days", sa.Integer(), nullable=False),
        sa.Column("wait_for_executor_s", sa.Integer(), nullable=False),
        sa.Column("jitter_ms", sa.Integer(), nullable=False),
        sa.Column("calendar_exclude", sa.String(length=1024), nullable=False),
        sa.Column("calendar_require", sa.String(length=1024), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_fire_ms", sa.BigInteger(), nullable=True),
        sa.Column("last_fire_ms", sa.BigInteger(), nullable=True),
        sa.Column("awaits_root", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("schedule_error", sa.String(length=512), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("deleted_ms", sa.BigInteger(), nullable=True),
        sa.Column("glue_version", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("route_options", sa.String(length=512), server_default="", nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_job_due", "job", ["partition", "next_fire_ms"], unique=False)
    op.create_index("ix_job_group", "job", ["group_id", "id"], unique=False)
    op.create_index("ix_job_deleted", "job", ["deleted_ms"], unique=False)
    _create_children_and_sources()
    op.create_table(
        "node",
        sa.Column("id", sa.String(length=64), primary_key=True),
        sa.Column("started_ms", sa.BigInteger(), nullable=False),
        sa.Column("renewal", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
    )
    partitions = op.create_table(
        "partition_lease",
        sa.Column("partition", sa.SmallInteger(), autoincrement=False, primary_key=True),
        sa.Column("owner", sa.String(length=64), nullable=True),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
    )
    op.create_table(
        "run",
        *run_columns(),
        sa.Column("open_partition", sa.SmallInteger(), nullable=True),
        sa.Column("check_ms", sa.BigInteger(), nullable=True),
        sa.UniqueConstraint("job_id", "origin", "origin_key", "shard_index", name="uq_run_identity"),
    )
    op.create_index("ix_run_check", "run", ["check_ms", "group_id", "job_id"], unique=False)
    op.create_index("ix_run_due", "run", ["due_ms"], unique=False)
    op.create_index("ix_run_job", "run", ["job_id", "due_ms"], unique=False)
    op.create_index("ix_run_group", "run", ["group_id", "due_ms"], unique=False)
    rare = sa.text("state NOT IN ('planned', 'dispatching', 'running', 'succeeded')")
    op.create_index("ix_run_rare", "run", ["state", "due_ms"], unique=False, sqlite_where=rare, postgresql_where=rare)
    op.create_index("ix_run_root", "run", ["root_id"], unique=False)
    op.create_index("ix_run_queue", "run", ["open_partition", "epoch", "due_ms"], unique=False)
    block = op.create_table(
        "run_id_block",
        sa.Column("name", sa.String(length=16), primary_key=True),
        sa.Column("next_id", sa.BigInteger(), nullable=False),
    )
    settings = op.create_table(
        "setting",
        sa.Column("name", sa.String(length=64), primary_key=True),
        sa.Column("value", sa.Text(), nullable=False),
    )
    _seed(partitions, block, settings)


def _create_children_and_sources() -> None:
    op.create_table(
        "job_child",
        sa.Column("parent_id", sa.BigInteger(), autoincrement=False, primary_key=True),
        sa.Column("child_id", sa.BigInteger(), autoincrement=False, primary_key=True),
        sa.Column("param", sa.Text(), nullable=True),
    )
    op.create_index("ix_job_child_child", "job_child", ["child_id"], unique=False)
    op.create_table(
        "child_arrival",
        sa.Column("child_id", sa.BigInteger(), autoincrement=False, primary_key=True),
        sa.Column("chain_id", sa.BigInteger(), autoincrement=False, primary_key=True),
        sa.Column("parent_id", sa.BigInteger(), autoincrement=False, primary_key=True),
        sa.Column("root_id", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
    )
    op.create_index("ix_child_arrival_created", "child_arrival", ["created_ms"], unique=False)
    op.create_table(
        "glue_version",
        sa.Column("job_id", sa.BigInteger(), autoincrement=False, primary_key=True),
        sa.Column("number", sa.Integer(), autoincrement=False, primary_key=True),
        sa.Column("glue_type", sa.String(length=64), nullable=False),
        sa.Column("source", LONG_TEXT, nullable=False),
        sa.Column("author", sa.String(length=64), nullable=False),
        sa.Column("remark", sa.String(length=255), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
    )


def _seed(partitions: sa.Table, block: sa.Table, settings: sa.Table) -> None:
    """Write the rows whose absence a node takes for a broken database."""
    op.bulk_insert(partitions, [{"partition": number, "epoch": 0} for number in range(64)])
    op.bulk_insert(block, [{"name": "run", "next_id": 1}])
    op.bulk_insert(settings, [{"name": "chains", "value": ""}])
