"""``xwheel job``: what to run and when, one job at a time; whole files are :mod:`xwheel.cli.node.apply`'s."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from xwheel.cli.connection import LimitOption, NodeApi, SetOption, WideOption, connected, given, set_values
from xwheel.cli.lazy import command_group
from xwheel.cli.node import apply
from xwheel.cli.node.run import report_run
from xwheel.cli.output import instant_ms, print_json, visible
from xwheel.cli.table import ALWAYS, Column, moment, print_table
from xwheel.errors import FieldError

app = command_group()
app.command("apply")(apply.apply)
app.command("export")(apply.export)

COLUMNS: Final = (
    Column("ID", ALWAYS),
    Column("GROUP", 6, least=8),
    Column("NAME", ALWAYS, least=16),
    Column("SCHEDULE", 4, least=12),
    Column("STATE", ALWAYS, is_state=True),
    Column("NEXT FIRE", 7),
    Column("GROUP ID", is_wide=True),
    Column("HANDLER", is_wide=True),
    Column("REVISION", is_wide=True),
)

JobsArgument = Annotated[
    list[str], typer.Argument(metavar="JOB...", help="Id, name or APP/NAME; several are changed in one call.")
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id, name or APP/NAME.")]


@app.command("list")
@connected
def list_jobs(
    node: NodeApi,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of a group.")] = None,
    name: Annotated[str | None, typer.Option(help="A part of the name, in any case.")] = None,
    handler: Annotated[str | None, typer.Option(help="The whole name of the handler.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--stopped", help="Only started, or only stopped jobs.")
    ] = None,
    limit: LimitOption = 1000,
    wide: WideOption = False,
) -> None:
    """List jobs by id."""
    state = None if enabled is None else str(enabled).lower()
    params = given(name_contains=name, handler=handler, enabled=state) | node.job_and_group(None, group)
    node.print_list(
        node.pages("/jobs", params, limit=limit),
        COLUMNS,
        lambda item: (
            item["id"],
            node.group_names.get(item["group_id"], item["group_id"]),
            item["name"],
            f"{item['schedule_type']} {item['schedule_conf']}".strip(),
            _state(item),
            moment(item["next_fire_ms"]),
            item["group_id"],
            item["handler"],
            item["revision"],
        ),
        is_wide=wide,
    )


def _state(job: dict[str, Any]) -> str:
    """Return whether a job fires: one that did and never will again is done."""
    if not job["enabled"]:
        return "stopped"
    is_over = (
        job["next_fire_ms"] is None and job["last_fire_ms"] is not None and job["schedule_type"] == "ONCE"
    )
    return "done" if is_over else "started"


@app.command()
@connected
def show(node: NodeApi, job: JobArgument) -> None:
    """Show a job."""
    node.print_item(node.job(job))


@app.command()
@connected
def create(
    node: NodeApi,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")],
    group: Annotated[str, typer.Option(metavar="GROUP", help="App name or id of its group.")],
    fields: SetOption = None,
) -> None:
    """Create a job, stopped unless --set enabled=true."""
    from xwheel.api.schema.messages import JobCreate

    taken = {"group_id": "--group", "name": "NAME"}
    values = set_values(JobCreate, fields or [], taken, required={"group_id": "1", "name": "x"})
    body = {**values, "name": name, "group_id": node.group(group)["id"]}
    node.print_saved("created", node.call("POST", "/jobs", body))


@app.command()
@connected
def edit(
    node: NodeApi,
    job: JobArgument,
    fields: SetOption = None,
    revision: Annotated[int | None, typer.Option(min=1, help="Only if the job is at this revision.")] = None,
) -> None:
    """Change fields of a job, if nobody else changes it meanwhile."""
    from xwheel.api.schema.messages import JobChange

    values = set_values(JobChange, fields or [], {"revision": "--revision"})
    if not values:
        raise FieldError("--set", "must change at least one field")
    known = node.job(job)
    body = {**values, "revision": revision or known["revision"]}
    node.print_saved("changed", node.call("PATCH", f"/jobs/{known['id']}", body))


@app.command()
@connected
def copy(
    node: NodeApi,
    job: JobArgument,
    name: Annotated[str | None, typer.Option(help="Name of the copy.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of its group.")] = None,
) -> None:
    """Make a stopped job with the same definition, without children."""
    body = given(name=name) | node.job_and_group(None, group)
    made = node.call("POST", f"/jobs/{node.job(job)['id']}/copy", body)
    node.print_saved("created", made)


@app.command()
@connected
def start(node: NodeApi, job: JobsArgument) -> None:
    """Let a job fire, or several; nothing changes if it does already."""
    if len(job) > 1:
        _change_many(node, "start", job)
        return
    node.print_saved("started", node.call("POST", f"/jobs/{node.job(job[0])['id']}/start"))


@app.command()
@connected
def stop(node: NodeApi, job: JobsArgument) -> None:
    """Stop a job, or several, and cancel its planned fires and retries; what was sent goes on."""
    if len(job) > 1:
        _change_many(node, "stop", job)
        return
    node.print_saved("stopped", node.call("POST", f"/jobs/{node.job(job[0])['id']}/stop"))


@app.command()
@connected
def run(
    node: NodeApi,
    job: JobsArgument,
    param: Annotated[str | None, typer.Option(help="Parameter of this run; default: the job's.")] = None,
    address: Annotated[str | None, typer.Option(help="The one live executor that may get it.")] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Follow it, its retries and what runs after it to the end; exit with 0 if all succeeded, else with 1.",
        ),
    ] = False,
) -> None:
    """Plan a run that is due at once, whether the job is started or not; of several jobs, one each."""
    if len(job) > 1:
        if wait or address is not None:
            raise FieldError("JOB", "--wait and --address take one job")
        _change_many(node, "run", job, given(param=param))
        return
    body = given(param=param, address=address)
    made = node.call("POST", f"/jobs/{node.job(job[0])['id']}/run", body)
    report_run(node, made, wait=wait)


@app.command()
@connected
def delete(node: NodeApi, job: JobsArgument) -> None:
    """Delete a job, or several; its runs stay readable."""
    if len(job) > 1:
        _change_many(node, "delete", job)
        return
    known = node.job(job[0])
    node.call("DELETE", f"/jobs/{known['id']}")
    node.print_done({"deleted": known["id"]}, f"deleted  {visible(known['name'])} ({known['id']})")


@app.command()
@connected
def preview(
    node: NodeApi,
    job: JobArgument,
    count: Annotated[int, typer.Option("-n", min=1, max=100, help="How many.")] = 5,
    start: Annotated[str | None, typer.Option("--from", help="ISO 8601 or epoch ms; default: now.")] = None,
) -> None:
    """Print the next due times of a job's schedule, started or not, in its own zone."""
    from xwheel.cli.manifest.remote import preview_params

    params = preview_params(node.job(job), count)
    if start is not None:
        params["from_ms"] = instant_ms(start, "--from")
    found = node.call("GET", "/schedule/preview", params=params)
    if node.as_json:
        print_json(found)
        return
    for item in found["items"]:
        typer.echo(item["local"])
    if not found["items"]:
        typer.echo("no fire")


