"""Nodes and partition leases: who may act for which jobs, and the epoch that tells old holders from new ones.

A lease row names its holder; how long the holder may act is in the holder's node row, so that a renewal is one row
and never waits for the transactions that hold the lease rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.storage.bulk import fetch_rows
from xwheel.storage.tables import node, partition_lease, run


class NodeRow(NamedTuple):
    """A scheduler process: it may act until ``until_ms`` unless ``renewal`` stands still."""

    id: str
    renewal: int
    until_ms: int


class LeaseRow(NamedTuple):
    """Who holds a partition, None for nobody, and how often it changed hands."""

    partition: int
    owner: str | None
    epoch: int


def take_all_leases(conn: Connection, owner: str) -> dict[int, int]:
    """Take every partition, each under a new epoch; only for a database with one scheduler.

    What the former holder kept in memory goes back to the pool: its planned rows lose their epoch.

    Returns:
        Partition to epoch.

    Raises:
        LockError: A lease row is missing.
    """
    conn.execute(delete(node).where(node.c.id != owner))
    conn.execute(update(partition_lease).values(owner=owner, epoch=partition_lease.c.epoch + 1))
    release_runs(conn, range(PARTITIONS))
    check_lease_rows(conn)
    return lock_leases(conn, owner)


def release_runs(conn: Connection, partitions: Iterable[int]) -> int:
    """Let planned runs of these partitions be adopted anew; return how many."""
    query = update(run).where(run.c.open_partition.in_(list(partitions)), run.c.epoch > 0).values(epoch=0)
    return conn.execute(query).rowcount


def renew_node(conn: Connection, owner: str, now_ms: int, until_ms: int) -> None:
    """Write that a node lives until an instant; its first renewal makes its row."""
    query = update(node).where(node.c.id == owner).values(renewal=node.c.renewal + 1, until_ms=until_ms)
    if conn.execute(query).rowcount == 0:
        conn.execute(insert(node).values(id=owner, started_ms=now_ms, renewal=1, until_ms=until_ms))


def list_nodes(conn: Connection) -> list[NodeRow]:
    """Return all node rows by id, the dead ones too."""
    query = select(node.c.id, node.c.renewal, node.c.until_ms).order_by(node.c.id)
    return [NodeRow(*row) for row in conn.execute(query)]


def lock_nodes(conn: Connection, ids: Collection[str]) -> dict[str, NodeRow]:
    """Lock node rows in order, so that nobody renews meanwhile."""
    if not ids:
        return {}
    query = select(node.c.id, node.c.renewal, node.c.until_ms).where(node.c.id.in_(sorted(ids)))
    return {row.id: NodeRow(*row) for row in conn.execute(query.order_by(node.c.id).with_for_update())}


def forget_nodes(conn: Connection, before_ms: int) -> None:
    """Delete the rows of nodes that are long dead."""
    conn.execute(delete(node).where(node.c.until_ms < before_ms))


def delete_node(conn: Connection, owner: str) -> None:
    """Take a node's row out."""
    conn.execute(delete(node).where(node.c.id == owner))


def list_leases(conn: Connection) -> list[LeaseRow]:
    """Return all lease rows by partition.

    Raises:
        LockError: A row is missing.
    """
    query = select(partition_lease.c.partition, partition_lease.c.owner, partition_lease.c.epoch)
    rows = [LeaseRow(*row) for row in conn.execute(query.order_by(partition_lease.c.partition))]
    _check_count(len(rows))
    return rows


def take_leases(conn: Connection, owner: str, wanted: Mapping[int, str | None]) -> dict[int, int]:
    """Take partitions whose holder is still the one that was seen, each under a new epoch.

    Returns:
        Partition to new epoch, for those that were taken.
    """
    query = select(partition_lease.c.partition, partition_lease.c.owner, partition_lease.c.epoch)
    query = query.where(partition_lease.c.partition.in_(sorted(wanted))).order_by(partition_lease.c.partition)
    locked = [LeaseRow(*row) for row in conn.execute(query.with_for_update())]
    taken = {row.partition: row.epoch + 1 for row in locked if row.owner == wanted[row.partition]}
    if taken:
        change = update(partition_lease).where(partition_lease.c.partition.in_(sorted(taken)))
        conn.execute(change.values(owner=owner, epoch=partition_lease.c.epoch + 1))
        release_runs(conn, sorted(taken))
    return taken


_LOCK_LEASES = (
    select(partition_lease.c.partition, partition_lease.c.epoch)
    .where(partition_lease.c.owner == bindparam("owner"))
    .order_by(partition_lease.c.partition)
    .with_for_update(read=True)
)


def lock_leases(conn: Connection, owner: str) -> dict[int, int]:
    """Hold the lease rows of a node until the transaction ends; return partition to epoch.

    Shared, since all stages of a node do so at once; only who takes or releases a lease waits for them.
    """
    return dict(fetch_rows(conn, _LOCK_LEASES, {"owner": owner}))


def lock_all_leases(conn: Connection) -> None:
    """Lock every lease row until the transaction ends, whoever owns it: no claim or fence commits meanwhile."""
    query = select(partition_lease.c.partition).order_by(partition_lease.c.partition).with_for_update()
    conn.execute(query).all()


def check_lease_rows(conn: Connection) -> None:
    """Refuse a database whose lease table is not whole.

    Raises:
        LockError: A row is missing, so nobody could know who holds that partition.
    """
    _check_count(conn.execute(select(func.count()).select_from(partition_lease)).scalar_one())


def release_leases(conn: Connection, owner: str, partitions: Collection[int]) -> None:
    """Give leases of a node back."""
    query = update(partition_lease).where(
        partition_lease.c.owner == owner, partition_lease.c.partition.in_(sorted(partitions))
    )
    conn.execute(query.values(owner=None))


def _check_count(count: int) -> None:
    if count != PARTITIONS:
        raise LockError(f"partition_lease holds {count} rows instead of {PARTITIONS}: the schema is damaged")
