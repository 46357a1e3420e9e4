"""``xwheel token``: makes, lists and deletes tokens of services, and of executor groups."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.errors import FieldError

from xwheel_commands import GROUPS
from xwheel_commands.arguments import ToFileOption, WideOption
from xwheel_commands.connection import DatabaseOrNode, connected, group_id_of, segment
from xwheel_commands.files import keep_secret
from xwheel_commands.output import span_ms
from xwheel_commands.roles import (
    GroupRolesOption,
    RoleOption,
    ScriptOption,
    grants_given,
    group_names,
    rights_in_words,
    roles_given,
)
from xwheel_commands.table import ALWAYS, Column, moment

if TYPE_CHECKING:
    from xwheel.access.tokens import TokenManager
    from xwheel.model.access import Grants
    from xwheel.storage.access.tokens import KnownToken

app = command_group(GROUPS["token"])

Name = Annotated[str, typer.Argument(metavar="NAME", help="What people call the token.")]
Row = dict[str, Any]
T = TypeVar("T")


@app.command()
@connected
def create(
    place: DatabaseOrNode,
    name: Name,
    role: RoleOption = None,
    script: ScriptOption = False,
    roles: GroupRolesOption = None,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="APP",
            help="App name of the group whose jobs it opens over XXL-JOB's calls, and nothing else; without this, "
            "--role and --in: everything.",
        ),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(metavar="TIME", help="After how long it ends, such as 90m, 24h or 30d.")
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NETWORK", help="A network that it is good from, such as 10.1.0.0/16; may be given several times."
        ),
    ] = None,
    file: ToFileOption = None,
) -> None:
    """Make a token and print its secret, which is kept nowhere else; it counts within a second."""
    if group is not None and (role or roles):
        raise FieldError("--group", "a token for XXL-JOB's calls has no role: give --group, or --role and --in")

    def make() -> tuple[Row, str]:
        expires_in_s = None if expires is None else span_ms(expires, "--expires") // 1000
        more = given(expires_in_s=expires_in_s, networks=network)
        if place.node is not None:
            wanted: Row = {"name": name, **more}
            if group is not None:
                wanted["group_id"] = place.node.group(group)["id"]
            elif role or roles:
                wanted |= roles_given(place.node.group, role, script, roles)
            answer = place.node.call("POST", "/tokens", wanted)
            return {key: answer[key] for key in answer if key != "token"}, answer["token"]
        grants = grants_given(place, role, script, roles) if role or roles else None
        return _create(place, {"name": name, **more}, group, grants)

    made, secret = keep_secret(file, make)
    shown = {"token": secret} if file is None else {"file": str(file)}
    kept = f"(shown once): {secret}" if file is None else f"is in {file}"
    place.print_done({**made, **shown}, f"token {made['name']} for {_opens(made, group_names(place, [made]))} {kept}")


def _create(place: DatabaseOrNode, fields: Row, group: str | None, grants: Grants | None) -> tuple[Row, str]:
    from xwheel.api.http.body import read_fields
    from xwheel.api.schema.access import SECRET_BYTES, TokenCreate
    from xwheel.model.access import ALL

    wanted = read_fields(TokenCreate, fields)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    with place.open() as db, db.read() as conn:
        group_id = None if group is None else group_id_of(conn, group)
    made = _change(
        place,
        lambda manager: manager.create(
            wanted.name,
            secret,
            grants or ALL,
            group_id=group_id,
            expires_in_s=wanted.expires_in_s,
            networks=wanted.networks,
        ),
    )
    return _row(made), secret


@app.command("list")
@connected
def list_them(place: DatabaseOrNode, wide: WideOption = False) -> None:
    """List all tokens by name, with their last use; their secrets are kept nowhere."""
    rows = _rows(place)
    names = group_names(place, rows)
    place.print_list(
        rows,
        (
            Column("NAME", ALWAYS, least=16),
            Column("GROUP", 8, least=8),
            Column("CREATED", 7),
            Column("EXPIRES", 6),
            Column("USED", 4),
            Column("OPENS", 5, least=12),
        ),
        lambda item: (
            item["name"],
            item["app_name"] or item["group_id"],
            moment(item["created_ms"]),
            moment(item["expires_ms"]),
            moment(item["used_ms"]),
            _opens(item, names),
        ),
        is_wide=wide,
    )


def _rows(place: DatabaseOrNode) -> list[Row]:
    if place.node is not None:
        return list(place.node.pages("/tokens"))
    from xwheel.storage.access import tokens

    with place.open() as db, db.read() as conn:
        known = place.rights().with_owners(conn, tokens.list_tokens(conn))
        return [_row(token) for token in sorted(known, key=lambda token: token.name)]


@app.command()
@connected
def delete(place: DatabaseOrNode, name: Name) -> None:
    """Delete a token; nodes refuse it within a second."""
    if place.node is not None:
        place.node.call("DELETE", f"/tokens/{segment(name)}")
    else:
        _change(place, lambda manager: manager.delete(name))
    place.print_done({"deleted": name}, f"token {name} is deleted")


def _change(place: DatabaseOrNode, work: Callable[[TokenManager], T]) -> T:
    from xwheel.access.tokens import TokenManager
    from xwheel.clock import SystemClock

    with place.open() as db:
        return work(TokenManager(db, SystemClock(), place.audit(db), place.rights()))


def _row(token: KnownToken) -> Row:
    import msgspec
    from xwheel.api.v1.access.tokens import token_view

    found: Row = msgspec.to_builtins(token_view(token))
    return found


def _opens(token: Row, names: Mapping[int, str]) -> str:
    if token["group_id"] is not None:
        return f"the jobs of group {token['app_name'] or token['group_id']}"
    whose = f" of account {token['account_name']}" if token["account_id"] is not None else ""
    return ("everything" if token["role"] == "admin" else rights_in_words(token, names)) + whose
