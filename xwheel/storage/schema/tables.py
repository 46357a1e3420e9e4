"""The tables. Plain names, integer milliseconds, and no foreign key.

One to ``job`` or ``run`` would share-lock rows that a claim holds exclusively; consistency comes from the lock order
partition, job, run instead. Rows of alarms that outlive a job, a rule or a run are read without it.

Texts compare by bytes, with trailing blanks counting, on every server and whatever its defaults are: names that differ
only in case or blanks are different names, and a newer collation of the operating system breaks no index.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Index,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    literal_column,
    text,
)
from sqlalchemy.dialects.mysql import MEDIUMTEXT

MARIADB_COLLATION: Final = "utf8mb4_nopad_bin"
MYSQL_COLLATION: Final = "utf8mb4_0900_bin"

T = TypeVar("T", bound=String)

metadata = MetaData()

# how runs seldom end
RARE = text("state NOT IN ('planned', 'dispatching', 'running', 'succeeded')")

# runs of a chain that the fire that began it has not itself: children, and children of these
FOLLOWS = text("chain_id <> root_id")

# SQLite numbers only rows of an INTEGER PRIMARY KEY by itself
AutoId = BigInteger().with_variant(Integer, "sqlite")

setting = Table(
    "setting",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

executor_group = Table(
    "executor_group",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("app_name", String(64), nullable=False),
    Column("title", String(128), nullable=False),
    Column("max_running", Integer, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    # a JSON list of names; null for none
    Column("glue_types", String(1024)),
    UniqueConstraint("app_name", name="uq_executor_group_app_name"),
    sqlite_autoincrement=True,
)

executor = Table(
    "executor",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("group_id", BigInteger, nullable=False),
    Column("address", String(255), nullable=False),
    Column("registered_as", String(255), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("generation", SmallInteger, nullable=False),
    Column("instance", String(64), nullable=False),
    Column("boot", String(64), nullable=False),
    Column("seen_ms", BigInteger, nullable=False),
    # a JSON object; null for none
    Column("labels", Text),
    # what it registered with, see model.SHARED_SECRET; null if a node of an older version took the registration
    Column("secret_id", BigInteger),
    # another secret that was proven there before
    Column("earlier_secret_id", BigInteger),
    # a person entered the address, and it did not register itself
    Column("by_hand", Boolean, nullable=False, server_default=false()),
    # of the application whose code declares jobs there, and a digest of what it declares; null where it declares none
    Column("release", String(64)),
    Column("declared", String(64)),
    UniqueConstraint("group_id", "address", name="uq_executor_group_address"),
    Index("ix_executor_address", "address"),
    sqlite_autoincrement=True,
)

entered_address = Table(
    "entered_address",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("group_id", BigInteger, nullable=False),
    Column("address", String(255), nullable=False),
    # the group's secret that it is called with, or model.NO_SECRET
    Column("secret_id", BigInteger, nullable=False),
    # why no run goes there, empty while it answers
    Column("error", String(255), nullable=False),
    UniqueConstraint("group_id", "address", name="uq_entered_address_group_address"),
    sqlite_autoincrement=True,
)

job = Table(
    "job",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("group_id", BigInteger, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("name", String(128), nullable=False),
    Column("description", String(1024), nullable=False),
    Column("schedule_type", String(32), nullable=False),
    Column("schedule_conf", String(512), nullable=False),
    Column("timezone", String(64), nullable=False),
    Column("anchor_ms", BigInteger, nullable=False),
    Column("start_ms", BigInteger),
    Column("end_ms", BigInteger),
    Column("misfire_policy", String(16), nullable=False),
    Column("misfire_threshold_ms", Integer),
    Column("route_strategy", String(64), nullable=False),
    Column("block_strategy", String(64), nullable=False),
    Column("block_scope", String(16), nullable=False),
    Column("glue_type", String(64), nullable=False),
    Column("handler", String(255), nullable=False),
    Column("param", Text, nullable=False),
    Column("timeout_s", Integer, nullable=False),
    Column("max_retries", Integer, nullable=False),
    Column("retry_backoff", String(16), nullable=False),
    Column("retry_delay_ms", Integer, nullable=False),
    # a JSON list, like the calendars below
    Column("retry_delays_ms", String(512), nullable=False),
    Column("retry_max_delay_ms", Integer, nullable=False),
    Column("retry_jitter_pct", SmallInteger, nullable=False),
    Column("delivery", String(16), nullable=False),
    Column("recover_lost", Boolean, nullable=False),
    Column("join_mode", String(16), nullable=False),
    Column("retention_days", Integer, nullable=False),
    # 0 for the node's setting
    Column("log_retention_days", Integer, nullable=False, server_default=text("0")),
    Column("wait_for_executor_s", Integer, nullable=False),
    Column("jitter_ms", Integer, nullable=False),
    # names as a JSON list: read with the job and never searched for
    Column("calendar_exclude", String(1024), nullable=False),
    Column("calendar_require", String(1024), nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("next_fire_ms", BigInteger),
    Column("last_fire_ms", BigInteger),
    Column("awaits_root", BigInteger),
    Column("revision", BigInteger, nullable=False),
    Column("schedule_error", String(512), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
    Column("deleted_ms", BigInteger),
    # the current version of the source, 0 for none
    Column("glue_version", Integer, nullable=False, server_default=text("0")),
    Column("route_options", String(512), nullable=False, server_default=""),
    # due jobs, partition by partition; stopped jobs have no next fire and drop out of the range
    Index("ix_job_due", "partition", "next_fire_ms"),
    Index("ix_job_group", "group_id", "id"),
    Index("ix_job_name", "group_id", "name"),
    # tombstones, which wait for their last run to go
    Index("ix_job_deleted", "deleted_ms"),
    sqlite_autoincrement=True,
)

glue_version = Table(
    "glue_version",
    metadata,
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("glue_type", String(64), nullable=False),
    # TEXT of MySQL and MariaDB ends at 64 KiB
    Column("source", Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
    Column("author", String(64), nullable=False),
    Column("remark", String(255), nullable=False),
    Column("created_ms", BigInteger, nullable=False),
)

# how jobs were after each change; all but the definition stands in columns, so that a list reads no long text
job_version = Table(
    "job_version",
    metadata,
    Column("id", AutoId, primary_key=True),
    Column("job_id", BigInteger, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("actor_kind", String(16), nullable=False),
    Column("actor", String(255), nullable=False),
    Column("action", String(16), nullable=False),
    # the actor's words
    Column("reason", String(500), nullable=False),
    # a JSON object
    Column("definition", Text().with_variant(MEDIUMTEXT(), "mysql", "mariadb"), nullable=False),
    Column("glue_version", Integer, nullable=False),
    UniqueConstraint("job_id", "revision", name="uq_job_version"),
    sqlite_autoincrement=True,
)

job_child = Table(
    "job_child",
    metadata,
    Column("parent_id", BigInteger, primary_key=True, autoincrement=False),
    Column("child_id", BigInteger, primary_key=True, autoincrement=False),
    Column("param", Text),
    Index("ix_job_child_child", "child_id"),
)

# which parents of a joining child succeeded in which chain
child_arrival = Table(
    "child_arrival",
    metadata,
    Column("child_id", BigInteger, primary_key=True, autoincrement=False),
    Column("chain_id", BigInteger, primary_key=True, autoincrement=False),
    Column("parent_id", BigInteger, primary_key=True, autoincrement=False),
    Column("root_id", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Index("ix_child_arrival_created", "created_ms"),
)

run = Table(
    "run",
    metadata,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    Column("job_id", BigInteger, nullable=False),
    Column("group_id", BigInteger, nullable=False),
    Column("partition", SmallInteger, nullable=False),
    Column("origin", String(16), nullable=False),
    Column("origin_key", BigInteger, nullable=False),
    Column("shard_index", Integer, nullable=False),
    Column("shard_total", Integer, nullable=False),
    Column("root_id", BigInteger, nullable=False),
    Column("chain_id", BigInteger, nullable=False),
    Column("chain_depth", SmallInteger, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("retries_left", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("open_partition", SmallInteger),
    Column("epoch", BigInteger, nullable=False),
    Column("due_ms", BigInteger, nullable=False),
    Column("planned_ms", BigInteger, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("param", Text),
    Column("reason", String(64), nullable=False),
    Column("address", String(255)),
    Column("instance", String(64)),
    Column("dispatched_ms", BigInteger),
    Column("accepted_ms", BigInteger),
    Column("finished_ms", BigInteger),
    Column("check_ms", BigInteger),
    Column("kill_requested", Boolean, nullable=False),
    Column("result_code", Integer),
    Column("message", Text, nullable=False),
    Column("skip_last_ms", BigInteger),
    Column("skip_count", Integer, nullable=False),
    # what its executor had registered with when it was sent; null as in its table
    Column("secret_id", BigInteger),
    # a second plan of the same fire is refused here, whichever node makes it
    UniqueConstraint("job_id", "origin", "origin_key", "shard_index", name="uq_run_identity"),
    # the run queue: null once no longer planned; epoch 0 is "not adopted yet", so the poll reads only new rows
    Index("ix_run_queue", "open_partition", "epoch", "due_ms"),
    # open rows that are due for a question; also what is open in a job or group with a limit
    Index("ix_run_check", "check_ms", "group_id", "job_id"),
    Index("ix_run_job", "job_id", "due_ms"),
    Index("ix_run_group", "group_id", "due_ms"),
    # the common states are found quickly without it
    Index("ix_run_rare", "state", "due_ms", sqlite_where=RARE, postgresql_where=RARE),
    Index("ix_run_due", "due_ms"),
    # the runs of one fire: shards and retries
    Index("ix_run_root", "root_id"),
    # what followed from a fire; most runs are not in it where the database can leave rows out
    Index("ix_run_chain", "chain_id", "due_ms", sqlite_where=FOLLOWS, postgresql_where=FOLLOWS),
)

# every run at an executor has a time of its next check; a literal, since PostgreSQL's generic plans read the whole
# table for a parameter
IS_SENT = run.c.check_ms > literal_column("0")

calendar = Table(
    "calendar",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("definition", Text, nullable=False),
    Column("updated_ms", BigInteger, nullable=False),
)

run_id_block = Table(
    "run_id_block",
    metadata,
    Column("name", String(16), primary_key=True),
    Column("next_id", BigInteger, nullable=False),
)

node = Table(
    "node",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("started_ms", BigInteger, nullable=False),
    # rises with each renewal; one that stands still for a whole term is dead, whatever the clocks say
    Column("renewal", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    # it hands its partitions over and gets no more
    Column("draining", Boolean, nullable=False, server_default=false()),
)

partition_lease = Table(
    "partition_lease",
    metadata,
    Column("partition", SmallInteger, primary_key=True, autoincrement=False),
    Column("owner", String(64)),
    Column("epoch", BigInteger, nullable=False),
)

# which steps of plugins' own tables this database has
plugin_migration = Table(
    "plugin_migration",
    metadata,
    Column("plugin", String(64), primary_key=True),
    Column("name", String(64), primary_key=True),
    Column("position", Integer, nullable=False),
    Column("applied_ms", BigInteger, nullable=False),
)


def server_collation(conn: Connection) -> str:
    """Return the collation of our tables on a MariaDB or MySQL server."""
    return MARIADB_COLLATION if getattr(conn.dialect, "is_mariadb", False) else MYSQL_COLLATION


def set_collation(table: Table, conn: Connection, **_: Any) -> None:
    """Spell storage engine and collation out for a table that is about to be made."""
    for column in table.columns:
        if isinstance(column.type, String):
            column.type = collated(conn, column.type)
    if conn.dialect.name == "mysql":
        table.dialect_kwargs.update(
            mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate=server_collation(conn)
        )


def collated(conn: Connection, kind: T) -> T:
    """Return a type of text for a column that is added to a table that is there; elsewhere the table's rule holds."""
    if conn.dialect.name == "postgresql":
        kind = kind.copy()
        kind.collation = "C"
    return kind
