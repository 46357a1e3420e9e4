"""``xwheel run``: what happened and what will, kills, repetitions and logs."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from xwheel.cli.connection import (
    PREFIX,
    JsonOption,
    LimitOption,
    NodeOption,
    TokenOption,
    connect,
    find_group,
    find_job,
    pages,
)
from xwheel.cli.output import Colours, instant_ms, local_time, print_fields, print_json, print_table, shown
from xwheel.model import FINAL_STATES, RunState

if TYPE_CHECKING:
    from xwheel.wire.http.rest import RestClient

app = typer.Typer(help="Runs of jobs, on a running node.", no_args_is_help=True)

FOLLOW_S: Final = 1.0
FINAL: Final = frozenset(state.value for state in FINAL_STATES)
SUCCEEDED: Final = RunState.SUCCEEDED.value

RunArgument = Annotated[int, typer.Argument(metavar="RUN", min=1, help="Id of the run.")]


@app.command("list")
def list_runs(
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Id, name or APP/NAME of a job.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of a group.")] = None,
    state: Annotated[list[RunState] | None, typer.Option(help="Only these states; may be repeated.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Due then or later: a span such as 1h, ISO 8601, or epoch ms.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Due before then; spelled alike.")] = None,
    limit: LimitOption = 50,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """List runs, latest due time first."""
    client = connect(url, token_file)
    params: dict[str, Any] = {}
    if job is not None:
        params["job_id"] = find_job(client, job)["id"]
    if group is not None:
        params["group_id"] = find_group(client, group)["id"]
    if state:
        params["state"] = ",".join(sorted({item.value for item in state}))
    if since is not None:
        params["from_ms"] = instant_ms(since, "--since")
    if until is not None:
        params["to_ms"] = instant_ms(until, "--until")
    found = list(pages(client, "/runs", params, limit=limit))
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "JOB", "STATE", "ORIGIN", "DUE", "FINISHED", "REASON"),
        (
            (
                item["id"],
                item["job_id"],
                item["state"],
                item["origin"],
                local_time(item["due_ms"]),
                local_time(item["finished_ms"]),
                item["reason"] or item["message"][:60],
            )
            for item in found
        ),
    )


@app.command()
def show(
    run: RunArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """Show a run."""
    found = connect(url, token_file).call("GET", f"{PREFIX}/runs/{run}")
    print_json(found) if as_json else print_fields(shown(found))


@app.command()
def kill(
    run: RunArgument, url: NodeOption = None, token_file: TokenOption = None, as_json: JsonOption = False
) -> None:
    """End a run: a planned one is cancelled, one that was sent is ended by its executor."""
    found = connect(url, token_file).call("POST", f"{PREFIX}/runs/{run}/kill")
    if as_json:
        print_json(found)
        return
    typer.echo(f"run {run}: {found['state']}{', to be killed' if found['state'] not in FINAL else ''}")


@app.command()
def rerun(
    run: RunArgument,
    param: Annotated[str | None, typer.Option(help="Its parameter; default: the one it had.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and exit by it.")] = False,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Plan a new run of the same job with the same parameter, due at once."""
    client = connect(url, token_file)
    made = client.call("POST", f"{PREFIX}/runs/{run}/rerun", {} if param is None else {"param": param})
    report_run(client, made, wait=wait, as_json=as_json)


@app.command()
def log(
    run: RunArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    from_line: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="First line.")] = 1,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Print every byte as it is, also what a terminal obeys; else colours at most."
        ),
    ] = False,
    url: NodeOption = None,
    token_file: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a run's log as its executor has it; with --json as one document at the end."""
    client = connect(url, token_file)
    pieces: list[str] = []
    colours = Colours(keep=sys.stdout.isatty())
    line = from_line
    while True:
        view = client.call("GET", f"{PREFIX}/runs/{run}/log", params={"from_line": line})
        content = view["content"]
        line = view["next_line"]
        if as_json:
            pieces.append(content)
        elif content:
            shown_content = content if raw else colours.only(content)
            typer.echo(shown_content, nl=not shown_content.endswith("\n"), color=True)
        if view["is_end"] or not (content or follow):
            break
        if not content:
            pause(FOLLOW_S)
    typer.echo(colours.end(), nl=False, color=True)
    if as_json:
        content = "".join(pieces)
        print_json(
            {
                "run_id": run,
                "from_line": from_line,
                "next_line": line,
                "content": content,
                "is_end": view["is_end"],
            }
        )


def report_run(client: RestClient, made: dict[str, Any], *, wait: bool, as_json: bool) -> None:
    """Print a run that was just planned; with ``wait`` at its end, which then decides the exit status."""
    if not as_json:
        typer.echo(f"run {made['id']} is planned")
        sys.stdout.flush()
    while wait and made["state"] not in FINAL:
        pause(FOLLOW_S / 2)
        made = client.call("GET", f"{PREFIX}/runs/{made['id']}")
    if as_json:
        print_json(made)
    elif wait:
        reason = made["reason"] or made["message"]
        print_fields([(f"run {made['id']}", made["state"]), *([("reason", reason)] if reason else [])])
    if wait and made["state"] != SUCCEEDED:
        raise typer.Exit(1)


def pause(seconds: float) -> None:
    """Wait before asking again."""
    threading.Event().wait(seconds)
