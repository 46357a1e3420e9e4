"""Tokens as they are shown: which one it is, what it may do now, from where, until when."""

from __future__ import annotations

import hmac
import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from typing import Final

from xwheel.access.rights import Rights
from xwheel.clock import Clock
from xwheel.errors import FieldError, HiddenError, XwheelError
from xwheel.model.access import Actor, ActorKind, Grant, Grants, Permission, Role, current_actor
from xwheel.plugin.routes import RecordsDeeds
from xwheel.storage.access import tokens
from xwheel.storage.access.tokens import KnownToken
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)

CACHE_MS: Final = 1000
MOST_LOOKS: Final = 5
"""How often in that time the database is asked because of tokens that are not known: they may be new."""

USED_MS: Final = 60_000  # how exactly it is known when a token was used last
MAX_NETWORKS: Final = 16


class TokenStore:
    """The tokens in the database, by digest; a change there counts within a second.

    Thread-safety: any thread may ask; one lock guards the copy, and one thread at a time reads the database.
    """

    def __init__(self, db: Database, clock: Clock, rights: Rights) -> None:
        self._rights = rights
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: Sequence[KnownToken] = ()
        self._read_ms: int | None = None
        self._looks = 0
        self._used: dict[int, int] = {}
        self._written_ms: int | None = None

    def find(self, token: str, address: str = "") -> KnownToken | None:
        """Return what is known of a token that is good from this address now, or None.

        Every digest is compared, in constant time.
        """
        digest = tokens.digest_token(token)
        matches = _matches(self._known(), digest) or _matches(self._known(is_new=True), digest)
        if not matches or not self._is_good(matches[0], address):
            return None
        self._note_use(matches[0])
        return matches[0]

    def _is_good(self, known: KnownToken, address: str) -> bool:
        if known.disabled or (known.expires_ms is not None and self._clock.now_ms() >= known.expires_ms):
            return False
        return not known.networks or _is_within(address, known.networks)

    def forget(self) -> None:
        """Ask the database again at the next call; for the process that changed something itself."""
        with self._lock:
            self._read_ms = None

    def _known(self, *, is_new: bool = False) -> Sequence[KnownToken]:
        """Return all tokens as they were a second ago at most; as they are, if one may be new, a few times a second."""
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            is_due = self._read_ms is None or now_ms - self._read_ms >= CACHE_MS
            if is_due or (is_new and self._looks < MOST_LOOKS):
                with self._db.read() as conn:
                    self._tokens = self._rights.with_owners(conn, tokens.list_tokens(conn))
                self._looks = 0 if is_due else self._looks + 1
                if is_due:
                    self._read_ms = now_ms
            return self._tokens

    def _note_use(self, known: KnownToken) -> None:
        """Write down once a minute which tokens are used; a database that does not answer refuses none.

        The lock is not held while it writes: only this caller waits.
        """
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._written_ms is None:
                self._written_ms = now_ms
            self._used[known.id] = self._clock.now_ms()
            if now_ms - self._written_ms < USED_MS:
                return
            used, self._used, self._written_ms = self._used, {}, now_ms
        try:
            self._db.transaction(lambda conn: tokens.update_used(conn, used))
        except XwheelError as error:
            logger.warning("cannot note which of %d tokens are used: %s", len(used), error)


@dataclass(frozen=True, slots=True)
class TokenManager:
    """Makes and ends tokens; no one makes one that may do more than they.

    ``changed`` is called after a change, so that it counts here at once.
    """

    db: Database
    clock: Clock
    trail: RecordsDeeds
    rights: Rights
    changed: Callable[[], None] = lambda: None

    def create(
        self,
        name: str,
        secret: str,
        grants: Grants,
        *,
        group_id: int | None = None,
        account_id: int | None = None,
        expires_in_s: int | None = None,
        networks: Sequence[str] = (),
        check: Callable[[Connection], None] = lambda _: None,
    ) -> KnownToken:
        """Store a token by its digest; the arguments are those of :func:`xwheel.storage.access.tokens.insert_token`.

        It ends ``expires_in_s`` from now, unless that is None. ``check`` is called in the transaction, and raises if
        anyone who makes the token may not any more.

        Raises ForbiddenError if it would open more than who acts may do, FieldError if a group of the grants does not
        exist or one of ``networks`` is none, NotFoundError without the group, ConflictError if the name is taken, or
        there are as many tokens as there may be.
        """
        within = check_networks(networks)

        def work(conn: Connection) -> KnownToken:
            actor, now_ms = current_actor(), self.clock.now_ms()
            check(conn)
            if group_id is not None:
                actor.need(Permission.ADMIN, group_id, "group", group_id)
            else:
                self.rights.check(conn, actor, grants)
            made = tokens.insert_token(
                conn,
                name,
                secret,
                now_ms,
                group_id=group_id,
                grants=grants,
                account_id=account_id,
                expires_ms=None if expires_in_s is None else now_ms + 1000 * expires_in_s,
                networks=within,
            )
            (made,) = self.rights.with_owners(conn, [made])
            self.trail.record(conn, "token.create", "token", name, group_id=group_id, after=tokens.recorded(made))
            return made

        made = self.db.transaction(work)
        self.changed()
        return made

    def delete(
        self, name: str, *, account_id: int | None = None, may: Callable[[KnownToken], bool] = lambda _: True
    ) -> None:
        """Delete a token; nodes refuse it within a second.

        It must be that account's, if one is given, and ``may`` says whether who acts may know of it. Raises
        NotFoundError if there is none of this name for who acts, ConflictError if it is the last one for everything.
        """

        def work(conn: Connection) -> None:
            (known,) = self.rights.with_owners(conn, [tokens.get_token(conn, name)])
            if not may(known) or account_id not in (None, known.account_id):
                raise HiddenError("token", name)
            tokens.delete_token(conn, name)
            before = tokens.recorded(known)
            self.trail.record(conn, "token.delete", "token", name, group_id=known.group_id, before=before)

        self.db.transaction(work)
        self.changed()


def _matches(known: Sequence[KnownToken], digest: bytes) -> list[KnownToken]:
    return [item for item in known if hmac.compare_digest(item.digest, digest)]


def actor_of(known: KnownToken, address: str) -> Actor:
    """Return who acts with a token."""
    kind, name, grants = ActorKind.TOKEN, known.name, known.present_grants
    if known.group_id is not None:
        kind, grants = ActorKind.GROUP, whole_group(known.group_id)
    elif known.account_id is not None:
        kind, name = ActorKind.ACCOUNT, known.account_name or ""
    return Actor(
        kind=kind,
        name=name,
        grants=grants,
        account_id=known.account_id,
        credential=f"token {known.name}",
        address=address,
    )


def whole_group(group_id: int) -> Grants:
    """Return what a token of a group may do there, over XXL-JOB's calls and for what code declares."""
    return Grants(groups={group_id: Grant(Role.EDITOR, script=True)})


def check_networks(networks: Sequence[str]) -> tuple[str, ...]:
    """Return networks as they are stored; raises FieldError: one is none."""
    found = []
    for text in networks:
        try:
            found.append(str(ip_network(text)))
        except ValueError as error:
            raise FieldError("networks", f"{text[:64]!r} is no network such as 10.1.0.0/16: {error}") from None
    if len(found) > MAX_NETWORKS:
        raise FieldError("networks", f"may name at most {MAX_NETWORKS}")
    return tuple(dict.fromkeys(found))


def _is_within(address: str, networks: Sequence[str]) -> bool:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(parsed, "ipv4_mapped", None)
    return any((mapped or parsed) in ip_network(network) for network in networks)
