"""``xwheel group``: groups of executors."""

from __future__ import annotations

from typing import Annotated

import typer

from xwheel.cli.connection import (
    PREFIX,
    JsonOption,
    LimitOption,
    NodeOption,
    TokenOption,
    connect,
    find_group,
    pages,
)
from xwheel.cli.output import local_time, print_fields, print_json, print_table, shown

app = typer.Typer(help="Groups of executors, on a running node.", no_args_is_help=True)

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="App name or id.")]
TitleOption = Annotated[str | None, typer.Option(help="What people call it.")]
RunningOption = Annotated[
    int | None, typer.Option("--max-running", help="Runs of the group at once; 0 for no limit.")
]


@app.command("list")
def list_groups(
    prefix: Annotated[str | None, typer.Option(help="How app names begin.")] = None,
    limit: LimitOption = 1000,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List groups by id."""
    params = {} if prefix is None else {"app_name": prefix}
    found = list(pages(connect(url, token_file), "/groups", params, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "APP NAME", "TITLE", "MAX RUNNING"),
        ((item["id"], item["app_name"], item["title"], item["max_running"]) for item in found),
    )


@app.command()
def show(
    group: GroupArgument,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a group and its live executors."""
    client = connect(url, token_file)
    found = find_group(client, group)
    executors = list(pages(client, "/executors", {"group_id": found["id"]}))
    if as_json:
        print_json({**found, "executors": executors})
        return
    print_fields(shown(found))
    rows = (
        (item["address"], item["kind"], local_time(item["seen_ms"]), _labels(item["labels"]))
        for item in executors
    )
    print_table(("EXECUTOR", "KIND", "SEEN", "LABELS"), rows)


@app.command()
def create(
    app_name: Annotated[str, typer.Argument(metavar="APP", help="App name that executors register with.")],
    title: TitleOption = None,
    max_running: RunningOption = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create a group."""
    body = {"app_name": app_name, **_given(title, max_running)}
    made = connect(url, token_file).call("POST", f"{PREFIX}/groups", body)
    if as_json:
        print_json(made)
        return
    typer.echo(f"group {made['app_name']} is created as {made['id']}")


@app.command()
def edit(
    group: GroupArgument,
    title: TitleOption = None,
    max_running: RunningOption = None,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Change a group's title or limit."""
    client = connect(url, token_file)
    known = find_group(client, group)
    saved = client.call("PATCH", f"{PREFIX}/groups/{known['id']}", _given(title, max_running))
    if as_json:
        print_json(saved)
        return
    typer.echo(f"group {saved['app_name']} is changed")


@app.command()
def delete(
    group: GroupArgument,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete a group without jobs."""
    client = connect(url, token_file)
    known = find_group(client, group)
    client.call("DELETE", f"{PREFIX}/groups/{known['id']}")
    if as_json:
        print_json({"deleted": known["id"]})
        return
    typer.echo(f"group {known['app_name']} is deleted")


def _given(title: str | None, max_running: int | None) -> dict[str, object]:
    values: dict[str, object] = {"title": title, "max_running": max_running}
    return {name: value for name, value in values.items() if value is not None}


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
