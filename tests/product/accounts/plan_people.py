"""Accounts, sessions and wrong passwords in numbers, and a call of every function about them; see ``plan_cases``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import text
from xwheel_accounts.storage import accounts, links, sessions, settings
from xwheel_accounts.storage.sessions import Failures

from tests.support.million import _copy
from tests.support.plan_cases import MANY, Case
from tests.support.rows import NOW
from xwheel.model.access import Grant, Grants, Role
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database

ACCOUNTS: Final = 5000
SESSIONS: Final = 20_000
FAILURES: Final = 20_000
LINKS: Final = 20_000
SETTINGS: Final = 20_000
TABLES: Final = ("account", "account_session", "sign_in_failure", "sign_in_link", "account_setting")


def fill(db: Database) -> None:
    """Write accounts of which few may do everything, four sessions of each, and wrong passwords of many names."""
    digest = "CAST(words AS BINARY(32))" if db.backend == "mysql" else "CAST(words AS BLOB)"
    digest = "decode(lpad(words, 32, '0'), 'escape')" if db.backend == "postgresql" else digest
    named = "'{}' || words" if db.backend == "sqlite" else "CONCAT('{}', words)"
    truth = {"sqlite": ("1", "0")}.get(db.backend, ("TRUE", "FALSE"))
    account = {
        "id": "n",
        "name": named.format("account-"),
        "name_key": named.format("account-"),
        "display_name": "''",
        "provider": "'local'",
        "subject": named.format("account-"),
        "grants": "'{}'",
        "is_admin": f"CASE WHEN n % 500 = 0 THEN {truth[0]} ELSE {truth[1]} END",
        "must_change": truth[1],
        "disabled": truth[1],
        "revision": "1",
        "created_ms": f"{NOW}",
        "updated_ms": f"{NOW}",
    }
    session = {
        "id": "n",
        "digest": digest,
        "account_id": f"n % {ACCOUNTS} + 1",
        "provider": "'local'",
        "created_ms": f"{NOW} - n",
        "seen_ms": f"{NOW} - n",
        "expires_ms": f"{NOW} + 1000 * n",
        "address": "'192.0.2.1'",
        "network": "'192.0.2.0/24'",
        "agent": "''",
    }
    failure = {"id": named.format("name:"), "failures": "1", "until_ms": f"{NOW}", "last_ms": f"{NOW} - n"}
    link = {"digest": digest, "account_id": f"n % {ACCOUNTS} + 1", "expires_ms": f"{NOW} + 1000 * n"}
    setting = {
        "account_id": f"n % {ACCOUNTS} + 1",
        "name": named.format("setting-"),
        "value": "'{}'",
        "updated_ms": f"{NOW}",
    }
    numbers = (ACCOUNTS, SESSIONS, FAILURES, LINKS, SETTINGS)
    with db.write() as conn:
        for name, count, columns in zip(TABLES, numbers, (account, session, failure, link, setting), strict=True):
            _copy(conn, name, count, columns)
        if db.backend == "postgresql":
            for name in TABLES[:2]:
                conn.execute(text(f"SELECT setval('{name}_id_seq', (SELECT max(id) FROM {name}))"))


def analyze(db: Database) -> None:
    """Let MariaDB analyze these tables; the others analyzed all of theirs."""
    if db.backend == "mysql":
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text(f"ANALYZE TABLE {', '.join(TABLES)}")).all()


def cases() -> Iterator[Case]:
    """Give all calls."""
    grants = Grants(Grant(Role.VIEWER))
    yield Case(
        "storage.accounts.insert_account",
        lambda conn: accounts.insert_account(conn, "new", grants, NOW),
        2 * ACCOUNTS,
        "counts accounts, of which there are few",
    )
    yield Case("storage.accounts.get_account", lambda conn: accounts.get_account(conn, 5))
    yield Case("storage.accounts.find_account", lambda conn: accounts.find_account(conn, "account-5"))
    yield Case("storage.accounts.get_by_name", lambda conn: accounts.get_by_name(conn, "account-5"))
    yield Case("storage.accounts.find_subject", lambda conn: accounts.find_subject(conn, "local", "account-5"))
    yield Case("storage.accounts.list_accounts", lambda conn: accounts.list_accounts(conn, limit=MANY))
    yield Case("storage.accounts.get_accounts", lambda conn: accounts.get_accounts(conn, range(1, MANY)))
    yield Case("storage.accounts.has_accounts", accounts.has_accounts)
    yield Case(
        "storage.accounts.update_account", lambda conn: accounts.update_account(conn, 5, {"disabled": True}, NOW)
    )
    yield Case("storage.accounts.note_sign_in", lambda conn: accounts.note_sign_in(conn, 5, NOW))
    yield Case("storage.accounts.delete_account", lambda conn: accounts.delete_account(conn, 6))
    yield Case("storage.accounts.lock_admins", accounts.lock_admins)
    yield Case(
        "storage.sessions.insert_session",
        lambda conn: sessions.insert_session(
            conn,
            "new",
            5,
            NOW,
            expires_ms=NOW + 1,
            provider="local",
            address="192.0.2.1",
            network="192.0.2.0/24",
            agent="",
        ),
    )
    digests = [tokens.digest_token(f"session-{number}") for number in range(100)]
    yield Case("storage.sessions.get_sessions", lambda conn: sessions.get_sessions(conn, digests))
    yield Case("storage.sessions.list_sessions", lambda conn: sessions.list_sessions(conn, 5, NOW))
    yield Case("storage.sessions.update_seen", lambda conn: sessions.update_seen(conn, 5, NOW, NOW + 1))
    yield Case("storage.sessions.update_confirmed", lambda conn: sessions.update_confirmed(conn, 5, NOW))
    yield Case("storage.sessions.delete_sessions", lambda conn: sessions.delete_sessions(conn, [5, 6]))
    yield Case("storage.sessions.delete_sessions_of", lambda conn: sessions.delete_sessions_of(conn, 7, but=1))
    yield Case("storage.sessions.delete_ended", lambda conn: sessions.delete_ended(conn, NOW - 10**9, MANY))
    yield Case("storage.sessions.get_failures", lambda conn: sessions.get_failures(conn, ["name:5", "name:6"]))
    yield Case(
        "storage.sessions.save_failures",
        lambda conn: sessions.save_failures(conn, "name:5", Failures(1, NOW, NOW), is_new=False),
    )
    yield Case("storage.sessions.delete_failures_of", lambda conn: sessions.delete_failures_of(conn, "name:5:"))
    yield Case("storage.sessions.delete_failures", lambda conn: sessions.delete_failures(conn, "name:5"))
    yield Case(
        "storage.sessions.delete_old_failures", lambda conn: sessions.delete_old_failures(conn, NOW - 10**9, MANY)
    )
    yield Case("storage.links.insert_link", lambda conn: links.insert_link(conn, "new", 5, NOW + 1))
    yield Case("storage.links.find_link", lambda conn: links.find_link(conn, "link-5"))
    yield Case("storage.links.take_link", lambda conn: links.take_link(conn, "link-5", 5, NOW))
    yield Case("storage.links.delete_links_of", lambda conn: links.delete_links_of(conn, 7))
    yield Case("storage.links.delete_old_links", lambda conn: links.delete_old_links(conn, NOW + 1000 * MANY, MANY))
    yield Case("storage.settings.list_settings", lambda conn: settings.list_settings(conn, 5))
    yield Case("storage.settings.save_setting", lambda conn: settings.save_setting(conn, 5, "preferences", "{}", NOW))
    yield Case("storage.settings.delete_setting", lambda conn: settings.delete_setting(conn, 5, "setting-5004"))
