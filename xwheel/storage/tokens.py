"""Tokens of people and scripts, by digest: for the whole management API, or for the jobs of one executor group."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Select, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from xwheel.errors import ConflictError, NotFoundError
from xwheel.storage import executors
from xwheel.storage.schema.tables import api_token, executor_group

MAX_TOKENS: Final = 1000
"""Each call is compared with all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownToken:
    """What a token's bearer may do.

    Attributes:
        group_id: The group whose jobs it opens; None for a token that opens the management API.
        app_name: That group's app name; None as well for a group that went while the token was made.
    """

    name: str
    digest: bytes
    group_id: int | None
    app_name: str | None
    created_ms: int


def digest_token(token: str) -> bytes:
    """Return the digest under which a token is known.

    Tokens are 256 random bits, so a fast hash is enough; passwords would need a slow one.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def insert_token(
    conn: Connection, name: str, token: str, now_ms: int, *, group_id: int | None = None
) -> KnownToken:
    """Store the digest of a token for the jobs of a group, or for the management API.

    Raises:
        ConflictError: The name is taken, or there are as many tokens as there may be.
        NotFoundError: The group does not exist.
    """
    app_name = None if group_id is None else executors.get_group(conn, group_id).app_name
    if conn.execute(select(func.count()).select_from(api_token)).scalar_one() >= MAX_TOKENS:
        raise ConflictError(f"there are {MAX_TOKENS} tokens already: delete those that are not used")
    made = KnownToken(
        name=name, digest=digest_token(token), group_id=group_id, app_name=app_name, created_ms=now_ms
    )
    values = {"name": name, "digest": made.digest, "group_id": group_id, "created_ms": now_ms}
    try:
        conn.execute(insert(api_token).values(values))
    except IntegrityError as error:
        raise ConflictError(f"a token with the name {name} exists already") from error
    return made


def list_tokens(conn: Connection) -> Sequence[KnownToken]:
    """Return all tokens, oldest first."""
    return [KnownToken(**row._mapping) for row in conn.execute(_select())]


def has_unrestricted(conn: Connection) -> bool:
    """Return whether there is a token for the management API."""
    query = select(api_token.c.id).where(api_token.c.group_id.is_(None)).limit(1)
    return conn.execute(query).first() is not None


def delete_token(conn: Connection, name: str) -> None:
    """Delete a token.

    Raises:
        NotFoundError: There is none of this name.
        ConflictError: It is the last one that opens the management API.
    """
    # locked in one order, so that two callers cannot delete the last two from each other
    query = select(api_token.c.id).where(api_token.c.group_id.is_(None)).order_by(api_token.c.id)
    unrestricted = list(conn.execute(query.with_for_update()).scalars())
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


def _select() -> Select[Any]:
    columns = [api_token.c[name] for name in ("name", "digest", "group_id", "created_ms")]
    with_groups = api_token.outerjoin(executor_group, executor_group.c.id == api_token.c.group_id)
    return select(*columns, executor_group.c.app_name).select_from(with_groups).order_by(api_token.c.id)
