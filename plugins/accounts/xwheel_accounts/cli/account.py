"""``xwheel account``: makes, changes, lists and ends accounts of people."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from xwheel.cli.lazy import command_group
from xwheel.cli.options import given
from xwheel.errors import NotFoundError
from xwheel_commands.arguments import ToFileOption, WideOption
from xwheel_commands.connection import DatabaseOrNode, connected
from xwheel_commands.files import keep_secret, login_link
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
    from xwheel_accounts.accounts import AccountManager, Ended
    from xwheel_accounts.storage.accounts import Account

app = command_group()

Name = Annotated[str, typer.Argument(metavar="NAME", help="What the person signs in with.")]
KeepTokensOption = Annotated[
    bool, typer.Option("--keep-tokens", help="Leave the tokens that the person made; else they end, too.")
]
Row = dict[str, Any]
T = TypeVar("T")


@app.command()
@connected
def create(
    place: DatabaseOrNode,
    name: Name,
    role: RoleOption = None,
    script: ScriptOption = False,
    group: GroupRolesOption = None,
    display_name: Annotated[str, typer.Option(metavar="TEXT", help="What others see.")] = "",
    provider: Annotated[
        str, typer.Option(metavar="NAME", help="The identity provider that checks the password.")
    ] = "local",
    file: ToFileOption = None,
) -> None:
    """Make an account and print its first password, which is kept nowhere else; the first sign-in sets another one."""

    def make() -> tuple[Row, str]:
        if place.node is not None:
            roles = roles_given(place.node.group, role, script, group)
            body = given(name=name, display_name=display_name, provider=provider, **roles)
            return _taken_apart(place.node.call("POST", "/accounts", body))
        grants = grants_given(place, role, script, group)
        made, password = _change(
            place, lambda manager: manager.create(name, grants, display_name=display_name, provider=provider)
        )
        return _row(made), password

    if provider == "local":
        made, password = keep_secret(file, make)
        _print_password(place, made, password, file is None)
    else:
        made, _ = make()
        place.print_done(made, f"account {made['name']}, whose password {provider} keeps: {_may(place, made)}")


@app.command("list")
@connected
def list_them(place: DatabaseOrNode, wide: WideOption = False) -> None:
    """List all accounts by name, with what each may do."""
    rows = sorted(_rows(place), key=lambda item: item["name"])
    names = group_names(place, rows)
    place.print_list(
        rows,
        (
            Column("NAME", ALWAYS, least=16),
            Column("STATE", 8),
            Column("SIGNED IN", 6),
            Column("PROVIDER", 4),
            Column("MAY", 7, least=16),
        ),
        lambda item: (
            item["name"],
            _state(item),
            moment(item["signed_in_ms"]),
            item["provider"],
            rights_in_words(item, names),
        ),
        is_wide=wide,
    )


@app.command()
@connected
def show(place: DatabaseOrNode, name: Name) -> None:
    """Show an account."""
    place.print_item(_find(place, name))


@app.command()
@connected
def role(
    place: DatabaseOrNode,
    name: Name,
    role: RoleOption = None,
    script: ScriptOption = False,
    group: GroupRolesOption = None,
) -> None:
    """Replace all that an account may do; it counts within a second."""
    known = _find(place, name)
    if place.node is not None:
        roles = roles_given(place.node.group, role, script, group)
        done = place.node.call("PATCH", f"/accounts/{known['id']}", roles)
    else:
        grants = grants_given(place, role, script, group)
        done = _row(_change(place, lambda manager: manager.change(known["id"], {"grants": grants}))[0])
    place.print_done(done, f"account {done['name']}: {_may(place, done)}")


@app.command()
@connected
def reset(place: DatabaseOrNode, name: Name, keep_tokens: KeepTokensOption = False, file: ToFileOption = None) -> None:
    """Set another password and print it, this once; sessions, tokens, links and lock of the account end."""
    known = _find(place, name)

    def make() -> tuple[Row, str]:
        if place.node is not None:
            kept = {"keep_tokens": True} if keep_tokens else None
            return _taken_apart(place.node.call("POST", f"/accounts/{known['id']}/reset", kept))
        done, password, ended = _change(place, lambda manager: manager.reset(known["id"], keep_tokens=keep_tokens))
        return {**_row(done), **_counts(ended)}, password

    made, password = keep_secret(file, make, replaces=True)
    _print_password(place, made, password, file is None, _ended(made))


@app.command()
@connected
def link(place: DatabaseOrNode, name: Name, file: ToFileOption = None) -> None:
    """Print a link that signs an account in once, within ten minutes and without its password."""
    known, url = _find(place, name), place.page_url()

    def make() -> tuple[Row, str]:
        if place.node is not None:
            made = place.node.call("POST", f"/accounts/{known['id']}/link")
            secret, expires_ms = made["link_secret"], made["expires_ms"]
        else:
            secret, expires_ms = _change(place, lambda manager: manager.make_link(known["id"]))
        return {"name": known["name"], "expires_ms": expires_ms}, login_link(url, secret)

    made, address = keep_secret(file, make, replaces=True)
    if file is None:
        place.print_done({**made, "link": address}, address)
    else:
        place.print_done(made, f"account {made['name']}: the link is in the file, good once, for ten minutes")


@app.command()
@connected
def disable(place: DatabaseOrNode, name: Name, keep_tokens: KeepTokensOption = False) -> None:
    """Let an account do nothing any more; its sessions and tokens end."""
    done = _set(place, name, keep_tokens=keep_tokens, disabled=True)
    place.print_done(done, f"account {done['name']} is disabled: {_ended(done)}")


@app.command()
@connected
def enable(place: DatabaseOrNode, name: Name) -> None:
    """Let a disabled account sign in again."""
    done = _set(place, name, disabled=False)
    place.print_done(done, f"account {done['name']} may sign in: {_may(place, done)}")


@app.command()
@connected
def unlock(place: DatabaseOrNode, name: Name) -> None:
    """Lift the lock that too many wrong passwords left, and forget these."""
    done = _set(place, name, locked=False)
    place.print_done(done, f"account {done['name']} is not locked")


@app.command()
@connected
def signout(place: DatabaseOrNode, name: Name, keep_tokens: KeepTokensOption = False) -> None:
    """End all sessions of an account, and its tokens."""
    known = _find(place, name)
    if place.node is not None:
        kept = {"keep_tokens": "true"} if keep_tokens else None
        done = place.node.call("DELETE", f"/accounts/{known['id']}/sessions", params=kept) or {}
    else:
        done = _counts(_change(place, lambda manager: manager.end_sessions(known["id"], keep_tokens=keep_tokens)))
    place.print_done({"signed_out": known["name"], **done}, f"account {known['name']} is signed out: {_ended(done)}")


@app.command()
@connected
def delete(place: DatabaseOrNode, name: Name) -> None:
    """Delete an account with its sessions, tokens and settings; what it did stays in the audit."""
    known = _find(place, name)
    if place.node is not None:
        place.node.call("DELETE", f"/accounts/{known['id']}")
    else:
        _change(place, lambda manager: manager.delete(known["id"]))
    place.print_done({"deleted": known["name"]}, f"account {known['name']} is deleted")


def _set(place: DatabaseOrNode, name: str, *, keep_tokens: bool = False, **changes: object) -> Row:
    known = _find(place, name)
    if place.node is not None:
        body = {**changes, **({"keep_tokens": True} if keep_tokens else {})}
        done: Row = place.node.call("PATCH", f"/accounts/{known['id']}", body)
        return done
    after, ended = _change(place, lambda manager: manager.change(known["id"], changes, keep_tokens=keep_tokens))
    return {**_row(after), **_counts(ended)}


def _counts(ended: Ended) -> Row:
    return {"sessions_ended": ended.sessions, "tokens_ended": ended.tokens}


def _ended(counts: Row) -> str:
    """Return in words what ended; a node of an earlier version does not say how many."""
    if "tokens_ended" not in counts:
        return "its sessions have ended"
    parts = [
        f"{count} {word}{'' if count == 1 else 's'}"
        for count, word in ((counts["sessions_ended"], "session"), (counts["tokens_ended"], "token"))
    ]
    return f"{' and '.join(parts)} of it ended"


def _change(place: DatabaseOrNode, work: Callable[[AccountManager], T]) -> T:
    from xwheel.clock import SystemClock

    from xwheel_accounts.accounts import AccountManager

    with place.open() as db:
        return work(AccountManager(db, SystemClock(), place.audit(db), place.rights()))


def _find(place: DatabaseOrNode, name: str) -> Row:
    """Return an account by name, however that is spelled.

    Raises:
        NotFoundError: There is none.
    """
    from xwheel_accounts.storage import accounts

    if place.node is None:
        with place.open() as db, db.read() as conn:
            return _row(accounts.get_by_name(conn, name))
    key = accounts.name_key(name)
    found = next((item for item in _rows(place) if accounts.name_key(item["name"]) == key), None)
    if found is None:
        raise NotFoundError("account", name[:64])
    return found


def _rows(place: DatabaseOrNode) -> list[Row]:
    if place.node is not None:
        return list(place.node.pages("/accounts"))
    from xwheel_accounts.storage import accounts

    with place.open() as db, db.read() as conn:
        return [_row(item) for item in accounts.list_accounts(conn)]


def _row(account: Account) -> Row:
    import msgspec

    from xwheel_accounts.api.accounts import account_view

    found: Row = msgspec.to_builtins(account_view(account))
    return found


def _may(place: DatabaseOrNode, item: Row) -> str:
    return rights_in_words(item, group_names(place, [item]))


def _state(item: Row) -> str:
    if item["disabled"]:
        return "disabled"
    if item["locked_ms"] is not None:
        return "locked"
    return "new password" if item["must_change"] else "active"


def _taken_apart(answer: Row) -> tuple[Row, str]:
    return {name: value for name, value in answer.items() if name != "password"}, answer["password"] or ""


def _print_password(place: DatabaseOrNode, made: Row, password: str, is_shown: bool, ended: str = "") -> None:
    shown = {"password": password} if is_shown else {}
    kept = f"password (shown once): {password}" if is_shown else "its password is in the file"
    more = f"; {ended}" if ended else ""
    place.print_done({**made, **shown}, f"account {made['name']}: {_may(place, made)}{more}; {kept}")
