"""Which job runs after which, and which parents of a joining child have succeeded in a chain."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, and_, delete, exists, insert, or_, select

from xwheel.model import ChildLink, Origin, Run
from xwheel.storage.bulk import IN_LIMIT, ById, chunks, fetch_rows, tuple_in
from xwheel.storage.run_rows import RUN_COLUMNS, run_of
from xwheel.storage.tables import child_arrival, job, job_child, run

PAIRS = 1000

_ENDINGS = ById(
    run.c.id,
    lambda among: (
        select(run.c.job_id, run.c.root_id, job.c.awaits_root)
        .join(job, job.c.id == run.c.job_id)
        .where(
            among,
            or_(job.c.awaits_root == run.c.root_id, exists().where(job_child.c.parent_id == run.c.job_id)),
        )
    ),
)


class Ending(NamedTuple):
    """What the end of a run may set in motion, as it stands before its job is locked.

    Attributes:
        is_awaited: The job's next fire is set when this run's root has ended.
    """

    job_id: int
    root_id: int
    is_awaited: bool


class Arrival(NamedTuple):
    """A parent of a joining child succeeded in a chain."""

    child_id: int
    chain_id: int
    parent_id: int
    root_id: int
    created_ms: int


def list_endings(conn: Connection, run_ids: Sequence[int]) -> list[Ending]:
    """Return which of these runs have a job that has children or waits for their root; nothing is locked.

    Most runs have neither, so most batches get nothing back.
    """
    found = fetch_rows(conn, *_ENDINGS(conn, run_ids))
    return [Ending(job_id, root_id, awaited == root_id) for job_id, root_id, awaited in found]


def children_of(conn: Connection, parents: Collection[int]) -> list[ChildLink]:
    """Return the links of parents, ordered by parent and child."""
    return _links(conn, job_child.c.parent_id, parents)


def parents_of(conn: Connection, children: Collection[int]) -> list[ChildLink]:
    """Return the links to children, ordered by parent and child."""
    return _links(conn, job_child.c.child_id, children)


def replace_children(conn: Connection, parent_id: int, links: Sequence[ChildLink]) -> None:
    """Make these the links of a parent."""
    conn.execute(delete(job_child).where(job_child.c.parent_id == parent_id))
    if links:
        values = [
            {"parent_id": link.parent_id, "child_id": link.child_id, "param": link.param} for link in links
        ]
        conn.execute(insert(job_child), values)


def delete_links(conn: Connection, job_ids: Collection[int]) -> None:
    """Take jobs out of all chains: as parents, as children, and with what arrived for them."""
    ids = sorted(job_ids)
    # one index each: a condition on either column would read the whole table
    conn.execute(delete(job_child).where(job_child.c.parent_id.in_(ids)))
    conn.execute(delete(job_child).where(job_child.c.child_id.in_(ids)))
    conn.execute(delete(child_arrival).where(child_arrival.c.child_id.in_(ids)))


def list_root_runs(conn: Connection, roots: Collection[int]) -> list[Run]:
    """Return all runs of these fires: every shard and every attempt."""
    found: list[Run] = []
    for part in chunks(sorted(roots), IN_LIMIT):
        query = select(*RUN_COLUMNS).where(run.c.root_id.in_(list(part))).order_by(run.c.id)
        found.extend(run_of(row) for row in conn.execute(query))
    return found


def list_arrivals(conn: Connection, places: Iterable[tuple[int, int]]) -> list[Arrival]:
    """Return what has arrived at ``(child, chain)`` so far."""
    found: list[Arrival] = []
    for part in chunks(sorted(set(places)), PAIRS):
        query = select(
            child_arrival.c.child_id,
            child_arrival.c.chain_id,
            child_arrival.c.parent_id,
            child_arrival.c.root_id,
            child_arrival.c.created_ms,
        ).where(tuple_in(conn, (child_arrival.c.child_id, child_arrival.c.chain_id), part))
        found.extend(Arrival(*row) for row in conn.execute(query))
    return found


def insert_arrivals(conn: Connection, arrivals: Sequence[Arrival]) -> None:
    """Note arrivals that are not there yet; whoever asks has locked the child's row."""
    if arrivals:
        conn.execute(insert(child_arrival), [arrival._asdict() for arrival in arrivals])


def find_recovered(conn: Connection, shards: Collection[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return which ``(root, shard index)`` have had a recovery run; one that was cancelled unsent does not count."""
    found: set[tuple[int, int]] = set()
    for part in chunks(sorted(shards), PAIRS):
        roots = [root for root, _ in part]
        query = select(run.c.root_id, run.c.shard_index).where(
            # cancelling by an edit, a stop or a late outcome negates the key
            and_(run.c.root_id.in_(roots), run.c.origin == str(Origin.RECOVERY), run.c.origin_key > 0)
        )
        found.update((row.root_id, row.shard_index) for row in conn.execute(query))
    return found


def _links(conn: Connection, column: object, ids: Collection[int]) -> list[ChildLink]:
    found: list[ChildLink] = []
    for part in chunks(sorted(ids), IN_LIMIT):
        query = (
            select(job_child.c.parent_id, job_child.c.child_id, job_child.c.param)
            .where(column.in_(list(part)))  # type: ignore[attr-defined]
            .order_by(job_child.c.parent_id, job_child.c.child_id)
        )
        found.extend(
            ChildLink(parent_id=row.parent_id, child_id=row.child_id, param=row.param)
            for row in conn.execute(query)
        )
    return found
