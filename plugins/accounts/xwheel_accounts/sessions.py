"""Sessions: which cookie is whose, from where it is good and until when; a change elsewhere counts within a second."""

from __future__ import annotations

import base64
import hmac
import logging
import secrets
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import AuthError, NotFoundError, XwheelError
from xwheel.model.access import NOTHING, Actor, ActorKind
from xwheel.plugin import Deed, RecordsDeeds
from xwheel.storage.access.tokens import digest_token
from xwheel.storage.database.engine import Connection, Database

from xwheel_accounts.accounts import same_password
from xwheel_accounts.settings import AccountsSection
from xwheel_accounts.sign_in import WRONG, WRONG_LINK, SignInError, WrongLinkError
from xwheel_accounts.storage import accounts, links, sessions
from xwheel_accounts.storage.accounts import Account
from xwheel_accounts.storage.sessions import Session
from xwheel_accounts.throttle import network_of

logger = logging.getLogger(__name__)

SECRET_BYTES: Final = 32
MAX_SECRET: Final = 64
CACHE_MS: Final = 1000
MOST_KNOWN: Final = 10_000
USED_MS: Final = 3000
"""Sessions that were used within this time are read together: pages that are open ask again each second."""

MOST_TOGETHER: Final = 100
SEEN_MS: Final = 60_000
"""How exactly it is known when a session was used last."""

MAX_AGENT: Final = 255


class SessionElsewhereError(AuthError):
    """A session's cookie came from another network than that where it began.

    Attributes:
        caller: Its account, without what it may do.
    """

    def __init__(self, known: KnownSession) -> None:
        super().__init__("Cookie: this session is not good from this address: sign in again")
        credential = f"session {known.session.id} from elsewhere"
        self.caller = Actor(kind=ActorKind.ACCOUNT, name=known.account.name, credential=credential)


@dataclass(frozen=True, slots=True)
class KnownSession:
    """A session with its account, as the database had both a second ago at most."""

    session: Session
    account: Account
    read_ms: int

    def actor(self, address: str, *, confirmed: bool = False) -> Actor:
        """Return who acts with it; who has to change the password may do nothing else."""
        grants = NOTHING if self.account.must_change else self.account.grants
        return Actor(
            kind=ActorKind.ACCOUNT,
            name=self.account.name,
            grants=grants,
            account_id=self.account.id,
            credential=f"session {self.session.id}",
            address=address,
            confirmed=confirmed,
        )


@dataclass(slots=True)
class _Copy:
    """A session in memory, and when it was used last."""

    known: KnownSession
    used_ms: int


