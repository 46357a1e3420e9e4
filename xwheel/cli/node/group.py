"""``xwheel group``: groups of executors."""

from __future__ import annotations

from typing import Annotated

import typer

from xwheel.cli.connection import LimitOption, NodeApi, connected, given
from xwheel.cli.lazy import command_group
from xwheel.cli.output import local_time, print_fields, print_json, shown
from xwheel.cli.table import print_table

app = command_group()

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="App name or id.")]
TitleOption = Annotated[str | None, typer.Option(help="What people call it.")]
RunningOption = Annotated[
    int | None, typer.Option("--max-running", help="Runs of the group at once; 0 for no limit.")
]


@app.command("list")
@connected
def list_groups(
    node: NodeApi,
    prefix: Annotated[str | None, typer.Option(help="How app names begin.")] = None,
    limit: LimitOption = 1000,
) -> None:
    """List groups by id."""
    node.print_list(
        node.pages("/groups", given(app_name=prefix), limit=limit),
        ("ID", "APP NAME", "TITLE", "MAX RUNNING"),
        lambda item: (item["id"], item["app_name"], item["title"], item["max_running"]),
    )


@app.command()
@connected
def show(node: NodeApi, group: GroupArgument) -> None:
    """Show a group and its live executors."""
    found = node.group(group)
    executors = list(node.pages("/executors", {"group_id": found["id"]}))
    if node.as_json:
        print_json({**found, "executors": executors})
        return
    print_fields(shown(found))
    rows = (
        (item["address"], item["kind"], local_time(item["seen_ms"]), _labels(item["labels"]))
        for item in executors
    )
    print_table(("EXECUTOR", "KIND", "SEEN", "LABELS"), rows)


@app.command()
@connected
def create(
    node: NodeApi,
    app_name: Annotated[str, typer.Argument(metavar="APP", help="App name that executors register with.")],
    title: TitleOption = None,
    max_running: RunningOption = None,
) -> None:
    """Create a group."""
    made = node.call("POST", "/groups", given(app_name=app_name, title=title, max_running=max_running))
    node.print_done(made, f"group {made['app_name']} is created as {made['id']}")


@app.command()
@connected
def edit(
    node: NodeApi, group: GroupArgument, title: TitleOption = None, max_running: RunningOption = None
) -> None:
    """Change a group's title or limit."""
    changes = given(title=title, max_running=max_running)
    saved = node.call("PATCH", f"/groups/{node.group(group)['id']}", changes)
    node.print_done(saved, f"group {saved['app_name']} is changed")


@app.command()
@connected
def delete(node: NodeApi, group: GroupArgument) -> None:
    """Delete a group without jobs."""
    known = node.group(group)
    node.call("DELETE", f"/groups/{known['id']}")
    node.print_done({"deleted": known["id"]}, f"group {known['app_name']} is deleted")


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
