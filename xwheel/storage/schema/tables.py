"""The tables. Plain names, integer milliseconds, and no foreign key.

One to ``job`` or ``run`` would share-lock rows that a claim holds exclusively; consistency comes from the lock order
partition, job, run instead. Rows of alarms that outlive a job, a rule or a run are read without it.

Texts compare by bytes, with trailing blanks counting, on every server and whatever its defaults are: names that differ
only in case or blanks are different names, and a newer collation of the operating system breaks no index.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import sqlalchemy as sa

MARIADB_COLLATION: Final = "utf8mb4_nopad_bin"
MYSQL_COLLATION: Final = "utf8mb4_0900_bin"

WHERE: Final = "where"
"""Which rows an index has, in its ``info``: SQLAlchemy's own words would load the modules of all databases."""

T = TypeVar("T", bound=sa.String)

metadata = sa.MetaData()


class MediumText(sa.Text):
    """A text of up to 16 MB; the dialect's own would load MySQL's modules on all databases."""

    __visit_name__ = "MEDIUMTEXT"


# how runs seldom end
RARE = sa.text("state NOT IN ('planned', 'dispatching', 'running', 'succeeded')")

# the runs of a fire that came after its first one
NOT_FIRST = sa.text("root_id <> id")

SENT = sa.text("check_ms > 0")

QUEUED = sa.text("state = 'planned'")

# runs of a chain that the fire that began it has not itself: children, and children of these
FOLLOWS = sa.text("chain_id <> root_id")

# SQLite numbers only rows of an INTEGER PRIMARY KEY by itself
AutoId = sa.BigInteger().with_variant(sa.Integer, "sqlite")

setting = sa.Table(
    "setting", metadata, sa.Column("name", sa.String(64), primary_key=True), sa.Column("value", sa.Text, nullable=False)
)

