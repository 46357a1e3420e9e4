"""Alarms: rules, what happened, what was sent lately, and attempts to send it."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = ("alarm_rule", "alarm", "alarm_episode", "alarm_attempt")


def upgrade() -> None:
    """Create what is not there: MariaDB keeps what was done before a failure."""
    _create(
        "alarm_rule",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("kinds", sa.String(length=255), nullable=False),
        sa.Column("when", sa.String(length=16), nullable=False),
        sa.Column("targets", sa.Text(), nullable=False),
        sa.Column("window_s", sa.Integer(), nullable=False),
        sa.Column("recovery", sa.Boolean(), nullable=False),
        sa.Column("quiet_from", sa.String(length=5), nullable=False),
        sa.Column("quiet_to", sa.String(length=5), nullable=False),
        sa.Column("quiet_timezone", sa.String(length=64), nullable=False),
        sa.Column("quiet_pass", sa.String(length=255), nullable=False),
        sa.Column("not_run_s", sa.Integer(), nullable=False),
        sa.Column("still_running_s", sa.Integer(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        indexes={"ix_alarm_rule_group": ["group_id", "id"], "ix_alarm_rule_job": ["job_id", "id"]},
    )
    _create(
        "alarm",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=True),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("run_id", sa.BigInteger(), nullable=True),
        sa.Column("root_id", sa.BigInteger(), nullable=True),
        sa.Column("shard_index", sa.Integer(), nullable=False),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("last_ms", sa.BigInteger(), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("reason", sa.String(length=512), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("notice_id", sa.BigInteger(), nullable=True),
        sa.Column("note", sa.String(length=255), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        indexes={
            "ix_alarm_due": ["partition", "due_ms"],
            "ix_alarm_group": ["group_id", "id"],
            "ix_alarm_job": ["job_id", "id"],
            "ix_alarm_notice": ["notice_id"],
            "ix_alarm_run": ["run_id"],
        },
    )
    _create(
        "alarm_episode",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("rule_id", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("is_open", sa.Boolean(), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("held_id", sa.BigInteger(), nullable=True),
        sa.Column("root_id", sa.BigInteger(), nullable=True),
        sa.Column("shard_index", sa.Integer(), nullable=False),
        sa.Column("touched_ms", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "rule_id", "kind", name="uq_alarm_episode_key"),
        indexes={"ix_alarm_episode_touched": ["touched_ms"]},
    )
    _create(
        "alarm_attempt",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("alarm_id", sa.BigInteger(), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=True),
        sa.Column("group_id", sa.BigInteger(), nullable=True),
        sa.Column("partition", sa.SmallInteger(), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("open_channel", sa.String(length=64), nullable=True),
        sa.Column("receivers", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("due_ms", sa.BigInteger(), nullable=True),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("took_ms", sa.BigInteger(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        indexes={
            "ix_alarm_attempt_alarm": ["alarm_id", "id"],
            "ix_alarm_attempt_due": ["partition", "open_channel", "due_ms"],
            "ix_alarm_attempt_group": ["group_id", "id"],
            "ix_alarm_attempt_job": ["job_id", "id"],
        },
    )


def downgrade() -> None:
    """Drop the tables, and with them all rules and alarms."""
    there = sa.inspect(op.get_bind()).get_table_names()
    for name in reversed(TABLES):
        if name in there:
            op.drop_table(name)


def _create(name: str, *parts: Any, indexes: Mapping[str, list[str]]) -> None:
    if name not in sa.inspect(op.get_bind()).get_table_names():
        op.create_table(name, *parts, sqlite_autoincrement=True)
    known = {index["name"] for index in sa.inspect(op.get_bind()).get_indexes(name)}
    for index, columns in indexes.items():
        if index not in known:
            op.create_index(index, name, columns)
