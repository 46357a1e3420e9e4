"""``xwheel job``: what to run and when, one job at a time; whole files are :mod:`xwheel.cli.apply`'s."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from xwheel.cli import apply
from xwheel.cli.connection import (
    PREFIX,
    JsonOption,
    LimitOption,
    NodeOption,
    TokenOption,
    connect,
    find_group,
    find_job,
    pages,
)
from xwheel.cli.fields import SetOption, set_values
from xwheel.cli.output import instant_ms, local_time, print_fields, print_json, print_table, shown
from xwheel.cli.run import report_run
from xwheel.errors import FieldError

app = typer.Typer(help="Jobs, on a running node.", no_args_is_help=True)
app.command("apply")(apply.apply)
app.command("export")(apply.export)

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id, name or APP/NAME.")]


@app.command("list")
def list_jobs(
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of a group.")] = None,
    name: Annotated[str | None, typer.Option(help="A part of the name, in any case.")] = None,
    handler: Annotated[str | None, typer.Option(help="The whole name of the handler.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--stopped", help="Only started, or only stopped jobs.")
    ] = None,
    limit: LimitOption = 1000,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List jobs by id."""
    client = connect(url, token_file)
    params: dict[str, Any] = {"name_contains": name, "handler": handler}
    if enabled is not None:
        params["enabled"] = "true" if enabled else "false"
    if group is not None:
        params["group_id"] = find_group(client, group)["id"]
    params = {field: value for field, value in params.items() if value is not None}
    found = list(pages(client, "/jobs", params, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "GROUP", "NAME", "SCHEDULE", "ENABLED", "NEXT FIRE"),
        (
            (
                item["id"],
                item["group_id"],
                item["name"],
                f"{item['schedule_type']} {item['schedule_conf']}".strip(),
                item["enabled"],
                local_time(item["next_fire_ms"]),
            )
            for item in found
        ),
    )


@app.command()
def show(
    job: JobArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Show a job."""
    found = find_job(connect(url, token_file), job)
    print_json(found) if as_json else print_fields(shown(found))


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")],
    group: Annotated[str, typer.Option(metavar="GROUP", help="App name or id of its group.")],
    fields: SetOption = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a job, stopped unless --set enabled=true."""
    from xwheel.api.schema.messages import JobCreate

    client = connect(url, token_file)
    given = {"group_id": "--group", "name": "NAME"}
    values = set_values(JobCreate, fields or [], given, required={"group_id": "1", "name": "x"})
    body = {**values, "name": name, "group_id": find_group(client, group)["id"]}
    _report(client.call("POST", f"{PREFIX}/jobs", body), "created", as_json)


@app.command()
def edit(
    job: JobArgument,
    fields: SetOption = None,
    revision: Annotated[int | None, typer.Option(min=1, help="Only if the job is at this revision.")] = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change fields of a job, if nobody else changes it meanwhile."""
    from xwheel.api.schema.messages import JobChange

    values = set_values(JobChange, fields or [], {"revision": "--revision"})
    if not values:
        raise FieldError("--set", "must change at least one field")
    client = connect(url, token_file)
    known = find_job(client, job)
    body = {**values, "revision": revision or known["revision"]}
    _report(client.call("PATCH", f"{PREFIX}/jobs/{known['id']}", body), "changed", as_json)


@app.command()
def copy(
    job: JobArgument,
    name: Annotated[str | None, typer.Option(help="Name of the copy.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of its group.")] = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a stopped job with the same definition, without children."""
    client = connect(url, token_file)
    body: dict[str, Any] = {} if name is None else {"name": name}
    if group is not None:
        body["group_id"] = find_group(client, group)["id"]
    made = client.call("POST", f"{PREFIX}/jobs/{find_job(client, job)['id']}/copy", body)
    _report(made, "created", as_json)


@app.command()
def start(
    job: JobArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Let a job fire; nothing changes if it does already."""
    client = connect(url, token_file)
    known = find_job(client, job)
    _report(client.call("POST", f"{PREFIX}/jobs/{known['id']}/start"), "started", as_json)


@app.command()
def stop(
    job: JobArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Stop a job and cancel its planned fires and retries; what was sent goes on."""
    client = connect(url, token_file)
    known = find_job(client, job)
    _report(client.call("POST", f"{PREFIX}/jobs/{known['id']}/stop"), "stopped", as_json)


@app.command()
def run(
    job: JobArgument,
    param: Annotated[str | None, typer.Option(help="Parameter of this run; default: the job's.")] = None,
    address: Annotated[str | None, typer.Option(help="The one live executor that may get it.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and exit by it.")] = False,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan a run that is due at once, whether the job is started or not."""
    client = connect(url, token_file)
    given = {"param": param, "address": address}
    body = {field: value for field, value in given.items() if value is not None}
    made = client.call("POST", f"{PREFIX}/jobs/{find_job(client, job)['id']}/run", body)
    report_run(client, made, wait=wait, as_json=as_json)


@app.command()
def delete(
    job: JobArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Delete a job; its runs stay readable."""
    client = connect(url, token_file)
    known = find_job(client, job)
    client.call("DELETE", f"{PREFIX}/jobs/{known['id']}")
    if as_json:
        print_json({"deleted": known["id"]})
        return
    print_fields([("deleted", f"{known['name']} ({known['id']})")])


@app.command()
def preview(
    job: JobArgument,
    count: Annotated[int, typer.Option("-n", min=1, max=100, help="How many.")] = 5,
    start: Annotated[str | None, typer.Option("--from", help="ISO 8601 or epoch ms; default: now.")] = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print the next due times of a job's schedule, started or not, in its own zone."""
    from xwheel.cli.manifest.remote import preview_params

    client = connect(url, token_file)
    params = preview_params(find_job(client, job), count)
    if start is not None:
        params["from_ms"] = instant_ms(start, "--from")
    found = client.call("GET", f"{PREFIX}/schedule/preview", params=params)
    if as_json:
        print_json(found)
        return
    for item in found["items"]:
        typer.echo(item["local"])
    if not found["items"]:
        typer.echo("no fire")


@app.command()
def children(
    job: JobArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """List the jobs that run after a job, with the template of their parameter, and its parents."""
    client = connect(url, token_file)
    found = client.call("GET", f"{PREFIX}/jobs/{find_job(client, job)['id']}/children")
    if as_json:
        print_json(found)
        return
    rows = [("child", item["child_id"], item["param"]) for item in found["children"]]
    print_table(("KIND", "JOB", "PARAM"), [*rows, *(("parent", item, None) for item in found["parents"])])


def _report(job: dict[str, Any], done: str, as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    print_fields([(done, f"{job['name']} ({job['id']}), revision {job['revision']}")])
