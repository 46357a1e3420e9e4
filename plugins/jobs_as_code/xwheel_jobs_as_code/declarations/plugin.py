"""What a node gets of this package: the resources of declared jobs, and what code owns of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xwheel.config import Config
from xwheel.plugin import DeclaredView, Need, Of, Permission, PluginSite, ResourceRoute

from xwheel_jobs_as_code.declarations import owners, records
from xwheel_jobs_as_code.declarations.manager import DeclarationManager
from xwheel_jobs_as_code.declarations.owners import DeclarationOwner
from xwheel_jobs_as_code.declarations.ownership import Declared
from xwheel_jobs_as_code.declarations.records import DeclaredJob
from xwheel_jobs_as_code.declarations.resources import Declarations, DeclarationsSync, DeclaredJobResource


class DeclarationResources:
    """``/declarations`` and ``/jobs/{job_id}/release``, and who owns which fields of declared jobs.

    Args:
        config: The settings.
    """

    name = "declarations"
    chapters: Mapping[str, str] = {
        "declarations": "Jobs that an application's code declares, and whose release owns them."
    }
    owner_table = "declared_job"

    def __init__(self, config: Config) -> None:
        self._limit = config.api.max_body_bytes
        # so long a release keeps its jobs once its executors are gone
        self._gone_ms = config.trigger.dead_after_s * 1000
        self.manager: DeclarationManager | None = None

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return the resources."""
        manager = self.manager = DeclarationManager(site, gone_ms=self._gone_ms)
        return (
            ResourceRoute("/declarations", Declarations(site, manager), {"GET": Need(Permission.READ, Of.SOME)}),
            ResourceRoute(
                "/declarations/sync",
                DeclarationsSync(site, manager, self._limit),
                {"POST": Need(Permission.EDIT, Of.SOME, group_token=True)},
            ),
            ResourceRoute(
                "/jobs/{job_id:id}/release",
                DeclaredJobResource(site, manager, self._limit),
                {"POST": Need(Permission.EDIT, Of.JOB)},
            ),
        )

    def owned(self, conn: Any, job_ids: Collection[int]) -> Mapping[int, DeclaredView]:
        """Return what code says of jobs, by id."""
        known = records.get_declared(conn, job_ids)
        followed = owners.get_owners(conn, {item.group_id for item in known.values()})
        others = self.manager.conflicting(followed.values()) if followed and self.manager else {}
        views = {}
        for job_id, item in known.items():
            owner = followed.get(item.group_id, DeclarationOwner(group_id=item.group_id))
            views[job_id] = _view(item, owner, others.get(item.group_id, ()))
        return views

    def refusal(self, job_id: int, said: DeclaredView, field: str) -> str:
        """Return why people cannot change a field, or delete the job."""
        if not field:
            return (
                f"job {job_id} is declared in {said.place}, so the next start of the application would make it again: "
                f"delete it there, or release it from code with 'xwheel job release {job_id}'"
            )
        return (
            f"release {said.release} of the application declares it for job {job_id} in {said.place}: change it "
            f"there, or release it from code with 'xwheel job release {job_id} --field {field}'"
        )

    def conflicts(self, conn: Any, groups: Collection[int] | None) -> int:
        """Return in how many groups live executors of one release declare different jobs."""
        return len(self.manager.conflicting(owners.list_owners(conn, groups=groups))) if self.manager else 0


def _view(item: DeclaredJob, owner: DeclarationOwner, others: Sequence[Declared]) -> DeclaredView:
    problem = item.problem
    if others and item.is_owned and not problem:
        problem = (
            f"executors of release {owner.release} declare different jobs: {owner.digest[:8]} came first and stays, "
            f"{', '.join(other.digest[:8] for other in others)} waits"
        )
    return DeclaredView(
        place=item.place,
        release=owner.release,
        owned=sorted(item.owned),
        released=list(item.released),
        is_released=item.is_released,
        is_retired=item.is_retired,
        is_in_conflict=bool(others) and item.is_owned,
        problem=problem,
    )
