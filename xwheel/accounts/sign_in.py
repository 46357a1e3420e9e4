"""Sign in by password or by link: who may try, what the identity provider says, and the account that it becomes.

An attempt is counted as a wrong password before the password is judged, and forgiven when it was right: of a thousand
attempts at the same time no more are judged than one after the other would be.
"""

from __future__ import annotations

import logging
from typing import Final

from xwheel.accounts import throttle
from xwheel.accounts.accounts import LINK_MS, is_admin_of_all, same_password
from xwheel.accounts.providers import IdentityProviders
from xwheel.accounts.throttle import LOCKED_AT, Limits, network_of
from xwheel.clock import Clock
from xwheel.errors import AuthError, ConflictError, FieldError, IdentityError
from xwheel.plugin.identities import KnownAccount
from xwheel.runtime.http_limits import peer_of
from xwheel.runtime.passwords import hash_password, needs_rehash, verify_password
from xwheel.storage.access import accounts, links, sessions
from xwheel.storage.access.accounts import LOCAL, Account
from xwheel.storage.access.audit import AuditTrail
from xwheel.storage.access.sessions import Failures
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)

MAX_TYPED: Final = 256
COUNT_TRIES: Final = 4
WRONG: Final = "the name or the password is wrong, or the account is locked or disabled"
WRONG_LINK: Final = (
    "this link is wrong, was used, or is too old, or its account is locked or disabled: sign in with name and "
    "password, or let an admin make another one with 'xwheel account link'"
)


class SignInError(AuthError):
    """Nobody is signed in: the answer does not say whether the account exists.

    Attributes:
        account: Name of the account, for the audit; empty if there is none of the name.
        credential: What was wrong.
        field: The field of the call that was wrong.
    """

    credential = "wrong password"
    field = "password"

    def __init__(self, text: str, account: str = "") -> None:
        super().__init__(text)
        self.account = account


class WrongLinkError(SignInError):
    """A link signs nobody in; the answer does not say whether it ever did."""

    credential = "wrong link"
    field = "link"


class WrongPasswordError(FieldError):
    """The present password, which a change of it asks for, is wrong.

    Attributes:
        account: Name of the account, for the audit.
        credential: What was wrong.
    """

    credential = "wrong password"

    def __init__(self, account: str) -> None:
        super().__init__("old_password", "is not the present password")
        self.account = account


class SignInThrottledError(SignInError):
    """There were too many wrong passwords for this name, or from this address.

    Attributes:
        wait_ms: After how long the next attempt counts.
    """

    def __init__(self, wait_ms: int) -> None:
        super().__init__(f"too many wrong passwords: try again in {-(-wait_ms // 1000)} s")
        self.wait_ms = wait_ms


