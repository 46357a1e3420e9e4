"""Packages of the store: taken in, checked, scanned, kept, deleted; each function of one becomes a job of xwheel."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from xwheel.plugin import (
    Actor,
    Deed,
    ForbiddenError,
    NameTakenError,
    NotFoundError,
    Permission,
    PluginSite,
    RouteRefusedError,
    XwheelError,
)

from xwheel_job_package import archive as archives
from xwheel_job_package.distribution import present_distribution
from xwheel_job_package.owners import (
    Owned,
    Owners,
    forget_project,
    is_within_reach,
    reach_of,
    read_owned,
    record_in_groups,
    write_owned,
)
from xwheel_job_package.reference import PackageReference
from xwheel_job_package.report import FoundJob, PackageError, PackageInfo, ScanReport
from xwheel_job_package.scan import scan
from xwheel_job_package.signatures import SignatureError, TrustedKeys
from xwheel_job_package.store import Incoming, PackageStore
from xwheel_job_package.store_options import StoreOptions
from xwheel_job_package.tables import FOUND, JOB, PACKAGE

if TYPE_CHECKING:
    from xwheel_job_package.confirm import ImportScan

_log = logging.getLogger(__name__)

MIB: Final = 1024 * 1024
CUT_OFF_MS: Final = 60_000
"""After this long without an end, what was begun is taken to be cut off."""
MISFIRES: Final = {
    "None": "fire_once",
    "FireAndProceed": "fire_once",
    "DoNothing": "skip",
    "IgnoreMisfires": "fire_all",
}
"""What a package says of missed fires, and what xwheel calls it."""

MOST_PROBLEMS: Final = 50
"""Of a refused package, those that its answer names."""

Row = Mapping[str, Any]


class PackageService:
    """Packages and their jobs.

    Args:
        options: Limits and places.
        site: The node.
    """

    def __init__(self, options: StoreOptions, site: PluginSite) -> None:
        self.options = options
        self._site = site
        self._owners = Owners(site)
        self._store = PackageStore(Path(options.directory))
        self._trusted = TrustedKeys(options.trusted_keys)
        self._import_scan = _import_scan(options)
        self._swept = threading.Lock()
        self._is_swept = False

    def upload(
        self,
        read: Any,
        file_name: str,
        actor: Actor,
        *,
        project: str = "",
        version: str = "",
        packages: Sequence[str] = (),
        allow_empty: bool = False,
        signature: str = "",
        groups: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Take a package in; what is refused leaves nothing behind.

        Args:
            read: Gives the next piece of the file.
            file_name: What the uploader calls it.
            actor: Who uploads it.
            project: Name of a plain archive that does not say it.
            version: Its version likewise.
            packages: Where to look for jobs; everywhere if empty.
            allow_empty: Take one without jobs.
            signature: Of the file, by its author; empty for none.
            groups: App names of the executor groups that have it, or ``*``; those of the versions before if empty.

        Raises:
            RouteRefusedError: It is refused; ``reason`` says why.
            ForbiddenError: The uploader is not an admin in all of its groups.
        """
        self.sweep_once()
        if self._import_scan is not None and reach_of(actor, Permission.ADMIN) is not None:
            text = "an upload is imported on the scheduler's host (scan_confirm), so it takes admin in all groups"
            raise ForbiddenError(Permission.ADMIN, text)
        wanted = self._owners.named(groups, actor) if groups else None
        try:
            archives.parse_file_name(file_name)
            with self._store.take(read) as incoming:
                limits = archives.Limits(
                    unpacked_bytes=self.options.max_unpacked_mb * MIB, members=self.options.max_members
                )
                found = archives.open_package(incoming.path, file_name, limits, project=project, version=version)
                owned = self._owners.decide(found.info.project, wanted, actor, self.options.group)
                group_id = self._group_id(owned)
                self._refuse_known(found.info, incoming)
                self._trusted.check(signature, found.info.project, found.info.version, incoming.sha256)
                report = scan(found, packages or found.info.packages_to_scan)
                if self._import_scan is not None:
                    self._judge(report, allow_empty=allow_empty)
                    report = self._import_scan.confirm(found, incoming.path, incoming.sha256, report)
                self._judge(report, allow_empty=allow_empty)
                self._refuse_taken(found.info, report, group_id, actor)
                package_id = self._keep(found.info, report, incoming, actor, signature, owned)
        except PackageError as error:
            facts: dict[str, Any] = {"file": error.file, "line": error.line} if error.file else {}
            if error.problems:
                facts["problems"] = [asdict(item) for item in error.problems[:MOST_PROBLEMS]]
            raise RouteRefusedError(422, error.reason, str(error), field="body", facts=facts) from None
        except SignatureError as error:
            raise RouteRefusedError(422, error.reason, str(error), field="signature") from None
        jobs = self.make_jobs(package_id, group_id)
        return {**self.get(package_id, actor), "jobs": jobs, "report": _shown(report, found.info)}

    def _group_id(self, owned: Owned) -> int:
        """Return the group in which jobs of a package are made."""
        group_id = self._owners.group_of_jobs(owned, self.options.group)
        if group_id is None:
            name = self.options.group
            text = f"there is no executor group {name}: 'xwheel group create {name}' makes it"
            raise RouteRefusedError(409, "no_group", text)
        return group_id

    def _refuse_known(self, info: PackageInfo, incoming: Incoming) -> None:
        """Refuse a version that is there; one whose file is gone may be uploaded again."""
        with self._site.database.read() as conn:
            known = _find(conn, info)
        if known is None or (known["state"] == "missing" and known["sha256"] == incoming.sha256):
            return
        is_same = known["sha256"] == incoming.sha256
        raise RouteRefusedError(
            409,
            "package_exists_same" if is_same else "package_exists_different",
            f"{info.project} {info.version} is there as package {known['id']}, with "
            f"{'the same' if is_same else 'other'} content: give what differs another version",
            facts={"package_id": known["id"], "sha256": known["sha256"]},
        )

    def _judge(self, report: ScanReport, *, allow_empty: bool) -> None:
        problems = [item for item in report.problems if item.reason != "bad_signature"]
        if problems and (self.options.strict_scan or not report.jobs):
            first = problems[0]
            raise PackageError(first.reason, first.text, file=first.file, line=first.line, problems=report.problems)
        if not report.jobs and not allow_empty:
            raise PackageError("no_jobs", "nothing in it is marked with @schedule; allow_empty=true takes it anyway")

    def _refuse_taken(self, info: PackageInfo, report: ScanReport, group_id: int, actor: Actor) -> None:
        """Refuse jobs whose names others have in the group: another project's, or jobs that people made."""
        for job in report.jobs:
            name = f"{job.group}.{job.name}"
            there = self._site.jobs.find(group_id, name)
            owner = None if there is None else self._owner_of(there)
            if owner in {None, info.project}:
                continue
            project = self._owners.get(owner) if owner is not None and there is not None else None
            may_know = project is None or project.meets(reach_of(actor, Permission.READ))
            shown = owner if may_know else "another project"
            text = f"{shown} has the name {name} already: give the module or the function another one"
            raise PackageError("job_name_taken", text, file=job.file, line=job.line)

    def _owner_of(self, job: Row) -> str | None:
        """Return the project of a job of xwheel, or which job it is if it is of none; None if an upload may have it."""
        with self._site.database.read() as conn:
            project = conn.scalar(select(JOB.c.project).where(JOB.c.job_id == job["id"]))
        if project is not None:
            return str(project)
        return None if job["glue_type"] == "PACKAGE" else f"job {job['id']}"

    def _keep(
        self, info: PackageInfo, report: ScanReport, incoming: Incoming, actor: Actor, signature: str, owned: Owned
    ) -> int:
        """Write rows in one transaction, then let the file appear; a sweep finds what a crash leaves between."""
        is_free = reach_of(actor, Permission.ADMIN) is None
        living = self._owners.living()

        def work(conn: Any) -> int:
            present = read_owned(conn, info.project, lock=True)
            if present is None or (is_free and present.is_same(Owned(), living)):
                write_owned(conn, info.project, owned)
            elif not present.is_same(owned, living):
                text = f"{info.project}: its groups were changed while the upload was under way: send it again"
                raise RouteRefusedError(409, "groups_differ", text, field="groups")
            known = _find(conn, info)
            if known is not None:
                again = update(PACKAGE).where(
                    PACKAGE.c.id == known["id"], PACKAGE.c.state == "missing", PACKAGE.c.sha256 == incoming.sha256
                )
                if conn.execute(again.values(state="incoming")).rowcount:
                    return int(known["id"])
            values = {
                "project": info.project,
                "version": info.version,
                "file": info.file,
                "sha256": incoming.sha256,
                "size": incoming.size,
                "container": info.container,
                "state": "incoming",
                "uploaded_ms": self._site.now_ms(),
                "uploaded_by": actor.name[:128],
                "report": json.dumps(_shown(report, info), ensure_ascii=False),
                "signature": signature,
            }
            package_id = int(conn.execute(insert(PACKAGE).values(values)).inserted_primary_key[0])
            if report.jobs:
                conn.execute(
                    insert(FOUND), [_found_row(package_id, place, job) for place, job in enumerate(report.jobs)]
                )
            after = {"project": info.project, "version": info.version, "sha256": incoming.sha256}
            deed = Deed(action="package.upload", kind="package", object_id=package_id, after=after)
            record_in_groups(self._site, conn, deed, owned)
            return package_id

        try:
            package_id = self._site.database.transaction(work)
        except IntegrityError:  # another upload was faster
            self._owners.decide(info.project, owned, actor, self.options.group)
            self._refuse_known(info, incoming)
            raise RouteRefusedError(
                409, "package_exists_same", f"{info.project} {info.version} is being uploaded by another call"
            ) from None
        self._store.keep(incoming, package_id, info.file)
        self._set_state(package_id, "stored")
        return package_id

    def _set_state(self, package_id: int, state: str) -> None:
        self._site.database.transaction(
            lambda conn: conn.execute(update(PACKAGE).where(PACKAGE.c.id == package_id).values(state=state))
        )

    def make_jobs(self, package_id: int, group_id: int) -> list[dict[str, Any]]:
        """Make jobs of what a package has and no version of it had before; those that are there keep theirs."""
        with self._site.database.read() as conn:
            package = _get(conn, package_id)
            found = (
                conn.execute(select(FOUND).where(FOUND.c.package_id == package_id).order_by(FOUND.c.place))
                .mappings()
                .all()
            )
            known = {
                (row["group_name"], row["name"]): dict(row)
                for row in conn.execute(select(JOB).where(JOB.c.project == package["project"])).mappings()
            }
        made = []
        for item in found:
            row = known.get((item["group_name"], item["name"]))
            made.append(row if row is not None else self._make_job(package, item, group_id))
        return made

    def _make_job(self, package: Row, item: Row, group_id: int) -> dict[str, Any]:
        name = f"{item['group_name']}.{item['name']}"
        values = {
            "group_id": group_id,
            "name": name,
            "glue_type": "PACKAGE",
            "glue_source": reference_of(package, item).source(),
            **schedule_of(item["cron"], item["misfire"], item["time_zone"]),
        }
        if (distribution := present_distribution()) is not None:
            values |= distribution.job_fields
        try:
            job = self._site.jobs.create(values)
        except NameTakenError:
            found = self._site.jobs.find(group_id, name)
            if found is None or self._owner_of(found) not in {None, package["project"]}:
                raise
            # of an upload that did not come to its end, or one that people made: it calls what this package has
            job = self._site.jobs.change(found["id"], {"glue_source": values["glue_source"]})
        row = {
            "job_id": job["id"],
            "project": package["project"],
            "group_name": item["group_name"],
            "name": item["name"],
            "package_id": package["id"],
            "cron": item["cron"],
            "misfire": item["misfire"],
            "time_zone": item["time_zone"],
            "state": "Shutdown",
            "version": 1,
        }
        with suppress(IntegrityError):  # a sweep was faster
            self._site.database.transaction(lambda conn: conn.execute(insert(JOB).values(row)))
        return row

    def make_missing_jobs(self) -> None:
        """Make the jobs of uploads that a crash cut off; for callers who may make jobs."""
        known = (
            (JOB.c.project == PACKAGE.c.project)
            & (JOB.c.group_name == FOUND.c.group_name)
            & (JOB.c.name == FOUND.c.name)
        )
        query = (
            select(PACKAGE.c.id, PACKAGE.c.project)
            .join(FOUND, FOUND.c.package_id == PACKAGE.c.id)
            .outerjoin(JOB, known)
            .where(
                PACKAGE.c.state == "stored",
                PACKAGE.c.uploaded_ms < self._site.now_ms() - CUT_OFF_MS,
                JOB.c.job_id.is_(None),
            )
            .distinct()
        )
        with self._site.database.read() as conn:
            packages = sorted((row.id, row.project) for row in conn.execute(query))
        for package_id, project in packages:
            try:
                group_id = self._owners.group_of_jobs(self._owners.get(project) or Owned(), self.options.group)
                if group_id is not None:
                    self.make_jobs(package_id, group_id)
            except XwheelError as error:
                _log.warning("jobs of package %d are missing and cannot be made: %s", package_id, error)

    def get(self, package_id: int, actor: Actor) -> dict[str, Any]:
        """Return a package, with those of its groups that somebody may read."""
        with self._site.database.read() as conn:
            row = _get(conn, package_id)
            shown = self._owners.show(conn, [row["project"]], actor)
        return {**_view(row), **shown[row["project"]]}

    def page(self, after: int, limit: int, actor: Actor) -> dict[str, Any]:
        """Return packages by id of which somebody may know, and after which id the next page begins."""
        self.sweep_once()
        query = select(PACKAGE).where(PACKAGE.c.id > after, is_within_reach(reach_of(actor, Permission.READ)))
        with self._site.database.read() as conn:
            rows = [dict(row) for row in conn.execute(query.order_by(PACKAGE.c.id).limit(limit + 1)).mappings()]
            shown = self._owners.show(conn, [row["project"] for row in rows], actor)
        following = rows[limit - 1]["id"] if len(rows) > limit else None
        return {"items": [{**_view(row), **shown[row["project"]]} for row in rows[:limit]], "next": following}

    def set_groups(self, project: str, names: Sequence[str], actor: Actor) -> dict[str, Any]:
        """Say to which groups a project belongs, for who is an admin in all of those before and after.

        Raises:
            RouteRefusedError: ``group_in_use``: a group that it would leave has jobs of it.
        """
        wanted, before = self._owners.named(names, actor), self._owners.get(project)
        with self._site.database.read() as conn:
            ids = list(conn.scalars(select(JOB.c.job_id).where(JOB.c.project == project)))
        jobs = [job for job_id in ids if (job := self._find_job(job_id)) is not None]
        left = [job["id"] for job in jobs if not wanted.is_of(job["group_id"])]
        if left:
            text = f"{len(left)} jobs of it are in groups that would not have it: delete them first"
            raise RouteRefusedError(409, "group_in_use", text, field="groups", facts={"jobs": left[:100]})
        living = self._owners.living()

        def work(conn: Any) -> dict[str, Any]:
            present = read_owned(conn, project, lock=True)
            if present is None:
                raise NotFoundError("project", project)
            if before is None or not present.is_same(before, living):
                text = f"{project}: its groups were changed meanwhile: look at them again"
                raise RouteRefusedError(409, "groups_differ", text, field="groups")
            write_owned(conn, project, wanted)
            deed = Deed(action="package.groups", kind="project", object_id=project, before=present, after=wanted)
            record_in_groups(self._site, conn, deed, present, wanted)
            return {"project": project}

        done = self._site.database.transaction(work)
        with self._site.database.read() as conn:
            return {**done, **self._owners.show(conn, [project], actor)[project]}

    def file_of(self, package_id: int) -> tuple[Path, str, str]:
        """Return a package's file, its name and its hash, by the id alone: who may have it is asked before.

        Raises:
            NotFoundError: There is no such package, or its file is gone.
        """
        with self._site.database.read() as conn:
            row = _get(conn, package_id)
        path = self._store.path(package_id, row["file"])
        if not path.is_file():
            if row["state"] == "stored":
                self._set_state(package_id, "missing")
            raise NotFoundError("package_missing", package_id)
        return path, row["file"], row["sha256"]

    def delete(self, package_id: int, *, force: bool = False) -> dict[str, Any]:
        """Delete a package with its jobs, unless one is started or runs; with ``force``, these are stopped first.

        Raises:
            RouteRefusedError: ``package_in_use``, with the jobs and runs.
        """
        with self._site.database.read() as conn:
            package = _get(conn, package_id)
            ids = list(conn.scalars(select(JOB.c.job_id).where(JOB.c.package_id == package_id)))
        jobs = [job for job_id in ids if (job := self._find_job(job_id)) is not None]
        started = [job["id"] for job in jobs if job["enabled"]]
        runs = [run["id"] for job in jobs for run in self._site.jobs.open_runs(job["id"])]
        if (started or runs) and not force:
            raise RouteRefusedError(
                409,
                "package_in_use",
                f"{len(started)} jobs of it are started and {len(runs)} runs are open: stop them, or force it",
                facts={"jobs": started[:100], "runs": runs[:100]},
            )
        for job_id in started:
            self._site.jobs.stop(job_id)
        if runs:
            self._set_state(package_id, "deleting")
            return {"state": "deleting", "runs": runs[:100]}
        for job in jobs:
            self._site.jobs.delete(job["id"])
        self._site.database.transaction(lambda conn: self._delete_rows(conn, package))
        self._store.drop(package_id, package["file"])
        return {"state": "deleted", "runs": []}

    def _delete_rows(self, conn: Any, package: Row) -> None:
        for table in (JOB, FOUND):
            conn.execute(delete(table).where(table.c.package_id == package["id"]))
        # an upload of the next version waits, or is waited for
        owned = read_owned(conn, package["project"], lock=True) or Owned()
        conn.execute(delete(PACKAGE).where(PACKAGE.c.id == package["id"]))
        forget_project(conn, package["project"])
        before = {name: package[name] for name in ("project", "version", "sha256")}
        deed = Deed(action="package.delete", kind="package", object_id=package["id"], before=before)
        record_in_groups(self._site, conn, deed, owned)

    def _find_job(self, job_id: int) -> dict[str, Any] | None:
        try:
            return self._site.jobs.get(job_id)
        except NotFoundError:
            return None

    def sweep_once(self) -> None:
        """Sweep the store before the first call of this process."""
        with self._swept:
            if not self._is_swept:
                self.sweep()
                self._is_swept = True

    def sweep(self) -> None:
        """Delete files without a row, and mark rows without a file ``missing``; a mark that is wrong goes."""
        with self._site.database.read() as conn:
            rows = {row.id: row.state for row in conn.execute(select(PACKAGE.c.id, PACKAGE.c.state))}
        there = self._store.sweep(rows, self._site.now_ms() / 1000)
        for package_id, state in rows.items():
            wanted = "stored" if package_id in there else "missing"
            if state not in {wanted, "deleting"}:
                self._set_state(package_id, wanted)


