"""``xwheel run``: what happened and what will, kills, repetitions and logs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer

from xwheel.cli.connection import LimitOption, NodeApi, WideOption, connected, given
from xwheel.cli.lazy import command_group
from xwheel.cli.node.follow import FINAL, SUCCEEDED, Follower, last_attempts, why
from xwheel.cli.output import Colours, instant_ms, print_json, visible
from xwheel.cli.table import ALWAYS, Column, has_colours, marked, moment
from xwheel.errors import FieldError, WireError
from xwheel.model import RunState
from xwheel.wire.contract import TEXTS_NO_LOG

app = command_group()

FOLLOW_S: Final = 1.0
COLUMNS: Final = (
    Column("ID", ALWAYS),
    Column("JOB", 8, least=16),
    Column("STATE", ALWAYS, is_state=True),
    Column("ATTEMPT", 3),
    Column("ORIGIN", 2),
    Column("DUE", 7),
    Column("FINISHED", 4),
    Column("REASON", 6, least=16),
    Column("JOB ID", is_wide=True),
    Column("GROUP ID", is_wide=True),
    Column("ROOT", is_wide=True),
    Column("EXECUTOR", is_wide=True),
)

RunArgument = Annotated[int, typer.Argument(metavar="RUN", min=1, help="Id of the run.")]


@app.command("list")
@connected
def list_runs(
    node: NodeApi,
    job: Annotated[str | None, typer.Option(metavar="JOB", help="Id, name or APP/NAME of a job.")] = None,
    group: Annotated[str | None, typer.Option(metavar="GROUP", help="App name or id of a group.")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE,...",
            help=f"Only these states, between commas or repeated: {', '.join(RunState)}.",
            autocompletion=lambda: [item.value for item in RunState],
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Due then or later: a span such as 1h, ISO 8601, or epoch ms.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Due before then; spelled alike.")] = None,
    limit: LimitOption = 50,
    wide: WideOption = False,
) -> None:
    """List runs, latest due time first; those of deleted jobs too."""
    params = node.job_and_group(None, group) | given(job_id=None if job is None else node.job_of_runs(job))
    if state:
        params["state"] = ",".join(_states(state))
    if since is not None:
        params["from_ms"] = instant_ms(since, "--since")
    if until is not None:
        params["to_ms"] = instant_ms(until, "--until")
    node.print_list(
        node.pages("/runs", params, limit=limit),
        COLUMNS,
        lambda item: (
            item["id"],
            node.run_owner(item),
            item["state"],
            item["attempt"],
            item["origin"],
            moment(item["due_ms"]),
            moment(item["finished_ms"]),
            item["reason"] or item["message"][:60],
            item["job_id"],
            item["group_id"],
            item["root_id"],
            item["address"],
        ),
        is_wide=wide,
    )


def _states(texts: Sequence[str]) -> list[str]:
    """Return the states that an option names.

    Raises:
        FieldError: One is none.
    """
    wanted = sorted({word.strip() for text in texts for word in text.split(",")})
    for word in wanted:
        if word not in set(RunState):
            raise FieldError("--state", f"takes {', '.join(RunState)}, between commas, not {word[:40]!r}")
    return wanted


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
    wait: Annotated[
        bool, typer.Option("--wait", help="Follow it and what comes of it to the end, and exit by that.")
    ] = False,
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
    """Print a run's log as its executor has it; exit with 1 if there is none, and say why.

    With --json as one document at the end.
    """
    pieces: list[str] = []
    colours = Colours(keep=has_colours())
    line = from_line
    is_empty = True
    while True:
        view = node.call("GET", f"/runs/{run}/log", params={"from_line": line})
        content = view["content"]
        if line == 1 and content.strip() in TEXTS_NO_LOG:
            content = ""
        is_empty = is_empty and not content
        if node.as_json:
            pieces.append(content)
        elif content:
            shown_content = content if raw else colours.only(content)
            typer.echo(shown_content, nl=not shown_content.endswith("\n"), color=True)
        is_new = view["next_line"] > line
        line = view["next_line"]
        if view["is_end"] or not ((content and is_new) or follow):
            break
        if not content:
            pause(FOLLOW_S)
    typer.echo(colours.end(), nl=False, color=True)
    if node.as_json:
        print_json(
            {
                "run_id": run,
                "from_line": from_line,
                "next_line": line,
                "content": "".join(pieces),
                "is_end": view["is_end"],
            }
        )
    if is_empty and from_line == 1:
        _check_log(node.call("GET", f"/runs/{run}"))


def _check_log(run: dict[str, Any]) -> None:
    """Say why a run has no log.

    Raises:
        WireError: It has none.
    """
    state = run["state"]
    if state == "planned":
        raise WireError(
            f"run {run['id']} has no log yet: it is planned for {moment(run['due_ms'])}; --follow waits"
        )
    if state not in FINAL or state == SUCCEEDED:
        return  # it has said nothing so far, or nothing at all
    said = why(run)
    told = f"{state}, {said}" if said else state
    raise WireError(f"run {run['id']} has no log: {told}")


def report_run(node: NodeApi, made: dict[str, Any], *, wait: bool) -> None:
    """Print a run that was just planned; with ``wait`` all that comes of it, whose end decides the exit status.

    Raises:
        Exit: Something of it did not succeed in the end.
    """
    if not wait:
        node.print_done(made, f"run {made['id']} is planned")
        return
    runs = Follower(node, None if node.as_json else _say, pause).follow(made)
    failed = [run for run in last_attempts(runs) if run["state"] != SUCCEEDED]
    if node.as_json:
        first = next((run for run in runs if run["id"] == made["id"]), made)
        print_json({**first, "succeeded": not failed, "runs": runs})
    elif failed:
        for run in failed:
            typer.echo(
                f"{marked(run['state'])}: run {run['id']} of {visible(node.run_owner(run))}{_ending(run)}"
            )
    else:
        typer.echo(f"{marked(SUCCEEDED)} after {len(runs)} run{'s' if len(runs) > 1 else ''}")
    if failed:
        raise typer.Exit(1)


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


def _ending(run: dict[str, Any]) -> str:
    said = why(run)
    log_hint = "" if run["address"] is None else f"; 'xwheel run log {run['id']}' shows its log"
    return f", attempt {run['attempt']}{': ' if said else ''}{said}{log_hint}"


def pause(seconds: float) -> None:
    """Wait before asking again."""
    threading.Event().wait(seconds)
