"""``xwheel job versions``, ``diff`` and ``rollback``: how a job was, who changed it, and back to it."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.output import plain, print_json
from xwheel_commands.arguments import JobArgument, LimitOption
from xwheel_commands.connection import ChangeApi, NodeApi, connected
from xwheel_commands.table import ALWAYS, Column, moment, print_table

app = command_group()


@app.command()
@connected
def versions(
    node: NodeApi,
    job: JobArgument,
    revision: Annotated[
        int | None, typer.Argument(metavar="[REVISION]", min=1, help="Show the job as it was from it on.")
    ] = None,
    limit: LimitOption = 100,
) -> None:
    """List the versions of a job, newest first: who changed it, and why; or show one of them."""
    path = f"/jobs/{node.job_of_runs(job)}/versions"
    if revision is not None:
        found = node.call("GET", f"{path}/{revision}")
        node.print_item(found if node.as_json else {**found.pop("definition"), **found})
        return
    node.print_list(
        node.pages(path, limit=limit),
        (
            Column("REVISION", ALWAYS),
            Column("SINCE", ALWAYS),
            Column("CHANGE", ALWAYS),
            Column("BY", 6, least=10),
            Column("WHY", 7, least=16),
            Column("SOURCE", 5),
        ),
        lambda item: (
            item["revision"],
            moment(item["at_ms"]),
            item["action"],
            item["actor"] or item["actor_kind"],
            item["reason"],
            item["glue_version"] or None,
        ),
    )


@app.command()
@connected
def diff(
    node: NodeApi,
    job: JobArgument,
    revision: Annotated[
        int | None, typer.Argument(metavar="[REVISION]", min=1, help="Which version; default: the newest one.")
    ] = None,
    against: Annotated[
        int | None,
        typer.Option(metavar="REVISION", min=1, help="With which it is compared; default: the one before it."),
    ] = None,
) -> None:
    """Print what a version of a job changed: its fields, and the source of its script."""
    job_id = node.job_of_runs(job)
    if revision is None:
        newest = list(node.pages(f"/jobs/{job_id}/versions", limit=1))
        revision = newest[0]["revision"] if newest else node.job(job)["revision"]
    found = node.call("GET", f"/jobs/{job_id}/versions/{revision}/diff", params={"against": against})
    if node.as_json:
        print_json(found)
        return
    rows = [(item["field"], _shown(item["before"]), _shown(item["after"])) for item in found["fields"]]
    if rows:
        columns = (Column("FIELD", ALWAYS), Column("BEFORE", ALWAYS, least=12), Column("AFTER", ALWAYS, least=12))
        print_table(columns, rows)
    if found["source"] is None:
        typer.echo("one of the two sources is not kept any more")
    elif found["source"]:
        typer.echo(plain(found["source"]), nl=False)
    elif not rows:
        typer.echo("nothing differs")


@app.command()
@connected
def rollback(
    node: ChangeApi,
    job: JobArgument,
    revision: Annotated[int, typer.Argument(metavar="REVISION", min=1, help="As the job was from it on.")],
) -> None:
    """Edit a job to be as it was at a revision, its source included; it stays started or stopped as it is."""
    known = node.job(job)
    path = f"/jobs/{known['id']}/versions/{revision}/restore"
    node.print_saved("rolled back", node.call("POST", path, {"revision": known["revision"]}))


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
