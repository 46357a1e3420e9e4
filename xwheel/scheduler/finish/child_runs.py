"""Plan the children of fires that succeeded, in the transaction of the last outcome.

Every row that is read here is one that the caller has locked the job of.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from xwheel.model import ChildLink, Job, JoinMode, Origin, Run, RunReason, RunState
from xwheel.scheduler.finish.template import MAX_DEPTH, Success, TemplateError, render, succeeded
from xwheel.scheduler.records import new_run
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection
from xwheel.storage.jobs import Arrival

logger = logging.getLogger(__name__)


class Family(NamedTuple):
    """The links that matter to a batch of outcomes."""

    links: Sequence[ChildLink]  # from the jobs of the batch to their jobs
    parents: Mapping[int, set[int]]  # all parents of each child


def family_of(conn: Connection, job_ids: Collection[int]) -> Family:
    """Return the links of jobs; nothing is locked."""
    links = jobs.children_of(conn, job_ids) if job_ids else ()
    if not links:
        return Family((), {})
    parents: defaultdict[int, set[int]] = defaultdict(set)
    for link in jobs.parents_of(conn, {link.child_id for link in links}):
        parents[link.child_id].add(link.parent_id)
    return Family(links, parents)


def plan_children(
    conn: Connection,
    closed: Collection[int],
    family: Family,
    owners: Mapping[int, Job],
    now_ms: int,
    *,
    max_param_bytes: int,
) -> list[Run]:
    """Return the child runs of fires that have just ended, without ids; those that exist are left out.

    ``closed`` are root ids without an open run; ``owners`` are parents and children, locked, without deleted ones.
    """
    draft = partial(_draft, now_ms=now_ms, max_param_bytes=max_param_bytes)
    successes = _successes(conn, closed, owners)
    drafts: list[Run] = []
    arrivals = _arrive(conn, successes, family, owners, now_ms)
    came = {root for place in arrivals.values() for root in place.values()}
    # the jobs of those that came before need not be locked: they have ended
    partners = {one.first.root_id: one for one in _successes(conn, came, owners, unlocked=True)}
    for success in successes:
        first = success.first
        for link in family.links:
            child = owners.get(link.child_id)
            if link.parent_id != first.job_id or child is None:
                continue
            if _joins(child, family):
                here = arrivals[child.id, first.chain_id]
                if not family.parents[child.id] <= set(here):
                    continue
                others = {parent: partners[root] for parent, root in here.items() if root in partners}
                drafts.append(draft(link, child, success, others, first.chain_id))
            else:
                drafts.append(draft(link, child, success, {}, first.root_id))
    # without what has a row already, such as the child of a fire that was lost and came back
    unique = {runs.identity_of(draft): draft for draft in drafts}
    existing = runs.find_existing(conn, drafts) if drafts else ()
    return [draft for key, draft in unique.items() if key not in existing]


def _successes(
    conn: Connection, roots: Collection[int], owners: Mapping[int, Job], *, unlocked: bool = False
) -> list[Success]:
    """Return which of these fires succeeded; with ``unlocked`` those of other jobs than the locked ones, too."""
    by_root: dict[int, list[Run]] = {}
    for run in jobs.list_root_runs(conn, roots) if roots else ():
        by_root.setdefault(run.root_id, []).append(run)
    missing = {group[0].job_id for group in by_root.values()} - owners.keys()
    if unlocked and missing:
        owners = {**jobs.get_jobs(conn, missing), **owners}
    found = [
        succeeded(group, owners[group[0].job_id].param)
        for _, group in sorted(by_root.items())
        if group[0].job_id in owners
    ]
    return [success for success in found if success is not None]


def _joins(child: Job, family: Family) -> bool:
    return child.join_mode is JoinMode.ALL and len(family.parents[child.id]) > 1


def _arrive(
    conn: Connection, successes: Sequence[Success], family: Family, owners: Mapping[int, Job], now_ms: int
) -> dict[tuple[int, int], dict[int, int]]:
    """Note which parents came to which join; return ``(child, chain)`` to parent to root, the new ones among them."""
    coming = [
        Arrival(link.child_id, success.first.chain_id, link.parent_id, success.first.root_id, now_ms)
        for success in successes
        for link in family.links
        if link.parent_id == success.first.job_id and link.child_id in owners and _joins(owners[link.child_id], family)
    ]
    if not coming:
        return {}
    here: defaultdict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    for arrival in jobs.list_arrivals(conn, {(one.child_id, one.chain_id) for one in coming}):
        here[arrival.child_id, arrival.chain_id][arrival.parent_id] = arrival.root_id
    fresh: list[Arrival] = []
    for arrival in coming:
        place = here[arrival.child_id, arrival.chain_id]
        if arrival.parent_id not in place:
            place[arrival.parent_id] = arrival.root_id
            fresh.append(arrival)
    jobs.insert_arrivals(conn, fresh)
    return here


def _draft(
    link: ChildLink,
    child: Job,
    success: Success,
    others: Mapping[int, Success],
    origin_key: int,
    *,
    now_ms: int,
    max_param_bytes: int,
) -> Run:
    reason, message, param = RunReason.PLAIN, "", None
    depth = success.first.chain_depth + 1
    if depth > MAX_DEPTH:
        reason, message = RunReason.CHAIN_TOO_DEEP, f"a chain may have {MAX_DEPTH} generations of children"
    elif link.param is not None:
        try:
            param = render(link.param, success, others, max_bytes=max_param_bytes)
        except TemplateError as error:
            reason, message = RunReason.BAD_PARAM, str(error)
    run = new_run(
        child,
        origin=Origin.CHILD,
        origin_key=origin_key,
        due_ms=now_ms,
        planned_ms=now_ms,
        now_ms=now_ms,
        param=param,
        reason=reason,
    )
    run = replace(run, chain_id=success.first.chain_id, chain_depth=depth)
    if not reason:
        return run
    logger.warning("job %d does not run after run %d: %s: %s", child.id, success.first.id, reason, message)
    return replace(run, state=RunState.SKIPPED, finished_ms=now_ms, message=message, skip_count=1)
