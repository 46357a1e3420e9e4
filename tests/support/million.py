"""A database with a long history: a million runs, most of them final, of jobs that have few or very many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, text

from tests.support.databases import as_made
from tests.support.rows import NOW
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import RUN_TABLES, job, metadata, open_run

RUNS: Final = 1_000_000
JOBS: Final = 20_000
GROUPS: Final = 50
WAITING: Final = 400
"""The newest runs are planned, half of them adopted."""

SENT: Final = 600
"""The ones before are dispatching or running."""

PARTS: Final = 10
"""Partitions of the history, where it has such."""

APART_MS: Final = 3456
"""Between the due times of two runs; a million of them are forty days."""

BUSY_JOB: Final = 10_000
"""A tenth of all runs is of this job."""

BUSY_GROUP: Final = BUSY_JOB % GROUPS + 1
QUIET_JOB: Final = 7
BUSY_CHAIN: Final = 3
"""The fire from which every hundredth run followed, nearly."""

HOUR_MS: Final = 3_600_000
REPORT_HOURS: Final = 960
REPORT_JOBS: Final = 100
FIRST_HOUR: Final = NOW // HOUR_MS * HOUR_MS - REPORT_HOURS * HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """How much there is, and when that was.

    Attributes:
        apart_ms: Between the due times of two runs.
        first_fire_ms: The next fire of the first job; None for one with which half of the jobs are overdue.
        fires_apart_ms: Between the next fires of two jobs.
        busy_job: A tenth of all runs is of this job.
    """

    runs: int = RUNS
    jobs: int = JOBS
    now_ms: int = NOW
    apart_ms: int = APART_MS
    first_fire_ms: int | None = None
    fires_apart_ms: int = 100
    busy_job: int = BUSY_JOB

    def job_of(self) -> str:
        """Return the expression of a run's job."""
        return f"CASE WHEN n % 10 = 0 THEN {self.busy_job} ELSE 1 + (n * 7919) % {self.jobs} END"

    def state(self) -> str:
        """Return the expression of a run's state."""
        sent, waiting = self.runs - WAITING - SENT, self.runs - WAITING
        return (
            f"CASE WHEN n > {waiting} THEN 'planned' WHEN n > {sent} AND n % 6 = 0 THEN 'dispatching' "
            f"WHEN n > {sent} THEN 'running' WHEN n % 50 = 0 THEN 'failed' WHEN n % 1000 = 1 THEN 'lost' "
            "WHEN n % 1000 = 2 THEN 'timed_out' WHEN n % 2000 = 3 THEN 'refused' WHEN n % 2000 = 5 THEN 'killed' "
            "WHEN n % 100 = 7 THEN 'skipped' WHEN n % 500 = 9 THEN 'cancelled' ELSE 'succeeded' END"
        )

    def due(self) -> str:
        """Return the expression of when a run was due."""
        return f"{self.now_ms + 1000 * self.apart_ms} - ({self.runs} - n) * {self.apart_ms}"

    def next_fire(self) -> str:
        """Return the expression of a job's next fire."""
        first_ms = self.first_fire_ms
        if first_ms is None:
            first_ms = self.now_ms - self.jobs // 2 * self.fires_apart_ms
        return f"{first_ms} + n * {self.fires_apart_ms}"


MILLION: Final = History()


