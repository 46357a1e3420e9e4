"""``xwheel token``: makes, lists and deletes tokens in the configured database, whether a node runs or not."""

from __future__ import annotations

import json
import secrets
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xwheel.cli.connection import warn_of_password
from xwheel.clock import wall_ms
from xwheel.config import load_config
from xwheel.errors import FieldError

if TYPE_CHECKING:
    from xwheel.storage.database.engine import Database
    from xwheel.storage.tokens import KnownToken

app = typer.Typer(
    help="Tokens for the management API, and for the jobs of one executor group.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call the token.")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="TOML file with settings; default: $XWHEEL_CONFIG.")
]
UrlOption = Annotated[str | None, typer.Option("--database", help="SQLAlchemy URL; overrides the settings.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


@app.command()
def create(
    name: Name,
    group: Annotated[
        str | None,
        typer.Option(metavar="APP", help="App name of the group whose jobs it opens; default: everything."),
    ] = None,
    config_path: ConfigOption = None,
    url: UrlOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print its secret, which is kept nowhere else; it counts within a second."""
    from xwheel.api.http.body import read_fields
    from xwheel.api.v1.tokens import SECRET_BYTES, TokenCreate
    from xwheel.storage import executors, tokens
    from xwheel.storage.database.engine import Connection

    wanted = read_fields(TokenCreate, {"name": name})
    secret = secrets.token_urlsafe(SECRET_BYTES)

    def work(conn: Connection) -> KnownToken:
        found = None if group is None else executors.find_group(conn, group)
        if group is not None and found is None:
            raise FieldError("--group", f"there is no executor group {group[:64]!r}")
        group_id = None if found is None else found.id
        return tokens.insert_token(conn, wanted.name, secret, wall_ms(), group_id=group_id)

    with closing(_database(config_path, url)) as db:
        made = db.transaction(work)
    if as_json:
        typer.echo(json.dumps({**_row(made), "token": secret}, indent=2))
        return
    typer.echo(f"token {made.name} for {_scope(made)} (shown once): {secret}")


@app.command("list")
def list_them(config_path: ConfigOption = None, url: UrlOption = None, as_json: JsonOption = False) -> None:
    """List all tokens by name; their secrets are kept nowhere."""
    from xwheel.storage import tokens

    with closing(_database(config_path, url)) as db, db.read() as conn:
        found = sorted(tokens.list_tokens(conn), key=lambda token: token.name)
    if as_json:
        typer.echo(json.dumps([_row(token) for token in found], indent=2))
        return
    for token in found:
        made = datetime.fromtimestamp(token.created_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        typer.echo(f"{token.name:<32} {made}  {_scope(token)}")


@app.command()
def delete(
    name: Name, config_path: ConfigOption = None, url: UrlOption = None, as_json: JsonOption = False
) -> None:
    """Delete a token; nodes refuse it within a second."""
    from xwheel.storage import tokens

    with closing(_database(config_path, url)) as db:
        db.transaction(lambda conn: tokens.delete_token(conn, name))
    typer.echo(json.dumps({"deleted": name}) if as_json else f"token {name} is deleted")


def _database(path: Path | None, url: str | None) -> Database:
    """Open the configured database; tokens are no reason to make a new one."""
    from xwheel.node.node import open_database

    warn_of_password(url)
    return open_database(load_config(path, {"database": {"url": url}} if url else {}), create=False)


def _row(token: KnownToken) -> dict[str, Any]:
    return {
        "name": token.name,
        "group_id": token.group_id,
        "app_name": token.app_name,
        "created_ms": token.created_ms,
    }


def _scope(token: KnownToken) -> str:
    return "everything" if token.group_id is None else f"the jobs of group {token.app_name or token.group_id}"
