"""``xwheel glue``: the versions of a script job's source."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import plain, print_json
from xwheel.errors import ConfigError

from xwheel_commands import GROUPS
from xwheel_commands.arguments import JobArgument, LimitOption
from xwheel_commands.connection import ChangeApi, NodeApi, connected
from xwheel_commands.table import ALWAYS, Column, moment

app = command_group(GROUPS["glue"])

STDIN: Final = Path("-")
NumberArgument = Annotated[int, typer.Argument(metavar="VERSION", min=1, help="Number of the version.")]
RemarkOption = Annotated[str | None, typer.Option(help="What has changed.")]


@app.command("list")
@connected
def list_versions(node: NodeApi, job: JobArgument, limit: LimitOption = 100) -> None:
    """List the versions of a job's source, newest first."""
    node.print_list(
        node.pages(f"/jobs/{node.job(job)['id']}/glue", limit=limit),
        (
            Column("VERSION", ALWAYS),
            Column("TYPE", 4),
            Column("SAVED", 6),
            Column("AUTHOR", 5, least=8),
            Column("REMARK", 7, least=16),
        ),
        lambda item: (item["number"], item["glue_type"], moment(item["created_ms"]), item["author"], item["remark"]),
    )


@app.command()
@connected
def show(
    node: NodeApi,
    job: JobArgument,
    version: Annotated[
        int | None, typer.Argument(metavar="[VERSION]", min=1, help="Its number; default: the current one.")
    ] = None,
) -> None:
    """Print the source of a version."""
    known = node.job(job)
    number = version or known["glue_version"] or 1
    found = node.call("GET", f"/jobs/{known['id']}/glue/{number}")
    if node.as_json:
        print_json(found)
        return
    source = found["source"] if not sys.stdout.isatty() else plain(found["source"])
    typer.echo(source, nl=not source.endswith("\n"))


@app.command()
@connected
def save(
    node: ChangeApi,
    job: JobArgument,
    file: Annotated[Path, typer.Option("--file", "-f", help="The source; - for standard input.")],
    remark: RemarkOption = None,
) -> None:
    """Save a new version of a job's source; every run that is sent from now on carries it."""
    try:
        source = sys.stdin.read() if file == STDIN else file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(f"--file: cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"--file: {file} is not UTF-8 (byte {error.start})") from error
    body = given(source=source, remark=remark)
    made = node.call("POST", f"/jobs/{node.job(job)['id']}/glue", body)
    node.print_done(made, f"version {made['number']} is saved")


@app.command()
@connected
def restore(node: ChangeApi, job: JobArgument, version: NumberArgument, remark: RemarkOption = None) -> None:
    """Save the source of an old version as the newest one; nothing of what came between is lost."""
    made = node.call("POST", f"/jobs/{node.job(job)['id']}/glue/{version}/restore", given(remark=remark))
    node.print_done(made, f"version {version} is saved again as {made['number']}")
