"""``xwheel secret``: makes, lists, replaces and ends executor secrets."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import PlainJsonOption, given
from xwheel.cli.output import print_done
from xwheel.clock import wall_ms
from xwheel.errors import ConfigError, FieldError

from xwheel_commands import GROUPS
from xwheel_commands.arguments import ToFileOption, WideOption
from xwheel_commands.connection import ConfiguredDatabase, DatabaseOrNode, connected, group_id_of, segment
from xwheel_commands.files import keep_secret
from xwheel_commands.output import utc_time
from xwheel_commands.table import ALWAYS, Column, moment

if TYPE_CHECKING:
    from xwheel.scheduler.audit_trail import AuditTrail
    from xwheel.storage.access.executor_secrets import StoredSecret
    from xwheel.storage.database.engine import Connection

app = command_group(GROUPS["secret"])

Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call the secret.")]
InOption = Annotated[
    str, typer.Option("--in", metavar="TIME", help="When it ends, such as 0, 90m, 24h or 7d; 'never' for not.")
]

Row = dict[str, Any]

UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
MAX_S: Final = 31_536_000


@app.command()
@connected
def create(
    place: DatabaseOrNode,
    name: Name,
    group: Annotated[str, typer.Option(metavar="APP", help="App name of the group whose executors get it.")],
    file: ToFileOption = None,
) -> None:
    """Make a secret for the executors of a group and print it, this once; it counts within a second."""

    def make() -> tuple[Row, str]:
        wanted = _checked(name)
        if place.node is not None:
            body = {"name": wanted, "group_id": place.node.group(group)["id"]}
            return _taken_apart(place.node.call("POST", "/secrets", body))
        from xwheel.storage.access import executor_secrets

        value, keys = _new_value(), place.keys()

        def work(conn: Connection, audit: AuditTrail) -> StoredSecret:
            group_id = group_id_of(conn, group)
            made = executor_secrets.insert_secret(conn, wanted, value, keys, wall_ms(), group_id=group_id)
            _record(audit, conn, "secret.create", None, made)
            return made

        return _row(place.change(work)), value

    _print_new(place, *keep_secret(file, make), file)


@app.command("list")
@connected
def list_them(
    place: DatabaseOrNode,
    group: Annotated[str | None, typer.Option(metavar="APP", help="Only those of this group.")] = None,
    wide: WideOption = False,
) -> None:
    """List all executor secrets by name, without their values."""
    now_ms = wall_ms()
    place.print_list(
        _rows(place, group),
        (
            Column("NAME", ALWAYS, least=16),
            Column("GROUP", 8, least=8),
            Column("STATE", ALWAYS, is_state=True),
            Column("CREATED", 5),
            Column("ENDS", 7),
            Column("KEPT", 6),
            *([] if place.node is None else [Column("EXECUTORS", 7)]),
        ),
        lambda item: (
            item["name"],
            item["app_name"] or item["group_id"],
            "ok" if item["expires_ms"] is None or item["expires_ms"] > now_ms else "ended",
            moment(item["created_ms"]),
            moment(item["expires_ms"]),
            "encrypted" if item["encrypted"] else "not encrypted",
            item.get("executors"),
        ),
        is_wide=wide,
    )


def _rows(place: DatabaseOrNode, group: str | None) -> list[Row]:
    if place.node is not None:
        params = given(group_id=None if group is None else place.node.group(group)["id"])
        return list(place.node.pages("/secrets", params))
    from xwheel.storage.access import executor_secrets

    with place.open() as db, db.read() as conn:
        wanted = None if group is None else group_id_of(conn, group)
        found = sorted(executor_secrets.list_secrets(conn), key=lambda item: item.name)
    return [_row(item) for item in found if wanted in (None, item.group_id)]


@app.command()
@connected
def rotate(
    place: DatabaseOrNode,
    name: Name,
    new_name: Annotated[str, typer.Argument(metavar="NEW", help="Name of the next one.")],
    ends_in: InOption = "24h",
    file: ToFileOption = None,
) -> None:
    """Make the next secret of the same group and print it, this once; the one before ends later."""
    in_s = _seconds(ends_in)

    def make() -> tuple[Row, str]:
        wanted = _checked(new_name)
        if place.node is not None:
            path = f"/secrets/{segment(name)}"
            body = {"name": wanted, "expires_in_s": MAX_S if in_s is None else in_s}
            answer = place.node.call("POST", f"{path}/rotate", body)
            if in_s is None:
                place.node.call("PATCH", path, {"expires_in_s": None})
            return _taken_apart(answer)
        from xwheel.storage.access import executor_secrets

        keep_ms = None if in_s is None else 1000 * in_s
        value, keys = _new_value(), place.keys()

        def work(conn: Connection, audit: AuditTrail) -> StoredSecret:
            before = executor_secrets.get_secret(conn, name)
            made = executor_secrets.rotate_secret(conn, name, wanted, value, keys, wall_ms(), keep_ms=keep_ms)
            _record(audit, conn, "secret.create", None, made)
            _record(audit, conn, "secret.retire", before, executor_secrets.get_secret(conn, name))
            return made

        return _row(place.change(work)), value

    _print_new(place, *keep_secret(file, make, replaces=True), file)


@app.command()
@connected
def retire(place: DatabaseOrNode, name: Name, ends_in: InOption = "24h") -> None:
    """Set when a secret ends: executors that still have it then are no longer live."""
    in_s = _seconds(ends_in)
    if place.node is not None:
        found = place.node.call("PATCH", f"/secrets/{segment(name)}", {"expires_in_s": in_s})
    else:
        from xwheel.storage.access import executor_secrets

        expires_ms = None if in_s is None else wall_ms() + 1000 * in_s

        def work(conn: Connection, audit: AuditTrail) -> StoredSecret:
            before = executor_secrets.get_secret(conn, name)
            after = executor_secrets.retire_secret(conn, name, expires_ms)
            _record(audit, conn, "secret.retire", before, after)
            return after

        found = _row(place.change(work))
    place.print_done(found, f"secret {found['name']}: {_end(found)}")


@app.command()
@connected
def delete(place: DatabaseOrNode, name: Name) -> None:
    """Delete a secret; it ends within a second."""
    if place.node is not None:
        place.node.call("DELETE", f"/secrets/{segment(name)}")
    else:
        from xwheel.storage.access import executor_secrets

        def work(conn: Connection, audit: AuditTrail) -> None:
            before = executor_secrets.get_secret(conn, name)
            executor_secrets.delete_secret(conn, name)
            _record(audit, conn, "secret.delete", before, None)

        place.change(work)
    place.print_done({"deleted": name}, f"secret {name} is deleted")


@app.command()
def key(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; it must not be there yet.")],
    as_json: PlainJsonOption = False,
) -> None:
    """Make a file with a new key, for `security.key_file`; readable by this user alone."""
    from xwheel.runtime.sealing import make_key

    made = make_key()  # before there is a file: its library may not be installed
    try:
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise ConfigError(f"cannot make {file}: {error.strerror}") from None
    with os.fdopen(number, "w", encoding="ascii") as target:
        target.write(f"{made}\n")
    print_done(
        as_json,
        {"file": str(file)},
        f"{file} has a new key: copy it to all nodes, and keep a copy where the database's backups are not",
    )


@app.command()
@connected
def seal(database: ConfiguredDatabase) -> None:
    """Encrypt all executor secrets under the first key of `security.key_file`."""
    from xwheel.storage.access import executor_secrets

    keys = database.keys()

    def work(conn: Connection, audit: AuditTrail) -> int:
        count = executor_secrets.seal_all(conn, keys)
        audit.record(conn, "secret.seal", "secret", "all", after={"count": count})
        return count

    count = database.change(work)
    database.print_done({"sealed": count}, f"{count} executor secrets are encrypted")


def _record(
    audit: AuditTrail, conn: Connection, action: str, before: StoredSecret | None, after: StoredSecret | None
) -> None:
    found = after or before
    assert found is not None  # noqa: S101 - there is one before or after
    audit.record(conn, action, "secret", found.name, group_id=found.group_id, before=before, after=after)


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


def _taken_apart(answer: Row) -> tuple[Row, str]:
    """Return what a node says of a new secret, and its value."""
    return {name: answer[name] for name in answer if name != "secret"}, answer["secret"]


def _print_new(place: DatabaseOrNode, made: Row, value: str, file: Path | None) -> None:
    shown = {"secret": value} if file is None else {"file": str(file)}
    kept = f"(shown once): {value}" if file is None else f"is in {file}"
    place.print_done({**made, **shown}, f"secret {made['name']} for {_scope(made)} {kept}")
    if made.get("encrypted") is False:
        typer.echo("warning: it is kept unencrypted, since security.key_file is not set", err=True)


def _row(item: StoredSecret) -> Row:
    from xwheel.runtime.sealing import is_plain

    names = ("name", "group_id", "app_name", "created_ms", "expires_ms")
    return {**{name: getattr(item, name) for name in names}, "encrypted": not is_plain(item.sealed)}


def _scope(item: Row) -> str:
    return f"the executors of group {item['app_name'] or item['group_id']}"


def _end(item: Row) -> str:
    if item["expires_ms"] is None:
        return "without an end"
    return f"{'ended' if item['expires_ms'] <= wall_ms() else 'ends'} {utc_time(item['expires_ms'])}"
