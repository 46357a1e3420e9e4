"""``xwheel cron``: what a cron expression means and when it fires, without a node."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import PlainJsonOption
from xwheel.cli.output import print_json
from xwheel.clock import wall_ms
from xwheel.errors import FieldError
from xwheel.model.shorthand import schedule_fields

DIALECTS: Final = {"CRON": "quartz", "UNIX_CRON": "unix"}
LANGUAGES: Final = ("en", "zh")
MAX_COUNT: Final = 1000

app = command_group()

Expression = Annotated[str, typer.Argument(metavar="EXPR", help="The expression, in quotes.")]
Dialect = Annotated[
    str | None,
    typer.Option(help="quartz or unix; by default five fields and @daily are crontab's, six or seven are Quartz's."),
]
Zone = Annotated[str, typer.Option("--tz", help="IANA name of the time zone.")]


@app.command("next")
def next_fires(
    expression: Expression,
    dialect: Dialect = None,
    timezone: Zone = "UTC",
    start: Annotated[
        str | None,
        typer.Option("--from", help="ISO 8601, in the time zone unless it has an offset, or epoch ms; default: now."),
    ] = None,
    count: Annotated[int, typer.Option("-n", help=f"How many, 1 to {MAX_COUNT}.")] = 5,
    as_json: PlainJsonOption = False,
) -> None:
    """Print the next fires of an expression, those strictly after an instant."""
    from xwheel import cron

    dialect = dialect or _dialect_of(expression)
    schedule, place = cron.parse(expression, dialect, timezone), cron.zone(timezone)
    if not 1 <= count <= MAX_COUNT:
        raise FieldError("-n", f"must be a whole number from 1 to {MAX_COUNT}, not {count}")
    after_ms = wall_ms() if start is None else _instant_ms(start, place)
    items: list[dict[str, int | str]] = []
    try:
        while len(items) < count:
            due_ms = schedule.next_ms(after_ms)
            if due_ms is None:
                break
            items.append({"due_ms": due_ms, "local": _local(due_ms, place)})
            after_ms = due_ms
    except (ValueError, OverflowError) as error:
        raise FieldError("--from", f"leads beyond the years 1 to 9999: {error}") from error
    if as_json:
        found = {"expression": expression, "dialect": dialect, "timezone": timezone, "items": items}
        print_json(found)
        return
    for item in items:
        typer.echo(item["local"])
    if len(items) < count:
        typer.echo("no further fire" if items else "no fire")


@app.command()
def explain(
    expression: Expression,
    dialect: Dialect = None,
    timezone: Zone = "UTC",
    language: Annotated[str, typer.Option("--lang", help="en, zh or both.")] = "both",
    as_json: PlainJsonOption = False,
) -> None:
    """Say an expression in plain words, English and Chinese."""
    from xwheel import cron

    if language not in {*LANGUAGES, "both"}:
        raise FieldError("--lang", f"is one of {', '.join(LANGUAGES)} or both, not {language[:40]!r}")
    dialect = dialect or _dialect_of(expression)
    schedule = cron.parse(expression, dialect, timezone)
    words = {name: schedule.describe(name) for name in LANGUAGES if language in {name, "both"}}
    if as_json:
        found = {"expression": expression, "dialect": dialect, "timezone": timezone, **words}
        print_json(found)
        return
    for sentence in words.values():
        typer.echo(sentence)


def _dialect_of(expression: str) -> str:
    """Return how ``xwheel job create --cron`` would read an expression."""
    return DIALECTS[schedule_fields({"cron": expression})["schedule_type"]]


def _instant_ms(text: str, place: ZoneInfo) -> int:
    """Return the instant that a text names.

    Raises:
        FieldError: It names none.
    """
    try:
        if text.strip().lstrip("-").isdecimal():
            moment_ms = int(text)
            datetime.fromtimestamp(moment_ms // 1000, place)  # refuses what no calendar can hold
            return moment_ms
        moment = datetime.fromisoformat(text.strip())
        moment = moment if moment.tzinfo else moment.replace(tzinfo=place)
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise FieldError(
            "--from", f"takes ISO 8601 such as 2030-01-31T09:00 or epoch milliseconds, not {text[:40]!r}"
        ) from error


def _local(due_ms: int, place: ZoneInfo) -> str:
    return datetime.fromtimestamp(due_ms // 1000, place).isoformat()
