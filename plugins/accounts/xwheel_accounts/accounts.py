"""Make, change and end accounts; anyone who gives a role has it, and one admin of everything always stays."""

from __future__ import annotations

import hmac
import logging
import secrets
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from xwheel.access.rights import Rights
from xwheel.clock import Clock
from xwheel.errors import ConflictError, FieldError, ForbiddenError, RevisionError
from xwheel.model.access import ALL, Grants, Permission, Role, current_actor
from xwheel.plugin import Deed, RecordsDeeds
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Connection, Database

from xwheel_accounts.passwords import check_password, hash_password, make_password, verify_password
from xwheel_accounts.places import PasswordPlaces
from xwheel_accounts.storage import accounts, links, sessions
from xwheel_accounts.storage.accounts import LOCAL, Account
from xwheel_accounts.throttle import key_of_name, pairs_of_name

logger = logging.getLogger(__name__)

MAX_NAME: Final = 64
MAX_KEY: Final = 128
MAX_DISPLAY_NAME: Final = 128
LINK_BYTES: Final = 32
LINK_MS: Final = 600_000
"""How long a link signs in after its making."""

FIRST_ADMIN: Final = "admin"
_IN_NAMES: Final = "._-@+"
_HINT: Final = (
    f"must have 1 to {MAX_NAME} characters: letters and digits of any language, and any of {_IN_NAMES}, a letter or "
    "digit first"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How many sessions and personal tokens of an account a change ended."""

    sessions: int = 0
    tokens: int = 0


class AccountManager:
    """Changes accounts, by name of who acts on this thread.

    What takes an account from those who hold its password or a session ends its personal tokens as well: they may have
    been made by the same hands. ``keep_tokens`` leaves them; tokens of services belong to no account and always stay.

    Where a method takes a ``revision``, it is the one that the caller has seen; None overwrites whatever is there.

    Args:
        db: The database.
        clock: Where time comes from.
        trail: Records who did what.
        rights: Says what who acts may give away.
        places: Where passwords are hashed; None for a process that does one thing.
    """

    def __init__(
        self, db: Database, clock: Clock, trail: RecordsDeeds, rights: Rights, places: PasswordPlaces | None = None
    ) -> None:
        self._places = places or PasswordPlaces()
        self._db = db
        self._clock = clock
        self._trail = trail
        self._rights = rights

    def create(
        self,
        name: str,
        grants: Grants,
        *,
        display_name: str = "",
        password: str | None = None,
        must_change: bool = True,
        provider: str = LOCAL,
    ) -> tuple[Account, str]:
        """Make an account; return it and its password, which was made here unless it was given.

        Args:
            name: What its person signs in with.
            grants: What it may do.
            display_name: What others see.
            password: The first password; None to make one.
            must_change: Whether the first sign-in has to set another one.
            provider: Who checks its password; no password is stored for another one than ``local``.

        Raises:
            FieldError: The name or password is not acceptable.
            ConflictError: The name is taken.
            ForbiddenError: The grants are more than who acts has.
            PasswordsBusyError: Too many passwords are being hashed.
        """
        check_name(name)
        check_display_name(display_name)
        if password is not None:
            check_password(password, (name, display_name))
        secret = "" if provider != LOCAL else password or make_password()
        hashed = self._hashed(secret) if secret else None

        def work(conn: Connection) -> Account:
            self._rights.check(conn, current_actor(), grants)
            made = accounts.insert_account(
                conn,
                name,
                grants,
                self._clock.now_ms(),
                display_name=display_name,
                password=hashed,
                must_change=must_change and hashed is not None,
                provider=provider,
            )
            self._record(conn, "create", made, None, made)
            return made

        return self._db.transaction(work), secret

    def change(
        self, account_id: int, changes: Mapping[str, Any], *, revision: int | None = None, keep_tokens: bool = False
    ) -> tuple[Account, Ended]:
        """Change an account: ``grants``, ``display_name``, ``disabled``, or ``locked`` to False.

        One that is disabled, or that loses its sessions' grants, is refused from the next second on. Of one that is
        disabled the sessions, links and tokens end; tokens that are kept open nothing until it is enabled again.

        Returns:
            The account, and what ended.

        Raises:
            NotFoundError: There is no such account.
            RevisionError: It is at another revision.
            ConflictError: No one would be left who may do everything.
            ForbiddenError: The grants are more than who acts has, or the account's are.
        """
        if "display_name" in changes:
            check_display_name(changes["display_name"])

        def work(conn: Connection) -> tuple[Account, Ended]:
            before = self._lock(conn, account_id, revision)
            values = dict(changes)
            if "grants" in values:
                self._rights.check(conn, current_actor(), values["grants"], before.grants)
            if values.pop("locked", None) is False:
                values["locked_ms"] = None
                _forget_failures(conn, before)
            stays_admin = is_admin(values.get("grants", before.grants)) and not values.get("disabled", before.disabled)
            if not stays_admin:
                _keep_admin(conn, before)
            after = accounts.update_account(conn, account_id, values, self._clock.now_ms())
            ended = Ended()
            if values.get("disabled", False):  # not another change of one that is: kept tokens stay
                ended = self._end_all(conn, after, keep_tokens=keep_tokens)
            self._record(conn, "edit", after, before, after)
            return after, ended

        return self._db.transaction(work)

    def reset(
        self, account_id: int, password: str | None = None, *, keep_tokens: bool = False
    ) -> tuple[Account, str, Ended]:
        """Give an account another password, and end its sessions, tokens, links and lock.

        Returns:
            The account, its password, and what ended.

        Raises:
            NotFoundError: There is no such account.
            ConflictError: Another identity provider checks its password.
            FieldError: The password is not acceptable.
            ForbiddenError: The account may do more than who acts.
            PasswordsBusyError: Too many passwords are being hashed.
        """
        with self._db.read() as conn:
            known = accounts.get_account(conn, account_id)
        if password is not None:
            check_password(password, (known.name, known.display_name))
        secret = password or make_password()
        hashed = self._hashed(secret)

        def work(conn: Connection) -> tuple[Account, Ended]:
            before = self._lock(conn, account_id, None)
            if before.provider != LOCAL:
                raise ConflictError(f"the password of {before.name} is kept by {before.provider}: reset it there")
            after = self._set_password(conn, before, hashed, must_change=True)
            ended = self._end_all(conn, after, keep_tokens=keep_tokens)
            self._record(conn, "reset", after, before, after)
            return after, ended

        after, ended = self._db.transaction(work)
        return after, secret, ended

    def make_link(self, account_id: int) -> tuple[str, int]:
        """Make a link that signs an account in once; return its secret, which is kept nowhere, and when it ends.

        Raises:
            NotFoundError: There is no such account.
            ConflictError: The account is disabled or locked, or another identity provider says who it is.
            ForbiddenError: The account may do more than who acts.
        """
        secret = secrets.token_urlsafe(LINK_BYTES)

        def work(conn: Connection) -> int:
            known = self._lock(conn, account_id, None)
            if known.provider != LOCAL:
                raise ConflictError(f"{known.provider} says who {known.name} is: sign in there")
            if known.disabled or known.locked_ms is not None:
                raise ConflictError(f"account {known.name} is disabled or locked: lift that first")
            expires_ms = self._clock.now_ms() + LINK_MS
            links.insert_link(conn, secret, account_id, expires_ms)
            after = {"expires_ms": expires_ms}
            self._trail.record(conn, "account.link", "account", known.name, after=after)
            return expires_ms

        return secret, self._db.transaction(work)

    def own_account(self) -> Account:
        """Return the account that acts, if its password is kept here.

        Raises:
            ForbiddenError: No account acts, or its password is kept elsewhere.
        """
        account_id = current_actor().account_id
        if account_id is None:
            raise ForbiddenError(Permission.READ, "a token has no password: sign in with an account")
        with self._db.read() as conn:
            known = accounts.get_account(conn, account_id)
        if known.provider != LOCAL:
            raise ForbiddenError(
                Permission.READ, f"the password of {known.name} is kept by {known.provider}: change it there"
            )
        return known

    def change_password(self, known: Account, new: str, *, session_id: int | None, keep_tokens: bool = False) -> Ended:
        """Set another password for an account whose present one was just judged; return what ended.

        Its other sessions, its links and its tokens end.

        Args:
            known: The account as it was judged.
            new: The password.
            session_id: The session that stays.
            keep_tokens: Its tokens stay.

        Raises:
            FieldError: The new one is not acceptable, or the present one was changed meanwhile.
            PasswordsBusyError: Too many passwords are being hashed.
        """
        check_password(new, (known.name, known.display_name))
        with self._places.hold(current_actor().address):
            if verify_password(known.password, new):
                raise FieldError("password", "is the present one")
            hashed = hash_password(new)

        def work(conn: Connection) -> Ended:
            before = accounts.get_account(conn, known.id, lock=True)
            if not same_password(before, known):
                raise FieldError("old_password", "is not the present password")
            after = self._set_password(conn, before, hashed, must_change=False)
            ended = self._end_all(conn, after, keep_tokens=keep_tokens, but=session_id)
            self._record(conn, "change_password", after, before, after)
            return ended

        return self._db.transaction(work)

    def end_sessions(self, account_id: int, *, keep_tokens: bool = False) -> Ended:
        """End all sessions of an account, its links and its tokens; return how many ended.

        Raises:
            NotFoundError: There is no such account.
        """

        def work(conn: Connection) -> Ended:
            before = self._lock(conn, account_id, None)
            ended = self._end_all(conn, before, keep_tokens=keep_tokens)
            self._trail.record(
                conn,
                "account.end_sessions",
                "account",
                before.name,
                before={"sessions": ended.sessions, "tokens": ended.tokens},
            )
            return ended

        return self._db.transaction(work)

    def delete(self, account_id: int, *, revision: int | None = None) -> None:
        """Delete an account with its sessions, tokens, links and settings; what it did stays in the audit.

        Raises:
            NotFoundError: There is no such account.
            ConflictError: No one would be left who may do everything.
            ForbiddenError: The account may do more than who acts.
        """

        def work(conn: Connection) -> None:
            before = self._lock(conn, account_id, revision)
            _keep_admin(conn, before)
            _forget_failures(conn, before)
            accounts.delete_account(conn, account_id)
            self._record(conn, "delete", before, before, None)

        self._db.transaction(work)

    def _lock(self, conn: Connection, account_id: int, revision: int | None) -> Account:
        if is_admin_of_all(conn, account_id):
            accounts.lock_admins(conn)  # all in one order, before the row itself
        before = accounts.get_account(conn, account_id, lock=True)
        if revision is not None and before.revision != revision:
            raise RevisionError("account", account_id, before.revision, revision)
        if not self._rights.present(conn, current_actor()).covers(before.grants):
            raise ForbiddenError(
                Permission.ADMIN, f"account {before.name} may do more than you: ask somebody who may as much"
            )
        return before

    def _record(
        self, conn: Connection, verb: str, account: Account, before: Account | None, after: Account | None
    ) -> None:
        self._trail.record(
            conn, f"account.{verb}", "account", account.name, before=_recorded(before), after=_recorded(after)
        )

    def _hashed(self, secret: str) -> str:
        with self._places.hold(current_actor().address):
            return hash_password(secret)

    def _set_password(self, conn: Connection, before: Account, hashed: str, *, must_change: bool) -> Account:
        now_ms = self._clock.now_ms()
        values = {"password": hashed, "password_ms": now_ms, "must_change": must_change, "locked_ms": None}
        after = accounts.update_account(conn, before.id, values, now_ms)
        _forget_failures(conn, before)
        return after

    def _end_all(self, conn: Connection, account: Account, *, keep_tokens: bool, but: int | None = None) -> Ended:
        """End what opens something for an account whose row is locked, but for one session; each token is audited."""
        count = sessions.delete_sessions_of(conn, account.id, but=but)
        links.delete_links_of(conn, account.id)
        if keep_tokens:
            return Ended(sessions=count)
        gone = tokens.delete_tokens_of(conn, account.id)
        deeds = [
            Deed(
                action="token.delete",
                kind="token",
                object_id=item.name,
                before={**tokens.recorded(item), "account": account.name},
            )
            for item in gone
        ]
        if deeds:
            self._trail.record_many(conn, deeds)
        return Ended(sessions=count, tokens=len(gone))


def insert_first(conn: Connection, trail: RecordsDeeds, hashed: str, now_ms: int) -> None:
    """Store the first account, which may do everything.

    Args:
        conn: A connection inside a transaction.
        trail: Records it.
        hashed: Hash of its password.
        now_ms: The time.

    Raises:
        ConflictError: There is one of this name.
    """
    made = accounts.insert_account(conn, FIRST_ADMIN, ALL, now_ms, password=hashed)
    trail.record(conn, "account.create", "account", made.name, after=_recorded(made))


def check_name(name: str) -> None:
    """Refuse a name that cannot be read aloud: blanks, control characters, marks that turn the direction of text.

    Raises:
        FieldError: Says what is allowed.
    """
    whole = unicodedata.normalize("NFC", name)
    is_good = 0 < len(whole) <= MAX_NAME and whole == name and whole[0].isalnum()
    if not is_good or len(accounts.name_key(whole)) > MAX_KEY or not all(map(_is_of_names, whole)):
        raise FieldError("name", _HINT)


def check_display_name(name: str) -> None:
    """Refuse what would change the text around it.

    Raises:
        FieldError: Says what is allowed.
    """
    if len(name) > MAX_DISPLAY_NAME or any(unicodedata.category(char)[0] == "C" for char in name):
        raise FieldError(
            "display_name", f"must have at most {MAX_DISPLAY_NAME} characters, without control and direction marks"
        )


def same_password(one: Account, other: Account) -> bool:
    """Return whether two records of an account have the same password."""
    return hmac.compare_digest(one.password or "", other.password or "")


def is_admin(grants: Grants) -> bool:
    """Return whether grants open everything everywhere."""
    return grants.everywhere is not None and grants.everywhere.role is Role.ADMIN


def is_admin_of_all(conn: Connection, account_id: int) -> bool:
    """Return whether an account may do everything everywhere, as it stands."""
    found = accounts.get_accounts(conn, {account_id}).get(account_id)
    return found is not None and is_admin(found.grants)


def _keep_admin(conn: Connection, before: Account) -> None:
    """Refuse to take away the last one who may do everything.

    Raises:
        ConflictError: It is that one.
    """
    if is_admin(before.grants) and accounts.lock_admins(conn) == [before.id]:
        raise ConflictError(f"account {before.name} is the last one that may do everything: make another admin first")


def _recorded(account: Account | None) -> dict[str, object] | None:
    """Return what the audit says of an account: all but what its password is."""
    if account is None:
        return None
    names = "display_name provider must_change disabled locked_ms password_ms"
    return {"grants": tokens.grants_text(account.grants), **{name: getattr(account, name) for name in names.split()}}


def _is_of_names(char: str) -> bool:
    return char in _IN_NAMES or unicodedata.category(char)[0] in "LMN"


def _forget_failures(conn: Connection, known: Account) -> None:
    sessions.delete_failures(conn, key_of_name(known.name))
    sessions.delete_failures_of(conn, pairs_of_name(known.name))
