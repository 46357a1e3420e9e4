"""What pages keep for an account: JSON by name, which means nothing to xwheel."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, update
from xwheel.errors import ConflictError, NotFoundError

from xwheel_accounts.tables import account_setting

MAX_SETTINGS: Final = 50
"""Of one account."""


def list_settings(conn: Connection, account_id: int) -> dict[str, str]:
    """Return the settings of an account, as JSON by name."""
    query = select(account_setting.c.name, account_setting.c.value).where(account_setting.c.account_id == account_id)
    return {row.name: row.value for row in conn.execute(query.order_by(account_setting.c.name))}


def save_setting(conn: Connection, account_id: int, name: str, value: str, now_ms: int) -> None:
    """Store a setting of an account whose row is locked, in place of the one of the same name.

    Args:
        conn: A connection inside a transaction.
        account_id: The account.
        name: The setting's name.
        value: JSON.
        now_ms: The present time.

    Raises:
        ConflictError: The account has as many as there may be.
    """
    mine = account_setting.c.account_id == account_id
    values = {"value": value, "updated_ms": now_ms}
    if conn.execute(update(account_setting).where(mine, account_setting.c.name == name).values(values)).rowcount:
        return
    if conn.execute(select(func.count()).select_from(account_setting).where(mine)).scalar_one() >= MAX_SETTINGS:
        raise ConflictError(f"an account keeps {MAX_SETTINGS} settings: delete one that is not used")
    conn.execute(insert(account_setting).values(account_id=account_id, name=name, **values))


def delete_setting(conn: Connection, account_id: int, name: str) -> None:
    """Delete a setting.

    Raises:
        NotFoundError: The account has none of this name.
    """
    found = (account_setting.c.account_id == account_id) & (account_setting.c.name == name)
    if not conn.execute(delete(account_setting).where(found)).rowcount:
        raise NotFoundError("setting", name)
