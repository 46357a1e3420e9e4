"""The history has a partition for each day, of which the first one is the table that was there; not on SQLite.

No key of a divided table is unique that lacks the id, so identities are not. MariaDB sorts what it finds in an index
which does not end with the id.

Revision ID: 0019
Revises: 0018
"""

import sqlalchemy as sa
from alembic import op

from xwheel.clock import wall_ms

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

AHEAD = 3
INDEXES = {
    "uq_run_identity": "job_id, origin, origin_key, shard_index",
    "ix_run_job": "job_id, due_ms",
    "ix_run_group": "group_id, due_ms",
    "ix_run_rare": "state, due_ms",
    "ix_run_due": "due_ms",
    "ix_run_root": "root_id",
    "ix_run_chain": "chain_id, due_ms",
}
ONLY = {
    "ix_run_rare": "WHERE state NOT IN ('planned', 'dispatching', 'running', 'succeeded')",
    "ix_run_chain": "WHERE chain_id <> root_id",
}


def upgrade() -> None:
    """Divide it."""
    today = wall_ms() // 86_400_000
    ends = {f"run_history_days_0_{today}": today << 32}
    ends |= {f"run_history_days_{day}_{day + 1}": day + 1 << 32 for day in range(today, today + AHEAD + 1)}
    if op.get_bind().dialect.name == "postgresql":
        _attach(ends)
    elif op.get_bind().dialect.name == "mysql":
        _write_again(ends)


def _write_again(ends: dict[str, int]) -> None:
    """Write it again with one statement, which is done wholly or, if it is cut off, not at all."""
    # a start that was cut off may have left one that is still at work
    op.execute("LOCK TABLES run_history WRITE")
    op.execute("UNLOCK TABLES")
    if "mysql_partition_by" in sa.inspect(op.get_bind()).get_table_options("run_history"):
        return
    changes = [f"DROP INDEX {name}" for name in INDEXES]
    for name, columns in INDEXES.items():
        changes.append(f"ADD INDEX {name} ({columns}{'' if name == 'uq_run_identity' else ', id'})")
    parts = [f"PARTITION {name} VALUES LESS THAN ({end})" for name, end in ends.items()]
    parts.append("PARTITION run_history_rest VALUES LESS THAN MAXVALUE")
    op.execute(f"ALTER TABLE run_history {', '.join(changes)} PARTITION BY RANGE (id) ({', '.join(parts)})")


def _attach(ends: dict[str, int]) -> None:
    """Attach the table to a new one; only the index of identities is written again."""
    before, *later = ends
    op.execute(f"ALTER TABLE run_history RENAME TO {before}")
    op.execute(f"ALTER TABLE {before} DROP CONSTRAINT uq_run_identity")
    for name in {"run_pkey", *INDEXES} - {"uq_run_identity"}:
        op.execute(f"ALTER INDEX {name} RENAME TO {before}_{name}")
    op.execute(f"CREATE TABLE run_history (LIKE {before}, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    for name, columns in INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON run_history ({columns}) {ONLY.get(name, '')}")
    op.execute(f"ALTER TABLE run_history ATTACH PARTITION {before} FOR VALUES FROM (MINVALUE) TO ({ends[before]})")
    op.execute("CREATE TABLE run_history_rest PARTITION OF run_history DEFAULT")
    for place, name in zip(ends.values(), later, strict=False):
        part = f"CREATE TABLE {name} PARTITION OF run_history"
        op.execute(f"{part} FOR VALUES FROM ({place}) TO ({ends[name]})")
