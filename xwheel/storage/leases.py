"""Nodes and partition leases: which node may act for which jobs, and the epoch that rises with each new holder.

A lease row names its holder; how long the holder may act is in the holder's node row, so that a renewal is one row
and never waits for the transactions that hold the lease rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from xwheel.errors import LockError
from xwheel.model import PARTITIONS
from xwheel.storage.database.bulk import ById, fetch_rows
from xwheel.storage.database.direct import Prepared
from xwheel.storage.database.rows import hold
from xwheel.storage.schema.tables import node, partition_lease

# else MariaDB walks all 64 rows, and waits for those that others have locked
BY_KEY: Final = ("FORCE INDEX (PRIMARY)", "mysql")
LEASE: Final = "lease"


class NodeRow(NamedTuple):
    """A scheduler process: it may act until ``until_ms`` unless ``renewal`` stands still."""

    id: str
    renewal: int
    until_ms: int
    draining: bool
    started_ms: int = 0


class LeaseRow(NamedTuple):
    """Which node holds a partition, or None, and how often that changed."""

    partition: int
    owner: str | None
    epoch: int


_LEASES: Final = select(*(partition_lease.c[name] for name in LeaseRow._fields)).order_by(partition_lease.c.partition)


_MINE = node.c.id == bindparam("owner")
_RENEW: Final = Prepared(
    update(node)
    .where(_MINE)
    .values(renewal=node.c.renewal + 1, until_ms=bindparam("until"), draining=bindparam("drains"))
)
_RENEWAL: Final = Prepared(select(node.c.renewal).where(_MINE))


def take_all_leases(conn: Connection, owner: str) -> dict[int, int]:
    """Take every partition, each under a new epoch, and return these; only for a database with one scheduler.

    Raises LockError: a lease row is missing.
    """
    conn.execute(delete(node).where(node.c.id != owner))
    conn.execute(update(partition_lease).values(owner=owner, epoch=partition_lease.c.epoch + 1))
    epochs = lock_leases(conn, owner, range(PARTITIONS))
    _check_count(len(epochs))
    return epochs


def renew_node(conn: Connection, owner: str, now_ms: int, until_ms: int, *, draining: bool = False) -> int:
    """Write that a node lives until an instant, and return which renewal that is.

    Its first one makes its row, and no other row is locked.
    """
    if _RENEW.change(conn, {"owner": owner, "until": until_ms, "drains": draining}):
        ((renewal,),) = _RENEWAL.fetch(conn, {"owner": owner})
        return int(renewal)
    row = {"id": owner, "started_ms": now_ms, "renewal": 1, "until_ms": until_ms, "draining": draining}
    conn.execute(insert(node).values(row))
    return 1


def list_nodes(conn: Connection) -> list[NodeRow]:
    """Return all node rows by id, the dead ones too."""
    query = select(*(node.c[name] for name in NodeRow._fields)).order_by(node.c.id)
    return [NodeRow(*row) for row in conn.execute(query)]


def forget_nodes(conn: Connection, seen: Mapping[str, int]) -> int:
    """Delete the rows of nodes whose renewal counter is the one that was seen; return how many.

    Rows that are locked are left for the next time.
    """
    query = select(node.c.id, node.c.renewal).where(node.c.id.in_(sorted(seen))).order_by(node.c.id)
    locked = conn.execute(query.with_hint(node, *BY_KEY).with_for_update(skip_locked=True))
    gone = [row.id for row in locked if row.renewal == seen[row.id]]
    return conn.execute(delete(node).where(node.c.id.in_(gone))).rowcount if gone else 0


def delete_node(conn: Connection, owner: str) -> None:
    """Take a node's row out."""
    conn.execute(delete(node).where(node.c.id == owner))


def list_leases(conn: Connection) -> list[LeaseRow]:
    """Return all lease rows by partition. Raises LockError: a row is missing."""
    rows = [LeaseRow(*row) for row in conn.execute(_LEASES)]
    _check_count(len(rows))
    return rows


