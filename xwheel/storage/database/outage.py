"""A connection that breaks or hangs: what is lost, what is unknown, and how long others may wait for it."""

from __future__ import annotations

import logging
import os
import socket
from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import URL, Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from xwheel.errors import DatabaseRefusedError, DatabaseUnreachableError, PluginError, XwheelError
from xwheel.storage.database.address import place_of
from xwheel.storage.database.errors import explain, fault_of, number_of
from xwheel.storage.database.rows import IS_MEMBER, MEMBER_OF

# SQLSTATE of PostgreSQL (the last: lock_timeout), error numbers of MariaDB, words of SQLite: worth another try
RETRYABLE_STATES: Final = frozenset({"40001", "40P01", "55P03"})
RETRYABLE_NUMBERS: Final = frozenset({1205, 1213})
RETRYABLE_WORDS: Final = ("database is locked", "database table is locked")

# the server ends the connection, is read-only, or has no quorum: the next connection may reach another server
ENDING_NUMBERS: Final = frozenset({1047, 1053, 1077, 1080, 1152, 1159, 1161, 1290, 1792, 1836, 1927})
ENDING_STATES: Final = frozenset({"25006", "25P03", "25P04", "57P01", "57P02", "57P03", "57P05"})

OUTDATED: Final = "RevalidateCachedQuery"
"""Where PostgreSQL says that the rows of a prepared statement have other columns now."""

POOL_TROUBLE: Final = ("Exception during reset", "Exception terminating", "Exception closing")

LOCK_WAIT_S: Final = 10  # how long a statement waits for a row's lock, at most
LOCK_SHARE: Final = 2 / 3
"""How much of the time that a statement has it may wait for a lock: the server must still be able to say so."""

IDLE_S: Final = 10
NO_PLACE: Final = "no connection to the database became free in time: raise database.pool_size"

KEEPALIVE_S: Final = 10
SILENCE_MS: Final = 30_000
"""After how long without a sign of life a connection is broken, such as behind a network that lost its host."""


class ConnectionLostError(DatabaseUnreachableError):
    """The connection broke before COMMIT was sent: the server undoes the transaction, and it may be done again."""


class CommitUnknownError(DatabaseUnreachableError):
    """The connection broke at COMMIT: only the rows show whether it was done."""


class Phase(Enum):
    """How far a connection's use has come."""

    CONNECT = auto()
    WORK = auto()
    COMMIT = auto()


def is_retryable(error: DBAPIError) -> bool:
    """Return whether the transaction failed only because another one was faster."""
    origin = error.orig
    if getattr(origin, "sqlstate", None) in RETRYABLE_STATES or number_of(origin) in RETRYABLE_NUMBERS:
        return True
    return isinstance(error, OperationalError) and any(word in str(origin) for word in RETRYABLE_WORDS)


def translate(error: DBAPIError | PoolTimeout, phase: Phase, url: URL, *, write: bool) -> XwheelError | None:
    """Return what a failure means for the transaction; None for one that is no outage."""
    if isinstance(error, PoolTimeout):
        return DatabaseUnreachableError(NO_PLACE)
    if not write and is_retryable(error):
        # a reader waits for no row's lock: a member waited in vain for the others of its cluster
        return DatabaseUnreachableError(f"the database at {place_of(url)} cannot answer now: {error.orig}")
    is_lost = phase is not Phase.CONNECT and error.connection_invalidated
    # nothing is told of a mistake of ours, or a duplicate
    told = None if is_retryable(error) else explain(error, url, connecting=is_lost or phase is Phase.CONNECT)
    # one that has refused, such as a read-only server, leaves nothing unknown
    if told is None or not is_lost or isinstance(told, DatabaseRefusedError):
        return told
    if phase is Phase.COMMIT:
        return CommitUnknownError(f"{told}; whether the transaction was committed is not known")
    return ConnectionLostError(str(told))


def is_of_database(error: PluginError) -> bool:
    """Return whether a plugin failed because the database did: the transaction is to end with that, not the plugin."""
    cause = error.__cause__
    return isinstance(cause, DBAPIError) and (cause.connection_invalidated or fault_of(cause.orig or cause) is not None)