class SignIn:
    """Judges names and passwords, and links.

    Args:
        db: The database.
        clock: Where time comes from.
        trail: Records who did what.
        providers: Say whose password it is.
    """

    def __init__(self, db: Database, clock: Clock, trail: AuditTrail, providers: IdentityProviders) -> None:
        self._providers = providers
        self._trail = trail
        self._db = db
        self._clock = clock

    def judge(self, name: str, password: str, address: str) -> Account:
        """Return the account of a name whose password is right.

        Args:
            name: What somebody typed as their name.
            password: What somebody typed as their password.
            address: Where the call came from.

        Raises:
            SignInThrottledError: Too many were wrong before; nothing was judged.
            SignInError: Name or password is wrong, or the account is locked or disabled.
            IdentityError: The account's identity provider cannot say now.
        """
        name, password = name[: MAX_TYPED + 1], password[: MAX_TYPED + 1]
        with self._db.read() as conn:
            known = accounts.find_account(conn, name)
            networks = {item.network for item in sessions.list_sessions(conn, known.id if known else 0, 0)}
        keys = throttle.limits_of(name, peer_of(address), is_familiar=network_of(address) in networks)
        self._count(keys)
        is_right = self._is_right(known, name, password, keys)
        if known is None or not is_right or known.disabled or known.locked_ms is not None:
            self._lock_at_last(known, name)
            raise SignInError(WRONG, "" if known is None else known.name)
        return self._db.transaction(lambda conn: self._welcome(conn, known, password, keys))

    def judge_link(self, secret: str, address: str) -> Account:
        """Return the account of a link that is good; the link stays until a session begins with it.

        A wrong one counts as a wrong password from its address.

        Args:
            secret: What the link holds.
            address: Where the call came from.

        Raises:
            SignInThrottledError: Too many were wrong before; nothing was judged.
            WrongLinkError: The link is wrong or too old, or the account is locked or disabled.
        """
        keys = throttle.limits_of_address(peer_of(address))
        self._count(keys)
        with self._db.read() as conn:
            link = links.find_link(conn, secret)
            found = {} if link is None else accounts.get_accounts(conn, {link.account_id})
        account = None if link is None else found.get(link.account_id)
        left_ms = 0 if link is None else link.expires_ms - self._clock.now_ms()
        # one that lasts longer than any was made by a clock that went back since
        is_good = 0 < left_ms <= LINK_MS + throttle.STEP_MS
        if account is None or not is_good or account.disabled or account.locked_ms is not None:
            raise WrongLinkError(WRONG_LINK, "" if account is None else account.name)
        self._db.transaction(lambda conn: self._forgive(conn, keys, is_right=False))
        return account

    def _is_right(self, known: Account | None, name: str, password: str, keys: dict[str, Limits]) -> bool:
        """Return what the account's identity provider says; the local accounts answer for names that are unknown.

        Raises:
            IdentityError: It cannot say now; nothing was counted then.
        """
        provider = self._providers.find(LOCAL if known is None else known.provider)
        if provider is None or not provider.by_password:
            return verify_password(None, password)  # as long as any other
        shown = None
        if known is not None:
            shown = KnownAccount(
                subject=known.subject,
                name=known.name,
                display_name=known.display_name,
                password_hash=known.password if known.provider == LOCAL else None,
            )
        try:
            found = provider.sign_in(name, password, shown)
        except IdentityError:
            self._db.transaction(lambda conn: self._forgive(conn, keys, is_right=False))
            raise
        return known is not None and found is not None and found.subject == known.subject

    def _count(self, keys: dict[str, Limits]) -> None:
        """Count an attempt as a wrong password, of the name and of the address.

        Raises:
            SignInThrottledError: It has to wait.
        """
        with self._db.read() as conn:
            known = sessions.get_failures(conn, keys)
        now_ms = self._clock.now_ms()
        if waits := max((throttle.wait_ms(item, now_ms) for item in known.values()), default=0):
            raise SignInThrottledError(waits)  # without a lock: a flood costs a read
        for left in reversed(range(COUNT_TRIES)):
            try:
                self._db.transaction(lambda conn: self._count_locked(conn, keys))
                return
            except ConflictError:  # another attempt wrote the first row; a right one may delete it again
                if not left:
                    raise

    def _count_locked(self, conn: Connection, keys: dict[str, Limits]) -> None:
        known = sessions.get_failures(conn, keys, lock=True)
        now_ms = self._clock.now_ms()
        waits = max((throttle.wait_ms(item, now_ms) for item in known.values()), default=0)
        if waits:
            raise SignInThrottledError(waits)
        for key, limits in sorted(keys.items()):
            failures = throttle.after_failure(known.get(key, Failures()), now_ms, limits)
            sessions.save_failures(conn, key, failures, is_new=key not in known)

    def _welcome(self, conn: Connection, known: Account, password: str, keys: dict[str, Limits]) -> Account:
        """Forgive what was wrong before of this name, take back what was counted of the address."""
        account = accounts.get_account(conn, known.id, lock=True)
        if account.disabled or account.locked_ms is not None or not same_password(account, known):
            raise SignInError(WRONG)
        sessions.delete_failures(conn, throttle.key_of_name(account.name))
        self._forgive(conn, keys, is_right=True)
        if account.password is not None and needs_rehash(account.password):
            return accounts.update_account(
                conn, account.id, {"password": hash_password(password)}, self._clock.now_ms()
            )
        return account

    def _forgive(self, conn: Connection, keys: dict[str, Limits], *, is_right: bool) -> None:
        """Take back what was counted last; of a name whose password was right, everything."""
        for key, failures in sessions.get_failures(conn, keys, lock=True).items():
            if failures.count <= 1 or (is_right and not throttle.is_of_address(key)):
                sessions.delete_failures(conn, key)
            else:
                less = Failures(failures.count - 1, failures.last_ms, failures.last_ms)
                sessions.save_failures(conn, key, less, is_new=False)

    def _lock_at_last(self, known: Account | None, name: str) -> None:
        """Lock an account whose password was wrong too often in a row; the last one that may do everything is not."""
        key = throttle.key_of_name(name)
        with self._db.read() as conn:  # for names that are not there too: it must not take less time
            found = sessions.get_failures(conn, {key}).get(key, Failures())
        if known is None or found.count < LOCKED_AT:
            return
        account_id = known.id

        def work(conn: Connection) -> bool:
            is_last = is_admin_of_all(conn, account_id) and accounts.lock_admins(conn) == [account_id]
            account = accounts.get_account(conn, account_id, lock=True)
            if account.locked_ms is not None or is_last:
                return False
            now_ms = self._clock.now_ms()
            accounts.update_account(conn, account.id, {"locked_ms": now_ms}, now_ms)
            after = {"failures": found.count}
            self._trail.record(conn, "account.lock", "account", account.name, after=after)
            return True

        if self._db.transaction(work):
            logger.warning(
                "account %s is locked after %d wrong passwords in a row: an admin lifts that with "
                "'xwheel account unlock'",
                known.name,
                found.count,
            )
