"""What the resources of accounts and of the audit share."""

from __future__ import annotations

from xwheel_accounts.parts import AccountParts


class AccountBase:
    """A resource.

    Args:
        parts: What it works with.
    """

    def __init__(self, parts: AccountParts) -> None:
        self._parts = parts
        self._db = parts.db
        self._limit = parts.max_body_bytes
