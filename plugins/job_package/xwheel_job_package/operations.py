"""What operators do with jobs of packages: Start, Pause, Restart, run now; each is one row of the operation log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import insert, select, update
from xwheel.plugin import (
    Actor,
    FieldError,
    NotFoundError,
    Permission,
    PluginSite,
    RouteRefusedError,
    XwheelError,
)

from xwheel_job_package.service import MISFIRES, reference_of, schedule_of
from xwheel_job_package.tables import FOUND, JOB, OPERATION, PACKAGE

Operation = Literal["Start", "Pause", "Restart", "Switch"]
MAX_ERROR: Final = 5000
CHANGES: Final = ("cron", "misfire", "time_zone", "package_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What an operator asks for.

    Attributes:
        operation: What is done; ``Switch`` is another version for a job that is not started, and starts nothing.
        version: The job's version that the operator saw; None for whatever it is.
        changes: New values of :data:`CHANGES`.
    """

    operation: Operation
    version: int | None = None
    changes: Mapping[str, Any]


class JobOperations:
    """Starts, pauses and restarts jobs of packages as jobs of xwheel.

    Args:
        site: The node.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    def get(self, job_id: int) -> dict[str, Any]:
        """Return a job of a package, as operators see it: started or not as the job of xwheel is by now."""
        with self._site.database.read() as conn:
            row = _get(conn, job_id)
        if self._site.jobs.get(job_id)["enabled"]:
            return {**row, "state": "Startup"}
        return {**row, "state": "Pause" if row["state"] == "Startup" else row["state"]}

    def page(self, after: int, limit: int) -> dict[str, Any]:
        """Return jobs of packages by id, and after which id the next page begins."""
        return self._page(select(JOB).where(JOB.c.job_id > after).order_by(JOB.c.job_id), "job_id", limit)

    def log(self, job_id: int, before: int | None, limit: int) -> dict[str, Any]:
        """Return operations of a job, newest first, and before which id the next page begins."""
        query = select(OPERATION).where(OPERATION.c.job_id == job_id).order_by(OPERATION.c.id.desc())
        return self._page(query if before is None else query.where(OPERATION.c.id < before), "id", limit)

    def _page(self, query: Any, key: str, limit: int) -> dict[str, Any]:
        with self._site.database.read() as conn:
            rows = [dict(row) for row in conn.execute(query.limit(limit + 1)).mappings()]
        return {"items": rows[:limit], "next": rows[limit - 1][key] if len(rows) > limit else None}

    def switch(self, job_id: int, package_id: int, actor: Actor) -> dict[str, Any]:
        """Let a job use another version of its package: one that is started is restarted, another stays as it is.

        Raises:
            RouteRefusedError: As of :meth:`apply`.
        """
        group_id = self._site.jobs.get(job_id)["group_id"]
        for permission in (Permission.EDIT, Permission.SCRIPT):
            self._site.need(permission, group_id, "job", job_id)
        before = self.get(job_id)
        if before["package_id"] == package_id:
            return {"result": "Success", "reason": "same_version"}
        operation: Operation = "Restart" if before["state"] == "Startup" else "Switch"
        wish = Wish(operation=operation, version=before["version"], changes={"package_id": package_id})
        done = self.apply(job_id, wish, actor)
        return {name: done[name] for name in ("operation_id", "result", "reason")}

    def apply(self, job_id: int, wish: Wish, actor: Actor) -> dict[str, Any]:
        """Do what an operator asks for, and return the job with the operation's id, result and reason.

        Raises:
            RouteRefusedError: ``bad_cron``, ``stale_version`` or ``no_such_job_in_package``; nothing is written then.
        """
        before = self.get(job_id)
        after = self._merged(before, wish)
        changed = [name for name in CHANGES if before[name] != after[name]]
        if wish.operation == "Pause" and wish.changes:
            raise FieldError("operation", "Pause changes neither the schedule nor the package")
        nothing = _idle_reason(wish.operation, before["state"], is_changed=bool(changed))
        if nothing:
            return {**before, **self._note(job_id, wish, actor, before, before, nothing)}
        self._check(before, after, changed)
        claimed = self._claim(before, after)
        number = self._begin(job_id, wish, actor, before, after)
        try:
            self._do(before, after, changed)
        except XwheelError as error:
            self._put_back(before, claimed)
            self._end(number, "Failed", "refused", str(error))
            raise
        self._end(number, "Success", "", "")
        return {**claimed, "operation_id": number, "result": "Success", "reason": ""}

    def _merged(self, row: Mapping[str, Any], wish: Wish) -> dict[str, Any]:
        if wish.version is not None and wish.version != row["version"]:
            shown = {name: row[name] for name in (*CHANGES, "state", "version")}
            text = f"the job is at version {row['version']} by now: read it again"
            raise RouteRefusedError(409, "stale_version", text, field="version", facts=shown)
        state = {"Pause": "Pause", "Switch": row["state"]}.get(wish.operation, "Startup")
        return {**row, **wish.changes, "state": state}

    def _check(self, before: Mapping[str, Any], after: dict[str, Any], changed: list[str]) -> None:
        if after["misfire"] not in MISFIRES:
            raise FieldError("misfire", f"must be one of {', '.join(MISFIRES)}")
        if "package_id" in changed:
            self._reference(after)
        if after["state"] == "Startup" and not after["cron"]:
            raise RouteRefusedError(
                422,
                "bad_cron",
                "cron: a job without a cron runs by hand only: give it one to start it",
                field="cron",
            )
        del before

    def _reference(self, row: Mapping[str, Any]) -> str:
        """Return the source of a job of this package."""
        query = select(FOUND).where(
            FOUND.c.package_id == row["package_id"],
            FOUND.c.group_name == row["group_name"],
            FOUND.c.name == row["name"],
        )
        with self._site.database.read() as conn:
            package = (
                conn.execute(select(PACKAGE).where(PACKAGE.c.id == row["package_id"])).mappings().first()
            )
            item = conn.execute(query).mappings().first()
        if package is None or item is None or package["project"] != row["project"]:
            raise RouteRefusedError(
                422,
                "no_such_job_in_package",
                f"package {row['package_id']} has no job {row['group_name']}.{row['name']} of {row['project']}",
                field="package_id",
            )
        return reference_of(dict(package), dict(item)).source()

    def _claim(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
        """Write the job's new row if it is as it was read, one version further."""
        claimed = {**after, "version": before["version"] + 1}
        self._write(before, claimed)
        return claimed

    def _put_back(self, before: Mapping[str, Any], claimed: Mapping[str, Any]) -> None:
        """Write the row that was there before an operation that failed; nothing of it was accepted."""
        self._write(claimed, before)

    def _write(self, present: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        values = {name: wanted[name] for name in (*CHANGES, "state", "version")}
        guarded = update(JOB).where(JOB.c.job_id == present["job_id"], JOB.c.version == present["version"])
        count = self._site.database.transaction(lambda conn: conn.execute(guarded.values(values)).rowcount)
        if not count:
            now = self.get(present["job_id"])
            shown = {name: now[name] for name in (*CHANGES, "state", "version")}
            text = f"the job is at version {now['version']} by now: read it again"
            raise RouteRefusedError(409, "stale_version", text, field="version", facts=shown)

    def _do(self, before: Mapping[str, Any], after: Mapping[str, Any], changed: list[str]) -> None:
        job_id = after["job_id"]
        values: dict[str, Any] = {}
        if {"cron", "misfire", "time_zone"} & set(changed):
            values |= schedule_of(after["cron"], after["misfire"], after["time_zone"])
        if "package_id" in changed:
            values["glue_source"] = self._reference(after)
        try:
            if values:
                self._site.jobs.change(job_id, values)
            if after["state"] == "Startup":
                self._site.jobs.start(job_id)
            elif before["state"] == "Startup":
                self._site.jobs.stop(job_id)
        except FieldError as error:
            if error.field in {"schedule_conf", "schedule_type"}:
                raise RouteRefusedError(422, "bad_cron", f"cron: {error.reason}", field="cron") from None
            raise

    def _note(
        self,
        job_id: int,
        wish: Wish,
        actor: Actor,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        reason: str,
    ) -> dict[str, Any]:
        """Log an operation that had nothing to do."""
        number = self._begin(job_id, wish, actor, before, after)
        self._end(number, "Success", reason, "")
        return {"operation_id": number, "result": "Success", "reason": reason}

    def _begin(
        self,
        job_id: int,
        wish: Wish,
        actor: Actor,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
    ) -> int:
        values = {
            "job_id": job_id,
            "operation": wish.operation,
            "result": "Waiting",
            "reason": "",
            "error": "",
            "actor": actor.name[:128],
            "before": _shown(before),
            "after": _shown(after),
            "begun_ms": self._site.now_ms(),
        }

        def work(conn: Any) -> int:
            number = int(conn.execute(insert(OPERATION).values(values)).inserted_primary_key[0])
            self._site.record(
                conn, f"package_job.{wish.operation.lower()}", "job", job_id, after=dict(wish.changes)
            )
            return number

        return self._site.database.transaction(work)

    def _end(self, number: int, result: str, reason: str, error: str) -> None:
        """Close an operation; one that is closed stays as it is."""
        is_open = update(OPERATION).where(OPERATION.c.id == number, OPERATION.c.ended_ms.is_(None))
        values = {
            "result": result,
            "reason": reason,
            "error": error[:MAX_ERROR],
            "ended_ms": self._site.now_ms(),
        }
        close: Callable[[Any], object] = lambda conn: conn.execute(is_open.values(values))  # noqa: E731
        self._site.database.transaction(close)


def _idle_reason(operation: Operation, state: str, *, is_changed: bool) -> str:
    """Return why an operation has nothing to do, or nothing."""
    if operation == "Pause" and state != "Startup":
        return "not_running"
    if is_changed or state != "Startup":
        return ""
    return {"Start": "already_started", "Restart": "resumed"}.get(operation, "")


def _shown(row: Mapping[str, Any]) -> str:
    return json.dumps({name: row[name] for name in (*CHANGES, "state", "version")})


def _get(conn: Any, job_id: int) -> dict[str, Any]:
    row = conn.execute(select(JOB).where(JOB.c.job_id == job_id)).mappings().first()
    if row is None:
        raise NotFoundError("package job", job_id)
    return dict(row)
