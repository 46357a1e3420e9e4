"""``xwheel run``: what happened and what will, kills, repetitions and logs."""

from __future__ import annotations

import sys
import threading
from typing import Annotated, Any, Final

import typer

from xwheel.cli.connection import LimitOption, NodeApi, connected, given
from xwheel.cli.lazy import command_group
from xwheel.cli.output import Colours, instant_ms, local_time, print_fields, print_json
from xwheel.model import FINAL_STATES, RunState

app = command_group()

FOLLOW_S: Final = 1.0
FINAL: Final = frozenset(state.value for state in FINAL_STATES)
SUCCEEDED: Final = RunState.SUCCEEDED.value

RunArgument = Annotated[int, typer.Argument(metavar="RUN", min=1, help="Id of the run.")]


@app.command("list")
@connected
def list_runs(
    node: NodeApi,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Id, name or APP/NAME of a job.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of a group.")] = None,
    state: Annotated[list[RunState] | None, typer.Option(help="Only these states; may be repeated.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Due then or later: a span such as 1h, ISO 8601, or epoch ms.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Due before then; spelled alike.")] = None,
    limit: LimitOption = 50,
) -> None:
    """List runs, latest due time first."""
    params = node.job_and_group(job, group)
    if state:
        params["state"] = ",".join(sorted({item.value for item in state}))
    if since is not None:
        params["from_ms"] = instant_ms(since, "--since")
    if until is not None:
        params["to_ms"] = instant_ms(until, "--until")
    node.print_list(
        node.pages("/runs", params, limit=limit),
        ("ID", "JOB", "STATE", "ORIGIN", "DUE", "FINISHED", "REASON"),
        lambda item: (
            item["id"],
            item["job_id"],
            item["state"],
            item["origin"],
            local_time(item["due_ms"]),
            local_time(item["finished_ms"]),
            item["reason"] or item["message"][:60],
        ),
    )


@app.command()
@connected
def show(node: NodeApi, run: RunArgument) -> None:
    """Show a run."""
    node.print_item(node.call("GET", f"/runs/{run}"))


@app.command()
@connected
def kill(node: NodeApi, run: RunArgument) -> None:
    """End a run: a planned one is cancelled, one that was sent is ended by its executor."""
    found = node.call("POST", f"/runs/{run}/kill")
    more = "" if found["state"] in FINAL else ", to be killed"
    node.print_done(found, f"run {run}: {found['state']}{more}")


@app.command()
@connected
def rerun(
    node: NodeApi,
    run: RunArgument,
    param: Annotated[str | None, typer.Option(help="Its parameter; default: the one it had.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for its end, and exit by it.")] = False,
) -> None:
    """Plan a new run of the same job with the same parameter, due at once."""
    made = node.call("POST", f"/runs/{run}/rerun", given(param=param))
    report_run(node, made, wait=wait)


@app.command()
@connected
def log(
    node: NodeApi,
    run: RunArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    from_line: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="First line.")] = 1,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw", help="Print every byte as it is, also what a terminal obeys; else colours at most."
        ),
    ] = False,
) -> None:
    """Print a run's log as its executor has it; with --json as one document at the end."""
    pieces: list[str] = []
    colours = Colours(keep=sys.stdout.isatty())
    line = from_line
    while True:
        view = node.call("GET", f"/runs/{run}/log", params={"from_line": line})
        content = view["content"]
        line = view["next_line"]
        if node.as_json:
            pieces.append(content)
        elif content:
            shown_content = content if raw else colours.only(content)
            typer.echo(shown_content, nl=not shown_content.endswith("\n"), color=True)
        if view["is_end"] or not (content or follow):
            break
        if not content:
            pause(FOLLOW_S)
    typer.echo(colours.end(), nl=False, color=True)
    if node.as_json:
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


def report_run(node: NodeApi, made: dict[str, Any], *, wait: bool) -> None:
    """Print a run that was just planned; with ``wait`` at its end, which then decides the exit status."""
    if not node.as_json:
        typer.echo(f"run {made['id']} is planned")
        sys.stdout.flush()
    while wait and made["state"] not in FINAL:
        pause(FOLLOW_S / 2)
        made = node.call("GET", f"/runs/{made['id']}")
    if node.as_json:
        print_json(made)
    elif wait:
        reason = made["reason"] or made["message"]
        print_fields([(f"run {made['id']}", made["state"]), *([("reason", reason)] if reason else [])])
    if wait and made["state"] != SUCCEEDED:
        raise typer.Exit(1)


def pause(seconds: float) -> None:
    """Wait before asking again."""
    threading.Event().wait(seconds)