def watch(engine: Engine, *, statement_s: float, idle_s: int) -> None:
    """Let a server's connections end where others would wait for them, and be replaced once they are broken.

    A statement may take ``statement_s``; after ``idle_s`` the server ends a transaction whose client is silent.
    """
    prepare = _prepare_postgresql if engine.dialect.name == "postgresql" else _prepare_mariadb
    lock_s = max(1, min(LOCK_WAIT_S, int(statement_s * LOCK_SHARE)))
    # what it logs of connections that break while they are given back is known already, and long
    logging.getLogger(f"sqlalchemy.pool.impl.{type(engine.pool).__name__}").addFilter(_leave_out)
    event.listen(engine, "handle_error", _note_ending)
    event.listen(engine, "connect", lambda connection, record: record.info.update(prepare(connection, lock_s, idle_s)))


def _leave_out(record: logging.LogRecord) -> bool:
    return not record.msg.startswith(POOL_TROUBLE) if isinstance(record.msg, str) else True


def _note_ending(context: ExceptionContext) -> None:
    origin = context.original_exception
    state = getattr(origin, "sqlstate", None)
    if number_of(origin) in ENDING_NUMBERS or state in ENDING_STATES or _is_outdated(origin):
        context.is_disconnect = True


def _is_outdated(origin: BaseException) -> bool:
    """Return whether a connection of PostgreSQL holds a prepared statement from before a change of the schema."""
    # its message may be in any language, and its state means much else
    return getattr(getattr(origin, "diag", None), "source_function", None) == OUTDATED


def _prepare_postgresql(connection: Any, lock_s: int, idle_s: int) -> dict[str, bool]:
    _keep_alive(connection.fileno())
    before, connection.autocommit = connection.autocommit, True
    # what is open lies in memory: with the server's own default, made for disks that turn, the planner would read a
    # whole table of 50,000 runs rather than look up the 1,000 of a batch; and a plan that it kept for a prepared
    # statement may be from when the tables were empty
    connection.execute(
        f"SELECT set_config('lock_timeout', '{lock_s}s', false),"
        f" set_config('idle_in_transaction_session_timeout', '{idle_s}s', false),"
        " set_config('plan_cache_mode', 'force_custom_plan', false),"
        # of statements outside of a transaction, such as each question
        " set_config('default_transaction_isolation', 'read committed', false),"
        " set_config('random_page_cost', least(1.1, current_setting('random_page_cost')::numeric)::text, false)"
    )
    connection.autocommit = before
    return {}


def _prepare_mariadb(connection: Any, lock_s: int, idle_s: int) -> dict[str, bool]:
    _keep_alive(connection.fileno())
    words = [f"innodb_lock_wait_timeout = {lock_s}"]
    with connection.cursor() as cursor:
        cursor.execute(MEMBER_OF)
        is_member = bool((cursor.fetchone() or ("", ""))[1])
        if is_member:  # the first statement of each transaction sees what other members have committed before it
            words.append("wsrep_sync_wait = 7")
        if "mariadb" in connection.get_server_info().lower():  # MySQL has no such limit
            words.append(f"idle_transaction_timeout = {idle_s}")
            # a job's partition is its id's, and ids with gaps would fill few of them
            words += [] if is_member else ["auto_increment_increment = 1", "auto_increment_offset = 1"]
        cursor.execute(f"SET SESSION {', '.join(words)}")
    return {IS_MEMBER: is_member}


def _keep_alive(number: int) -> None:
    with socket.socket(fileno=os.dup(number)) as twin:
        if twin.family not in (socket.AF_INET, socket.AF_INET6):
            return
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_S),
            ("TCP_KEEPINTVL", KEEPALIVE_S // 2),
            ("TCP_KEEPCNT", 3),
            ("TCP_USER_TIMEOUT", SILENCE_MS),
        ):
            if hasattr(socket, name):  # not on every system
                twin.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
