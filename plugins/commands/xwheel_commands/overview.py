"""``xwheel overview``, ``report``, ``health``, ``pause`` and ``resume``: the node as a whole."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json
from xwheel.errors import FieldError

from xwheel_commands.arguments import GroupFilter, JobFilter, WideOption
from xwheel_commands.connection import NodeApi, connected
from xwheel_commands.output import instant_ms, local_time, print_fields
from xwheel_commands.table import ALWAYS, Column, marked, moment, print_table

app = command_group()

OK: Final = "ok"
FAILING: Final = "failing"
SPANS: Final = ("hour", "day")
COUNTS: Final = (
    ("succeeded", 8), ("failed", 8), ("timed_out", 6), ("killed", 4), ("lost", 7), ("skipped", 5), ("cancelled", 3),
    ("refused", 6),
)  # fmt: skip


@app.command()
@connected
def overview(node: NodeApi) -> None:
    """Count groups, executors, jobs and open runs, and what became of the runs of the last 24 hours."""
    found = node.call("GET", "/overview")
    if node.as_json:
        print_json(found)
        return
    day = found.pop("last_day")
    paused = found.pop("paused_since_ms")
    schedules = (
        "fire" if paused is None else f"paused since {local_time(paused)}; 'xwheel resume' lets them fire"
    )
    print_fields(
        [*((name.replace("_", " "), value) for name, value in found.items()), ("schedules", schedules)]
    )
    typer.echo("\nruns due in the last 24 hours")
    print_fields((name.replace("_", " "), value) for name, value in day.items())


@app.command()
@connected
def report(
    node: NodeApi,
    by: Annotated[str, typer.Option(metavar="hour|day", help="How wide the stretches are.")] = SPANS[0],
    job: JobFilter = None,
    group: GroupFilter = None,
    since: Annotated[
        str | None, typer.Option(help="From then on: a span such as 12h or 7d, ISO 8601, or epoch ms.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Before then; spelled alike.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="How many stretches at most.")] = None,
    wide: WideOption = False,
) -> None:
    """Count runs by what became of them, for each hour or day (of UTC) in which they were due."""
    if by not in SPANS:
        raise FieldError("--by", f"takes hour or day, not {by[:40]!r}")
    params = {"by": by, **node.job_and_group(None, group)}
    params |= given(job_id=None if job is None else node.job_of_runs(job), limit=limit)
    for name, option, text in (("from_ms", "--since", since), ("to_ms", "--until", until)):
        if text is not None:
            params[name] = instant_ms(text, option)
    found = node.call("GET", "/reports", params=params)
    if node.as_json:
        print_json(found)
        return
    shown = [name for name, _ in COUNTS if name in found["totals"]]
    rows = [(moment(item["from_ms"]), *(item["counts"][name] for name in shown)) for item in found["items"]]
    rows.append(("total", *(found["totals"][name] for name in shown)))
    heads = [Column(name.replace("_", " ").upper(), keep) for name, keep in COUNTS if name in shown]
    print_table([Column("FROM", ALWAYS), *heads], rows, is_wide=wide)


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
    ask: Annotated[
        bool, typer.Option("--ask", help="Change nothing: say whether schedules are paused.")
    ] = False,
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