def take_leases(
    conn: Connection, owner: str, wanted: Mapping[int, str | None], dead: Mapping[str, int]
) -> dict[int, int]:
    """Take partitions whose holder is still the one that was seen, each under a new epoch.

    Rows that are locked are left for the next time, without a wait. A holder that renewed after it was found dead
    keeps its partitions, and so does one that joined after the nodes were read; one that renews later finds out when it
    reads its leases.

    ``wanted`` gives by partition the holder that was seen, or None; ``dead`` the renewal counter that was seen, for
    each holder but ``owner`` itself and those that had no row. Returns the new epoch of each partition that was taken.
    """
    locked = [row for row in _lock_free(conn, wanted) if row.owner == wanted[row.partition]]
    holders = {row.owner for row in locked if row.owner is not None} - {owner}
    if holders:  # asked once their leases are locked
        query = select(node.c.id, node.c.renewal).where(node.c.id.in_(sorted(holders)))
        live = {row.id for row in conn.execute(query) if row.renewal != dead.get(row.id)}
        locked = [row for row in locked if row.owner not in live]
    taken = {row.partition: row.epoch + 1 for row in locked}
    _hand_over(conn, taken, owner)
    return taken


def give_leases(conn: Connection, owner: str, moves: Mapping[int, str], epochs: Mapping[int, int]) -> dict[int, str]:
    """Give partitions to other nodes, each under a new epoch; rows that are locked stay.

    ``moves`` is partition to taker, and so is what comes back; ``epochs`` are those under which ``owner`` holds them.
    """
    locked = [row for row in _lock_free(conn, moves) if (row.owner, row.epoch) == (owner, epochs[row.partition])]
    given = {row.partition: moves[row.partition] for row in locked}
    for taker in sorted(set(given.values())):
        _hand_over(conn, [part for part, name in given.items() if name == taker], taker)
    return given


def _lock_free(conn: Connection, wanted: Iterable[int]) -> list[LeaseRow]:
    query = _LEASES.where(partition_lease.c.partition.in_(sorted(wanted))).with_hint(partition_lease, *BY_KEY)
    return [LeaseRow(*row) for row in conn.execute(query.with_for_update(skip_locked=True))]


def _hand_over(conn: Connection, parts: Collection[int], owner: str) -> None:
    if parts:
        hold(conn, LEASE, parts)
        query = update(partition_lease).where(partition_lease.c.partition.in_(sorted(parts)))
        conn.execute(query.values(owner=owner, epoch=partition_lease.c.epoch + 1))


_HELD = select(partition_lease.c.partition, partition_lease.c.epoch).with_hint(partition_lease, *BY_KEY)
_LOCK_LEASES = ById(
    partition_lease.c.partition,
    _HELD.where(partition_lease.c.owner == bindparam("owner"))
    .order_by(partition_lease.c.partition)
    .with_for_update(read=True)
    .where,
)


def lock_leases(conn: Connection, owner: str, parts: Collection[int]) -> dict[int, int]:
    """Hold lease rows of a node until the transaction ends; return partition to epoch.

    Shared, since all stages of a node do so at once; a change of the holder passes over them. Rows of other partitions
    are not locked, so that those can change hands meanwhile.
    """
    if not parts:
        return {}
    statement, values = _LOCK_LEASES(conn, parts)
    held = dict(fetch_rows(conn, statement, {**values, "owner": owner}))
    hold(conn, LEASE, held)
    return held


def lock_all_leases(conn: Connection) -> None:
    """Lock every lease row until the transaction ends, whichever node holds it: no claim or fence commits meanwhile."""
    query = select(partition_lease.c.partition).order_by(partition_lease.c.partition).with_for_update()
    conn.execute(query).all()
    hold(conn, LEASE, range(PARTITIONS))


def release_leases(conn: Connection, owner: str) -> None:
    """Take all partitions from a node, and give them to none."""
    query = select(partition_lease.c.partition).where(partition_lease.c.owner == owner).with_for_update()
    hold(conn, LEASE, conn.execute(query.order_by(partition_lease.c.partition)).scalars().all())
    conn.execute(update(partition_lease).where(partition_lease.c.owner == owner).values(owner=None))


def _check_count(count: int) -> None:
    if count != PARTITIONS:
        raise LockError(f"partition_lease holds {count} rows instead of {PARTITIONS}: the schema is damaged")
