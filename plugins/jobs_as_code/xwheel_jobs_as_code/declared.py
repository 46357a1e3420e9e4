"""``xwheel job release`` and ``xwheel group declarations``: what of jobs code decides, and which code."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json
from xwheel_commands.arguments import JobArgument, LimitOption, WideOption
from xwheel_commands.connection import ChangeApi, NodeApi, connected
from xwheel_commands.table import ALWAYS, Column, print_table

app = command_group()


@app.command()
@connected
def release(
    node: ChangeApi,
    job: JobArgument,
    field: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="A field, may be repeated; default: the job as a whole.")
    ] = None,
    undo: Annotated[bool, typer.Option("--undo", help="Give it back: the next sync sets it again.")] = False,
) -> None:
    """Release a job, or fields of it, from the code that declares it, so that people may change it."""
    known = node.job(job)
    # whatever its revision, which executors that sync may raise meanwhile
    body = {"fields": field or [], "undo": undo}
    found = node.call("POST", f"/jobs/{known['id']}/release", body)
    node.print_saved("given back" if undo else "released", found)


@app.command()
@connected
def declarations(node: NodeApi, limit: LimitOption = 1000, wide: WideOption = False) -> None:
    """List what live executors declare in code, and which release decides the jobs of its group."""
    found = list(node.pages("/declarations", limit=limit))
    if node.as_json:
        print_json(found)
        return
    rows = [
        (item["app_name"], build["release"], build["digest"][:8], build["standing"], build["executors"])
        for item in found
        for build in [*item["builds"], *_gone(item)]
    ]
    heads = (
        Column("GROUP", ALWAYS),
        Column("RELEASE", ALWAYS),
        Column("DIGEST", 5),
        Column("STANDING", ALWAYS),
        Column("EXECUTORS", 6),
    )
    print_table(heads, rows, is_wide=wide)


def _gone(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the owner as a build without executors, if it has none."""
    owner = {"release": item["release"], "digest": item["digest"]}
    there = any({name: build[name] for name in owner} == owner for build in item["builds"])
    return [] if there else [{**owner, "standing": "owns", "executors": 0}]