def reference_of(package: Row, item: Row) -> PackageReference:
    """Return what a job's source says."""
    return PackageReference(
        package=package["project"],
        version=package["version"],
        package_id=package["id"],
        sha256=package["sha256"],
        file=package["file"],
        group=item["group_name"],
        name=item["name"],
        container=package["container"],
        call=item["call"],
        signature=package["signature"],
    )


def schedule_of(cron: str, misfire: str, time_zone: str) -> dict[str, Any]:
    """Return the fields of a job of xwheel that say when it fires; without a cron it fires by hand only."""
    return {
        "schedule_type": "CRON" if cron else "NONE",
        "schedule_conf": cron,
        "misfire_policy": MISFIRES[misfire],
        **({"timezone": time_zone} if time_zone else {}),
    }


def _import_scan(options: StoreOptions) -> ImportScan | None:
    """Return what imports packages here, if that is wanted; no one else needs what it loads."""
    if options.scan_confirm != "console":
        return None
    from xwheel_job_package.confirm import ImportScan

    return ImportScan(options)


def _found_row(package_id: int, place: int, job: FoundJob) -> dict[str, Any]:
    return {
        "package_id": package_id,
        "place": place,
        "group_name": job.group,
        "name": job.name,
        "call": job.call,
        "cron": job.cron,
        "misfire": job.misfire,
        "time_zone": job.time_zone,
    }


def _shown(report: ScanReport, info: PackageInfo) -> dict[str, Any]:
    return {
        "disabled": report.disabled,
        "confirmed": report.confirmed,
        "unconfirmed": report.unconfirmed,
        "problems": [asdict(item) for item in report.problems],
        "unresolved": [
            {"job": f"{job.group}.{job.name}", "arguments": job.unresolved, "file": job.file, "line": job.line}
            for job in report.jobs
            if job.unresolved
        ],
        "dependencies": list(info.dependencies),
        "members": info.members,
        "unpacked_bytes": info.unpacked_bytes,
    }


def _find(conn: Any, info: PackageInfo) -> Row | None:
    query = select(PACKAGE).where(PACKAGE.c.project == info.project, PACKAGE.c.version == info.version)
    row = conn.execute(query).mappings().first()
    return None if row is None else dict(row)


def _get(conn: Any, package_id: int) -> dict[str, Any]:
    row = conn.execute(select(PACKAGE).where(PACKAGE.c.id == package_id)).mappings().first()
    if row is None:
        raise NotFoundError("package", package_id)
    return dict(row)


def _view(row: Row) -> dict[str, Any]:
    return {**row, "report": json.loads(row["report"])}
