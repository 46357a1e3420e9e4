"""``xwheel why``: why a job did not run at a due time, or ran late."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.output import plain, print_json
from xwheel_commands.arguments import JobArgument
from xwheel_commands.connection import NodeApi, connected, is_id
from xwheel_commands.output import instant_ms, local_time, print_fields, shown
from xwheel_commands.table import ALWAYS, Column, moment, print_table

app = command_group()


@app.command()
@connected
def why(
    node: NodeApi,
    job: JobArgument,
    time: Annotated[
        str | None,
        typer.Argument(
            metavar="[TIME]",
            help="A due time: ISO 8601, epoch ms, or a span before now such as 2h; default: the last one.",
        ),
    ] = None,
) -> None:
    """Explain a due time of a job: why it did not run, or why it was late."""
    at = None if time is None else instant_ms(time, "TIME")
    job_id = int(job) if is_id(job) else node.job_of_runs(job)
    found = node.call("GET", f"/jobs/{job_id}/why", params={"at": at})
    if node.as_json:
        print_json(found)
        return
    typer.echo(plain(found["sentence"]))
    for words in found["missing"]:
        typer.echo(plain(f"not known: {words}"))
    typer.echo("")
    _print_facts(found)
    _print_rows(found)


def _print_facts(found: dict[str, Any]) -> None:
    times = [(name.removesuffix("_ms"), local_time(found[name])) for name in _TIMES if found[name] is not None]
    facts = {name: value for name, value in found["facts"].items() if value not in (None, "") and name not in found}
    rest = {name: local_time(value) if name in _INSTANTS else value for name, value in facts.items()}
    print_fields([("job", f"{found['job_name']} ({found['job_id']})"), ("cause", found["cause"]), *times, *shown(rest)])


def _print_rows(found: dict[str, Any]) -> None:
    if stages := found["stages"]:
        typer.echo("")
        rows = [
            (stage["name"], local_time(stage["to_ms"]) if stage["is_over"] else "open", stage["took_ms"],
             "most" if stage["name"] == found["took_most"] else None)
            for stage in stages
        ]  # fmt: skip
        print_table([Column("STAGE", ALWAYS), Column("UNTIL", ALWAYS), Column("MS", ALWAYS), Column("TOOK", 5)], rows)
    if found["evidence"]:
        typer.echo("")
        columns = [Column("TABLE", ALWAYS), Column("ROW", ALWAYS), Column("AT", 6), Column("SAYS", ALWAYS, least=20)]
        rows = [(row["table"], row["key"], moment(row["at_ms"]), row["says"]) for row in found["evidence"]]
        print_table(columns, rows)


_TIMES: Final = ("asked_ms", "due_ms", "before_ms", "after_ms")
_INSTANTS: Final = frozenset(
    f"{name}_ms"
    for name in (
        "cancelled", "changed", "deleted", "ended", "first", "kept_from", "last", "node_started", "paused_since",
        "started", "stopped", "versions_from",
    )
)  # fmt: skip
"""Facts that are instants, besides the fields of jobs and runs that are."""
