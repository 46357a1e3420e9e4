"""``xwheel secret``: makes, lists, replaces and ends executor secrets in the configured database."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from xwheel.cli.connection import ConfiguredDatabase, PlainJsonOption, connected, group_id_of
from xwheel.cli.lazy import command_group
from xwheel.cli.output import print_json, utc_time
from xwheel.cli.printer import Printer
from xwheel.clock import wall_ms
from xwheel.errors import ConfigError, FieldError

if TYPE_CHECKING:
    from xwheel.runtime.sealing import KeyRing
    from xwheel.storage.database.engine import Connection
    from xwheel.storage.executor_secrets import StoredSecret

app = command_group()

Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call the secret.")]
InOption = Annotated[
    str,
    typer.Option("--in", metavar="TIME", help="When it ends, such as 0, 90m, 24h or 7d; 'never' for not."),
]

UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_S: Final = 31_536_000


@app.command()
@connected
def create(
    database: ConfiguredDatabase,
    name: Name,
    group: Annotated[str, typer.Option(metavar="APP", help="App name of the group whose executors get it.")],
) -> None:
    """Make a secret for the executors of a group and print it, this once; it counts within a second."""
    from xwheel.storage import executor_secrets

    wanted, value, keys = _checked(name), _new_value(), database.keys()

    def work(conn: Connection) -> StoredSecret:
        group_id = group_id_of(conn, group)
        return executor_secrets.insert_secret(conn, wanted, value, keys, wall_ms(), group_id=group_id)

    with database.open() as db:
        made = db.transaction(work)
    _print_new(database, made, value, keys)


@app.command("list")
@connected
def list_them(database: ConfiguredDatabase) -> None:
    """List all executor secrets by name, without their values."""
    from xwheel.storage import executor_secrets

    with database.open() as db, db.read() as conn:
        found = sorted(executor_secrets.list_secrets(conn), key=lambda item: item.name)
    if database.as_json:
        print_json([_row(item) for item in found])
        return
    for item in found:
        plain = "" if _row(item)["encrypted"] else "  not encrypted"
        typer.echo(f"{item.name:<32} {utc_time(item.created_ms)}  {_scope(item)}, {_end(item)}{plain}")


@app.command()
@connected
def rotate(
    database: ConfiguredDatabase,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Name of the next one.")],
    ends_in: InOption = "24h",
) -> None:
    """Make the next secret of the same group and print it, this once; the one before ends later."""
    from xwheel.storage import executor_secrets

    wanted, value, in_s = _checked(new_name), _new_value(), _seconds(ends_in)
    keep_ms = None if in_s is None else 1000 * in_s
    keys = database.keys()
    with database.open() as db:
        made = db.transaction(
            lambda conn: executor_secrets.rotate_secret(
                conn, name, wanted, value, keys, wall_ms(), keep_ms=keep_ms
            )
        )
    _print_new(database, made, value, keys)


@app.command()
@connected
def retire(
    database: ConfiguredDatabase,
    name: Name,
    ends_in: InOption = "24h",
) -> None:
    """Set when a secret ends: executors that still have it then are no longer live."""
    from xwheel.storage import executor_secrets

    in_s = _seconds(ends_in)
    expires_ms = None if in_s is None else wall_ms() + 1000 * in_s
    with database.open() as db:
        found = db.transaction(lambda conn: executor_secrets.retire_secret(conn, name, expires_ms))
    database.print_done(_row(found), f"secret {found.name}: {_end(found)}")


@app.command()
@connected
def delete(database: ConfiguredDatabase, name: Name) -> None:
    """Delete a secret; it ends within a second."""
    from xwheel.storage import executor_secrets

    with database.open() as db:
        db.transaction(lambda conn: executor_secrets.delete_secret(conn, name))
    database.print_done({"deleted": name}, f"secret {name} is deleted")


@app.command()
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; it must not be there yet.")],
    as_json: PlainJsonOption = False,
) -> None:
    """Make a file with a new key, for `security.key_file`; readable by this user alone."""
    from xwheel.runtime.sealing import make_key

    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot make {file}: {error.strerror}") from None
    with os.fdopen(number, "w", encoding="ascii") as target:
        target.write(f"{make_key()}\n")
    Printer(as_json).print_done(
        {"file": str(file)},
        f"{file} has a new key: copy it to all nodes, and keep a copy where the database's backups are not",
    )


@app.command()
@connected
def seal(database: ConfiguredDatabase) -> None:
    """Encrypt all executor secrets under the first key of `security.key_file`."""
    from xwheel.storage import executor_secrets

    keys = database.keys()
    with database.open() as db:
        count = db.transaction(lambda conn: executor_secrets.seal_all(conn, keys))
    database.print_done({"sealed": count}, f"{count} executor secrets are encrypted")


def _checked(name: str) -> str:
    from xwheel.api.http.body import read_fields
    from xwheel.api.schema.messages import NamePath

    return read_fields(NamePath, {"name": name}).name


def _new_value() -> str:
    from xwheel.api.schema.access import SECRET_BYTES

    return secrets.token_urlsafe(SECRET_BYTES)


def _seconds(text: str) -> int | None:
    if text == "never":
        return None
    match = re.fullmatch(r"([0-9]{1,9})([smhd]?)", text, re.ASCII)
    seconds = int(match[1]) * UNITS[match[2]] if match else -1
    if not 0 <= seconds <= MAX_S:
        raise FieldError("--in", "must be 'never' or a time of at most 365d, such as 0, 90m, 24h or 7d")
    return seconds


def _print_new(database: ConfiguredDatabase, made: StoredSecret, value: str, keys: KeyRing) -> None:
    sentence = f"secret {made.name} for {_scope(made)} (shown once): {value}"
    database.print_done({**_row(made), "secret": value}, sentence)
    if not keys.fingerprints:
        typer.echo("warning: it is kept unencrypted, since security.key_file is not set", err=True)


def _row(item: StoredSecret) -> dict[str, Any]:
    from xwheel.runtime.sealing import is_plain

    names = ("name", "group_id", "app_name", "created_ms", "expires_ms")
    return {**{name: getattr(item, name) for name in names}, "encrypted": not is_plain(item.sealed)}


def _scope(item: StoredSecret) -> str:
    return f"the executors of group {item.app_name or item.group_id}"


def _end(item: StoredSecret) -> str:
    if item.expires_ms is None:
        return "without an end"
    return f"{'ended' if item.expires_ms <= wall_ms() else 'ends'} {utc_time(item.expires_ms)}"
