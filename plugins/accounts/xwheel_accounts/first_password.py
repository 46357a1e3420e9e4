"""The password of the first account, which may do everything."""

from __future__ import annotations

import hmac
from typing import Any

from xwheel.plugin import RecordsDeeds

from xwheel_accounts.accounts import FIRST_ADMIN, insert_first
from xwheel_accounts.passwords import hash_password, make_password
from xwheel_accounts.storage import accounts


class FirstPassword:
    """A password that this start makes if there is no account.

    Args:
        now_ms: The time.
    """

    words = f"password of the account {FIRST_ADMIN}"

    def __init__(self, now_ms: int) -> None:
        self.value = make_password()
        self._now_ms = now_ms
        self._hashed: str | None = None

    def prepare(self) -> None:
        """Hash it, once: the hash says later whose password is stored."""
        self._hashed = self._hashed or hash_password(self.value)

    def is_there(self, conn: Any) -> bool:
        """Return whether there is an account."""
        return accounts.has_accounts(conn)

    def is_ours(self, conn: Any) -> bool:
        """Return whether this one is stored."""
        found = accounts.find_account(conn, FIRST_ADMIN)
        kept = found.password if found is not None else None
        return bool(self._hashed and kept) and hmac.compare_digest(str(kept), str(self._hashed))

    def store(self, conn: Any, record: RecordsDeeds) -> None:
        """Make the account with its hash."""
        insert_first(conn, record, self._hashed or "", self._now_ms)
