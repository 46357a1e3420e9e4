"""Settings that all nodes share, and the digests of management tokens."""

from __future__ import annotations

import hashlib
from typing import Final

from sqlalchemy import Connection, delete, insert, select

from xwheel.storage.tables import api_token, setting

PAUSED: Final = "paused"
"""While this setting is there, no schedule fires."""

CHAINS: Final = "chains"
"""The row that is locked while parents and children are changed, so that no two changes close a cycle together."""


def find_setting(conn: Connection, name: str) -> str | None:
    """Return a shared setting, or None."""
    return conn.execute(select(setting.c.value).where(setting.c.name == name)).scalar_one_or_none()


def insert_setting(conn: Connection, name: str, value: str) -> None:
    """Write a shared setting that is not there yet."""
    conn.execute(insert(setting).values(name=name, value=value))


def digest_token(token: str) -> bytes:
    """Return the digest under which a token is known.

    Tokens are 256 random bits, so a fast hash is enough; passwords would need a slow one.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()


def insert_token(conn: Connection, name: str, token: str, now_ms: int) -> None:
    """Remember a management token by its digest; a token of the same name is replaced."""
    conn.execute(delete(api_token).where(api_token.c.name == name))
    conn.execute(insert(api_token).values(name=name, digest=digest_token(token), created_ms=now_ms))


def list_token_digests(conn: Connection) -> dict[str, bytes]:
    """Return all management tokens, name to digest."""
    return {row.name: row.digest for row in conn.execute(select(api_token.c.name, api_token.c.digest))}


def delete_setting(conn: Connection, name: str) -> bool:
    """Remove a shared setting; tell whether it was there."""
    return conn.execute(delete(setting).where(setting.c.name == name)).rowcount > 0
