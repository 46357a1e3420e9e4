"""The identity provider of our own: accounts whose passwords are kept, hashed, in xwheel's database."""

from __future__ import annotations

from xwheel_accounts.identities import Identity, KnownAccount
from xwheel_accounts.passwords import verify_password


class LocalAccounts:
    """Judges passwords by the hash that it is handed with the name."""

    name = "local"
    title = ""

    def sign_in(self, name: str, password: str, known: KnownAccount | None) -> Identity | None:
        """Return whose password it is; an unknown name takes as long as a known one."""
        del name
        is_theirs = verify_password(known.password_hash if known else None, password)
        return _identity_of(known) if known is not None and is_theirs else None

    def refresh(self, identity: Identity, known: KnownAccount | None) -> Identity | None:
        """Return the account as it is now, or None if it is gone; a lock is judged where sessions are."""
        del identity
        return None if known is None else _identity_of(known)


def _identity_of(known: KnownAccount) -> Identity:
    return Identity(subject=known.subject, name=known.name, display_name=known.display_name)
