"""What the nodes of a cluster still have to be told, read from the tables by who tells them."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, Final

from sqlalchemy import func, insert, select, update
from xwheel.plugin import NotFoundError, PluginSite

from xwheel_job_package.operations import BEGUN, CHANGES, LATE
from xwheel_job_package.service import reference_of
from xwheel_job_package.tables import FOUND, JOB, OPERATION, PACKAGE

MOST_WAITING: Final = 10_000
KEEP_LATE_MS: Final = 24 * 60 * 60 * 1000

Row = Mapping[str, Any]


class Outbox:
    """Operations that wait for nodes, and what jobs shall be.

    Args:
        site: The node.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    def waiting(self, limit: int = MOST_WAITING) -> list[dict[str, Any]]:
        """Return the oldest operations that wait for nodes, with the versions they led to as ``version``."""
        query = (
            select(OPERATION)
            .where(OPERATION.c.ended_ms.is_(None), OPERATION.c.reason != BEGUN)
            .order_by(OPERATION.c.id)
            .limit(limit)
        )
        with self._site.database.read() as conn:
            rows = [dict(row) for row in conn.execute(query).mappings()]
        return [{**row, "version": json.loads(row["after"])["version"]} for row in rows]

    def wanted(self, job_ids: Collection[int] | None) -> dict[int, dict[str, Any]]:
        """Return what jobs shall be, by their ids; of all jobs if none are given.

        ``open_id`` is the newest operation that is not closed, one being begun included; :func:`source_of` returns what
        of a package a job calls.
        """
        if job_ids is not None and not job_ids:
            return {}
        has_package = PACKAGE.c.id == JOB.c.package_id
        is_found = (
            (FOUND.c.package_id == JOB.c.package_id)
            & (FOUND.c.group_name == JOB.c.group_name)
            & (FOUND.c.name == JOB.c.name)
        )
        more = PACKAGE.c.sha256, PACKAGE.c.file, PACKAGE.c.container, PACKAGE.c.signature, FOUND.c.call
        joined = JOB.outerjoin(PACKAGE, has_package).outerjoin(FOUND, is_found)
        query = select(JOB, PACKAGE.c.version.label("package_version"), *more).select_from(joined)
        if job_ids is not None:
            query = query.where(JOB.c.job_id.in_(job_ids))
        is_open = OPERATION.c.ended_ms.is_(None)
        newest = select(OPERATION.c.job_id, func.max(OPERATION.c.id)).where(is_open).group_by(OPERATION.c.job_id)
        with self._site.database.read() as conn:
            rows = [dict(row) for row in conn.execute(query).mappings()]
            # after the jobs: an operation is written with the version that it leads to
            last: dict[int, int] = {row[0]: row[1] for row in conn.execute(newest)}
        return {row["job_id"]: {**row, "open_id": last.get(row["job_id"])} for row in rows}

    def unanswered(self) -> list[int]:
        """Return the operations of the last day that were closed by a timeout and that no one has answered since."""
        query = select(OPERATION.c.id).where(
            OPERATION.c.reason == "timeout",
            OPERATION.c.begun_ms > self._site.now_ms() - KEEP_LATE_MS,
            OPERATION.c.error.not_like(f"%{LATE}%"),
        )
        with self._site.database.read() as conn:
            return list(conn.scalars(query))

    def take_reset(self, job_id: int, version: int, op_seq: int, actor: str) -> bool:
        """Write that the first node of a cluster stopped a job; nothing happens if it has another version by now."""
        guarded = update(JOB).where(JOB.c.job_id == job_id, JOB.c.version == version, JOB.c.state == "Startup")
        now_ms = self._site.now_ms()

        def work(conn: Any) -> bool:
            before = conn.execute(select(JOB).where(JOB.c.job_id == job_id)).mappings().first()
            change = {"state": "Shutdown", "version": max(version, op_seq)}
            if before is None or not conn.execute(guarded.values(change)).rowcount:
                return False
            shown = {name: before[name] for name in (*CHANGES, "state", "version")}
            values = {
                "job_id": job_id,
                "operation": "Reset",
                "result": "Success",
                "reason": "first_node",
                "error": "",
                "actor": actor[:128],
                "before": json.dumps(shown),
                "after": json.dumps({**shown, **change}),
                "begun_ms": now_ms,
                "ended_ms": now_ms,
            }
            conn.execute(insert(OPERATION).values(values))
            self._site.record(conn, "package_job.reset", "job", job_id, group_id=group_id, after=change)
            return True

        try:
            group_id = self._site.jobs.stop(job_id)["group_id"]
        except NotFoundError:
            return False
        return bool(self._site.database.transaction(work))

    def catch_up(self, operation: Row, version: int) -> bool:
        """Let an operation lead to a later version, as the cluster knows later ones: the tables are from a backup."""
        job = update(JOB).where(JOB.c.job_id == operation["job_id"], JOB.c.version == operation["version"])
        after = json.dumps({**json.loads(operation["after"]), "version": version})
        waits = update(OPERATION).where(OPERATION.c.id == operation["id"]).values(after=after)

        def work(conn: Any) -> bool:
            is_there = conn.execute(job.values(version=version)).rowcount > 0
            return bool(is_there and conn.execute(waits).rowcount)

        return bool(self._site.database.transaction(work))


def source_of(row: Row) -> str | None:
    """Return the source of a job that :meth:`Outbox.wanted` returned; None if its package is gone."""
    if row["call"] is None or row["sha256"] is None:
        return None
    package = {**row, "id": row["package_id"], "version": row["package_version"]}
    return reference_of(package, row).source()
