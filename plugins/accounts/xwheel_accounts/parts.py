"""What signs people in and shows what they did, made of what the core gives a plugin."""

from __future__ import annotations

import threading
from typing import Final, cast
from weakref import WeakValueDictionary

from xwheel.access.rights import Rights
from xwheel.access.tokens import TokenManager
from xwheel.api.http.client import TrustedProxies
from xwheel.config import Config
from xwheel.plugin import PluginSite
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

from xwheel_accounts.accounts import AccountManager
from xwheel_accounts.identities import IdentityProvider
from xwheel_accounts.places import PasswordPlaces
from xwheel_accounts.providers import IdentityProviders
from xwheel_accounts.sessions import SessionStore
from xwheel_accounts.settings import AccountsSection
from xwheel_accounts.sign_in import SignIn


class AccountParts:
    """Accounts and sessions of one process.

    Args:
        site: What the core gives.
        config: The settings.

    Raises:
        ConfigError: They name an identity provider that is not there.
    """

    def __init__(self, site: PluginSite, config: Config) -> None:
        self.site = site
        self.config = config.section("accounts", AccountsSection)
        self.max_body_bytes = config.api.max_body_bytes
        self.proxies = TrustedProxies(config.api.trusted_proxies)
        self.clock = clock = site.clock
        self.db = db = cast(Database, site.database)
        known = cast("Registry[IdentityProvider]", site.registered("xwheel_register_identity_providers"))
        self.providers = IdentityProviders(known, self.config, clock)
        self.rights = Rights(site.registered("xwheel_register_gates"))
        places = PasswordPlaces.of_listener(config.api.threads, clock)
        self.accounts = AccountManager(db, clock, site, self.rights, places)
        self.sessions = SessionStore(db, clock, self.config, site)
        self.token_changes = TokenManager(db, clock, site, self.rights, site.forget_tokens)
        self.sign_in = SignIn(db, clock, site, self.providers, places)

    def forget(self) -> None:
        """Ask the database again about sessions and tokens from now on; for the node that ended some itself."""
        self.sessions.forget()
        self.site.forget_tokens()


def parts_of(site: PluginSite, config: Config) -> AccountParts:
    """Return what one process works with: the same for its gate and its resources."""
    with _lock:
        found = _parts.get(id(site))
        if found is None or found.site is not site:
            found = _parts[id(site)] = AccountParts(site, config)
        return found


_lock: Final = threading.Lock()
_parts: Final[WeakValueDictionary[int, AccountParts]] = WeakValueDictionary()
"""By the identity of the site, which each of them keeps alive."""