def fill(db: Database, of: History = MILLION) -> None:
    """Write everything with one statement a table; nothing is analyzed afterwards."""
    with db.write() as conn:
        _fill_small(conn)
        _copy(conn, "job", of.jobs, _job_columns(of))
        if db.backend == "postgresql":
            _skip_ids(conn)
        _copy(conn, "run_log", of.runs // 4, _log_columns(of))
    made = as_made(metadata, db.backend)
    indexes = sorted(
        (index for table in RUN_TABLES for index in made.tables[table.name].indexes), key=lambda index: str(index.name)
    )
    with db.write() as conn:
        _divide(conn, of.runs)
        # to make an index of rows that are there takes a fraction of the time
        for index in indexes:
            index.drop(conn)
        inner = {"job_id": of.job_of(), "state": of.state(), "due_ms": of.due()}
        columns = {**_run_columns(of), **{name: name for name in inner}}
        for table in RUN_TABLES:
            held = {name: value for name, value in columns.items() if name in table.c}
            where = f"n {'>' if table is open_run else '<='} {of.runs - WAITING - SENT}"
            _copy(conn, table.name, of.runs, held, inner, where)
        for index in indexes:
            index.create(conn)


def _divide(conn: Connection, runs: int) -> None:
    """Let the history have partitions of as many runs each, if it may have any, and some empty ones behind them."""
    bounds = [runs * number // PARTS for number in range(1, PARTS + 1)]
    names = [f"run_history_days_{number}_{number + 1}" for number in range(PARTS)]
    if conn.dialect.name == "postgresql":
        (before,) = conn.execute(
            text("SELECT relname FROM pg_class WHERE relname ~ '^run_history_days_0_[0-9]*$'")
        ).one()
        conn.execute(text(f"DROP TABLE {before}"))
        for name, first, end in zip(names, ["MINVALUE", *bounds], bounds, strict=False):
            conn.execute(text(f"CREATE TABLE {name} PARTITION OF run_history FOR VALUES FROM ({first}) TO ({end})"))
    elif conn.dialect.name == "mysql":
        parts = [f"PARTITION {name} VALUES LESS THAN ({end})" for name, end in zip(names, bounds, strict=True)]
        parts += [f"PARTITION more{number} VALUES LESS THAN ({10**12 + number})" for number in range(2)]
        conn.execute(text(f"ALTER TABLE run_history PARTITION BY RANGE (id) ({', '.join(parts)})"))


def _skip_ids(conn: Connection) -> None:
    """Let new rows get ids behind those that were written."""
    for name in ("executor_group", "job"):
        conn.execute(text(f"SELECT setval('{name}_id_seq', (SELECT max(id) FROM {name}))"))


def analyze(db: Database) -> None:
    """Let the database analyze its tables."""
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        if db.backend == "mysql":
            conn.execute(
                text("ANALYZE TABLE open_run, run_history, run_log, job, hourly_report, job_child, child_arrival")
            ).all()
        else:
            conn.execute(text("ANALYZE"))


def _copy(
    conn: Connection,
    table: str,
    count: int,
    columns: dict[str, str],
    inner: dict[str, str] | None = None,
    where: str = "",
) -> None:
    """Insert rows made of expressions over ``n``, which counts from 1, and ``words``, the same as text.

    ``inner`` names some that others use.
    """
    quote = conn.dialect.identifier_preparer.quote
    names = ", ".join(quote(name) for name in columns)
    source = _numbers(conn, count)
    if inner:
        parts = ", ".join(f"{value} AS {name}" for name, value in inner.items())
        source = f"(SELECT n, words, {parts} FROM {source}) AS made"
    if where:
        source = f"{source} WHERE {where}"
    conn.execute(text(f"INSERT INTO {table} ({names}) SELECT {', '.join(columns.values())} FROM {source}"))


def _numbers(conn: Connection, count: int) -> str:
    match conn.dialect.name:
        case "postgresql":
            counted = f"generate_series(CAST(1 AS bigint), {count}) AS counted(n)"
            return f"(SELECT n, CAST(n AS varchar) AS words FROM {counted}) AS numbers"
        case "mysql":
            counted = f"seq_1_to_{count}"
            return f"(SELECT CAST(seq AS SIGNED) AS n, CAST(seq AS CHAR) AS words FROM {counted}) AS numbers"
        case _:
            counted = f"SELECT 1 AS n UNION ALL SELECT n + 1 FROM counted WHERE n < {count}"
            return f"(WITH RECURSIVE counted AS ({counted}) SELECT n, CAST(n AS TEXT) AS words FROM counted) AS numbers"


def _job_columns(of: History) -> dict[str, str]:
    texts = {
        "description": "",
        "schedule_type": "CRON",
        "schedule_conf": "0 * * * * ?",
        "timezone": "UTC",
        "misfire_policy": "skip",
        "route_strategy": "FIRST",
        "block_strategy": "SERIAL_EXECUTION",
        "block_scope": "executor",
        "glue_type": "BEAN",
        "handler": "demo",
        "param": "",
        "retry_backoff": "fixed",
        "retry_delays_ms": "[]",
        "delivery": "at_least_once",
        "join_mode": "any",
        "calendar_exclude": "[]",
        "calendar_require": "[]",
        "schedule_error": "",
    }
    numbers = {
        "misfire_threshold_ms": 5000,
        "timeout_s": 0,
        "max_retries": 0,
        "retry_delay_ms": 0,
        "retry_max_delay_ms": 0,
        "retry_jitter_pct": 0,
        "wait_for_executor_s": 0,
        "jitter_ms": 0,
        "revision": 1,
        "anchor_ms": of.now_ms,
        "created_ms": of.now_ms,
        "updated_ms": of.now_ms,
    }
    made = {
        **{name: f"'{value}'" for name, value in texts.items()},
        **{name: str(value) for name, value in numbers.items()},
        "id": "n",
        "group_id": f"n % {GROUPS} + 1",
        "partition": "n % 64",
        "name": "words",
        "recover_lost": "(n % 2 = 0)",
        "enabled": "(n % 20 <> 0)",
        "retention_days": "CASE WHEN n % 100 = 0 THEN 60 ELSE 0 END",
        "next_fire_ms": f"CASE WHEN n % 20 = 0 THEN NULL ELSE {of.next_fire()} END",
        "deleted_ms": f"CASE WHEN n % 200 = 0 AND n <> {of.busy_job} THEN {of.now_ms} - n ELSE NULL END",
    }
    optional = {column.name for column in job.columns if column.nullable or column.server_default is not None}
    return {name: made[name] for name in job.columns.keys() if name in made or name not in optional}  # noqa: SIM118


def _log_columns(of: History) -> dict[str, str]:
    return {
        "id": "n",
        "job_id": of.job_of(),
        "partition": "n % 64",
        "created_ms": of.due(),
        "store": "'file'",
        "ended": "(n % 1000 <> 0)",
        "fetch_ms": f"CASE WHEN n % 1000 = 0 THEN {of.now_ms} + n ELSE NULL END",
        "delete_ms": f"{of.now_ms} + n * 1000",
    }


def _run_columns(of: History) -> dict[str, str]:
    is_sent = "state IN ('dispatching', 'running')"
    is_closed = f"n <= {of.runs - WAITING - SENT}"
    # sent a little ago, asked about soon
    check = f"{of.now_ms} + (n - {of.runs - WAITING - SENT // 2}) * 1000"
    made = {
        "id": "n",
        "group_id": f"job_id % {GROUPS} + 1",
        "partition": "job_id % 64",
        "origin": "CASE WHEN n % 100 = 99 THEN 'retry' ELSE 'schedule' END",
        "origin_key": "n",
        "shard_index": "0",
        "shard_total": "1",
        "root_id": "n",
        "chain_id": f"CASE WHEN n % 100 = {BUSY_CHAIN} THEN {BUSY_CHAIN} ELSE n END",
        "chain_depth": "0",
        "attempt": "1",
        "retries_left": "0",
        "epoch": f"CASE WHEN n > {of.runs - WAITING // 2} THEN 0 ELSE 1 END",
        "planned_ms": "due_ms",
        "created_ms": "due_ms",
        "reason": "''",
        "address": "CASE WHEN state = 'planned' THEN NULL ELSE 'http://127.0.0.1:9001' END",
        "instance": "CASE WHEN state = 'planned' THEN NULL ELSE 'instance-1' END",
        "dispatched_ms": "CASE WHEN state = 'planned' THEN NULL ELSE due_ms END",
        "accepted_ms": "CASE WHEN state = 'planned' THEN NULL ELSE due_ms + 5 END",
        "finished_ms": f"CASE WHEN {is_closed} THEN due_ms + 900 ELSE NULL END",
        "check_ms": f"CASE WHEN {is_sent} THEN {check} ELSE NULL END",
        "kill_requested": "(1 = 0)",
        "message": "'done'",
        "skip_count": "0",
    }
    known = {"job_id", "state", "due_ms"}
    missing = {c.name for c in open_run.columns if not c.nullable} - set(made) - known
    assert not missing, f"columns of run that have no value here: {missing}"
    return made


def _fill_small(conn: Connection) -> None:
    group = {"id": "n", "app_name": "words", "title": "words", "max_running": "100"}
    _copy(conn, "executor_group", GROUPS, {**group, "created_ms": str(NOW), "updated_ms": str(NOW)})
    executor = {
        "group_id": f"n % {GROUPS} + 1",
        "address": "words",
        "registered_as": "''",
        "kind": "'xwheel'",
        "generation": "3",
        "instance": "words",
        "boot": "''",
        "seen_ms": f"{NOW} + n",
    }
    _copy(conn, "executor", 200, executor)
    _copy(conn, "job_child", 5000, {"parent_id": "n", "child_id": "n + 1"})
    arrival = {"child_id": "n % 500", "chain_id": "n", "parent_id": "1", "root_id": "n"}
    _copy(conn, "child_arrival", 20_000, {**arrival, "created_ms": f"{NOW} + n"})
    # a job's source, saved again and again
    source = {"job_id": "n % 100", "number": "n", "glue_type": "'GLUE_SHELL'", "source": "'exit 0'"}
    _copy(conn, "glue_version", 3000, {**source, "author": "''", "remark": "''", "created_ms": f"{NOW} + n"})
    # a job that was edited again and again, and others once each
    version = {"job_id": "CASE WHEN n <= 3000 THEN 5 ELSE n END", "revision": "n", "at_ms": f"{NOW} + n"}
    who = {"actor_kind": "'account'", "actor": "'alice'", "action": "'edit'", "reason": "''"}
    _copy(conn, "job_version", JOBS, {**version, **who, "definition": "'{}'", "glue_version": "0"})
    hours = f"{FIRST_HOUR} + (n % {REPORT_HOURS}) * {HOUR_MS}"
    counted = {"hour_ms": hours, "job_id": "n", "group_id": f"n % {GROUPS} + 1"}
    numbers = ["succeeded", "failed", "timed_out", "killed", "lost", "refused", "cancelled", "skipped"]
    sums = ["duration_sum_ms", "duration_max_ms", "lateness_max_ms"]
    zeros = dict.fromkeys(("open_runs", *numbers, *sums), "1")
    _copy(conn, "hourly_report", REPORT_HOURS * REPORT_JOBS, {**counted, **zeros})
