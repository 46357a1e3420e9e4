"""``xwheel plugins``: what is installed, and a project for a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xwheel.cli.connection import ConfigOption, JsonOption, NodeApi, TokenOption
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json, visible
from xwheel.cli.scaffold.project import Kind
from xwheel.cli.table import print_table

if TYPE_CHECKING:
    from xwheel.plugin.discovery import PluginInfo

app = command_group(alone=True)


@app.callback()
def show(
    context: typer.Context,
    config_path: ConfigOption = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Ask the node with this management API instead."),
    ] = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the plugins of this environment; with --url or --token-file those of a node, and how they fare."""
    if context.invoked_subcommand is not None:
        return
    if url is None and token_file is None:
        from xwheel.config import load_config
        from xwheel.plugin.discovery import load_plugins

        items = [_item(info) for info in load_plugins(load_config(config_path)).installed]
    else:
        items = NodeApi(url, token_file).call("GET", "/plugins")["items"]
    if as_json:
        print_json(items)
        return
    with_health = any(one["health"] for item in items for one in item["registers"])
    print_table(
        ("KIND", "NAME", "FROM", *(["HEALTH"] if with_health else [])),
        (
            (
                one["kind"],
                one["name"],
                f"{item['distribution']} {item['version']} (entry point {item['name']} = {item['module']})",
                *([_health(one["health"])] if with_health else []),
            )
            for item in items
            for one in item["registers"]
        ),
    )
    for item in items:
        for name, value in item["options"].items():
            text = visible(json.dumps(value, ensure_ascii=False))
            typer.echo(f"option plugins.options.{item['name']}.{name} = {text}")
        if not item["enabled"]:
            typer.echo(f"disabled: {item['name']} of {item['distribution']} {item['version']}")


@app.command()
def new(
    kind: Annotated[Kind, typer.Argument(help="What it shall bring.")],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, such as my_channel.")],
    directory: Annotated[
        Path, typer.Option("--directory", "-d", help="Where its folder is made; default: here.")
    ] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Write a complete, tested plugin project into a new folder."""
    from xwheel import __version__
    from xwheel.cli.scaffold.project import write_project

    paths = [str(path) for path in write_project(kind, name, directory, __version__)]
    if as_json:
        print_json({"files": paths})
        return
    for path in paths:
        typer.echo(path)


def _item(info: PluginInfo) -> dict[str, Any]:
    """Return a plugin as the API does, but without health, since nothing runs here."""
    return {
        "name": info.origin.name,
        "distribution": info.origin.distribution,
        "version": info.origin.version,
        "module": info.origin.target,
        "enabled": info.enabled,
        "registers": [
            {"kind": kind, "name": name, "health": None}
            for kind, names in info.registers.items()
            for name in names
        ],
        "options": dict(info.options),
    }


def _health(health: dict[str, Any] | None) -> str:
    if health is None:
        return ""
    counts = [
        f"{health[name]} {name}" for name in ("failures", "hanging", "queued", "dropped") if health[name]
    ]
    said = [health["last_answer"][:60]] if health["last_answer"] else []
    return ", ".join(["ok" if health["ok"] else "failing", *counts, *said])
