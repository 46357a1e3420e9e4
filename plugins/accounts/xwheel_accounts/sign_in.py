"""Sign in by password or by link: who may try, what the identity provider says, and the account that it becomes.

An attempt is counted as a wrong password before the password is judged, and forgiven when it was right: of a thousand
attempts at the same time no more are judged than one after the other would be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import AuthError, ConflictError, FieldError, ForbiddenError, IdentityError, TooManyTriesError
from xwheel.model.access import Actor, ActorKind, Permission
from xwheel.plugin import RecordsDeeds
from xwheel.runtime.http_limits import peer_of
from xwheel.storage.database.engine import Connection, Database

from xwheel_accounts import throttle
from xwheel_accounts.accounts import LINK_MS, is_admin_of_all, same_password
from xwheel_accounts.identities import KnownAccount
from xwheel_accounts.passwords import hash_password, needs_rehash, verify_password
from xwheel_accounts.places import PasswordPlaces
from xwheel_accounts.providers import IdentityProviders
from xwheel_accounts.storage import accounts, links, sessions
from xwheel_accounts.storage.accounts import LOCAL, Account
from xwheel_accounts.storage.sessions import Failures, Session
from xwheel_accounts.throttle import LOCKED_AT, Limits, network_of

logger = logging.getLogger(__name__)

MAX_TYPED: Final = 256
COUNT_TRIES: Final = 4
WRONG: Final = "the name or the password is wrong, or the account is locked or disabled"
CONFIRMED_MS: Final = 600_000
"""How long a password, or a sign-in on a page elsewhere, shows that the session's owner is there."""

ENDED: Final = "your session ended or your password was changed just now: sign in again"
WRONG_LINK: Final = (
    "this link is wrong, was used, or is too old, or its account is locked or disabled: sign in with name and "
    "password, or let an admin make another one with 'xwheel account link'"
)


class SignInError(AuthError):
    """No one is signed in: the answer does not say whether the account exists.

    Attributes:
        caller: Whose password it should have been; None if there is no account of the name.
        credential: What was wrong.
        field: The field of the call that was wrong.
    """

    credential = "wrong password"
    field = "password"

    def __init__(self, text: str, account: str = "") -> None:
        super().__init__(text)
        self.caller = _suspect(account, self.credential) if account else None


class WrongLinkError(SignInError):
    """A link signs no one in; the answer does not say whether it ever did."""

    credential = "wrong link"
    field = "link"


class WrongPasswordError(FieldError):
    """The present password, which is asked for once more before something dangerous, is wrong.

    Attributes:
        caller: The account.
    """

    def __init__(self, account: str, field: str) -> None:
        super().__init__(field, "is not the present password")
        self.caller = _suspect(account, SignInError.credential)


class SignInThrottledError(SignInError, TooManyTriesError):
    """There were too many wrong passwords for this name, or from this address.

    Attributes:
        wait_ms: After how long the next attempt counts.
    """

    title = "Too many wrong passwords"

    def __init__(self, wait_ms: int) -> None:
        TooManyTriesError.__init__(self, f"too many wrong passwords: try again in {-(-wait_ms // 1000)} s", wait_ms)
        self.caller = None


def _suspect(account: str, credential: str) -> Actor:
    return Actor(kind=ActorKind.ACCOUNT, name=account, credential=credential)


