"""``xwheel package``: check and upload packages, and start, pause and restart their jobs."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer
from xwheel.plugin import CommandSite, FieldError, ManagementCalls

from xwheel_job_package import PackageCommands
from xwheel_job_package.archive import open_package
from xwheel_job_package.project import build_wheel, make_project
from xwheel_job_package.report import PackageError, Problem
from xwheel_job_package.scan import scan
from xwheel_job_package.signatures import new_key, sign

PATH: Final = "/api/v1/packages"
LOOK_S: Final = 0.2
REFUSED: Final = 1
PAGE: Final = 1000

app = typer.Typer(help=PackageCommands.help, add_completion=False, no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="FILE", help="A wheel, a zip of modules, or a source distribution.")]
Job = Annotated[str, typer.Argument(metavar="JOB", help="Its id, or MODULE.NAME, with PROJECT: before it if need be.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Url = Annotated[str | None, typer.Option("--url", help="The node; the latest login's otherwise.")]
TokenFile = Annotated[Path | None, typer.Option("--token-file", help="A file with a management token.")]
Project = Annotated[str, typer.Option("--name", help="Project's name, for a zip that does not say it.")]
Version = Annotated[str, typer.Option("--version", help="Its version likewise.")]
Cron = Annotated[str | None, typer.Option("--cron", help="Another cron expression, of Quartz's kind.")]
Zone = Annotated[str | None, typer.Option("--zone", help="Another time zone for it.")]
Misfire = Annotated[str | None, typer.Option("--misfire", help="None, FireAndProceed, DoNothing or IgnoreMisfires.")]
OfPackage = Annotated[str | None, typer.Option("--package", help="Another version of the job's project.")]
Groups = Annotated[
    list[str] | None,
    typer.Option("--group", help="App name of an executor group that has it, several times for several; * for all."),
]
Wait = Annotated[float, typer.Option("--wait", min=0, max=3600, help="Seconds to wait for the result.")]


@app.command()
def new(name: Annotated[Path, typer.Argument(metavar="NAME", help="The project's folder, which is made.")]) -> None:
    """Make a project with a job and its test."""
    for path in make_project(name):
        typer.echo(path)


@app.command()
def build(
    path: Annotated[Path, typer.Argument(metavar="[PATH]", help="The project's folder.")] = Path(),
    into: Annotated[Path, typer.Option("--into", help="Where the wheel is put.")] = Path("dist"),
    is_isolated: Annotated[
        bool, typer.Option("--isolated/--no-isolation", help="Let pip fetch what builds the project.")
    ] = True,
) -> None:
    """Build a project's wheel, and check it."""
    made = build_wheel(path.absolute(), into, is_isolated=is_isolated)
    typer.echo(made)
    check(made)


@app.command()
def check(file: File, project: Project = "", version: Version = "", as_json: Json = False) -> None:
    """Say which jobs a package has and what is wrong with it, as the store would; nothing of it is imported."""
    try:
        archive = open_package(file, file.name, project=project, version=version)
    except OSError as error:
        raise FieldError("FILE", f"cannot read {file}: {error.strerror}") from error
    except PackageError as error:
        _refuse([Problem(reason=error.reason, text=error.text, file=error.file, line=error.line)])
        raise typer.Exit(REFUSED) from None
    report = scan(archive)
    if as_json:
        typer.echo(json.dumps({"jobs": [f"{job.group}.{job.name}" for job in report.jobs]}))
    else:
        info = archive.info
        typer.echo(f"{info.project} {info.version}: {len(report.jobs)} jobs, {report.disabled} disabled")
        for job in report.jobs:
            place = f"{job.file}:{job.line}"
            typer.echo(f"  {job.group}.{job.name}  {job.cron or 'by hand'}  {place}")
    _refuse(report.problems)
    if report.problems or not report.jobs:
        if not report.jobs:
            typer.echo("no_jobs: no function is marked with @schedule", err=True)
        raise typer.Exit(REFUSED)


