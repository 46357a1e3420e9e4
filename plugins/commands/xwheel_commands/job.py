"""``xwheel job``: what to run and when, one job at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json, visible
from xwheel.errors import FieldError
from xwheel.model.shorthand import schedule_fields

from xwheel_commands import GROUPS
from xwheel_commands.arguments import GroupFilter, JobArgument, LimitOption, SetOption, WideOption
from xwheel_commands.connection import ChangeApi, NodeApi, connected, set_values
from xwheel_commands.output import instant_ms, span_ms, utc_instant
from xwheel_commands.run import report_run
from xwheel_commands.table import ALWAYS, Column, moment, print_table

app = command_group(GROUPS["job"])

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
HandlerOption = Annotated[str | None, typer.Option(metavar="NAME", help="What its executors run.")]
ParamOption = Annotated[str | None, typer.Option(help="What its runs are given.")]
CronOption = Annotated[
    str | None,
    typer.Option(metavar="EXPR", help="When it fires: five fields are crontab's, six or seven are Quartz's."),
]
EveryOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="How often it fires, such as 500ms, 10s, 5m, 2h or 1d.")
]
DelayOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="How long after the end of its last run it fires.")
]
AtOption = Annotated[
    str | None, typer.Option(metavar="WHEN", help="When it fires, once: ISO 8601, such as 2030-01-31T12:00:00.")
]


@app.command("list")
@connected
def list_jobs(
    node: NodeApi,
    group: GroupFilter = None,
    name: Annotated[str | None, typer.Option(help="A part of the name, in any case.")] = None,
    handler: Annotated[str | None, typer.Option(help="The whole name of the handler.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--stopped", help="Only started, or only stopped jobs.")
    ] = None,
    schedule_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The name of the schedule type, such as CRON.")
    ] = None,
    glue_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The name of the glue type, such as BEAN.")
    ] = None,
    search: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A part of name, description or handler, in any case.")
    ] = None,
    soonest: Annotated[
        bool, typer.Option("--soonest", help="Only jobs that fire again, and who fires next first.")
    ] = False,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Deleted jobs, of which there are runs still, in their place.")
    ] = False,
    limit: LimitOption = 1000,
    wide: WideOption = False,
) -> None:
    """List jobs by id."""
    params = node.job_and_group(None, group) | given(
        name_contains=name,
        handler=handler,
        schedule_type=schedule_type,
        glue_type=glue_type,
        search=search,
        sort="next_fire" if soonest else None,
        enabled=None if enabled is None else str(enabled).lower(),
        deleted="true" if deleted else None,
    )
    node.print_list(
        node.pages("/jobs", params, limit=limit),
        COLUMNS,
        lambda item: (
            item["id"],
            node.group_names.get(item["group_id"], item["group_id"]),
            item["name"],
            f"{item['schedule_type']} {item['schedule_conf']}".strip(),
            item["state"],
            moment(item["next_fire_ms"]),
            item["group_id"],
            item["handler"],
            item["revision"],
        ),
        is_wide=wide,
    )


@app.command()
@connected
def show(node: NodeApi, job: JobArgument) -> None:
    """Show a job, and what code that declares it says of it."""
    found = node.job(job)
    if not node.as_json:
        said = found.pop("declared", None)
        if said is not None:
            found["declared_in"] = f"{said['place']}, release {said['release']}"
            found["owned_by_code"] = said["owned"]
            found["released_from_code"] = "everything" if said["is_released"] else said["released"]
            found["declared_no_more"] = said["is_retired"]
            found["declaration_problem"] = said["problem"]
    node.print_item(found)


@app.command()
@connected
def create(
    node: ChangeApi,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the job.")],
    group: Annotated[str, typer.Option(metavar="GROUP", help="App name or id of its group.")],
    handler: HandlerOption = None,
    param: ParamOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    delay: DelayOption = None,
    at: AtOption = None,
    start: Annotated[bool, typer.Option("--start", help="Let its schedule fire from now on.")] = False,
    fields: SetOption = None,
) -> None:
    """Create a job, stopped unless --start; one run makes up for missed fires (misfire_policy=fire_once)."""
    from xwheel.api.schema.messages import JobCreate

    said = _said(handler, param, cron, every, delay, at)
    if start:
        said["--start"] = {"enabled": True}
    taken = {"group_id": "--group", "name": "NAME", **_taken(said)}
    values = set_values(JobCreate, fields or [], taken, required={"group_id": "1", "name": "x"})
    body = {**_merged(said), **values, "name": name, "group_id": node.group(group)["id"]}
    node.print_saved("created", node.call("POST", "/jobs", body))


@app.command()
@connected
def edit(
    node: ChangeApi,
    job: JobArgument,
    handler: HandlerOption = None,
    param: ParamOption = None,
    cron: CronOption = None,
    every: EveryOption = None,
    delay: DelayOption = None,
    at: AtOption = None,
    fields: SetOption = None,
    revision: Annotated[int | None, typer.Option(min=1, help="Only if the job is at this revision.")] = None,
) -> None:
    """Change fields of a job, if no one else changes it meanwhile."""
    from xwheel.api.schema.messages import JobChange

    said = _said(handler, param, cron, every, delay, at)
    values = set_values(JobChange, fields or [], {"revision": "--revision", **_taken(said)})
    if not values and not said:
        raise FieldError("--set", "must change at least one field")
    known = node.job(job)
    body = {**_merged(said), **values, "revision": revision or known["revision"]}
    node.print_saved("changed", node.call("PATCH", f"/jobs/{known['id']}", body))


def _said(
    handler: str | None, param: str | None, cron: str | None, every: str | None, delay: str | None, at: str | None
) -> dict[str, dict[str, Any]]:
    """Return the fields that options of their own give, by option.

    Raises:
        FieldError: There are two schedules.
    """
    plain = given(handler=handler, param=param)
    found: dict[str, dict[str, Any]] = {f"--{name}": {name: value} for name, value in plain.items()}
    schedule = {"--cron": cron, "--every": every, "--delay": delay, "--at": at}
    named = [option for option, value in schedule.items() if value is not None]
    if len(named) > 1:
        raise FieldError(" and ".join(named), "exclude each other: give one of them")
    for option in named:
        found[option] = {**schedule_fields({option.removeprefix("--"): schedule[option]})}
    return found


def _taken(said: Mapping[str, Mapping[str, object]]) -> dict[str, str]:
    return {field: option for option, fields in said.items() for field in fields}


def _merged(said: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {field: value for fields in said.values() for field, value in fields.items()}


@app.command()
@connected
def copy(
    node: ChangeApi,
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
def start(node: ChangeApi, job: JobsArgument) -> None:
    """Let a job fire, or several; nothing changes if it does already."""
    _switch(node, "start", "started", job)


@app.command()
@connected
def stop(node: ChangeApi, job: JobsArgument) -> None:
    """Stop a job, or several, and cancel its planned fires and retries; what was sent goes on."""
    _switch(node, "stop", "stopped", job)


@app.command()
@connected
def run(
    node: ChangeApi,
    job: JobsArgument,
    param: Annotated[str | None, typer.Option(help="Parameter of this run; default: the job's.")] = None,
    address: Annotated[
        list[str] | None,
        typer.Option(help="A live executor that may get it; of several, each with --address, its router chooses."),
    ] = None,
    in_span: Annotated[
        str | None, typer.Option("--in", metavar="SPAN", help="It is due this much later: 30s, 10m, 2h, 1d.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TIME",
            help="It is due then: ISO 8601, in this machine's zone without an offset, or epoch milliseconds.",
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Follow it, its retries and what runs after it to the end; exit with 0 if all succeeded, else with 1.",
        ),
    ] = False,
) -> None:
    """Plan a run, due at once or later, whether the job is started or not; of several jobs, one each."""
    when = _when(in_span, at)
    if len(job) > 1:
        if wait or address:
            raise FieldError("JOB", "--wait and --address take one job")
        _change_many(node, "run", job, {**given(param=param), **when})
        return
    named = address or []
    among = {"address": named[0]} if len(named) == 1 else given(addresses=named or None)
    body = {**given(param=param), **among, **when}
    made = node.call("POST", f"/jobs/{node.job(job[0])['id']}/run", body)
    report_run(node, made, wait=wait)


def _when(in_span: str | None, at: str | None) -> dict[str, object]:
    """Return what a request says of when runs are due.

    Raises:
        FieldError: Both options are given, or one cannot be read.
    """
    if in_span is not None and at is not None:
        raise FieldError("--at", "says what --in says: give one of them")
    if in_span is not None:
        return {"delay_ms": span_ms(in_span, "--in")}
    return {} if at is None else {"at": utc_instant(at, "--at")}


@app.command()
@connected
def delete(node: ChangeApi, job: JobsArgument) -> None:
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
    job: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Id, name or APP/NAME; none for a schedule that no job has yet."),
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, max=100, help="How many.")] = 5,
    start: Annotated[str | None, typer.Option("--from", help="ISO 8601 or epoch ms; default: now.")] = None,
    cron: CronOption = None,
    every: EveryOption = None,
    delay: DelayOption = None,
    at: AtOption = None,
    fields: SetOption = None,
) -> None:
    """Print the next due times of a job's schedule, started or not, in its own zone; or of another one for it."""
    from xwheel.api.schema.messages import JobChange

    from xwheel_commands.preview import preview_params

    said = _said(None, None, cron, every, delay, at)
    wanted = {**_merged(said), **set_values(JobChange, fields or [], _taken(said))}
    if job is None and "schedule_type" not in wanted:
        raise FieldError("JOB", "name a job, or give a schedule: --cron, --every, --delay or --at")
    params = preview_params({**(node.job(job) if job else {}), **wanted}, count)
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
    node: ChangeApi,
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
    rows = [("child", node.job_name(item["child_id"]), item["child_id"], item["param"]) for item in found["children"]]
    rows += [("parent", node.job_name(item), item, None) for item in found["parents"]]
    print_table(("KIND", "JOB", "ID", Column("PARAM", 5, least=12)), rows)


def _child(node: NodeApi, text: str) -> dict[str, Any]:
    name, sign, param = text.partition("=")
    return {"child_id": node.job(name)["id"], "param": param if sign else None}


def _switch(node: NodeApi, action: str, done: str, names: Sequence[str]) -> None:
    if len(names) > 1:
        _change_many(node, action, names)
    else:
        node.print_saved(done, node.call("POST", f"/jobs/{node.job(names[0])['id']}/{action}"))


def _change_many(node: NodeApi, action: str, names: Sequence[str], more: Mapping[str, Any] | None = None) -> None:
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
                (item["id"], labels[item["id"]], item["run_id"], (item["problem"] or {}).get("detail", "done"))
                for item in answer["items"]
            ),
        )
    if answer["failed"]:
        raise typer.Exit(1)
