"""Tokens, by digest: of services and of accounts for the management API, of executor groups for the jobs of one.

What an account may do no row here says: a token of one opens nothing until :class:`xwheel.access.rights.Rights` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Row, Select, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from xwheel.errors import ConflictError, NotFoundError
from xwheel.model.access import ALL, NOTHING, Grant, Grants, Role
from xwheel.storage import executors
from xwheel.storage.database.bulk import update_many
from xwheel.storage.database.rows import hold, one_row
from xwheel.storage.schema.tables import api_token, executor_group

MAX_TOKENS: Final = 1000  # each call is compared with all of them
EVERYWHERE: Final = "*"
NO_GROUP: Final = -1
"""The group of tokens with grants, as it is stored: a node of a version without grants opens nothing with them."""

_JOINED: Final = api_token.outerjoin(executor_group, executor_group.c.id == api_token.c.group_id)
_ALL: Final[Select[Any]] = select(api_token, executor_group.c.app_name).select_from(_JOINED)
_SELECT: Final = _ALL.order_by(api_token.c.id)
_UNRESTRICTED: Final = select(api_token.c.id).where(
    *(api_token.c[name].is_(None) for name in ("group_id", "grants", "account_id", "expires_ms"))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    """What a token's bearer may do."""

    id: int = 0
    name: str
    digest: bytes
    # the group whose jobs it opens over XXL-JOB's calls and for what code declares, and nothing else; None for a
    # token that opens the management API
    group_id: int | None = None
    # that group's app name; None as well for a group that went while the token was made
    app_name: str | None = None
    grants: Grants = ALL  # what it may do over the management API, whatever its account may do
    account_id: int | None = None  # whose it is; None for a service
    account_name: str | None = None  # the account's name; None while nothing is known of it
    # what the account may do, nothing while nothing is known of it; None for a service
    account_grants: Grants | None = None
    disabled: bool = False  # the token opens nothing: its account is shut out, or nothing is known of it
    expires_ms: int | None = None  # when it ends; None for never
    networks: tuple[str, ...] = ()  # networks that it is good from; empty for all
    used_ms: int | None = None  # last use, to a minute; None for none
    created_ms: int

    @property
    def present_grants(self) -> Grants:
        """What it may do now: no more than its account."""
        return self.grants if self.account_grants is None else self.grants.within(self.account_grants)


def grants_text(grants: Grants) -> str:
    """Return grants as they are stored."""
    everywhere = {} if grants.everywhere is None else {EVERYWHERE: grants.everywhere}
    found = everywhere | {str(group_id): grant for group_id, grant in sorted(grants.groups.items())}
    return msgspec.json.encode({key: (one.role.value, one.script) for key, one in found.items()}).decode()


def grants_of(text: str) -> Grants:
    """Return stored grants."""
    stored = msgspec.json.decode(text, type=dict[str, tuple[Role, bool]])
    found = {key: Grant(role, script) for key, (role, script) in stored.items()}
    everywhere = found.pop(EVERYWHERE, None)
    return Grants(everywhere, {int(key): grant for key, grant in found.items()})


