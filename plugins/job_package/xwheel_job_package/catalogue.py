"""What the console's pages ask of the store: projects with their versions, who uses one, and what is in its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import case, func, select
from xwheel.plugin import Actor, NotFoundError, Permission, PluginSite, XwheelError

from xwheel_job_package.owners import Owners, is_within_reach, reach_of
from xwheel_job_package.tables import FOUND, JOB, PACKAGE

NEWEST: Final = 20
"""Versions of a project that its list shows at once."""

_SHOWN: Final = tuple(column for column in PACKAGE.columns if column.name != "report")
Row = Mapping[str, Any]


class Catalogue:
    """Packages in the order in which people look for them.

    Args:
        site: The node.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site
        self._owners = Owners(site)

    def projects(self, search: str, after: str, limit: int, actor: Actor) -> dict[str, Any]:
        """Return projects by name, each with its newest versions, and after which name the next page begins."""
        query = select(PACKAGE.c.project).distinct().where(PACKAGE.c.project > after)
        query = query.where(is_within_reach(reach_of(actor, Permission.READ)))
        if search:
            query = query.where(PACKAGE.c.project.contains(search.lower(), autoescape=True))
        with self._site.database.read() as conn:
            names = list(conn.scalars(query.order_by(PACKAGE.c.project).limit(limit + 1)))
            shown = names[:limit]
            rows = _newest(conn, shown)
            _count_jobs(conn, rows)
            rights = self._owners.show(conn, shown, actor)
        items = []
        for name in shown:
            mine = [row for row in rows if row["project"] == name]
            total = mine[0]["total"] if mine else 0
            versions = [_without(row, "total", "place") for row in mine]
            items.append({"id": name, "project": name, "total": total, "versions": versions, **rights[name]})
        return {"items": items, "next": shown[-1] if len(names) > limit else None}

    def versions(self, project: str, before: int | None, limit: int, actor: Actor) -> dict[str, Any]:
        """Return versions of a project, those that came last first, and before which id the next page begins."""
        self._owners.need_project(project, actor)
        query = select(*_SHOWN).where(PACKAGE.c.project == project).order_by(PACKAGE.c.id.desc())
        if before is not None:
            query = query.where(PACKAGE.c.id < before)
        with self._site.database.read() as conn:
            rows = [dict(row) for row in conn.execute(query.limit(limit + 1)).mappings()]
            if not rows and before is None:
                raise NotFoundError("project", project)
            _count_jobs(conn, rows)
        return {"items": rows[:limit], "next": rows[limit - 1]["id"] if len(rows) > limit else None}

    def users(self, package_id: int, after: int, limit: int) -> dict[str, Any]:
        """Return the jobs of a package's project that the caller may read, and what each has of this version.

        ``uses`` says whether it is at this version, ``offered`` whether this version has its function.
        """
        query = (
            select(JOB, PACKAGE.c.version.label("package_version"))
            .outerjoin(PACKAGE, PACKAGE.c.id == JOB.c.package_id)
            .where(JOB.c.job_id > after)
            .order_by(JOB.c.job_id)
            .limit(limit + 1)
        )
        with self._site.database.read() as conn:
            project = _project(conn, package_id)
            rows = [dict(row) for row in conn.execute(query.where(JOB.c.project == project)).mappings()]
            names = select(FOUND.c.group_name, FOUND.c.name).where(FOUND.c.package_id == package_id)
            offered = {(row.group_name, row.name) for row in conn.execute(names)}
        items = []
        for row in rows[:limit]:
            job = self._job(row["job_id"])
            if job is None:
                continue
            row |= {
                "job_name": job["name"],
                "group_id": job["group_id"],
                "enabled": job["enabled"],
                "uses": row["package_id"] == package_id,
                "offered": (row["group_name"], row["name"]) in offered,
            }
            items.append(row)
        return {"items": items, "next": rows[limit - 1]["job_id"] if len(rows) > limit else None}

    def choices(self, job_id: int, before: int | None, limit: int, actor: Actor) -> dict[str, Any]:
        """Return the versions that have a job's function, those that came last first."""
        reach = reach_of(actor, Permission.READ)
        has_it = (
            select(FOUND.c.package_id)
            .join(JOB, (JOB.c.group_name == FOUND.c.group_name) & (JOB.c.name == FOUND.c.name))
            .where(JOB.c.job_id == job_id)
        )
        its = select(JOB.c.project).where(JOB.c.job_id == job_id).scalar_subquery()
        query = select(*_SHOWN).where(PACKAGE.c.project == its, PACKAGE.c.id.in_(has_it), is_within_reach(reach))
        if before is not None:
            query = query.where(PACKAGE.c.id < before)
        with self._site.database.read() as conn:
            ordered = query.order_by(PACKAGE.c.id.desc()).limit(limit + 1)
            rows = [dict(row) for row in conn.execute(ordered).mappings()]
        return {"items": rows[:limit], "next": rows[limit - 1]["id"] if len(rows) > limit else None}

    def _job(self, job_id: int) -> dict[str, Any] | None:
        """Return a job of xwheel, or None if it is gone or none of the caller's business."""
        try:
            return self._site.jobs.get(job_id)
        except NotFoundError:
            return None


def switch(
    job_ids: Sequence[int], change: Callable[[int], Mapping[str, Any]], failed: Callable[[XwheelError], Row]
) -> list[dict[str, Any]]:
    """Return what became of each job, one after another: what one refuses keeps no other from its change."""
    items: list[dict[str, Any]] = []
    for job_id in dict.fromkeys(job_ids):
        try:
            items.append({"job_id": job_id, "error": "", **change(job_id)})
        except XwheelError as error:
            items.append({"job_id": job_id, "result": "Failed", **failed(error)})
    return items


def _newest(conn: Any, projects: Sequence[str]) -> list[dict[str, Any]]:
    """Return the newest versions of projects, with ``total``, how many each has."""
    project = PACKAGE.c.project
    ranked = (
        select(
            *_SHOWN,
            func.row_number().over(partition_by=project, order_by=PACKAGE.c.id.desc()).label("place"),
            func.count().over(partition_by=project).label("total"),
        )
        .where(project.in_(projects))
        .subquery()
    )
    query = select(ranked).where(ranked.c.place <= NEWEST).order_by(ranked.c.id.desc())
    return [dict(row) for row in conn.execute(query).mappings()]


def _count_jobs(conn: Any, rows: Sequence[dict[str, Any]]) -> None:
    """Add to packages how many jobs use each, and how many of these are started."""
    is_started = func.sum(case((JOB.c.state == "Startup", 1), else_=0))
    query = select(JOB.c.package_id, func.count().label("jobs"), is_started.label("started")).group_by(JOB.c.package_id)
    ids = [row["id"] for row in rows]
    found = {row.package_id: row for row in conn.execute(query.where(JOB.c.package_id.in_(ids)))}
    for row in rows:
        counts = found.get(row["id"])
        row["jobs"] = int(counts.jobs) if counts else 0
        row["started"] = int(counts.started) if counts else 0


def _project(conn: Any, package_id: int) -> str:
    project = conn.scalar(select(PACKAGE.c.project).where(PACKAGE.c.id == package_id))
    if project is None:
        raise NotFoundError("package", package_id)
    return str(project)


def _without(row: Row, *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}
