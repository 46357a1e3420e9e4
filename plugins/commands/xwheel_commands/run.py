"""``xwheel run``: what happened and what will, kills, repetitions and logs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json, visible
from xwheel.errors import FieldError, WireError
from xwheel.model import Origin, RunState

from xwheel_commands import GROUPS
from xwheel_commands.arguments import GroupFilter, JobFilter, LimitOption, WideOption
from xwheel_commands.connection import NodeApi, connected, is_id
from xwheel_commands.follow import FINAL, SUCCEEDED, Follower, last_attempts, may_have_log, note_of, why
from xwheel_commands.output import instant_ms, span_ms
from xwheel_commands.run_log import LogWish, print_log, search_log
from xwheel_commands.table import ALWAYS, Column, marked, moment

app = command_group(GROUPS["run"])

COLUMNS: Final = (
    Column("ID", ALWAYS),
    Column("JOB", 8, least=16),
    Column("STATE", ALWAYS, is_state=True),
    Column("ATTEMPT", 5),
    Column("ORIGIN", 4),
    Column("DUE", 7),
    Column("FINISHED", 3),
    Column("REASON", 6, least=16),
    Column("JOB ID", is_wide=True),
    Column("GROUP ID", is_wide=True),
    Column("ROOT", is_wide=True),
    Column("EXECUTOR", is_wide=True),
)

BEGUN: Final = sorted(set(RunState) - {RunState.PLANNED, RunState.SKIPPED, RunState.CANCELLED})
LogArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id of the run, or a job (NAME, APP/NAME) for its latest one that is no longer planned."
    ),
]
RunArgument = Annotated[int, typer.Argument(metavar="RUN", min=1, help="Id of the run.")]


@app.command("list")
@connected
def list_runs(
    node: NodeApi,
    *,
    job: JobFilter = None,
    group: GroupFilter = None,
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
    origin: Annotated[
        str | None,
        typer.Option(
            metavar="ORIGIN",
            help=f"Only what was planned so: {', '.join(Origin)}.",
            autocompletion=lambda: [item.value for item in Origin],
        ),
    ] = None,
    address: Annotated[str | None, typer.Option(help="Only what this executor got.")] = None,
    chain: Annotated[
        int | None, typer.Option(metavar="RUN", min=1, help="Only what came of the run that began a chain.")
    ] = None,
    fire: Annotated[
        int | None, typer.Option(metavar="RUN", min=1, help="Only shards and attempts of the fire with this first run.")
    ] = None,
    named: Annotated[
        str | None, typer.Option(metavar="BEGINNING", help="Only of jobs whose names begin so, in any case.")
    ] = None,
    message: Annotated[str | None, typer.Option(help="Only with this text in the message.")] = None,
    longer: Annotated[
        str | None, typer.Option(metavar="SPAN", help="Only what took, or is running, for 5m or longer.")
    ] = None,
    limit: LimitOption = 50,
    wide: WideOption = False,
) -> None:
    """List runs, latest due time first; those of deleted jobs too."""
    params = node.job_and_group(None, group) | given(
        job_id=None if job is None else node.job_of_runs(job),
        origin=origin,
        address=address,
        chain_id=chain,
        root_id=fire,
        job_name=named,
        message=message,
        min_duration_ms=None if longer is None else span_ms(longer, "--longer"),
    )
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
            note_of(item),
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
    of: LogArgument,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    from_line: Annotated[int, typer.Option(min=1, max=2**31 - 1, help="First line.")] = 1,
    tail: Annotated[
        int | None, typer.Option("--tail", "-n", min=1, max=10_000, help="Only this many last lines.")
    ] = None,
    search: Annotated[
        str, typer.Option(help="Only lines that hold this text, in upper or lower case, with their numbers.")
    ] = "",
    raw: Annotated[
        bool, typer.Option("--raw", help="Print every byte as it is, also what a terminal obeys; else colours at most.")
    ] = False,
) -> None:
    """Print a run's log from the log store or its executor; exit with 1 if there is none, and say why.

    With --json as one document at the end.
    """
    if tail is not None and (from_line > 1 or search):
        raise FieldError("--tail", "goes with neither --from-line nor --search")
    if search and follow:
        raise FieldError("--search", "does not go with --follow")
    run = _run_of(node, of)
    if search:
        if not search_log(node, run, search, from_line, raw=raw):
            raise typer.Exit(1)
    elif print_log(node, run, LogWish(from_line, tail, follow, raw), pause) and from_line == 1:
        _check_log(node.call("GET", f"/runs/{run}"))


def _run_of(node: NodeApi, text: str) -> int:
    """Return the id of a run, or of the latest one of a job that is no longer planned.

    Raises:
        FieldError: That job had none so far.
    """
    if is_id(text):
        return int(text)
    params = {"job_id": node.job_of_runs(text), "state": ",".join(BEGUN), "limit": 1}
    found = node.call("GET", "/runs", params=params)["items"]
    if not found:
        raise FieldError("RUN", f"job {text[:128]} had no run so far")
    return int(found[0]["id"])


def _check_log(run: dict[str, Any]) -> None:
    """Say why a run has no log.

    Raises:
        WireError: It has none.
    """
    state = run["state"]
    if state == "planned":
        raise WireError(f"run {run['id']} has no log yet: it is planned for {moment(run['due_ms'])}; --follow waits")
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
    try:
        runs = Follower(node, None if node.as_json else _say, pause).follow(made)
    except KeyboardInterrupt:
        typer.echo(
            f"run {made['id']} goes on: 'xwheel run show {made['id']}' says how it fares, 'xwheel run kill "
            f"{made['id']}' ends it",
            err=True,
        )
        raise
    failed = [run for run in last_attempts(runs) if run["state"] != SUCCEEDED]
    if node.as_json:
        first = next((run for run in runs if run["id"] == made["id"]), made)
        print_json({**first, "succeeded": not failed, "runs": runs})
    elif failed:
        for run in failed:
            typer.echo(f"{marked(run['state'])}: run {run['id']} of {visible(node.run_owner(run))}{_ending(run)}")
    else:
        typer.echo(f"{marked(SUCCEEDED)} after {len(runs)} run{'s' if len(runs) > 1 else ''}")
    if failed:
        raise typer.Exit(1)


def _say(line: str) -> None:
    typer.echo(line)
    sys.stdout.flush()


def _ending(run: dict[str, Any]) -> str:
    said = why(run)
    log_hint = f"; 'xwheel run log {run['id']}' shows its log" if may_have_log(run) else ""
    return f", attempt {run['attempt']}{': ' if said else ''}{said}{log_hint}"


def pause(seconds: float) -> None:
    """Wait before asking again."""
    threading.Event().wait(seconds)