def _refuse(problems: Any) -> None:
    for item in problems:
        place = f"{item.file}:{item.line}: " if item.file else ""
        typer.echo(f"{place}{item.reason}: {item.text}", err=True)


@app.command()
def key(
    name: Annotated[Path, typer.Argument(metavar="FILE", help="Where the private key is written, for you alone.")],
) -> None:
    """Make a key that signs packages; what is printed goes into the option trusted_keys of stores and nodes."""
    private, public = new_key()
    try:
        made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise FieldError("FILE", f"cannot write {name}: {error.strerror}") from error
    with os.fdopen(made, "w", encoding="ascii") as file:
        file.write(f"{private}\n")
    typer.echo(public)


@app.command("sign")
def sign_package(
    file: File,
    key_file: Annotated[Path, typer.Option("--key", metavar="FILE", help="The private key.")],
    project: Project = "",
    version: Version = "",
) -> None:
    """Sign a package: the signature is written next to it, and upload sends it along."""
    try:
        private = key_file.read_text("ascii")
        info = open_package(file, file.name, project=project, version=version).info
        with file.open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
    except (OSError, UnicodeDecodeError) as error:
        raise FieldError("FILE", f"cannot be read: {error}") from error
    except PackageError as error:
        _refuse([Problem(reason=error.reason, text=error.text, file=error.file, line=error.line)])
        raise typer.Exit(REFUSED) from None
    signature_file = _signature_of(file)
    signature_file.write_text(f"{sign(private, info.project, info.version, sha256)}\n", "ascii")
    typer.echo(f"{info.project} {info.version}: {signature_file}")


def _signature_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.sig")


