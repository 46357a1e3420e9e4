"""``xwheel token``: makes, lists and deletes tokens in the configured database, whether a node runs or not."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xwheel.cli.connection import ConfiguredDatabase, connected, group_id_of
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json, utc_time
from xwheel.clock import wall_ms

if TYPE_CHECKING:
    from xwheel.storage.tokens import KnownToken

app = command_group()

Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call the token.")]


@app.command()
@connected
def create(
    database: ConfiguredDatabase,
    name: Name,
    group: Annotated[
        str | None,
        typer.Option(metavar="APP", help="App name of the group whose jobs it opens; default: everything."),
    ] = None,
) -> None:
    """Make a token and print its secret, which is kept nowhere else; it counts within a second."""
    from xwheel.api.http.body import read_fields
    from xwheel.api.schema.access import SECRET_BYTES, TokenCreate
    from xwheel.storage import tokens
    from xwheel.storage.database.engine import Connection

    wanted = read_fields(TokenCreate, {"name": name})
    secret = secrets.token_urlsafe(SECRET_BYTES)

    def work(conn: Connection) -> KnownToken:
        group_id = None if group is None else group_id_of(conn, group)
        return tokens.insert_token(conn, wanted.name, secret, wall_ms(), group_id=group_id)

    with database.open() as db:
        made = db.transaction(work)
    sentence = f"token {made.name} for {_scope(made)} (shown once): {secret}"
    database.print_done({**_row(made), "token": secret}, sentence)


@app.command("list")
@connected
def list_them(database: ConfiguredDatabase) -> None:
    """List all tokens by name; their secrets are kept nowhere."""
    from xwheel.storage import tokens

    with database.open() as db, db.read() as conn:
        found = sorted(tokens.list_tokens(conn), key=lambda token: token.name)
    if database.as_json:
        print_json([_row(token) for token in found])
        return
    for token in found:
        typer.echo(f"{token.name:<32} {utc_time(token.created_ms)}  {_scope(token)}")


@app.command()
@connected
def delete(database: ConfiguredDatabase, name: Name) -> None:
    """Delete a token; nodes refuse it within a second."""
    from xwheel.storage import tokens

    with database.open() as db:
        db.transaction(lambda conn: tokens.delete_token(conn, name))
    database.print_done({"deleted": name}, f"token {name} is deleted")


def _row(token: KnownToken) -> dict[str, Any]:
    return {name: getattr(token, name) for name in ("name", "group_id", "app_name", "created_ms")}


def _scope(token: KnownToken) -> str:
    return "everything" if token.group_id is None else f"the jobs of group {token.app_name or token.group_id}"
