"""``xwheel overview`` and ``report``: how much there is, and what became of runs."""

from __future__ import annotations

from typing import Annotated, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.cli.output import print_json
from xwheel.errors import FieldError
from xwheel_commands.arguments import GroupFilter, JobFilter, WideOption
from xwheel_commands.connection import NodeApi, connected
from xwheel_commands.output import instant_ms, local_time, print_fields
from xwheel_commands.table import ALWAYS, Column, moment, print_table

app = command_group()

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
    schedules = "fire" if paused is None else f"paused since {local_time(paused)}; 'xwheel resume' lets them fire"
    print_fields([*((name.replace("_", " "), value) for name, value in found.items()), ("schedules", schedules)])
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
