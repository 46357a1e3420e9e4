"""Save which jobs run after which: no cycle, no endless chain, no template that names what is not there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import FieldError, NotFoundError, RevisionError
from xwheel.model import ChildLink, Job
from xwheel.model.access import Permission, current_actor
from xwheel.model.versions import JobAction
from xwheel.scheduler.finish.template import MAX_DEPTH, check_template
from xwheel.scheduler.jobs.validate import DEFAULT_LIMITS, TextLimits
from xwheel.scheduler.jobs.versions import JobHistory, JobStep
from xwheel.storage import jobs, settings
from xwheel.storage.database.engine import Connection, Database

MAX_CHILDREN: Final = 100
MAX_PARENTS: Final = 100
MAX_JOBS: Final = 10_000  # jobs that may hang together; a search ends there


@dataclass(eq=False, repr=False)
class DependencyManager:
    """Replaces the children of a job."""

    db: Database
    clock: Clock
    history: JobHistory
    _: KW_ONLY
    limits: TextLimits = DEFAULT_LIMITS

    def set_children(self, parent_id: int, links: Sequence[ChildLink], revision: int | None = None) -> list[ChildLink]:
        """Make these the children of a job, and raise its revision.

        What succeeds runs its children, so a new child, or a new parameter for one, takes the permission ``run`` in its
        group. Children that the actor may not read stay: who does not see them cannot mean to take them out. Returns
        the links as they are saved, by child. Without a revision it overwrites whatever is there.

        Raises NotFoundError without the job, RevisionError if it is at another revision, and FieldError if a child does
        not exist, stands twice or would close a cycle, the chain would be too long, or a template is too long or names
        what is not there.
        """
        self._check_list(parent_id, links)
        now_ms = self.clock.now_ms()

        def work(conn: Connection) -> list[ChildLink]:
            # one change of links at a time, so that no two of them close a cycle together
            settings.lock_setting(conn, settings.CHAINS)
            # the child rows too: a finishing parent of theirs must see all links or none
            known = jobs.lock_jobs(conn, {parent_id, *(link.child_id for link in links)})
            parent = known.get(parent_id) or jobs.get_job(conn, parent_id)
            current_actor().need(Permission.EDIT, parent.group_id, "job", parent_id)
            if revision is not None and parent.revision != revision:
                raise RevisionError("job", parent_id, parent.revision, revision)
            for link in links:
                if link.child_id not in known:
                    raise _unknown(link.child_id)
            before = jobs.children_of(conn, [parent_id])
            wanted = [*links, *_unseen(conn, before, links, known)]
            _check_count(wanted)
            jobs.replace_children(conn, parent_id, wanted)
            self._check_chains(conn, parent_id)
            self._check_parents(conn, links)
            now = jobs.update_job(conn, parent_id, {"revision": parent.revision + 1, "updated_ms": now_ms})
            made = jobs.children_of(conn, [parent_id])
            step = JobStep(parent, now, children=(before, made))
            self.history.record(conn, JobAction.CHILDREN, [step], now_ms)
            return made

        return self.db.transaction(work)

    def _check_list(self, parent_id: int, links: Sequence[ChildLink]) -> None:
        _check_count(links)
        seen: set[int] = set()
        for link in links:
            self.limits.check_param(link.param)
            if link.child_id == parent_id:
                raise FieldError("child_id", f"job {parent_id} cannot run after itself")
            if link.child_id in seen:
                raise FieldError("child_id", f"job {link.child_id} stands twice")
            seen.add(link.child_id)

    def _check_parents(self, conn: Connection, links: Sequence[ChildLink]) -> None:
        parents: defaultdict[int, list[int]] = defaultdict(list)
        for link in jobs.parents_of(conn, {link.child_id for link in links}):
            parents[link.child_id].append(link.parent_id)
        for link in links:
            found = parents[link.child_id]
            if len(found) > MAX_PARENTS:
                text = f"job {link.child_id} would have {len(found)} parents, {MAX_PARENTS} are allowed"
                raise FieldError("child_id", text)
            if link.param is not None:
                check_template(link.param, _readable(conn, found))

    def _check_chains(self, conn: Connection, parent_id: int) -> None:
        """Walk down and up from the changed job, a generation a query.

        Raises FieldError if the job is its own descendant, or the longest chain through it has too many generations.
        """
        down, came_from = _generations(conn, parent_id, is_down=True)
        if parent_id in came_from:
            path = [parent_id]
            while (before := came_from[path[-1]]) != parent_id:
                path.append(before)
            path = [parent_id, *reversed(path[1:]), parent_id]
            seen = set(_readable(conn, path))
            cycle = " -> ".join(str(item) if item in seen else "a job of another group" for item in path)
            raise FieldError("child_id", f"the jobs would run in a circle: {cycle}")
        up, _ = _generations(conn, parent_id, is_down=False)
        if up + down > MAX_DEPTH:
            text = f"a chain through job {parent_id} would have more than {MAX_DEPTH} generations of children"
            raise FieldError("child_id", text)


def _check_count(links: Sequence[ChildLink]) -> None:
    if len(links) > MAX_CHILDREN:
        raise FieldError("children", f"a job may have at most {MAX_CHILDREN} children, not {len(links)}")


def _unseen(
    conn: Connection, old: Sequence[ChildLink], links: Sequence[ChildLink], known: Mapping[int, Job]
) -> list[ChildLink]:
    """Check that the actor may have these children, and return the ones that there are and that it may not read.

    One that is new or gets another parameter it must be allowed to run; one that it may not read does not exist.
    """
    actor = current_actor()
    if actor.grants.allows(Permission.RUN):
        return []
    before = {link.child_id: link for link in old}
    for link in links:
        takes = Permission.READ if before.get(link.child_id) == link else Permission.RUN
        try:
            actor.need(takes, known[link.child_id].group_id, "job", link.child_id)
        except NotFoundError:
            raise _unknown(link.child_id) from None
    others = jobs.get_jobs(conn, before.keys() - known.keys()).values()
    return [before[job.id] for job in others if not actor.grants.allows(Permission.READ, job.group_id)]


def _unknown(child_id: int) -> FieldError:
    return FieldError("child_id", f"job {child_id} does not exist")


def _readable(conn: Connection, ids: Sequence[int]) -> Sequence[int]:
    grants = current_actor().grants
    if grants.allows(Permission.READ):
        return ids
    found = jobs.get_jobs(conn, set(ids))
    return [item for item in ids if item in found and grants.allows(Permission.READ, found[item].group_id)]


def _generations(conn: Connection, start: int, *, is_down: bool) -> tuple[int, dict[int, int]]:
    """Return how many generations are below or above a job, and from where each of their jobs was first reached.

    A job counts in the deepest generation that it is met in. A walk that is too long for a chain ends there; so does
    one that comes back to its start.
    """
    depth, level = 0, {start}
    came_from: dict[int, int] = {}
    while level and depth <= MAX_DEPTH and start not in came_from:
        links = jobs.children_of(conn, level) if is_down else jobs.parents_of(conn, level)
        pairs = [(link.child_id, link.parent_id) if is_down else (link.parent_id, link.child_id) for link in links]
        level = {job_id for job_id, _ in pairs}
        depth += bool(level)
        for job_id, before in pairs:
            came_from.setdefault(job_id, before)
        if len(came_from) > MAX_JOBS:
            raise FieldError("child_id", f"more than {MAX_JOBS} jobs would hang together")
    return depth, came_from
