"""What operators do with jobs of packages: Start, Pause, Restart, run now; each is one row of the operation log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import insert, select, update
from xwheel.plugin import Actor, FieldError, NotFoundError, Permission, PluginSite, RouteRefusedError, XwheelError

from xwheel_job_package.distribution import present_distribution
from xwheel_job_package.owners import Owners, reach_of
from xwheel_job_package.service import CUT_OFF_MS, MISFIRES, reference_of, schedule_of
from xwheel_job_package.tables import FOUND, JOB, OPERATION, PACKAGE

Operation = Literal["Start", "Pause", "Restart", "Switch"]
MAX_ERROR: Final = 5000
MAX_LATE: Final = 500
MOST_ASKED: Final = 200
"""Jobs that are looked up one by one in a call, for those who may read some of them only."""

BEGUN: Final = "begun"
"""The reason of an operation whose part in the scheduler is being done."""
NEVER_ACCEPTED: Final = ("refused", "already_started", "resumed", "not_running", "superseded")
LATE: Final = "; answered later: "
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
        self._owners = Owners(site)

    def get(self, job_id: int) -> dict[str, Any]:
        """Return a job of a package, as operators see it: started or not as the job of xwheel is by now."""
        with self._site.database.read() as conn:
            row = _get(conn, job_id)
        if self._site.jobs.get(job_id)["enabled"]:
            return {**row, "state": "Startup"}
        return {**row, "state": "Pause" if row["state"] == "Startup" else row["state"]}

    def page(self, after: int, limit: int, actor: Actor) -> dict[str, Any]:
        """Return jobs of packages by id that somebody may read, and after which id the next page begins."""
        query = select(JOB).where(JOB.c.job_id > after).order_by(JOB.c.job_id)
        if reach_of(actor, Permission.READ) is None:
            return self._page(query, "job_id", limit)
        found = self._page(query, "job_id", min(limit, MOST_ASKED))
        return {**found, "items": [row for row in found["items"] if self._may_read(row["job_id"])]}

    def _may_read(self, job_id: int) -> bool:
        """Return whether the caller may read a job of xwheel; not if it is gone either."""
        try:
            self._site.jobs.get(job_id)
        except NotFoundError:
            return False
        return True

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

        While a :class:`~xwheel_job_package.distribution.Distribution` is set, the result is ``Waiting`` until
        :meth:`settle` is called.

        Raises:
            RouteRefusedError: ``bad_cron``, ``stale_version`` or ``no_such_job_in_package``; nothing is written then.
        """
        before = self.get(job_id)
        after = self._merged(before, wish)
        changed = [name for name in CHANGES if before[name] != after[name]]
        if wish.operation == "Pause" and wish.changes:
            raise FieldError("operation", "Pause changes neither the schedule nor the package")
        nothing = _idle_reason(wish.operation, before["state"], is_changed=bool(changed))
        if nothing and not self._is_worth_repeating(job_id, nothing):
            return {**before, **self._note(job_id, wish, actor, before, nothing)}
        self._check(after, changed)
        number, claimed = self._claim(wish, actor, before, after)
        try:
            self._do(before, after, changed)
        except XwheelError as error:
            self._put_back(before, claimed)
            self._end(number, "Failed", "refused", str(error))
            raise
        return {**claimed, "operation_id": number, **self._accept(number)}

    def _is_worth_repeating(self, job_id: int, nothing: str) -> bool:
        """Return whether nodes have to be asked although the scheduler has nothing to do: the last time they failed."""
        if present_distribution() is None or nothing == "not_running":
            return False
        query = (
            select(OPERATION.c.result)
            .where(OPERATION.c.job_id == job_id, OPERATION.c.reason.not_in(NEVER_ACCEPTED))
            .order_by(OPERATION.c.id.desc())
            .limit(1)
        )
        with self._site.database.read() as conn:
            return bool(conn.scalar(query) == "Failed")

    def _accept(self, number: int) -> dict[str, str]:
        """Let nodes do their part of an operation, or end it if there is no one to bring it to them."""
        distribution = present_distribution()
        if distribution is None:
            self._end(number, "Success", "", "")
            return {"result": "Success", "reason": ""}
        reason = distribution.waiting_reason()
        self.progress(number, reason)
        distribution.wake()
        return {"result": "Waiting", "reason": reason}

    def _merged(self, row: Mapping[str, Any], wish: Wish) -> dict[str, Any]:
        if wish.version is not None and wish.version != row["version"]:
            shown = {name: row[name] for name in (*CHANGES, "state", "version")}
            text = f"the job is at version {row['version']} by now: read it again"
            raise RouteRefusedError(409, "stale_version", text, field="version", facts=shown)
        state = {"Pause": "Pause", "Switch": row["state"]}.get(wish.operation, "Startup")
        return {**row, **wish.changes, "state": state}

    def _check(self, after: Mapping[str, Any], changed: list[str]) -> None:
        if after["misfire"] not in MISFIRES:
            raise FieldError("misfire", f"must be one of {', '.join(MISFIRES)}")
        if "package_id" in changed:
            self._reference(after)
        if "package_id" in changed or after["state"] == "Startup":
            self._need_of_group(after)
        if after["state"] == "Startup" and not after["cron"]:
            raise RouteRefusedError(
                422, "bad_cron", "cron: a job without a cron runs by hand only: give it one to start it", field="cron"
            )

    def _need_of_group(self, row: Mapping[str, Any]) -> None:
        """Refuse a job whose group does not have its package, such as one that was moved."""
        if not self._owners.is_of_group(row["package_id"], self._site.jobs.get(row["job_id"])["group_id"]):
            text = f"package {row['package_id']} does not belong to the job's group, whose executors cannot have it"
            raise RouteRefusedError(422, "not_of_group", text, field="package_id")

    def _reference(self, row: Mapping[str, Any]) -> str:
        """Return the source of a job of this package."""
        query = select(FOUND).where(
            FOUND.c.package_id == row["package_id"],
            FOUND.c.group_name == row["group_name"],
            FOUND.c.name == row["name"],
        )
        with self._site.database.read() as conn:
            package = conn.execute(select(PACKAGE).where(PACKAGE.c.id == row["package_id"])).mappings().first()
            item = conn.execute(query).mappings().first()
        if package is None or item is None or package["project"] != row["project"]:
            raise RouteRefusedError(
                422,
                "no_such_job_in_package",
                f"package {row['package_id']} has no job {row['group_name']}.{row['name']} of {row['project']}",
                field="package_id",
            )
        return reference_of(dict(package), dict(item)).source()

    def _claim(
        self, wish: Wish, actor: Actor, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Write the job's new row if it is as it was read, one version further, and log the operation as begun."""
        claimed = {**after, "version": before["version"] + 1}
        begin = self._beginning(wish, actor, before, claimed)
        number = self._write(before, claimed, begin)
        return number, claimed

    def _put_back(self, before: Mapping[str, Any], claimed: Mapping[str, Any]) -> None:
        """Write the row that was there before an operation that failed; nothing of it was accepted."""
        self._write(claimed, before, lambda _: 0)

    def _write(self, present: Mapping[str, Any], wanted: Mapping[str, Any], more: Callable[[Any], int]) -> int:
        """Write a job's row if it is as it was read, and what belongs to it, in one transaction."""
        values = {name: wanted[name] for name in (*CHANGES, "state", "version")}
        guarded = update(JOB).where(JOB.c.job_id == present["job_id"], JOB.c.version == present["version"])

        def work(conn: Any) -> int | None:
            return more(conn) if conn.execute(guarded.values(values)).rowcount else None

        number = self._site.database.transaction(work)
        if number is None:
            now = self.get(present["job_id"])
            shown = {name: now[name] for name in (*CHANGES, "state", "version")}
            text = f"the job is at version {now['version']} by now: read it again"
            raise RouteRefusedError(409, "stale_version", text, field="version", facts=shown)
        return number

    def _do(self, before: Mapping[str, Any], after: Mapping[str, Any], changed: list[str]) -> None:
        """Do the scheduler's part; what is refused leaves the scheduler's job as it was."""
        values = self._values(after, changed)
        job_id = after["job_id"]
        try:
            if values:
                self._site.jobs.change(job_id, values)
            try:
                if after["state"] == "Startup":
                    self._site.jobs.start(job_id)
                elif before["state"] == "Startup":
                    self._site.jobs.stop(job_id)
            except XwheelError:
                if values:
                    self._site.jobs.change(job_id, self._values(before, changed))
                raise
        except FieldError as error:
            if error.field in {"schedule_conf", "schedule_type"}:
                raise RouteRefusedError(422, "bad_cron", f"cron: {error.reason}", field="cron") from None
            raise

    def _values(self, row: Mapping[str, Any], changed: list[str]) -> dict[str, Any]:
        """Return the fields of the scheduler's job that are to change."""
        values: dict[str, Any] = {}
        if {"cron", "misfire", "time_zone"} & set(changed):
            values |= schedule_of(row["cron"], row["misfire"], row["time_zone"])
        if "package_id" in changed:
            values["glue_source"] = self._reference(row)
        return values

    def _note(self, job_id: int, wish: Wish, actor: Actor, before: Mapping[str, Any], reason: str) -> dict[str, Any]:
        """Log an operation that had nothing to do."""
        begin = self._beginning(wish, actor, {**before, "job_id": job_id}, before)
        number = self._site.database.transaction(begin)
        self._end(number, "Success", reason, "")
        return {"operation_id": number, "result": "Success", "reason": reason}

    def _beginning(
        self, wish: Wish, actor: Actor, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> Callable[[Any], int]:
        """Return what logs an operation as begun, in the transaction that it gets, and returns its number."""
        job_id = before["job_id"]
        group_id = self._site.jobs.get(job_id)["group_id"]
        values = {
            "job_id": job_id,
            "operation": wish.operation,
            "result": "Waiting",
            "reason": BEGUN,
            "error": "",
            "actor": actor.name[:128],
            "before": _shown(before),
            "after": _shown(after),
            "begun_ms": self._site.now_ms(),
        }
        action = f"package_job.{wish.operation.lower()}"

        def begin(conn: Any) -> int:
            number = int(conn.execute(insert(OPERATION).values(values)).inserted_primary_key[0])
            self._site.record(conn, action, "job", job_id, group_id=group_id, after=dict(wish.changes))
            return number

        return begin

    def progress(self, number: int, reason: str) -> None:
        """Say why an operation still waits; nothing changes once it is closed."""
        self._site.database.transaction(lambda conn: conn.execute(_open(number).values(reason=reason[:64])))

    def settle(self, operation_id: int, result: Literal["Success", "Failed"], reason: str, error: str) -> bool:
        """Close an operation that waited for nodes, and return whether it was open until now.

        One that failed puts the job's state back, and a job that was not started before is stopped; unless the job
        had another operation meanwhile. With the reason ``timeout`` all stays, since nodes may still do it.
        """
        with self._site.database.read() as conn:
            row = conn.execute(select(OPERATION).where(OPERATION.c.id == operation_id)).mappings().first()
        if row is None or row["ended_ms"] is not None:
            return False
        if result != "Failed" or reason in {"timeout", "superseded"}:
            return self._end(operation_id, result, reason, error)
        return self._fail(dict(row), reason, error)

    def _fail(self, row: Mapping[str, Any], reason: str, error: str) -> bool:
        """Close an operation as failed; the scheduler's job comes first, so that a crash leaves it open."""
        state, version = json.loads(row["before"])["state"], json.loads(row["after"])["version"]
        present = JOB.c.job_id == row["job_id"], JOB.c.version == version
        with self._site.database.read() as conn:
            is_last = conn.scalar(select(JOB.c.job_id).where(*present)) is not None
        if not is_last:
            return self._end(row["id"], "Failed", reason, error)
        self._let(row["job_id"], state)
        closing = self._closing(row["id"], "Failed", reason, error)

        def work(conn: Any) -> tuple[int, int]:
            closed = conn.execute(closing).rowcount
            return closed, conn.execute(update(JOB).where(*present).values(state=state)).rowcount

        closed, is_back = self._site.database.transaction(work)
        if not is_back:  # there is another operation since
            self._let(row["job_id"], self.get(row["job_id"])["state"])
        return bool(closed)

    def _let(self, job_id: int, state: str) -> None:
        """Start or stop the scheduler's job, if there still is one."""
        with suppress(NotFoundError):
            (self._site.jobs.start if state == "Startup" else self._site.jobs.stop)(job_id)

    def note_late(self, operation_id: int, text: str) -> bool:
        """Add to an operation that was closed by ``timeout`` what was answered later, once."""
        late = update(OPERATION).where(
            OPERATION.c.id == operation_id, OPERATION.c.reason == "timeout", OPERATION.c.ended_ms.is_not(None)
        )
        unsaid = late.where(OPERATION.c.error.not_like(f"%{LATE}%"))
        words = unsaid.values(error=OPERATION.c.error + f"{LATE}{text[:MAX_LATE]}")
        return bool(self._site.database.transaction(lambda conn: conn.execute(words).rowcount))

    def resume(self) -> None:
        """Do the rest of operations that a crash cut off; for callers who may change every job."""
        before_ms = self._site.now_ms() - CUT_OFF_MS
        query = select(OPERATION).where(
            OPERATION.c.ended_ms.is_(None), OPERATION.c.reason == BEGUN, OPERATION.c.begun_ms < before_ms
        )
        with self._site.database.read() as conn:
            rows = [dict(row) for row in conn.execute(query).mappings()]
        for row in rows:
            self._resume(row)

    def _resume(self, row: Mapping[str, Any]) -> None:
        before, after = json.loads(row["before"]), json.loads(row["after"])
        with self._site.database.read() as conn:
            present = conn.execute(select(JOB).where(JOB.c.job_id == row["job_id"])).mappings().first()
        if present is None or present["version"] != after["version"]:
            self._end(row["id"], "Failed", "interrupted", "another operation came before it was done")
            return
        was = {**present, **before}
        try:
            self._do(was, present, [name for name in CHANGES if before[name] != after[name]])
        except XwheelError as error:
            self._put_back(was, present)
            self._end(row["id"], "Failed", "refused", str(error))
        else:
            self._accept(row["id"])

    def _end(self, number: int, result: str, reason: str, error: str) -> bool:
        """Close an operation, and return whether it was open; one that is closed stays as it is."""
        closing = self._closing(number, result, reason, error)
        return bool(self._site.database.transaction(lambda conn: conn.execute(closing).rowcount))

    def _closing(self, number: int, result: str, reason: str, error: str) -> Any:
        return _open(number).values(
            result=result, reason=reason[:64], error=error[:MAX_ERROR], ended_ms=self._site.now_ms()
        )


def _open(number: int) -> Any:
    return update(OPERATION).where(OPERATION.c.id == number, OPERATION.c.ended_ms.is_(None))


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
