"""The tables: rules, what happened, what was sent lately, and attempts to send it.

Rows of alarms outlive a job, a rule or a run, and are read without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
)
from xwheel.plugin import Migration

metadata: Final = MetaData()
_AutoId = BigInteger().with_variant(Integer, "sqlite")

alarm_rule = Table(
    "alarm_rule",
    metadata,
    Column("id", _AutoId, primary_key=True),
    Column("name", String(128), nullable=False),
    # one of them at most; neither means all jobs
    Column("job_id", BigInteger),
    Column("group_id", BigInteger),
    # JSON lists, read with the rule and never searched for
    Column("kinds", String(255), nullable=False),
    Column("when", String(16), nullable=False),
    Column("targets", Text, nullable=False),
    Column("window_s", Integer, nullable=False),
    Column("recovery", Boolean, nullable=False),
    Column("quiet_from", String(5), nullable=False),
    Column("quiet_to", String(5), nullable=False),
    Column("quiet_timezone", String(64), nullable=False),
    Column("quiet_pass", String(255), nullable=False),
    Column("not_run_s", Integer, nullable=False),
    Column("still_running_s", Integer, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Index("ix_alarm_rule_job", "job_id", "id"),
    Index("ix_alarm_rule_group", "group_id", "id"),
    sqlite_autoincrement=True,
)

alarm = Table(
    "alarm",
    metadata,
    Column("id", _AutoId, primary_key=True),
    Column("rule_id", BigInteger),
    Column("job_id", BigInteger),
    Column("group_id", BigInteger),
    Column("run_id", BigInteger),
    Column("root_id", BigInteger),
    Column("shard_index", Integer, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False),
    Column("due_ms", BigInteger),
    Column("count", Integer, nullable=False),
    Column("reason", String(512), nullable=False),
    Column("message", Text, nullable=False),
    Column("notice_id", BigInteger),
    Column("note", String(255), nullable=False),
    # when it is to be grouped and sent; null once it was sent, merged or dropped
    Index("ix_alarm_due", "partition", "due_ms"),
    Index("ix_alarm_job", "job_id", "id"),
    Index("ix_alarm_group", "group_id", "id"),
    Index("ix_alarm_run", "run_id"),
    Index("ix_alarm_notice", "notice_id"),
    sqlite_autoincrement=True,
)

# what was sent lately by a rule for a job: its window, what waits for the end of it, and whether the job is well again
alarm_episode = Table(
    "alarm_episode",
    metadata,
    Column("id", _AutoId, primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("rule_id", BigInteger, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("is_open", Boolean, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("held_id", BigInteger),
    Column("root_id", BigInteger),
    Column("shard_index", Integer, nullable=False),
    Column("touched_ms", BigInteger, nullable=False),
    UniqueConstraint("job_id", "rule_id", "kind", name="uq_alarm_episode_key"),
    Index("ix_alarm_episode_touched", "touched_ms"),
    sqlite_autoincrement=True,
)

alarm_attempt = Table(
    "alarm_attempt",
    metadata,
    Column("id", _AutoId, primary_key=True),
    Column("alarm_id", BigInteger, nullable=False),
    Column("job_id", BigInteger),
    Column("group_id", BigInteger),
    Column("partition", SmallInteger, nullable=False),
    Column("channel", String(64), nullable=False),
    # null once it ended
    Column("open_channel", String(64)),
    Column("receivers", Text, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("due_ms", BigInteger),
    Column("started_ms", BigInteger),
    Column("took_ms", BigInteger),
    Column("answer", Text, nullable=False),
    # channel by channel, so that what waits for one hides nothing of another
    Index("ix_alarm_attempt_due", "partition", "open_channel", "due_ms"),
    Index("ix_alarm_attempt_alarm", "alarm_id", "id"),
    Index("ix_alarm_attempt_job", "job_id", "id"),
    Index("ix_alarm_attempt_group", "group_id", "id"),
    sqlite_autoincrement=True,
)


def _make(conn: Any) -> None:
    """Make what is not there; xwheel 0.1.0 made the tables itself, and they stay with all that is in them."""
    metadata.create_all(conn)


class AlarmTables:
    """The tables, how they are made, and that rules go with their group."""

    name = "alarm"
    # a deleted job has its rules until its last run is gone: see sweep
    of_jobs: Mapping[str, str] = {}
    of_groups: Mapping[str, str] = {"alarm_rule": "group_id"}

    def migrations(self) -> Sequence[Migration]:
        """Return all migrations in their order."""
        return [Migration("0001_tables", _make)]

    def tables(self) -> Sequence[str]:
        """Return the names of the tables."""
        return sorted(metadata.tables)