class SignIn:
    """Judges names and passwords, and links.

    Args:
        db: The database.
        clock: Where time comes from.
        trail: Records who did what.
        providers: Say whose password it is.
        places: Where passwords are judged.
    """

    def __init__(
        self, db: Database, clock: Clock, trail: RecordsDeeds, providers: IdentityProviders, places: PasswordPlaces
    ) -> None:
        self._providers = providers
        self._places = places
        self._places_elsewhere = places.elsewhere()
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
            PasswordsBusyError: Too many are being judged, or one from this address; nothing was counted.
            IdentityError: The account's identity provider cannot say now.
        """
        name, password = name[: MAX_TYPED + 1], password[: MAX_TYPED + 1]
        with self._db.read() as conn:
            known = accounts.find_account(conn, name)
            networks = {item.network for item in sessions.list_sessions(conn, known.id if known else 0, 0)}
        keys = throttle.limits_of(name, peer_of(address), is_familiar=network_of(address) in networks)
        self._refuse_throttled(keys)  # before a place is taken: who has to wait takes none from others
        is_local = known is None or known.provider == LOCAL
        with (self._places if is_local else self._places_elsewhere).hold(address):
            self._count(keys)
            is_right = self._is_right(known, name, password, keys)
            hashed = self._hashed_again(known, password) if is_right else None
        if known is None or not is_right or known.disabled or known.locked_ms is not None:
            self._lock_at_last(known, name)
            raise SignInError(WRONG, "" if known is None else known.name)
        return self._db.transaction(lambda conn: self._welcome(conn, known, hashed, keys))

    def takes_password(self, account: Account) -> bool:
        """Return whether an account has a password that can be asked for here; a page elsewhere knows of the others."""
        provider = self._providers.find(account.provider)
        return provider is None or provider.by_password or not provider.by_redirect

    def judge_again(self, account: Account, password: str, address: str, *, field: str) -> Account:
        """Return an account that is signed in, once its password was judged once more; a wrong one counts as ever.

        Args:
            account: Who is signed in.
            password: What somebody typed.
            address: Where the call came from.
            field: The field of the call that holds the password.

        Raises:
            SignInThrottledError: Too many were wrong before; nothing was judged.
            WrongPasswordError: It is wrong, or the account is locked or disabled.
            PasswordsBusyError: Too many are being judged, or one from this address.
            IdentityError: The account's identity provider cannot say now.
        """
        try:
            judged = self.judge(account.name, password, address)
        except SignInThrottledError:
            raise
        except SignInError:
            raise WrongPasswordError(account.name, field) from None
        if judged.id != account.id:  # it was deleted meanwhile, and another one has its name
            raise WrongPasswordError(account.name, field)
        return judged

    def is_confirmed(self, account: Account, session: Session) -> bool:
        """Return whether the session's owner showed a moment ago that they are there.

        They do by their password, once more after signing in. For an account that has none here, a sign-in counts: a
        page elsewhere knows who it is.
        """
        shown_ms = session.confirmed_ms if self.takes_password(account) else session.created_ms
        return shown_ms is not None and 0 <= self._clock.now_ms() - shown_ms <= CONFIRMED_MS

    def confirm(self, account_id: int, session_id: int, password: str, address: str) -> None:
        """Note that the owner of a session is there, once the account's password was judged once more.

        Args:
            account_id: Who is signed in.
            session_id: By which session.
            password: What somebody typed.
            address: Where the call came from.

        Raises:
            ForbiddenError: The account has no password that could be asked for here.
            WrongPasswordError, SignInThrottledError, PasswordsBusyError, IdentityError: As :meth:`judge_again` says.
            SignInError: The session ended, or the password was changed, while it was judged.
        """
        with self._db.read() as conn:
            account = accounts.get_account(conn, account_id)
        if not self.takes_password(account):
            raise ForbiddenError(
                Permission.READ, f"{account.provider} says who {account.name} is: sign out, and sign in again"
            )
        judged = self.judge_again(account, password, address, field="password")

        def work(conn: Connection) -> None:
            present = accounts.get_account(conn, account_id, lock=True)
            is_same = not present.disabled and same_password(present, judged)
            if not is_same or not sessions.update_confirmed(conn, session_id, self._clock.now_ms()):
                raise SignInError(ENDED)
            self._trail.record(conn, "session.confirm", "session", session_id)

        self._db.transaction(work)

    def check_session(self, conn: Connection, account_id: int, session_id: int) -> None:
        """Refuse in a transaction what a session asked for that ended meanwhile, as another password ends sessions.

        Locks the account's row, as what ends its tokens does.

        Raises:
            SignInError: It ended.
        """
        accounts.get_account(conn, account_id, lock=True)
        if session_id not in {item.id for item in sessions.list_sessions(conn, account_id, self._clock.now_ms())}:
            raise SignInError(ENDED)

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
        self._refuse_throttled(keys)
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

    def _hashed_again(self, known: Account | None, password: str) -> str | None:
        """Return a new hash of a right password if the stored one was made with other parameters."""
        if known is None or known.provider != LOCAL or known.password is None:
            return None  # what another provider judged is no business of this database
        return hash_password(password) if needs_rehash(known.password) else None

    def _refuse_throttled(self, keys: dict[str, Limits]) -> None:
        """Refuse an attempt that has to wait, without a lock: a flood costs a read.

        Raises:
            SignInThrottledError: It has to wait.
        """
        with self._db.read() as conn:
            known = sessions.get_failures(conn, keys)
        self._refuse_early(known.values())

    def _refuse_early(self, known: Iterable[Failures]) -> None:
        now_ms = self._clock.now_ms()
        if waits := max((throttle.wait_ms(item, now_ms) for item in known), default=0):
            raise SignInThrottledError(waits)

    def _count(self, keys: dict[str, Limits]) -> None:
        """Count an attempt as a wrong password, of the name and of the address.

        Raises:
            SignInThrottledError: It has to wait: others were counted since it was looked at first.
        """
        for left in reversed(range(COUNT_TRIES)):
            try:
                self._db.transaction(lambda conn: self._count_locked(conn, keys))
                return
            except ConflictError:  # another attempt wrote the first row; a right one may delete it again
                if not left:
                    raise

    def _count_locked(self, conn: Connection, keys: dict[str, Limits]) -> None:
        known = sessions.get_failures(conn, keys, lock=True)
        self._refuse_early(known.values())
        now_ms = self._clock.now_ms()
        for key, limits in sorted(keys.items()):
            failures = throttle.after_failure(known.get(key, Failures()), now_ms, limits)
            sessions.save_failures(conn, key, failures, is_new=key not in known)

    def _welcome(self, conn: Connection, known: Account, hashed: str | None, keys: dict[str, Limits]) -> Account:
        """Forgive what was wrong before of this name, take back what was counted of the address."""
        account = accounts.get_account(conn, known.id, lock=True)
        if account.disabled or account.locked_ms is not None or not same_password(account, known):
            raise SignInError(WRONG)
        sessions.delete_failures(conn, throttle.key_of_name(account.name))
        self._forgive(conn, keys, is_right=True)
        if hashed is None:
            return account
        return accounts.update_account(conn, account.id, {"password": hashed}, self._clock.now_ms())

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
