"""Options that many commands have, and the settings that they make together."""

from __future__ import annotations

from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import typer

if TYPE_CHECKING:
    from xwheel.config import Config

given_reason: Final = ContextVar("xwheel_reason", default="")
"""What ``xwheel --reason`` said before the command."""

SHOWN_WARNING: Final = (
    "xwheel: warning: --database: every user of this machine sees the password in the list of processes: give the URL "
    "without it, and the password in XWHEEL_DATABASE__PASSWORD or in the file database.password_file"
)

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with settings; default: $XWHEEL_CONFIG.")
]
DatabaseOption = Annotated[str | None, typer.Option("--database", help="SQLAlchemy URL; overrides the settings.")]
PluginsDirOption = Annotated[
    Path | None,
    typer.Option(
        "--plugins-dir",
        metavar="DIR",
        help="Folder whose files NAME.py are plugins; only root and you may be able to write to it.",
    ),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with a management token; default: $XWHEEL_TOKEN, the file $XWHEEL_TOKEN_FILE, or 'xwheel login'.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
PlainJsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def configure(path: Path | None, database: str | None, **sections: dict[str, Any]) -> Config:
    """Return the settings, with what the command line gives on top; warn of a password that stands there."""
    from xwheel.config import load_config

    warn_of_password(database)
    sections["database"] = {"url": database}
    return load_config(path, {section: given(**values) for section, values in sections.items()})


def warn_of_password(database: str | None) -> None:
    """Warn of a database's URL on the command line that holds a password: every user of the machine sees it there."""
    try:
        is_shown = database is not None and bool(urlsplit(database).password)
    except ValueError:
        is_shown = False
    if is_shown:
        typer.echo(SHOWN_WARNING, err=True)


def given(**values: object) -> dict[str, Any]:
    """Return the values that the command line gives: those that are not None."""
    return {name: value for name, value in values.items() if value is not None}