@app.command()
@connected
def children(
    node: NodeApi,
    job: JobArgument,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="CHILD[=PARAM]",
            help="A job that shall run after it, and the template of its parameter; again for each. These replace "
            "those that did.",
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="No job shall run after it any more.")] = False,
) -> None:
    """List the jobs that run after a job, with the template of their parameter, and its parents; or replace them."""
    if to and none:
        raise FieldError("--none", "give --to or --none, not both")
    path = f"/jobs/{node.job(job)['id']}/children"
    if to or none:
        found = node.call("PUT", path, {"children": [_child(node, text) for text in to or []]})
    else:
        found = node.call("GET", path)
    if node.as_json:
        print_json(found)
        return
    rows = [
        ("child", node.job_name(item["child_id"]), item["child_id"], item["param"])
        for item in found["children"]
    ]
    rows += [("parent", node.job_name(item), item, None) for item in found["parents"]]
    print_table(("KIND", "JOB", "ID", Column("PARAM", 5, least=12)), rows)


def _child(node: NodeApi, text: str) -> dict[str, Any]:
    name, sign, param = text.partition("=")
    return {"child_id": node.job(name)["id"], "param": param if sign else None}


def _change_many(
    node: NodeApi, action: str, names: Sequence[str], more: Mapping[str, Any] | None = None
) -> None:
    """Do the same to several jobs in one call, and say what became of each.

    Raises:
        Exit: It could not be done to one of them.
    """
    known = [node.job(name) for name in names]
    answer = node.call("POST", f"/jobs/bulk/{action}", {"ids": [job["id"] for job in known], **(more or {})})
    if node.as_json:
        print_json(answer)
    else:
        labels = {job["id"]: job["name"] for job in known}
        print_table(
            (
                Column("ID", ALWAYS),
                Column("NAME", ALWAYS, least=16),
                Column("RUN", 6),
                Column("RESULT", ALWAYS, least=20),
            ),
            (
                (
                    item["id"],
                    labels[item["id"]],
                    item["run_id"],
                    (item["problem"] or {}).get("detail", "done"),
                )
                for item in answer["items"]
            ),
        )
    if answer["failed"]:
        raise typer.Exit(1)
