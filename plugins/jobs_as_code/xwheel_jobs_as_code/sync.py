"""``xwheel sync``: the jobs that modules declare, as jobs of a node."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import ConfigOption
from xwheel.cli.output import print_json, visible
from xwheel.errors import ConfigError, ConflictError
from xwheel_commands.connection import NodeApi, connected
from xwheel_commands.output import local_time

from xwheel_jobs_as_code.apply import EXIT_DRIFT, shown_value

if TYPE_CHECKING:
    from xwheel.executor.declarations import Declaration

app = command_group()

EXIT_DECLARATION: Final = 2
SIGNS: Final = {"create": "+", "retire": "-"}
PATH: Final = "/declarations/sync"
ANSWER_S: Final = 120
"""A thousand new jobs take a while."""


@app.command()
@connected
def sync(
    node: NodeApi,
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET...",
            help="MODULE, for what @job declares in it and in what it imports, or MODULE:NAME for one of its "
            "functions, a list, or an Executor.",
        ),
    ],
    group: Annotated[
        str | None, typer.Option(metavar="APP", help="The group's app name; default: executor.app_name.")
    ] = None,
    release: Annotated[str | None, typer.Option(help="The application's release; default: executor.release.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would change, and change nothing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help=f"As --dry-run, and exit with {EXIT_DRIFT} if anything differs.")
    ] = False,
    config_path: ConfigOption = None,
) -> None:
    """Make the jobs of a group what code declares; what it declares no more is stopped, and stays.

    A token of the group is enough. Nothing is changed if a declaration is wrong, or if a release with a live executor
    owns the jobs.
    """
    from xwheel.executor.declarations import declared_body, digest_of

    app_name, number = _who(group, release, config_path)
    declarations = load_declarations(targets)
    _refuse([_local_problem(item) for item in declarations if item.problem is not None], declarations, node)
    body = {"app_name": app_name, "release": number, "digest": digest_of(declarations), **declared_body(declarations)}
    node.allow(ANSWER_S)
    report = node.call("POST", PATH, {**body, "dry_run": True})
    _refuse(report["problems"], declarations, node)
    is_real = not (dry_run or check)
    if is_real and report["standing"] == "owns":
        report = node.call("POST", PATH, body)
        _refuse(report["problems"], declarations, node)
    _print(node, report, applied=is_real)
    if report["standing"] == "waits" and dry_run:  # as in a pipeline that checks what it is about to roll out
        typer.echo(f"xwheel: {visible(_why_not(report, number))}", err=True)
    elif report["standing"] != "owns":
        raise ConflictError(_why_not(report, number))
    if check and report["steps"]:
        raise typer.Exit(EXIT_DRIFT)


def load_declarations(targets: Sequence[str]) -> list[Declaration]:
    """Return the jobs that modules declare, by name.

    Raises:
        ConfigError: One cannot be imported, or nothing is declared in any of them.
    """
    from xwheel.executor import Executor
    from xwheel.executor.handlers import HandlerRegistry, load_targets

    sys.path.insert(0, str(Path.cwd()))
    sources: list[object] = []
    for found in load_targets(targets):
        sources += found.handlers if isinstance(found, Executor) else [found]
    declarations = HandlerRegistry(sources).declarations
    if not declarations:
        raise ConfigError(
            f"{', '.join(targets)}: no @job there declares a job: give it a schedule, such as "
            "@job('NAME', cron='0 2 * * *'), or another field of a job"
        )
    return declarations


def _who(group: str | None, release: str | None, config_path: Path | None) -> tuple[str, str]:
    """Return the group's app name and the application's release; settings are read for what is not given."""
    from xwheel.config import load_config

    if group is None or release is None:
        settings = load_config(config_path).executor
        group, release = group or settings.app_name, release or settings.release.strip()
    if not group:
        raise ConfigError("--group is missing: the app name of the group that has the jobs, or executor.app_name")
    if not release:
        raise ConfigError(
            "--release is missing: the application's release, such as 1.4.2 or a build's number, or executor.release"
        )
    return group, release


def _local_problem(item: Declaration) -> dict[str, Any]:
    error = item.problem
    field, reason = ("", "") if error is None else (error.field, error.reason)
    return {"name": item.name, "place": item.place, "field": field, "reason": reason}


def _refuse(problems: Sequence[Mapping[str, Any]], declarations: Sequence[Declaration], node: NodeApi) -> None:
    """End the command if declarations are wrong, and say of each what is."""
    from xwheel.executor.declarations import problem_line

    if not problems:
        return
    if node.as_json:
        print_json({"applied": False, "problems": [dict(problem) for problem in problems]})
    known = {item.name: item for item in declarations}
    for problem in problems:
        typer.echo(f"xwheel: {visible(problem_line(known.get(problem['name']), problem))}", err=True)
    raise typer.Exit(EXIT_DECLARATION)


def _print(node: NodeApi, report: Mapping[str, Any], *, applied: bool) -> None:
    is_done = applied and report["standing"] == "owns"
    if node.as_json:
        print_json({"applied": is_done, **report})
        return
    for step in report["steps"]:
        sign = SIGNS.get(step["action"], "~")
        typer.echo(f"{sign} {step['action']} {visible(report['app_name'])}/{visible(step['name'])}")
        for change in step["changes"]:
            old = "" if step["action"] == "create" else f"{shown_value(change['old'])} -> "
            typer.echo(f"    {change['field']}: {old}{shown_value(change['new'])}")
    if not report["steps"] and report["standing"] == "owns":
        typer.echo("nothing differs")
    elif report["steps"]:
        typer.echo(f"{len(report['steps'])} {'changes are made' if is_done else 'differences'}")
    for other in report["conflicts"]:
        typer.echo(
            f"xwheel: live executors of release {visible(other['release'])} declare other jobs: {other['digest'][:8]}",
            err=True,
        )


def _why_not(report: Mapping[str, Any], release: str) -> str:
    other = report["other"] or {"release": "", "digest": ""}
    who = f"release {other['release']} ({other['digest'][:8]})"
    if report["standing"] == "conflicts":
        return (
            f"{who} declares other jobs under the same release, and came first: give this build another release, or "
            "stop the executors of the other one"
        )
    if report["until_ms"]:
        return f"{who} had live executors a moment ago, and keeps its jobs until {local_time(report['until_ms'])}"
    return (
        f"{who} has live executors, and so owns the jobs: executors of release {release} with executor.sync_jobs take "
        "over once one is live, if theirs is the higher release"
    )
