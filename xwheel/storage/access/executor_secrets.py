"""Executor secrets: what the executors of a group hold, several at a time, and the key that they are sealed under."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from xwheel.errors import ConfigError, ConflictError, DuplicateError, NotFoundError
from xwheel.runtime.sealing import SETTING, KeyRing
from xwheel.storage import executors, settings
from xwheel.storage.access.tokens import digest_token
from xwheel.storage.database.engine import Database
from xwheel.storage.database.rows import one_row
from xwheel.storage.schema.tables import api_token, executor_group, executor_secret

MAX_SECRETS: Final = 1000  # each call of an executor is compared with all of them
KEY: Final = "executor_secret_key"
"""The setting with the fingerprint of the key that this cluster's secrets are sealed under."""

_SELECT: Final = select(executor_secret, executor_group.c.app_name).select_from(
    executor_secret.outerjoin(executor_group, executor_group.c.id == executor_secret.c.group_id)
)
_ALL: Final = _SELECT.order_by(executor_secret.c.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSecret:
    """An executor secret as it is stored."""

    id: int
    name: str  # what people call it
    group_id: int  # whose executors hold it
    app_name: str | None  # that group's app name; None for a group that went while the secret was made
    digest: bytes = field(repr=False)  # by which a caller's secret is recognised
    sealed: str = field(repr=False)  # for :meth:`KeyRing.open`
    created_ms: int
    expires_ms: int | None  # it opens nothing from then on, and is sent nowhere; None for never

    def is_live(self, now_ms: int) -> bool:
        """Return whether it has not expired."""
        return self.expires_ms is None or now_ms < self.expires_ms


def insert_secret(
    conn: Connection, name: str, secret: str, keys: KeyRing, now_ms: int, *, group_id: int
) -> StoredSecret:
    """Store a secret for the executors of a group, sealed under the first of the keys.

    Raises ConflictError: the name is taken, the secret is in use, or there are as many as there may be; NotFoundError:
    the group does not exist; ConfigError: the keys are not this cluster's.
    """
    executors.get_group(conn, group_id)
    check_key(conn, keys)
    if conn.execute(select(func.count()).select_from(executor_secret)).scalar_one() >= MAX_SECRETS:
        raise ConflictError(f"there are {MAX_SECRETS} executor secrets already: delete those that expired")
    digest = digest_token(secret)
    if conn.execute(select(api_token.c.id).where(api_token.c.digest.in_([digest]))).first() is not None:
        raise ConflictError("this secret is a token already: an executor secret opens other calls")
    new = insert(executor_secret).values(name=name, group_id=group_id, digest=digest, sealed=keys.seal(secret))
    try:
        conn.execute(new.values(created_ms=now_ms, expires_ms=None))
    except IntegrityError as error:
        raise ConflictError(f"an executor secret with the name {name} exists already") from error
    return get_secret(conn, name)


def list_secrets(conn: Connection) -> list[StoredSecret]:
    """Return all secrets, oldest first."""
    return [StoredSecret(**row._mapping) for row in conn.execute(_ALL)]


def get_secret(conn: Connection, name: str) -> StoredSecret:
    """Return a secret. Raises NotFoundError: there is none of this name."""
    row = one_row(conn, _SELECT.where(executor_secret.c.name == name), "executor secret", name)
    return StoredSecret(**row._mapping)


def retire_secret(conn: Connection, name: str, expires_ms: int | None) -> StoredSecret:
    """Set from when a secret opens nothing any more, None for never; return it.

    Raises NotFoundError: there is none of this name.
    """
    change = update(executor_secret).where(executor_secret.c.name == name)
    conn.execute(change.values(expires_ms=expires_ms))
    return get_secret(conn, name)


def rotate_secret(
    conn: Connection, name: str, new_name: str, secret: str, keys: KeyRing, now_ms: int, *, keep_ms: int | None
) -> StoredSecret:
    """Store the next secret of the group whose secret has this name, and let that one end; return the next one.

    The one before stays good for ``keep_ms`` unless it ends sooner anyway; with None, for as long as it does now.
    Errors are those of :func:`get_secret` and :func:`insert_secret`.
    """
    before = get_secret(conn, name)
    made = insert_secret(conn, new_name, secret, keys, now_ms, group_id=before.group_id)
    if keep_ms is not None and before.is_live(now_ms + keep_ms):
        retire_secret(conn, name, now_ms + keep_ms)
    return made


def delete_secret(conn: Connection, name: str) -> None:
    """Delete a secret at once.

    Raises NotFoundError: there is none of this name; ConflictError: an address by hand is called with it.
    """
    user = executors.find_secret_user(conn, get_secret(conn, name).id)
    if user is not None:
        raise ConflictError(
            f"{user.address}, entered by hand for group {user.group_id}, is called with {name}: name another secret "
            "there first, or let this one end now (expires_in_s 0)"
        )
    if conn.execute(delete(executor_secret).where(executor_secret.c.name == name)).rowcount == 0:
        raise NotFoundError("executor secret", name)


def check_key(conn: Connection, keys: KeyRing) -> None:
    """Make sure that the keys are this cluster's; the first ones that come are noted as such.

    Raises ConfigError: they are another cluster's, or missing.
    """
    kept = settings.find_setting(conn, KEY)
    if kept is None and keys.fingerprints:
        settings.insert_setting(conn, KEY, keys.fingerprints[0])
        return
    if kept is None or kept in keys.fingerprints:
        return
    if not keys.fingerprints:
        raise ConfigError(
            f"{SETTING} is not set, but the executor secrets in this database are encrypted: set it as on the other "
            "nodes"
        )
    raise ConfigError(
        f"{SETTING} holds another key than the one that the executor secrets in this database are encrypted under: take"
        " the file of the other nodes; a new key comes first in that file, with the old one below it"
    )


def bind_key(db: Database, keys: KeyRing) -> None:
    """Make sure that a node's keys are its cluster's, before it does anything.

    Raises ConfigError: as :func:`check_key`.
    """
    try:
        db.transaction(lambda conn: check_key(conn, keys))
    except DuplicateError:
        # another node starts for the first time too, and was faster
        db.transaction(lambda conn: check_key(conn, keys))


def seal_all(conn: Connection, keys: KeyRing) -> int:
    """Seal every secret under the first key, and note it as the cluster's; return how many there are.

    Raises ConfigError: there is no key, or it is another cluster's.
    """
    if not keys.fingerprints:
        raise ConfigError(f"{SETTING} is not set: there is no key to encrypt under")
    check_key(conn, keys)
    stored = list_secrets(conn)
    for known in stored:
        change = update(executor_secret).where(executor_secret.c.id == known.id)
        conn.execute(change.values(sealed=keys.seal(keys.open(known.sealed))))
    settings.delete_setting(conn, KEY)
    settings.insert_setting(conn, KEY, keys.fingerprints[0])
    return len(stored)
