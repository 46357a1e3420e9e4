"""Accounts of people: names, grants, passwords by their hash, and who is locked or disabled."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row, delete, func, select, true, update
from sqlalchemy.exc import IntegrityError
from xwheel.errors import ConflictError, NotFoundError
from xwheel.model.access import Grants, Role
from xwheel.storage.access.tokens import grants_of, grants_text
from xwheel.storage.database.rows import hold, insert_row, one_row
from xwheel.storage.schema.tables import api_token

from xwheel_accounts.tables import account, account_session, account_setting, sign_in_link

LOCAL: Final = "local"
MAX_ACCOUNTS: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A person's account.

    Attributes:
        name: What people sign in with; two accounts never differ by case or width alone.
        provider: The identity provider whose word counts for who this is.
        subject: What the provider calls it.
        password: Hash of the password; None if another provider checks it, or none was set.
        must_change: The next sign-in sets another password before anything else.
        locked_ms: Since when too many wrong passwords keep it locked; None if they do not.
        revision: Rises with each change.
        signed_in_ms: Time of the last sign-in.
    """

    id: int
    name: str
    display_name: str
    provider: str
    subject: str
    grants: Grants
    password: str | None
    password_ms: int | None
    must_change: bool
    disabled: bool
    locked_ms: int | None
    revision: int
    created_ms: int
    updated_ms: int
    signed_in_ms: int | None


def name_key(name: str) -> str:
    """Return a name as names are compared."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def insert_account(
    conn: Connection,
    name: str,
    grants: Grants,
    now_ms: int,
    *,
    display_name: str = "",
    password: str | None = None,
    must_change: bool = False,
    provider: str = LOCAL,
    subject: str | None = None,
) -> Account:
    """Store an account.

    Raises:
        ConflictError: The name is taken, or there are as many accounts as there may be.
    """
    if conn.execute(select(func.count()).select_from(account)).scalar_one() >= MAX_ACCOUNTS:
        raise ConflictError(f"there are {MAX_ACCOUNTS} accounts already: delete those that are not used")
    values = {
        "name": name,
        "name_key": name_key(name),
        "display_name": display_name,
        "provider": provider,
        "subject": name_key(name) if subject is None else subject,
        **_grants(grants),
        "password": password,
        "password_ms": None if password is None else now_ms,
        "must_change": must_change,
        "disabled": False,
        "locked_ms": None,
        "revision": 1,
        "created_ms": now_ms,
        "updated_ms": now_ms,
        "signed_in_ms": None,
    }
    try:
        account_id = insert_row(conn, account, values)
    except IntegrityError as error:
        raise ConflictError(f"an account with the name {name}, or one that reads like it, exists already") from error
    return get_account(conn, account_id)


def get_account(conn: Connection, account_id: int, *, lock: bool = False) -> Account:
    """Return an account.

    Raises:
        NotFoundError: There is none of this id.
    """
    query = select(*_COLUMNS).where(account.c.id == account_id)
    return _account(one_row(conn, query, "account", account_id, lock=lock))


def find_account(conn: Connection, name: str) -> Account | None:
    """Return the account of a name, however it is spelled, or None."""
    row = conn.execute(select(*_COLUMNS).where(account.c.name_key == name_key(name))).one_or_none()
    return None if row is None else _account(row)


def find_subject(conn: Connection, provider: str, subject: str) -> Account | None:
    """Return the account of somebody whom an identity provider knows, or None."""
    query = select(*_COLUMNS).where(account.c.provider == provider, account.c.subject == subject)
    row = conn.execute(query).one_or_none()
    return None if row is None else _account(row)


def list_accounts(conn: Connection, *, after_id: int = 0, limit: int = MAX_ACCOUNTS) -> list[Account]:
    """Return accounts by id."""
    query = select(*_COLUMNS).where(account.c.id > after_id).order_by(account.c.id).limit(limit)
    return [_account(row) for row in conn.execute(query)]


def get_accounts(conn: Connection, ids: Collection[int]) -> dict[int, Account]:
    """Return accounts by id; those that are not there are left out."""
    if not ids:
        return {}
    rows = conn.execute(select(*_COLUMNS).where(account.c.id.in_(sorted(ids))))
    return {row.id: _account(row) for row in rows}


def has_accounts(conn: Connection) -> bool:
    """Return whether there is any account."""
    return conn.execute(select(account.c.id).limit(1)).first() is not None


def update_account(conn: Connection, account_id: int, values: Mapping[str, Any], now_ms: int) -> Account:
    """Change an account whose row is locked, and raise its revision."""
    row = dict(values)
    if "grants" in row:
        row |= _grants(row["grants"])
    row |= {"updated_ms": now_ms, "revision": account.c.revision + 1}
    conn.execute(update(account).where(account.c.id == account_id).values(row))
    return get_account(conn, account_id)


def note_sign_in(conn: Connection, account_id: int, now_ms: int) -> None:
    """Note when somebody signed in."""
    conn.execute(update(account).where(account.c.id == account_id).values(signed_in_ms=now_ms))


def delete_account(conn: Connection, account_id: int) -> None:
    """Delete an account with its sessions, tokens, links and settings."""
    for table in (account_session, api_token, sign_in_link, account_setting):
        conn.execute(delete(table).where(table.c.account_id == account_id))
    conn.execute(delete(account).where(account.c.id == account_id))


def lock_admins(conn: Connection) -> Sequence[int]:
    """Return who may do everything and is not disabled, locked in one order: two cannot take that from each other."""
    query = select(account.c.id, account.c.disabled).where(account.c.is_admin == true()).order_by(account.c.id)
    admins = {row.id: row.disabled for row in conn.execute(query.with_for_update())}
    hold(conn, "account", admins)
    return [account_id for account_id, disabled in admins.items() if not disabled]


def get_by_name(conn: Connection, name: str) -> Account:
    """Return the account of a name.

    Raises:
        NotFoundError: There is none.
    """
    found = find_account(conn, name)
    if found is None:
        raise NotFoundError("account", name)
    return found


_COLUMNS: Final = [account.c[name] for name in Account.__dataclass_fields__]


def _account(row: Row[Any]) -> Account:
    values = dict(row._mapping)
    values["grants"] = grants_of(values["grants"])
    return Account(**values)


def _grants(grants: Grants) -> dict[str, object]:
    is_admin = grants.everywhere is not None and grants.everywhere.role is Role.ADMIN
    return {"grants": grants_text(grants), "is_admin": is_admin}
