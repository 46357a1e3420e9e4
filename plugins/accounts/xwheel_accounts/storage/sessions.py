"""Sessions of accounts, by digest of the cookie; and wrong passwords in a row, by name and by address."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, insert, select, update
from sqlalchemy.exc import IntegrityError
from xwheel.errors import ConflictError
from xwheel.storage.access.tokens import digest_token
from xwheel.storage.database.rows import insert_row

from xwheel_accounts.tables import account_session, sign_in_failure

MAX_SESSIONS: Final = 50
"""Of one account; the one that was seen longest ago ends first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A session.

    Attributes:
        provider_data: What the identity provider needs to ask again or to sign out, sealed; None for nothing.
        refresh_ms: When the provider is asked again; None for never.
        seen_ms: Time of its last call, to a minute.
        address: Where it began.
        network: That its cookie is good from; empty for everywhere.
        agent: What the browser called itself when it began.
        confirmed_ms: When its owner typed the password once more; None for never.
    """

    id: int
    digest: bytes
    account_id: int
    provider: str
    provider_data: str | None
    refresh_ms: int | None
    created_ms: int
    seen_ms: int
    expires_ms: int
    address: str
    network: str
    agent: str
    confirmed_ms: int | None


@dataclass(frozen=True, slots=True)
class Failures:
    """Wrong passwords in a row.

    Attributes:
        count: How many.
        until_ms: Before this, no attempt counts.
        last_ms: Time of the last one.
    """

    count: int = 0
    until_ms: int = 0
    last_ms: int = 0


def insert_session(
    conn: Connection,
    secret: str,
    account_id: int,
    now_ms: int,
    *,
    expires_ms: int,
    provider: str,
    address: str,
    network: str,
    agent: str,
    provider_data: str | None = None,
    refresh_ms: int | None = None,
) -> int:
    """Store a session and return its id; the account's oldest ones beyond the limit end."""
    kept = select(account_session.c.id).where(account_session.c.account_id == account_id)
    newest = list(conn.execute(kept.order_by(account_session.c.seen_ms.desc(), account_session.c.id.desc())).scalars())
    if len(newest) >= MAX_SESSIONS:
        delete_sessions(conn, newest[MAX_SESSIONS - 1 :])
    values = {
        "digest": digest_token(secret),
        "account_id": account_id,
        "provider": provider,
        "provider_data": provider_data,
        "refresh_ms": refresh_ms,
        "created_ms": now_ms,
        "seen_ms": now_ms,
        "expires_ms": expires_ms,
        "address": address,
        "network": network,
        "agent": agent,
    }
    return insert_row(conn, account_session, values)


def get_sessions(conn: Connection, digests: Collection[bytes]) -> dict[bytes, Session]:
    """Return sessions by the digests of their cookies; those that are not there are left out."""
    query = select(account_session).where(account_session.c.digest.in_(list(digests)))
    found = [_session(row) for row in conn.execute(query)]
    return {session.digest: session for session in found}


def list_sessions(conn: Connection, account_id: int, now_ms: int) -> list[Session]:
    """Return the sessions of an account that have not ended, the one that was seen last first."""
    query = select(account_session).where(
        account_session.c.account_id == account_id, account_session.c.expires_ms > now_ms
    )
    found = [_session(row) for row in conn.execute(query)]
    return sorted(found, key=lambda item: (-item.seen_ms, -item.id))


def update_seen(conn: Connection, session_id: int, now_ms: int, expires_ms: int) -> None:
    """Note that a session was used, and how long it lasts from now."""
    found = account_session.c.id == session_id
    conn.execute(update(account_session).where(found).values(seen_ms=now_ms, expires_ms=expires_ms))


def update_confirmed(conn: Connection, session_id: int, now_ms: int) -> bool:
    """Note that a session's owner is there; return whether the session is."""
    found = account_session.c.id == session_id
    return conn.execute(update(account_session).where(found).values(confirmed_ms=now_ms)).rowcount > 0


def delete_sessions(conn: Connection, ids: Sequence[int]) -> int:
    """End sessions; return how many there were."""
    if not ids:
        return 0
    return conn.execute(delete(account_session).where(account_session.c.id.in_(ids))).rowcount


def delete_sessions_of(conn: Connection, account_id: int, *, but: int | None = None) -> int:
    """End all sessions of an account, or all but one; return how many there were."""
    query = delete(account_session).where(account_session.c.account_id == account_id)
    return conn.execute(query if but is None else query.where(account_session.c.id != but)).rowcount


def delete_ended(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete sessions that ended before a time; return how many, at most ``limit``."""
    query = select(account_session.c.id).where(account_session.c.expires_ms < before_ms)
    ids = conn.execute(query.order_by(account_session.c.expires_ms).limit(limit)).scalars()
    return delete_sessions(conn, list(ids))


def delete_old_failures(conn: Connection, before_ms: int, limit: int) -> int:
    """Delete wrong passwords of which the last one was before a time; return how many rows, at most ``limit``."""
    query = select(sign_in_failure.c.id).where(sign_in_failure.c.last_ms < before_ms)
    ids = list(conn.execute(query.order_by(sign_in_failure.c.last_ms).limit(limit)).scalars())
    if not ids:
        return 0
    return conn.execute(delete(sign_in_failure).where(sign_in_failure.c.id.in_(ids))).rowcount


def get_failures(conn: Connection, keys: Collection[str], *, lock: bool = False) -> dict[str, Failures]:
    """Return wrong passwords by key; locked in one order if they are to be changed."""
    query = select(sign_in_failure).where(sign_in_failure.c.id.in_(sorted(keys))).order_by(sign_in_failure.c.id)
    rows = conn.execute(query.with_for_update() if lock else query)
    return {row.id: Failures(row.failures, row.until_ms, row.last_ms) for row in rows}


def save_failures(conn: Connection, key: str, failures: Failures, *, is_new: bool) -> None:
    """Store wrong passwords in a row.

    Raises:
        ConflictError: Another attempt made the row meanwhile: the same transaction succeeds once more.
    """
    values = {"failures": failures.count, "until_ms": failures.until_ms, "last_ms": failures.last_ms}
    if not is_new:
        conn.execute(update(sign_in_failure).where(sign_in_failure.c.id == key).values(values))
        return
    try:
        conn.execute(insert(sign_in_failure).values(id=key, **values))
    except IntegrityError as error:
        raise ConflictError("another attempt to sign in came at the same time: try again") from error


def delete_failures_of(conn: Connection, prefix: str) -> None:
    """Forget wrong passwords of all keys that begin so."""
    found = (sign_in_failure.c.id >= prefix) & (sign_in_failure.c.id < f"{prefix}~")
    conn.execute(delete(sign_in_failure).where(found))


def delete_failures(conn: Connection, key: str) -> None:
    """Forget wrong passwords."""
    conn.execute(delete(sign_in_failure).where(sign_in_failure.c.id == key))


def _session(row: Row[Any]) -> Session:
    return Session(**row._mapping)
