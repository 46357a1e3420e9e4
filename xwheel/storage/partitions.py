"""Partition leases: who may act for which jobs, and the epoch that tells old holders from new ones."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, func, select, update

from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.storage.tables import partition_lease, run


def take_all_leases(conn: Connection, owner: str, until_ms: int) -> dict[int, int]:
    """Take every partition, each under a new epoch; only for a database with one scheduler.

    What the former holder kept in memory goes back to the pool: its planned rows lose their epoch.

    Returns:
        Partition to epoch.

    Raises:
        LockError: A lease row is missing.
    """
    conn.execute(
        update(partition_lease).values(
            owner=owner,
            epoch=partition_lease.c.epoch + 1,
            renewal=partition_lease.c.renewal + 1,
            until_ms=until_ms,
        )
    )
    release_runs(conn, range(PARTITIONS))
    return lock_leases(conn, owner)


def release_runs(conn: Connection, partitions: Iterable[int]) -> int:
    """Let planned runs of these partitions be adopted anew; return how many."""
    query = update(run).where(run.c.open_partition.in_(list(partitions)), run.c.epoch > 0).values(epoch=0)
    return conn.execute(query).rowcount


def renew_leases(conn: Connection, owner: str, until_ms: int) -> int:
    """Prolong all leases of a node; return how many it still has."""
    query = update(partition_lease).where(partition_lease.c.owner == owner)
    return conn.execute(query.values(renewal=partition_lease.c.renewal + 1, until_ms=until_ms)).rowcount


def lock_leases(conn: Connection, owner: str) -> dict[int, int]:
    """Lock the lease rows of a node until the transaction ends, in partition order; return partition to epoch.

    Raises:
        LockError: A lease row is missing, so nobody could know who holds that partition.
    """
    query = (
        select(partition_lease.c.partition, partition_lease.c.epoch)
        .where(partition_lease.c.owner == owner)
        .order_by(partition_lease.c.partition)
        .with_for_update()
    )
    held = {row.partition: row.epoch for row in conn.execute(query)}
    if len(held) < PARTITIONS:
        check_lease_rows(conn)
    return held


def lock_all_leases(conn: Connection) -> None:
    """Lock every lease row until the transaction ends, whoever owns it: no claim or fence commits meanwhile."""
    query = select(partition_lease.c.partition).order_by(partition_lease.c.partition).with_for_update()
    conn.execute(query).all()


def check_lease_rows(conn: Connection) -> None:
    """Refuse a database whose lease table is not whole.

    Raises:
        LockError: A row is missing.
    """
    count = conn.execute(select(func.count()).select_from(partition_lease)).scalar_one()
    if count != PARTITIONS:
        raise LockError(f"partition_lease holds {count} rows instead of {PARTITIONS}: the schema is damaged")


def release_leases(conn: Connection, owner: str) -> None:
    """Give all leases of a node back."""
    query = update(partition_lease).where(partition_lease.c.owner == owner)
    conn.execute(query.values(owner=None, renewal=partition_lease.c.renewal + 1, until_ms=0))
