"""``xwheel group``: groups of executors."""

from __future__ import annotations

from typing import Annotated

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json
from xwheel.errors import FieldError

from xwheel_commands import GROUPS
from xwheel_commands.arguments import LimitOption, WideOption
from xwheel_commands.connection import NodeApi, connected
from xwheel_commands.output import local_time, print_fields, shown
from xwheel_commands.table import ALWAYS, Column, moment, print_table

app = command_group(GROUPS["group"])

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", help="App name or id.")]
TitleOption = Annotated[str | None, typer.Option(help="What people call it.")]
RunningOption = Annotated[int | None, typer.Option("--max-running", help="Runs of the group at once; 0 for no limit.")]

AddressOption = Annotated[
    list[str] | None,
    typer.Option(
        "--address",
        metavar="URL[=SECRET]",
        help="An executor that does not register itself, and the name of the group's secret that it is called with; "
        "several, each with --address.",
    ),
]

GlueTypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--glue-type",
        metavar="NAME",
        help="A glue type that its executors run though no plugin here has it, such as GLUE_GROOVY; several, each "
        "with --glue-type.",
    ),
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
    entered = found.pop("addresses")
    print_fields(shown(found))
    if entered:
        print_table(
            ("ENTERED", "SECRET", "STATE"),
            (
                (item["address"], item["secret"] or "-", "live" if item["live"] else item["error"] or "not asked yet")
                for item in entered
            ),
        )
    rows = ((item["address"], item["kind"], local_time(item["seen_ms"]), _labels(item["labels"])) for item in executors)
    print_table(("EXECUTOR", "KIND", "SEEN", "LABELS"), rows)


@app.command()
@connected
def executors(
    node: NodeApi,
    group: Annotated[str | None, typer.Argument(metavar="[GROUP]", help="App name or id; default: all groups.")] = None,
    limit: LimitOption = 1000,
    wide: WideOption = False,
) -> None:
    """List live executors, of all groups or of one."""
    params = given(group_id=None if group is None else node.group(group)["id"])
    node.print_list(
        node.pages("/executors", params, limit=limit),
        (
            Column("GROUP", 8, least=8),
            Column("EXECUTOR", ALWAYS),
            Column("KIND", 6),
            Column("SOURCE", 3),
            Column("SEEN", 5),
            Column("LABELS", 4, least=12),
        ),
        lambda item: (
            node.group_names.get(item["group_id"], item["group_id"]),
            item["address"],
            item["kind"],
            item["source"].replace("_", " "),
            moment(item["seen_ms"]),
            _labels(item["labels"]),
        ),
        is_wide=wide,
    )


@app.command()
@connected
def create(
    node: NodeApi,
    app_name: Annotated[str, typer.Argument(metavar="APP", help="App name that executors register with.")],
    title: TitleOption = None,
    max_running: RunningOption = None,
    address: AddressOption = None,
    glue_type: GlueTypesOption = None,
) -> None:
    """Create a group."""
    fields = given(
        app_name=app_name,
        title=title,
        max_running=max_running,
        addresses=_entered(address),
        glue_types=glue_type or None,
    )
    made = node.call("POST", "/groups", fields)
    node.print_done(made, f"group {made['app_name']} is created as {made['id']}")


@app.command()
@connected
def edit(
    node: NodeApi,
    group: GroupArgument,
    title: TitleOption = None,
    max_running: RunningOption = None,
    address: AddressOption = None,
    no_addresses: Annotated[
        bool, typer.Option("--no-addresses", help="Take away all addresses that were entered.")
    ] = False,
    glue_type: GlueTypesOption = None,
    no_glue_types: Annotated[
        bool, typer.Option("--no-glue-types", help="Take away all glue types that it lists.")
    ] = False,
) -> None:
    """Change a group's title or limit, or replace its addresses entered by hand or its glue types."""
    if glue_type and no_glue_types:
        raise FieldError("--glue-type", "cannot go with --no-glue-types")
    if address and no_addresses:
        raise FieldError("--address", "cannot go with --no-addresses")
    addresses = [] if no_addresses else _entered(address)
    glue_types = [] if no_glue_types else glue_type or None
    changes = given(title=title, max_running=max_running, addresses=addresses, glue_types=glue_types)
    saved = node.call("PATCH", f"/groups/{node.group(group)['id']}", changes)
    node.print_done(saved, f"group {saved['app_name']} is changed")


@app.command()
@connected
def delete(node: NodeApi, group: GroupArgument) -> None:
    """Delete a group without jobs."""
    known = node.group(group)
    node.call("DELETE", f"/groups/{known['id']}")
    node.print_done({"deleted": known["id"]}, f"group {known['app_name']} is deleted")


def _entered(words: list[str] | None) -> list[dict[str, str | None]] | None:
    """Return what a request says of addresses; None for nothing."""
    if not words:
        return None
    parts = [word.partition("=") for word in words]
    return [{"address": address, "secret": secret or None} for address, _, secret in parts]


def _labels(labels: dict[str, str]) -> str:
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels))
