"""``xwheel plugins``: what is installed and what is wrong with it, a check of one file, and a project for a new one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xwheel.cli.connection import ConfigOption, JsonOption, NodeApi, PluginsDirOption, TokenOption, given
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json, visible
from xwheel.cli.scaffold.project import Kind
from xwheel.cli.table import print_table

if TYPE_CHECKING:
    from xwheel.plugin.discovery import PluginInfo, PluginSurvey

app = command_group(alone=True)


@app.callback()
def show(
    context: typer.Context,
    config_path: ConfigOption = None,
    folder: PluginsDirOption = None,
    url: Annotated[
        str | None,
        typer.Option("--url", metavar="URL", help="Ask the node with this management API instead."),
    ] = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the plugins of this environment; with --url or --token-file those of a node, and how they fare.

    What is broken is listed with what is wrong; if that would stop a start, the exit status is 2.
    """
    if context.invoked_subcommand is not None:
        return
    survey = None
    if url is None and token_file is None:
        from xwheel.config import load_config
        from xwheel.plugin.discovery import survey_plugins

        survey = survey_plugins(load_config(config_path, {"plugins": given(folder=folder)}))
        items = [_item(info) for info in survey.plugins.installed]
    else:
        items = NodeApi(url, token_file).call("GET", "/plugins")["items"]
    if as_json:
        print_json(items)
    else:
        _print(items)
    if survey is not None:
        _report(survey)


def _print(items: Sequence[dict[str, Any]]) -> None:
    with_health = any(one["health"] for item in items for one in item["registers"])
    print_table(
        ("KIND", "NAME", "FROM", *(["HEALTH"] if with_health else [])),
        (
            (
                one["kind"],
                one["name"],
                _origin(item),
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
            typer.echo(f"disabled: {item['name']} of {item['distribution']} {item['version']}".rstrip())
        if item.get("error"):  # nodes of an older version say nothing of it
            typer.echo(f"broken: {visible(item['error'])}")


def _report(survey: PluginSurvey) -> None:
    """Say on standard error what does not stand in the list, and leave with status 2 if a start would stop."""
    infos = survey.plugins.installed
    listed = {id(info.error) for info in infos if info.error}
    for words in survey.warnings:
        typer.echo(f"xwheel: warning: {visible(words)}", err=True)
    for name in survey.plugins.missing.keys() - {info.origin.name for info in infos}:
        typer.echo(f"xwheel: warning: {visible(name)} of plugins.tolerate is not installed", err=True)
    for error in survey.errors:
        if id(error) not in listed:
            typer.echo(f"xwheel: {visible(str(error))}", err=True)
    if survey.errors:
        raise typer.Exit(2)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The plugin, such as plugins/nearby.py.")],
    config_path: ConfigOption = None,
    send: Annotated[
        bool,
        typer.Option(
            "--send",
            help="Really send sample alarms through its alarm channels, and write sample logs into its stores.",
        ),
    ] = False,
    confs: Annotated[
        list[str] | None,
        typer.Option("--conf", help="What its schedule type must understand; may be repeated."),
    ] = None,
    source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A source that its glue type must be able to use.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Load a plugin of one file and try what it registers as xwheel would; say what is wrong."""
    from xwheel.config import load_config
    from xwheel.errors import FieldError
    from xwheel.testing.one_file import Trials, check_file

    try:
        text = source.read_text(encoding="utf-8") if source else ""
    except (OSError, UnicodeDecodeError) as error:
        raise FieldError("--source", f"cannot read {source}: {error}") from error
    trials = Trials(send=send, confs=confs or (), source=text)
    found = check_file(path, load_config(config_path), trials)
    if as_json:
        fields = ("kind", "name", "problem", "note")
        print_json({"items": [{name: getattr(item, name) for name in fields} for item in found]})
    for item in found if not as_json else ():
        said = f"wrong: {item.problem}" if item.problem else "ok"
        if item.note:
            said = f"its form is ok; {item.note}"
        typer.echo(f"{item.kind} {visible(item.name)}: {visible(said)}")
    raise typer.Exit(1 if any(item.problem for item in found) else 0)


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
        "error": str(info.error or ""),
        "registers": [
            {"kind": kind, "name": name, "health": None}
            for kind, names in info.registers.items()
            for name in names
        ],
        "options": dict(info.options),
    }


def _origin(item: dict[str, Any]) -> str:
    if not item["version"]:
        return str(item["module"])
    return f"{item['distribution']} {item['version']} (entry point {item['name']} = {item['module']})"


def _health(health: dict[str, Any] | None) -> str:
    if health is None:
        return ""
    counts = [
        f"{health[name]} {name}" for name in ("failures", "hanging", "queued", "dropped") if health[name]
    ]
    said = [health["last_answer"][:60]] if health["last_answer"] else []
    return ", ".join(["ok" if health["ok"] else "failing", *counts, *said])