@app.command()
def upload(
    context: typer.Context,
    file: File,
    project: Project = "",
    version: Version = "",
    groups: Groups = None,
    url: Url = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Upload a package; its marked functions become jobs, which do not fire before they are started.

    Without --group a new version has the groups of those before it, and a new project the only group in which you are
    an admin, or the store's usual one.
    """
    node = _node(context, url, token_file)
    signature_file = _signature_of(file)
    signature = signature_file.read_text("ascii", "replace").strip() if signature_file.exists() else None
    params = {"file": file.name, "name": project or None, "version": version or None, "signature": signature}
    params["groups"] = ",".join(groups) if groups else None
    found = node.send_file(PATH, file, params=params)
    jobs_found = f"{len(found['jobs'])} jobs, of {_groups(found)}"
    lines = [f"package {found['id']}: {found['project']} {found['version']}, {jobs_found}"]
    lines += [f"  {item['job_id']}  {item['group_name']}.{item['name']}" for item in found["jobs"]]
    _print(found, lines, as_json=as_json)


@app.command("list")
def list_packages(context: typer.Context, url: Url = None, token_file: TokenFile = None, as_json: Json = False) -> None:
    """List packages."""
    items = list(_pages(_node(context, url, token_file), PATH))
    lines = [
        f"{item['id']}  {item['project']} {item['version']}  {item['sha256'][:12]}  {_groups(item)}" for item in items
    ]
    _print(items, lines, as_json=as_json)


@app.command("groups")
def set_groups(
    context: typer.Context,
    project: Annotated[str, typer.Argument(metavar="PROJECT", help="Whose packages they are.")],
    groups: Groups = None,
    url: Url = None,
    token_file: TokenFile = None,
    as_json: Json = False,
) -> None:
    """Say to which executor groups all versions of a project belong; without --group, print them."""
    node, place = _node(context, url, token_file), quote(project, safe="")
    if groups:
        found = node.call("PUT", f"{PATH}/projects/{place}/groups", {"groups": groups})
    else:
        (newest, *_) = node.call("GET", f"{PATH}/projects/{place}", params={"limit": 1})["items"]
        found = node.call("GET", f"{PATH}/{newest['id']}")
    _print({"project": project, "groups": found["groups"]}, [f"{project}: {_groups(found)}"], as_json=as_json)


def _groups(item: dict[str, Any]) -> str:
    return ", ".join(item["groups"]) or "no group that you may see"


@app.command()
def jobs(context: typer.Context, url: Url = None, token_file: TokenFile = None, as_json: Json = False) -> None:
    """List jobs of packages."""
    items = list(_pages(_node(context, url, token_file), f"{PATH}/jobs"))
    _print(
        items, [f"{item['job_id']}  {_name(item)}  {item['state']}  {item['cron']}" for item in items], as_json=as_json
    )


@app.command()
def start(
    context: typer.Context,
    job: Job,
    cron: Cron = None,
    zone: Zone = None,
    misfire: Misfire = None,
    package: OfPackage = None,
    wait: Wait = 60,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Let a job fire, and wait until a node is ready for it."""
    changes = {"cron": cron, "time_zone": zone, "misfire": misfire}
    _operate(_node(context, url, token_file), "Start", job, changes, package, wait)


@app.command()
def restart(
    context: typer.Context,
    job: Job,
    cron: Cron = None,
    zone: Zone = None,
    misfire: Misfire = None,
    package: OfPackage = None,
    wait: Wait = 60,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Let a job fire with another schedule or another version of its package; runs under way end as they began."""
    changes = {"cron": cron, "time_zone": zone, "misfire": misfire}
    _operate(_node(context, url, token_file), "Restart", job, changes, package, wait)


@app.command()
def pause(context: typer.Context, job: Job, wait: Wait = 60, url: Url = None, token_file: TokenFile = None) -> None:
    """Let a job fire no more; a run under way goes on."""
    _operate(_node(context, url, token_file), "Pause", job, {}, None, wait)


def _operate(
    node: ManagementCalls,
    operation: str,
    wanted: str,
    changes: dict[str, str | None],
    package: str | None,
    wait_s: float,
) -> None:
    job = _find_job(node, wanted)
    body: dict[str, Any] = {"operation": operation}
    body |= {name: value for name, value in changes.items() if value is not None}
    if package is not None:
        body["package_id"] = _find_package(node, job["project"], package)
    path = f"{PATH}/jobs/{job['job_id']}/operations"
    node.call("POST", path, body)
    end = time.monotonic() + wait_s
    while (row := node.call("GET", path, params={"limit": 1})["items"][0])["ended_ms"] is None:
        if time.monotonic() >= end:
            break
        time.sleep(LOOK_S)
    said = ", ".join(part for part in (row["reason"], row["error"]) if part)
    typer.echo(f"{operation} of {_name(job)}: {row['result']}{f' ({said})' if said else ''}")
    if row["result"] != "Success":
        raise typer.Exit(REFUSED)


def _find_job(node: ManagementCalls, wanted: str) -> dict[str, Any]:
    found = [
        item
        for item in _pages(node, f"{PATH}/jobs")
        if wanted in {str(item["job_id"]), _name(item), f"{item['project']}:{_name(item)}"}
    ]
    if len(found) != 1:
        names = ", ".join(f"{item['project']}:{_name(item)}" for item in found)
        raise FieldError("JOB", f"{wanted} is several: {names}" if found else f"there is no job of a package {wanted}")
    return found[0]


def _find_package(node: ManagementCalls, project: str, version: str) -> int:
    for item in _pages(node, PATH):
        if item["project"] == project and version in {item["version"], str(item["id"])}:
            return int(item["id"])
    raise FieldError("package", f"{project} has no version {version}")


def _pages(node: ManagementCalls, path: str) -> Iterator[dict[str, Any]]:
    after = 0
    while True:
        found = node.call("GET", path, params={"after": after, "limit": PAGE})
        yield from found["items"]
        if found["next"] is None:
            return
        after = found["next"]


def _name(item: dict[str, Any]) -> str:
    return f"{item['group_name']}.{item['name']}"


def _node(context: typer.Context, url: str | None, token_file: Path | None) -> ManagementCalls:
    site: CommandSite = context.obj
    return site.node(url, token_file)


def _print(found: object, lines: list[str], *, as_json: bool) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False) if as_json else "\n".join(lines))
