"""Who calls with a session's cookie, whose tokens are, and the account that a first start makes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xwheel.access.rights import Rights
from xwheel.clock import SystemClock
from xwheel.config import Config
from xwheel.errors import AuthError
from xwheel.plugin import Actor, CallHead, PluginSite, RecordsDeeds, TokenOwner
from xwheel.storage.database.engine import Database
from xwheel_commands.files import login_link

from xwheel_accounts.accounts import AccountManager, is_admin
from xwheel_accounts.browsers import COOKIE, HOST_COOKIE, SAFE, Browsers
from xwheel_accounts.first_password import FirstPassword
from xwheel_accounts.parts import AccountParts, parts_of
from xwheel_accounts.settings import AccountsSection
from xwheel_accounts.storage import accounts
from xwheel_accounts.storage.accounts import LOCAL, Account


class AccountsGate:
    """Identifies people by the sessions of their accounts.

    Args:
        config: The settings.
    """

    name = "accounts"
    headers: Sequence[str] = ()
    cookies: Sequence[str] = (COOKIE, HOST_COOKIE)
    way_in = "with an account's name and password, or a link of 'xwheel account link NAME'"

    def __init__(self, config: Config) -> None:
        self._config = config

    def open(self, site: PluginSite) -> SessionCheck:
        """Return what looks cookies up."""
        settings = self._config.section("accounts", AccountsSection)
        return SessionCheck(parts_of(site, self._config), secure_cookies=settings.secure_cookies)

    def owners(self, conn: Any, ids: Collection[int]) -> Mapping[int, TokenOwner]:
        """Return accounts by id; who has to change the password may do nothing else."""
        return {
            account_id: TokenOwner(
                name=known.name, grants=known.grants, is_shut_out=known.disabled or known.must_change
            )
            for account_id, known in accounts.get_accounts(conn, ids).items()
        }

    def first_credential(self, now_ms: int) -> FirstPassword:
        """Return the password of the first account."""
        return FirstPassword(now_ms)

    def link_for_admin(self, db: Database, record: RecordsDeeds) -> str | None:
        """Return the console's page that signs in the first account that may do everything at once, if there is one."""
        with db.read() as conn:
            known = accounts.list_accounts(conn)
        first = next((item for item in known if _may_sign_in(item)), None)
        if first is None:
            return None
        manager = AccountManager(db, SystemClock(), record, Rights({self.name: self}))
        secret, _ = manager.make_link(first.id)
        return login_link("", secret)


def _may_sign_in(account: Account) -> bool:
    """Return whether a link lets somebody do everything at once."""
    is_kept_out = account.disabled or account.locked_ms is not None or account.must_change
    return is_admin(account.grants) and account.provider == LOCAL and not is_kept_out


class SessionCheck:
    """Looks up sessions by the cookies of calls.

    Args:
        parts: What the process works with.
        secure_cookies: Keep cookies to HTTPS whatever a proxy says.
    """

    def __init__(self, parts: AccountParts, *, secure_cookies: bool) -> None:
        self._parts = parts
        self._browsers = Browsers(secure_cookies=secure_cookies)

    def identify(self, call: CallHead) -> Actor | None:
        """Return whose session it is; a token counts before it.

        Raises:
            AuthError: It has ended, or is not good from there.
            ForbiddenError: A change is asked for, but not by a page of ours.
        """
        secret = self._browsers.cookie_of(call) if "authorization" not in call.headers else None
        if secret is None:
            return None
        known = self._parts.sessions.find(secret, call.address)
        if known is None:
            raise AuthError("Cookie: this session has ended: sign in again")
        confirmed = self._parts.sign_in.is_confirmed(known.account, known.session)
        actor = known.actor(call.address, confirmed=confirmed)
        if call.method not in SAFE:
            self._browsers.check_page(call, secret, actor)
        return actor
