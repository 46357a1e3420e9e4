"""``xwheel health``, ``pause`` and ``resume``: the node as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json

from xwheel_commands.arguments import WideOption
from xwheel_commands.connection import NodeApi, connected
from xwheel_commands.output import local_time, print_fields
from xwheel_commands.table import ALWAYS, Column, marked, print_table

app = command_group()

OK: Final = "ok"
FAILING: Final = "failing"


@app.command()
@connected
def health(node: NodeApi, wide: WideOption = False) -> None:
    """Say how the node fares; exit with 1 if anything fails."""
    found = node.call("GET", "/health")
    if node.as_json:
        print_json(found)
    else:
        pairs = [
            ("status", marked(found["status"])),
            ("failing", found["failing"]),
            ("partitions", found["partitions"]),
            *((name.replace("_", " "), value) for name, value in found["counts"].items()),
        ]
        for name, value in pairs[:1]:
            typer.echo(f"{name}  {value}")
        print_fields(pairs[1:])
        print_table(
            (
                Column("LOOP", ALWAYS),
                Column("STATE", ALWAYS, is_state=True),
                Column("AGE MS", 5),
                Column("FAILURES", 6),
            ),
            (
                (loop["name"], OK if loop["ok"] else FAILING, loop["age_ms"], loop["failures"])
                for loop in found["loops"]
            ),
            is_wide=wide,
        )
    if found["status"] != OK:
        raise typer.Exit(1)


@app.command()
@connected
def pause(
    node: NodeApi,
    ask: Annotated[bool, typer.Option("--ask", help="Change nothing: say whether schedules are paused.")] = False,
) -> None:
    """Pause all schedules: nothing fires by itself any more, runs by hand do; 'xwheel resume' ends it."""
    _print_pause(node, node.call("GET" if ask else "PUT", "/schedule/pause"))


@app.command()
@connected
def resume(node: NodeApi) -> None:
    """Let schedules fire again."""
    answer = node.call("DELETE", "/schedule/pause")
    _print_pause(node, answer or node.call("GET", "/schedule/pause"))


def _print_pause(node: NodeApi, found: dict[str, Any]) -> None:
    since = found["paused_since_ms"]
    words = "schedules fire" if since is None else f"schedules are paused since {local_time(since)}"
    node.print_done(found, words)
