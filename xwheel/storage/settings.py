"""Settings that all nodes share."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, delete, insert, select

from xwheel.storage.tables import setting

PAUSED: Final = "paused"
"""While this setting is there, no schedule fires."""

CHAINS: Final = "chains"
"""The row that is locked while parents and children are changed, so that no two changes close a cycle together."""


def find_setting(conn: Connection, name: str) -> str | None:
    """Return a shared setting, or None."""
    return conn.execute(select(setting.c.value).where(setting.c.name == name)).scalar_one_or_none()


def lock_setting(conn: Connection, name: str) -> None:
    """Hold a shared setting's row until the transaction ends."""
    conn.execute(select(setting.c.value).where(setting.c.name == name).with_for_update()).all()


def insert_setting(conn: Connection, name: str, value: str) -> None:
    """Write a shared setting that is not there yet."""
    conn.execute(insert(setting).values(name=name, value=value))


def delete_setting(conn: Connection, name: str) -> bool:
    """Remove a shared setting; tell whether it was there."""
    return conn.execute(delete(setting).where(setting.c.name == name)).rowcount > 0