class SessionStore:
    """The sessions in the database, by cookie.

    Thread-safety: any thread may ask; a lock guards the copy and is not held while the database is asked.

    Args:
        db: The database.
        clock: Where time comes from.
        config: How long sessions last, and whether they keep to a network.
        trail: Records who did what.
    """

    def __init__(self, db: Database, clock: Clock, config: AccountsSection, trail: RecordsDeeds) -> None:
        self._trail = trail
        self._db = db
        self._clock = clock
        self._config = config
        self._lock = threading.Lock()
        # the one that was used last at the end
        self._known: OrderedDict[bytes, _Copy] = OrderedDict()
        self._forgotten = 0

    def begin(
        self,
        account: Account,
        address: str,
        agent: str,
        *,
        link: str | None = None,
        provider_data: str | None = None,
        refresh_ms: int | None = None,
    ) -> tuple[str, int]:
        """Begin a session; return the cookie's secret and when the session ends at the latest.

        Args:
            account: Who signed in.
            address: Where from.
            agent: What the browser calls itself.
            link: What the link holds that was judged in place of a password; it is used up with this.
            provider_data: What the identity provider needs to ask again or to sign out.
            refresh_ms: When the provider is asked again; None for never.

        Raises:
            SignInError: The account was changed since its password or link was judged, or another call used the link.
        """
        secret = secrets.token_urlsafe(SECRET_BYTES)
        now_ms = self._clock.now_ms()
        network = network_of(address) if self._config.bind_sessions else ""

        def work(conn: Connection) -> None:
            present = accounts.get_account(conn, account.id, lock=True)
            if present.disabled or present.locked_ms is not None or not same_password(present, account):
                raise SignInError(WRONG, account.name)  # changed since the password was judged
            if link is not None and not links.take_link(conn, link, account.id, now_ms):
                raise WrongLinkError(WRONG_LINK, account.name)  # another call was faster
            session_id = sessions.insert_session(
                conn,
                secret,
                account.id,
                now_ms,
                expires_ms=now_ms + 1000 * self._config.session_idle_s,
                provider=account.provider,
                address=address[:MAX_SECRET],
                network=network,
                agent=agent[:MAX_AGENT],
                provider_data=provider_data,
                refresh_ms=refresh_ms,
            )
            accounts.note_sign_in(conn, account.id, now_ms)
            who = Actor(
                kind=ActorKind.ACCOUNT,
                name=account.name,
                account_id=account.id,
                credential=f"session {session_id}",
                address=address,
            )
            how = {"how": "password" if link is None else "link"}
            deed = Deed(action="session.begin", kind="session", object_id=session_id, after=how, actor=who)
            self._trail.record_many(conn, [deed])

        self._db.transaction(work)
        return secret, now_ms + 1000 * self._config.session_s

    def find(self, secret: str, address: str) -> KnownSession | None:
        """Return the session of a cookie; None if there is none now.

        Raises:
            SessionElsewhereError: It is not good from this address.
        """
        if not 0 < len(secret) <= MAX_SECRET:
            return None
        key = digest_token(secret)
        known = self._recall(key) or self._read(key)
        if known is None or not self._is_alive(known):
            return None
        if known.session.network not in ("", network_of(address)):
            raise SessionElsewhereError(known)
        self._note_use(key, known)
        return known

    def end(self, session_id: int, account_id: int) -> None:
        """End a session of an account.

        Raises:
            NotFoundError: The account has none of this id.
        """

        def work(conn: Connection) -> None:
            found = {item.id for item in sessions.list_sessions(conn, account_id, 0)}
            if session_id not in found:
                raise NotFoundError("session", session_id)
            sessions.delete_sessions(conn, [session_id])
            self._trail.record(conn, "session.end", "session", session_id)

        self._db.transaction(work)
        self.forget()

    def forget(self) -> None:
        """Ask the database again from now on; for the node that changed something itself."""
        with self._lock:
            self._forgotten += 1
            self._known.clear()

    def _recall(self, key: bytes) -> KnownSession | None:
        now_ms = self._clock.monotonic_ms()
        with self._lock:
            copy = self._known.get(key)
            if copy is None:
                return None
            copy.used_ms = now_ms
            self._known.move_to_end(key)
            known = copy.known
        return known if 0 <= now_ms - known.read_ms < CACHE_MS else None

    def _read(self, key: bytes) -> KnownSession | None:
        read_ms = self._clock.monotonic_ms()
        with self._lock:
            turn, wanted = self._forgotten, self._read_with(key, read_ms)
        with self._db.read() as conn:
            rows = sessions.get_sessions(conn, wanted)
            owners = accounts.get_accounts(conn, {session.account_id for session in rows.values()})
        found = {
            digest: KnownSession(session, owners[session.account_id], read_ms)
            for digest, session in rows.items()
            if session.account_id in owners
        }
        with self._lock:
            if turn == self._forgotten:  # else something changed while the rows were read
                for digest in wanted:
                    self._keep(digest, found.get(digest), read_ms)
        return found.get(key)

    def _read_with(self, key: bytes, now_ms: int) -> list[bytes]:
        """Return what is read together: with a session that is known, those that were used a moment ago.

        With another it is read alone: anybody can send cookies of none.
        """
        wanted = [key]
        if key in self._known:
            for other, copy in reversed(self._known.items()):
                if len(wanted) == MOST_TOGETHER or not 0 <= now_ms - copy.used_ms < USED_MS:
                    break
                if other != key:
                    wanted.append(other)
        return wanted

    def _keep(self, digest: bytes, known: KnownSession | None, now_ms: int) -> None:
        copy = self._known.get(digest)
        if known is None:
            self._known.pop(digest, None)
        elif copy is not None:
            copy.known = known
        else:
            self._known[digest] = _Copy(known, now_ms)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)

    def _is_alive(self, known: KnownSession) -> bool:
        now_ms = self._clock.now_ms()
        ends_ms = min(known.session.expires_ms, known.session.created_ms + 1000 * self._config.session_s)
        return not known.account.disabled and now_ms < ends_ms

    def _note_use(self, key: bytes, known: KnownSession) -> None:
        """Write down once a minute that a session is used; a database that does not answer ends none."""
        session, now_ms = known.session, self._clock.now_ms()
        if now_ms - session.seen_ms < SEEN_MS:
            return
        expires_ms = max(session.expires_ms, now_ms + 1000 * self._config.session_idle_s)
        try:
            self._db.transaction(lambda conn: sessions.update_seen(conn, session.id, now_ms, expires_ms))
        except XwheelError as error:
            logger.warning("cannot note that session %d is used: %s", session.id, error)
        with self._lock:
            self._known.pop(key, None)


def csrf_token(secret: str) -> str:
    """Return what a page shows with each change that it asks for, next to its cookie; made of the cookie alone."""
    made = hmac.digest(secret.encode("utf-8", "surrogateescape"), b"xwheel csrf", "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode()
