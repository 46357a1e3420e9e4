"""What the APIs know callers by, made of the database and the settings."""

from __future__ import annotations

from xwheel.accounts.accounts import AccountManager
from xwheel.accounts.places import PasswordPlaces
from xwheel.accounts.providers import IdentityProviders
from xwheel.accounts.sessions import SessionStore
from xwheel.accounts.sign_in import SignIn
from xwheel.accounts.tokens import TokenManager, TokenStore
from xwheel.clock import Clock
from xwheel.config import Config
from xwheel.storage.access.audit import AuditTrail
from xwheel.storage.database.engine import Database


class AccessParts:
    """Accounts, sessions and tokens of one process.

    Args:
        db: The database.
        clock: Where time comes from.
        config: The settings.
        trail: Records who did what.
        providers: Say who people are.
    """

    def __init__(
        self, db: Database, clock: Clock, config: Config, trail: AuditTrail, providers: IdentityProviders
    ) -> None:
        self.providers = providers
        places = PasswordPlaces.of_listener(config.api.threads)
        self.accounts = AccountManager(db, clock, trail, places)
        self.sessions = SessionStore(db, clock, config.accounts, trail)
        self.tokens = TokenStore(db, clock)
        self.token_changes = TokenManager(db, clock, trail, self.tokens.forget)
        self.sign_in = SignIn(db, clock, trail, providers, places)
        self.config = config.accounts

    def forget(self) -> None:
        """Ask the database again about sessions and tokens from now on; for the node that ended some itself."""
        self.sessions.forget()
        self.tokens.forget()