executor_group = sa.Table(
    "executor_group",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("app_name", sa.String(64), nullable=False),
    sa.Column("title", sa.String(128), nullable=False),
    sa.Column("max_running", sa.Integer, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
    # a JSON list of names; null for none
    sa.Column("glue_types", sa.String(1024)),
    sa.UniqueConstraint("app_name", name="uq_executor_group_app_name"),
    sqlite_autoincrement=True,
)

executor = sa.Table(
    "executor",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("group_id", sa.BigInteger, nullable=False),
    sa.Column("address", sa.String(255), nullable=False),
    sa.Column("registered_as", sa.String(255), nullable=False),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("generation", sa.SmallInteger, nullable=False),
    sa.Column("instance", sa.String(64), nullable=False),
    sa.Column("boot", sa.String(64), nullable=False),
    sa.Column("seen_ms", sa.BigInteger, nullable=False),
    # a JSON object; null for none
    sa.Column("labels", sa.Text),
    # what it registered with, see model.SHARED_SECRET; null if a node of an older version took the registration
    sa.Column("secret_id", sa.BigInteger),
    # another secret that was proven there before
    sa.Column("earlier_secret_id", sa.BigInteger),
    # a person entered the address, and it did not register itself
    sa.Column("by_hand", sa.Boolean, nullable=False, server_default=sa.false()),
    # of the application whose code declares jobs there, and a digest of what it declares; null where it declares none
    sa.Column("release", sa.String(64)),
    sa.Column("declared", sa.String(64)),
    sa.UniqueConstraint("group_id", "address", name="uq_executor_group_address"),
    sa.Index("ix_executor_address", "address"),
    sqlite_autoincrement=True,
)

entered_address = sa.Table(
    "entered_address",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("group_id", sa.BigInteger, nullable=False),
    sa.Column("address", sa.String(255), nullable=False),
    # the group's secret that it is called with, or model.NO_SECRET
    sa.Column("secret_id", sa.BigInteger, nullable=False),
    # why no run goes there, empty while it answers
    sa.Column("error", sa.String(255), nullable=False),
    sa.UniqueConstraint("group_id", "address", name="uq_entered_address_group_address"),
    sqlite_autoincrement=True,
)

job = sa.Table(
    "job",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("group_id", sa.BigInteger, nullable=False),
    sa.Column("partition", sa.SmallInteger, nullable=False),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("description", sa.String(1024), nullable=False),
    sa.Column("schedule_type", sa.String(32), nullable=False),
    sa.Column("schedule_conf", sa.String(512), nullable=False),
    sa.Column("timezone", sa.String(64), nullable=False),
    sa.Column("anchor_ms", sa.BigInteger, nullable=False),
    sa.Column("start_ms", sa.BigInteger),
    sa.Column("end_ms", sa.BigInteger),
    sa.Column("misfire_policy", sa.String(16), nullable=False),
    sa.Column("misfire_threshold_ms", sa.Integer),
    sa.Column("route_strategy", sa.String(64), nullable=False),
    sa.Column("block_strategy", sa.String(64), nullable=False),
    sa.Column("block_scope", sa.String(16), nullable=False),
    sa.Column("glue_type", sa.String(64), nullable=False),
    sa.Column("handler", sa.String(255), nullable=False),
    sa.Column("param", sa.Text, nullable=False),
    sa.Column("timeout_s", sa.Integer, nullable=False),
    sa.Column("max_retries", sa.Integer, nullable=False),
    sa.Column("retry_backoff", sa.String(16), nullable=False),
    sa.Column("retry_delay_ms", sa.Integer, nullable=False),
    # a JSON list, like the calendars below
    sa.Column("retry_delays_ms", sa.String(512), nullable=False),
    sa.Column("retry_max_delay_ms", sa.Integer, nullable=False),
    sa.Column("retry_jitter_pct", sa.SmallInteger, nullable=False),
    sa.Column("delivery", sa.String(16), nullable=False),
    sa.Column("recover_lost", sa.Boolean, nullable=False),
    sa.Column("join_mode", sa.String(16), nullable=False),
    sa.Column("retention_days", sa.Integer, nullable=False),
    # 0 for the node's setting
    sa.Column("log_retention_days", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("wait_for_executor_s", sa.Integer, nullable=False),
    sa.Column("jitter_ms", sa.Integer, nullable=False),
    # names as a JSON list: read with the job and never searched for
    sa.Column("calendar_exclude", sa.String(1024), nullable=False),
    sa.Column("calendar_require", sa.String(1024), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("next_fire_ms", sa.BigInteger),
    sa.Column("last_fire_ms", sa.BigInteger),
    sa.Column("awaits_root", sa.BigInteger),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("schedule_error", sa.String(512), nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
    sa.Column("deleted_ms", sa.BigInteger),
    # the current version of the source, 0 for none
    sa.Column("glue_version", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("route_options", sa.String(512), nullable=False, server_default=""),
    # due jobs, partition by partition; stopped jobs have no next fire and drop out of the range
    # many have the same time; on PostgreSQL no entries share a tuple, which would be read until the last has moved
    sa.Index("ix_job_due", "partition", "next_fire_ms"),
    sa.Index("ix_job_group", "group_id", "id"),
    sa.Index("ix_job_name", "group_id", "name"),
    # tombstones, which wait for their last run to go
    sa.Index("ix_job_deleted", "deleted_ms"),
    sqlite_autoincrement=True,
)

glue_version = sa.Table(
    "glue_version",
    metadata,
    sa.Column("job_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("glue_type", sa.String(64), nullable=False),
    # TEXT of MySQL and MariaDB ends at 64 KiB
    sa.Column("source", sa.Text().with_variant(MediumText(), "mysql", "mariadb"), nullable=False),
    sa.Column("author", sa.String(64), nullable=False),
    sa.Column("remark", sa.String(255), nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
)

# how jobs were after each change; all but the definition stands in columns, so that a list reads no long text
job_version = sa.Table(
    "job_version",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("job_id", sa.BigInteger, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("actor_kind", sa.String(16), nullable=False),
    sa.Column("actor", sa.String(255), nullable=False),
    sa.Column("action", sa.String(16), nullable=False),
    # the actor's words
    sa.Column("reason", sa.String(500), nullable=False),
    # a JSON object
    sa.Column("definition", sa.Text().with_variant(MediumText(), "mysql", "mariadb"), nullable=False),
    sa.Column("glue_version", sa.Integer, nullable=False),
    sa.UniqueConstraint("job_id", "revision", name="uq_job_version"),
    sqlite_autoincrement=True,
)

job_child = sa.Table(
    "job_child",
    metadata,
    sa.Column("parent_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("child_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("param", sa.Text),
    sa.Index("ix_job_child_child", "child_id"),
)

# which parents of a joining child succeeded in which chain
child_arrival = sa.Table(
    "child_arrival",
    metadata,
    sa.Column("child_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("chain_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("parent_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("root_id", sa.BigInteger, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Index("ix_child_arrival_created", "created_ms"),
)


def _run_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", AutoId, primary_key=True, autoincrement=False),
        sa.Column("job_id", sa.BigInteger, nullable=False),
        sa.Column("group_id", sa.BigInteger, nullable=False),
        sa.Column("partition", sa.SmallInteger, nullable=False),
        sa.Column("origin", sa.String(16), nullable=False),
        sa.Column("origin_key", sa.BigInteger, nullable=False),
        sa.Column("shard_index", sa.Integer, nullable=False),
        sa.Column("shard_total", sa.Integer, nullable=False),
        sa.Column("root_id", sa.BigInteger, nullable=False),
        sa.Column("chain_id", sa.BigInteger, nullable=False),
        sa.Column("chain_depth", sa.SmallInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("retries_left", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("planned_ms", sa.BigInteger, nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
        sa.Column("param", sa.Text),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("address", sa.String(255)),
        sa.Column("instance", sa.String(64)),
        sa.Column("dispatched_ms", sa.BigInteger),
        sa.Column("accepted_ms", sa.BigInteger),
        sa.Column("finished_ms", sa.BigInteger),
        sa.Column("kill_requested", sa.Boolean, nullable=False),
        sa.Column("result_code", sa.Integer),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("skip_last_ms", sa.BigInteger),
        sa.Column("skip_count", sa.Integer, nullable=False),
        # what its executor had registered with when it was sent; null as in its table
        sa.Column("secret_id", sa.BigInteger),
        # when its handler began, as its executor told, 0 if it never did; null if it did not tell
        sa.Column("started_ms", sa.BigInteger),
    ]


# runs that are planned, dispatching or running: few rows, with what changes; a run moves to run_history when it ends
open_run = sa.Table(
    "open_run",
    metadata,
    *_run_columns(),
    # when its executor is asked about it; null while it is planned
    sa.Column("check_ms", sa.BigInteger),
    # a second plan of the same fire is refused here, whichever node makes it; insert_runs looks into the history too
    sa.UniqueConstraint("job_id", "origin", "origin_key", "shard_index", name="uq_open_run_identity"),
    # the run queue; epoch 0 is "not adopted yet", so the poll reads only new rows. What is fenced leaves it where the
    # database can leave rows out: statements say so with a literal, as below
    sa.Index("ix_open_run_queue", "partition", "epoch", "due_ms", info={WHERE: QUEUED}),
    # what is due for a question; also what is open in a group or job with a limit
    sa.Index("ix_open_run_check", "check_ms", "group_id", "job_id", info={WHERE: SENT}),
    # shards and retries, and children: most runs are in neither where the database can leave rows out
    sa.Index("ix_open_run_root", "root_id", info={WHERE: NOT_FIRST}),
    sa.Index("ix_open_run_chain", "chain_id", info={WHERE: FOLLOWS}),
    # on PostgreSQL its pages have room for the changed rows (a fill factor of 50): what changes no indexed column then
    # touches no index
)

# runs that ended, each inserted once; only one that was taken for lost changes again, and what was accepted when. On
# servers it has partitions, see history_days: there no key is unique but the id's, and MariaDB's indexes end with that
run_history = sa.Table(
    "run_history",
    metadata,
    *_run_columns(),
    sa.UniqueConstraint("job_id", "origin", "origin_key", "shard_index", name="uq_run_identity"),
    sa.Index("ix_run_job", "job_id", "due_ms"),
    sa.Index("ix_run_group", "group_id", "due_ms"),
    # the common states are found quickly without it
    sa.Index("ix_run_rare", "state", "due_ms", info={WHERE: RARE}),
    sa.Index("ix_run_due", "due_ms"),
    # the runs of one fire: shards and retries
    sa.Index("ix_run_root", "root_id"),
    # what followed from a fire; most runs are not in it where the database can leave rows out
    sa.Index("ix_run_chain", "chain_id", "due_ms", info={WHERE: FOLLOWS}),
)

RUN_TABLES: Final = (open_run, run_history)
"""In the order of reading: a run that moves meanwhile is met once at least."""

# every run at an executor has a time of its next check; literals, since PostgreSQL's generic plans read the whole
# table for a parameter
IS_SENT = open_run.c.check_ms > sa.literal_column("0")
IS_PLANNED = open_run.c.state == sa.literal_column("'planned'")

calendar = sa.Table(
    "calendar",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("definition", sa.Text, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
)

run_id_block = sa.Table(
    "run_id_block",
    metadata,
    sa.Column("name", sa.String(16), primary_key=True),
    sa.Column("next_id", sa.BigInteger, nullable=False),
)

node = sa.Table(
    "node",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("started_ms", sa.BigInteger, nullable=False),
    # rises with each renewal; one that stands still for a whole term is dead, whatever the clocks say
    sa.Column("renewal", sa.BigInteger, nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
    # it hands its partitions over and gets no more
    sa.Column("draining", sa.Boolean, nullable=False, server_default=sa.false()),
)

partition_lease = sa.Table(
    "partition_lease",
    metadata,
    sa.Column("partition", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("owner", sa.String(64)),
    sa.Column("epoch", sa.BigInteger, nullable=False),
)

# which steps of plugins' own tables this database has
plugin_migration = sa.Table(
    "plugin_migration",
    metadata,
    sa.Column("plugin", sa.String(64), primary_key=True),
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("applied_ms", sa.BigInteger, nullable=False),
)

api_token = sa.Table(
    "api_token",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("digest", sa.LargeBinary(32).with_variant(sa.BINARY(32), "mysql", "mariadb"), nullable=False),
    # a token for XXL-JOB's calls and for what code declares, of the jobs of this group alone; null for all others
    sa.Column("group_id", sa.BigInteger),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    # what it may do, a JSON object as in account; null for everything, or for the jobs of group_id
    sa.Column("grants", sa.Text),
    # whose it is; null for a service
    sa.Column("account_id", sa.BigInteger),
    # null: for ever
    sa.Column("expires_ms", sa.BigInteger),
    # a JSON list of networks that it is good from; null for all
    sa.Column("networks", sa.Text),
    # null: not yet; written once a minute at most
    sa.Column("used_ms", sa.BigInteger),
    sa.UniqueConstraint("name", name="uq_api_token_name"),
    sa.UniqueConstraint("digest", name="uq_api_token_digest"),
    sa.Index("ix_api_token_account", "account_id"),
    sqlite_autoincrement=True,
)

# what the executors of a group hold, and are called with; sent, so a digest would not do
executor_secret = sa.Table(
    "executor_secret",
    metadata,
    sa.Column("id", AutoId, primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("group_id", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.LargeBinary(32).with_variant(sa.BINARY(32), "mysql", "mariadb"), nullable=False),
    # the secret, encrypted if the cluster has a key; see runtime/sealing.py
    sa.Column("sealed", sa.Text, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    # null: for ever
    sa.Column("expires_ms", sa.BigInteger),
    sa.UniqueConstraint("name", name="uq_executor_secret_name"),
    sa.UniqueConstraint("digest", name="uq_executor_secret_digest"),
    sqlite_autoincrement=True,
)


def table_names(conn: sa.Connection) -> set[str]:
    """Return the tables there are; parts of the history, which PostgreSQL counts among them, are none."""
    return {name for name in sa.inspect(conn).get_table_names() if not name.startswith("run_history_")}


def server_collation(conn: sa.Connection) -> str:
    """Return the collation of our tables on a MariaDB or MySQL server."""
    return MARIADB_COLLATION if getattr(conn.dialect, "is_mariadb", False) else MYSQL_COLLATION


def set_collation(table: sa.Table, conn: sa.Connection, **_: Any) -> None:
    """Spell storage engine, collation and partial indexes out for a table that is about to be made."""
    for index in table.indexes:
        if WHERE in index.info and conn.dialect.name != "mysql":
            index.dialect_kwargs[f"{conn.dialect.name}_where"] = index.info[WHERE]
    for column in table.columns:
        if isinstance(column.type, sa.String):
            column.type = collated(conn, column.type)
    if conn.dialect.name == "mysql":
        table.dialect_kwargs.update(
            mysql_engine="InnoDB", mysql_charset="utf8mb4", mysql_collate=server_collation(conn)
        )


def collated(conn: sa.Connection, kind: T) -> T:
    """Return a type of text for a column that is added to a table that is there; elsewhere the table's rule holds."""
    if conn.dialect.name == "postgresql":
        kind = kind.copy()
        kind.collation = "C"
    return kind
