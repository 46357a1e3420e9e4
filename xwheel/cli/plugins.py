"""``xwheel plugins``: what is installed and what is wrong with it, a check of one file, and a project for a new one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xwheel.cli.connection import node_client
from xwheel.cli.lazy import command_group
from xwheel.cli.options import ConfigOption, JsonOption, PluginsDirOption, TokenOption, given
from xwheel.cli.output import print_json, print_rows, visible

if TYPE_CHECKING:
    from xwheel.plugin.discovery import PluginSurvey

app = command_group(alone=True)


@app.callback()
def show(
    context: typer.Context,
    config_path: ConfigOption = None,
    folder: PluginsDirOption = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Ask the node with this management API instead.")
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
        items = [info.shown({}) for info in survey.plugins.installed]  # nothing runs here that had a health
    else:
        items = node_client(url, token_file).call("GET", "/api/v1/plugins")["items"]
    if as_json:
        print_json(items)
    else:
        _print(items)
    if survey is not None:
        _report(survey)


def _print(items: Sequence[dict[str, Any]]) -> None:
    with_health = any(one["health"] for item in items for one in item["registers"])
    print_rows(
        ("KIND", "NAME", "FROM", *(["HEALTH"] if with_health else [])),
        (
            (one["kind"], one["name"], _origin(item), *([_health(one["health"])] if with_health else []))
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


def _origin(item: dict[str, Any]) -> str:
    if not item["version"]:
        return str(item["module"])
    return f"{item['distribution']} {item['version']} (entry point {item['name']} = {item['module']})"


def _health(health: dict[str, Any] | None) -> str:
    if health is None:
        return ""
    counts = [f"{health[name]} {name}" for name in ("failures", "hanging", "queued", "dropped") if health[name]]
    said = [health["last_answer"][:60]] if health["last_answer"] else []
    return ", ".join(["ok" if health["ok"] else "failing", *counts, *said])
