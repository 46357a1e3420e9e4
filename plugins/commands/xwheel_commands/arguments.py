"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from xwheel.cli.connection import DEFAULT_URL

UrlOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"Management API of a node; default: $XWHEEL_URL, that of the latest login, or {DEFAULT_URL}.",
    ),
]
ToFileOption = Annotated[
    Path | None,
    typer.Option(
        "--to-file", metavar="FILE", help="Write the secret to this file, for this user alone, in place of printing it."
    ),
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why: kept with the job's version and in the audit.")
]
WideOption = Annotated[bool, typer.Option("--wide", help="Show every column whole, ids too, whatever the room.")]
LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="A field; may be repeated. Lists stand between commas, null is written null.",
    ),
]
NodeOption = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Management API of a node; default: $XWHEEL_URL or that of the latest login, and without either the "
        "database of the settings.",
    ),
]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id, name or APP/NAME.")]
JobFilter = Annotated[str | None, typer.Option("--job", metavar="JOB", help="Id, name or APP/NAME of a job.")]
GroupFilter = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="App name or id of a group.")]
