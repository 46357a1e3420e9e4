"""Links that sign an account in once, by digest of their secret."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, delete, insert, select
from xwheel.storage.access.tokens import digest_token

from xwheel_accounts.tables import sign_in_link

MAX_LINKS: Final = 10
"""Of one account; the one that ends first goes first."""


@dataclass(frozen=True, slots=True)
class SignInLink:
    """A link that was not used.

    Attributes:
        account_id: Whom it signs in.
        expires_ms: From when on it does not.
    """

    account_id: int
    expires_ms: int


def insert_link(conn: Connection, secret: str, account_id: int, expires_ms: int) -> None:
    """Store a link of an account whose row is locked; its oldest ones beyond the limit go."""
    kept = select(sign_in_link.c.digest).where(sign_in_link.c.account_id == account_id)
    newest = list(conn.execute(kept.order_by(sign_in_link.c.expires_ms.desc())).scalars())
    if len(newest) >= MAX_LINKS:
        conn.execute(delete(sign_in_link).where(sign_in_link.c.digest.in_(newest[MAX_LINKS - 1 :])))
    values = {"digest": digest_token(secret), "account_id": account_id, "expires_ms": expires_ms}
    conn.execute(insert(sign_in_link).values(values))


def find_link(conn: Connection, secret: str) -> SignInLink | None:
    """Return the link of a secret, or None."""
    digest = digest_token(secret)
    row = conn.execute(select(sign_in_link).where(sign_in_link.c.digest == digest)).one_or_none()
    if row is None or not hmac.compare_digest(bytes(row.digest), digest):
        return None
    return SignInLink(row.account_id, row.expires_ms)


def take_link(conn: Connection, secret: str, account_id: int, now_ms: int) -> bool:
    """Delete a link that is good for an account now; return whether there was one: of two callers only one has it."""
    found = (
        (sign_in_link.c.digest == digest_token(secret))
        & (sign_in_link.c.account_id == account_id)
        & (sign_in_link.c.expires_ms > now_ms)
    )
    return conn.execute(delete(sign_in_link).where(found)).rowcount == 1


def delete_links_of(conn: Connection, account_id: int) -> None:
    """Delete all links of an account."""
    conn.execute(delete(sign_in_link).where(sign_in_link.c.account_id == account_id))


def delete_old_links(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete links that ended before a time; return how many, at most ``limit``."""
    query = select(sign_in_link.c.digest).where(sign_in_link.c.expires_ms < before_ms)
    digests = list(conn.execute(query.order_by(sign_in_link.c.expires_ms).limit(limit)).scalars())
    if not digests:
        return 0
    return conn.execute(delete(sign_in_link).where(sign_in_link.c.digest.in_(digests))).rowcount