def digest_token(token: str) -> bytes:
    """Return the digest under which a token is known.

    Tokens are 256 random bits, so a fast hash is enough; passwords would need a slow one.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def insert_token(
    conn: Connection,
    name: str,
    token: str,
    now_ms: int,
    *,
    group_id: int | None = None,
    grants: Grants = ALL,
    account_id: int | None = None,
    expires_ms: int | None = None,
    networks: Sequence[str] = (),
) -> KnownToken:
    """Store the digest of a token for the jobs of a group, or for the management API.

    Raises ConflictError: the name is taken, or there are as many tokens as there may be; NotFoundError: the group does
    not exist.
    """
    if group_id is not None:
        executors.get_group(conn, group_id)
    if conn.execute(select(func.count()).select_from(api_token)).scalar_one() >= MAX_TOKENS:
        raise ConflictError(f"there are {MAX_TOKENS} tokens already: delete those that are not used")
    is_plain = group_id is not None or (grants == ALL and account_id is None and expires_ms is None and not networks)
    values = {
        "name": name,
        "digest": digest_token(token),
        "group_id": group_id if is_plain else NO_GROUP,
        "created_ms": now_ms,
        # null as ever for everything, so that a node of an earlier version takes it, too
        "grants": None if is_plain else grants_text(grants),
        "account_id": account_id,
        "expires_ms": expires_ms,
        "networks": msgspec.json.encode(list(networks)).decode() if networks else None,
    }
    try:
        conn.execute(insert(api_token).values(values))
    except IntegrityError as error:
        raise ConflictError(f"a token with the name {name} exists already") from error
    return get_token(conn, name)


def list_tokens(conn: Connection) -> Sequence[KnownToken]:
    """Return all tokens, oldest first."""
    return [_token(row) for row in conn.execute(_SELECT)]


def get_token(conn: Connection, name: str) -> KnownToken:
    """Return a token. Raises NotFoundError: there is none of this name."""
    return _token(one_row(conn, _SELECT.where(api_token.c.name == name), "token", name))


def find_token(conn: Connection, name: str) -> KnownToken | None:
    """Return a token, or None."""
    row = conn.execute(_SELECT.where(api_token.c.name == name)).one_or_none()
    return None if row is None else _token(row)


def delete_tokens_of(conn: Connection, account_id: int) -> Sequence[KnownToken]:
    """Delete all tokens of an account whose row is locked; return them."""
    found = [_token(row) for row in conn.execute(_SELECT.where(api_token.c.account_id == account_id))]
    if found:
        conn.execute(delete(api_token).where(api_token.c.id.in_([item.id for item in found])))
    return found


def recorded(token: KnownToken) -> dict[str, object]:
    """Return what the audit says of a token: all but what it is."""
    return {
        "grants": grants_text(token.grants),
        "account": token.account_name,
        "expires_ms": token.expires_ms,
        "networks": list(token.networks),
    }


def has_unrestricted(conn: Connection) -> bool:
    """Return whether there is a token of a service for everything, for ever."""
    return conn.execute(_UNRESTRICTED.limit(1)).first() is not None


def delete_token(conn: Connection, name: str) -> None:
    """Delete a token.

    Raises NotFoundError: there is none of this name; ConflictError: it is the last one that opens the management API.
    """
    # locked in one order, so that two callers cannot delete the last two from each other
    unrestricted = list(conn.execute(_UNRESTRICTED.order_by(api_token.c.id).with_for_update()).scalars())
    hold(conn, "token", unrestricted)
    found = conn.execute(select(api_token.c.id).where(api_token.c.name == name)).scalar_one_or_none()
    if found is None:
        raise NotFoundError("token", name)
    if unrestricted == [found]:
        raise ConflictError(f"token {name} is the last one for the management API: make another one first")
    conn.execute(delete(api_token).where(api_token.c.id == found))


def replace_token(conn: Connection, name: str, token: str, now_ms: int) -> None:
    """Store a token for the management API in place of one of the same name."""
    conn.execute(delete(api_token).where(api_token.c.name == name))
    insert_token(conn, name, token, now_ms)


def update_used(conn: Connection, used: Mapping[int, int]) -> None:
    """Note when tokens were last used.

    ``used`` gives that time by a token's id, in milliseconds.
    """
    update_many(conn, api_token, ("used_ms",), sorted(used.items()))


def _token(row: Row[Any]) -> KnownToken:
    values = dict(row._mapping)
    values["grants"] = ALL if values["grants"] is None else grants_of(values["grants"])
    if values["account_id"] is not None:
        # until somebody who knows accounts says more of it
        values |= {"account_grants": NOTHING, "disabled": True}
    if values["group_id"] == NO_GROUP:
        values["group_id"] = None
    values["networks"] = () if values["networks"] is None else tuple(msgspec.json.decode(values["networks"]))
    return KnownToken(**values)
