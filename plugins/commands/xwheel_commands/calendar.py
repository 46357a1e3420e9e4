"""``xwheel calendar``: days and stretches of time that jobs keep out of, or keep to."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json
from xwheel.errors import ConfigError

from xwheel_commands import GROUPS
from xwheel_commands.arguments import LimitOption
from xwheel_commands.connection import NodeApi, connected, segment
from xwheel_commands.output import print_fields
from xwheel_commands.table import ALWAYS, Column, moment

app = command_group(GROUPS["calendar"])

STDIN: Final = Path("-")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the calendar.")]


@app.command("list")
@connected
def list_calendars(node: NodeApi, limit: LimitOption = 1000) -> None:
    """List calendars by name."""
    node.print_list(
        node.pages("/calendars", limit=limit),
        (Column("NAME", ALWAYS), Column("UPDATED", 5)),
        lambda item: (item["name"], moment(item["updated_ms"])),
    )


@app.command()
@connected
def show(node: NodeApi, name: NameArgument) -> None:
    """Show a calendar."""
    found = node.call("GET", f"/calendars/{segment(name)}")
    if node.as_json:
        print_json(found)
        return
    pairs = [(key, json.dumps(value, ensure_ascii=False)) for key, value in found["definition"].items()]
    print_fields([("name", found["name"]), ("updated", moment(found["updated_ms"])), *pairs])


@app.command()
@connected
def save(
    node: NodeApi,
    name: NameArgument,
    file: Annotated[Path, typer.Option("--file", "-f", help="JSON or YAML with the definition; - for standard input.")],
) -> None:
    """Write a calendar; the jobs that use it fire by it from now on."""
    saved = node.call("PUT", f"/calendars/{segment(name)}", _definition(file))
    node.print_done(saved, f"calendar {name} is saved")


@app.command()
@connected
def delete(node: NodeApi, name: NameArgument) -> None:
    """Delete a calendar that no job uses."""
    node.call("DELETE", f"/calendars/{segment(name)}")
    node.print_done({"deleted": name}, f"calendar {name} is deleted")


def _definition(path: Path) -> dict[str, Any]:
    """Return what a file says.

    Raises:
        ConfigError: It cannot be read, or is no table.
    """
    from xwheel_commands.yaml_files import read_documents

    try:
        if path == STDIN:
            found = read_documents("--file", sys.stdin.buffer)
        else:
            with path.open("rb") as stream:
                found = read_documents(str(path), stream)
    except OSError as error:
        raise ConfigError(f"--file: cannot read {path}: {error.strerror}") from error
    definition = found[0].plain() if len(found) == 1 else None
    if not isinstance(definition, dict):
        raise ConfigError(f'--file: {path} must hold one table, such as {{"weekdays": "SAT,SUN"}}')
    return definition
