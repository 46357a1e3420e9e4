"""A million rows of the audit, and a call of every function about it that asks a database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from msgspec.structs import replace
from sqlalchemy import text
from xwheel_accounts.audit import trail as audit
from xwheel_accounts.audit.records import AuditHead, AuditRow
from xwheel_accounts.storage import audit_chain, audit_list, audit_news
from xwheel_accounts.storage.audit_list import AuditFilter, AuditKey
from xwheel_accounts.tables import audit as table

from tests.support.million import GROUPS, JOBS, _copy
from tests.support.plan_cases import FEW_GROUPS, MANY, Case
from tests.support.rows import NOW
from xwheel.storage.database.engine import Database

ROWS: Final = 1_000_000
WAITING: Final = 60
"""The newest rows are not sealed yet."""

APART_MS: Final = 2000
SEARCHED: Final = "searches some hundred rows for what no index answers, and for where the next page begins"
SEARCH: Final = 3 * audit_list.LOOK + 600
HEAD: Final = AuditHead(
    position=ROWS - WAITING,
    link="a" * 64,
    sealed_ms=NOW,
    base_position=0,
    base_link="0" * 64,
    key_id="key",
    mac="b" * 64,
)
ROW: Final = AuditRow(
    at_ms=NOW,
    actor_kind="account",
    actor="alice",
    account_id=1,
    credential="session 1",
    address="192.0.2.1",
    action="job.edit",
    object_kind="job",
    object_id="7",
    group_id=1,
    outcome="done",
    reason="",
    detail="{}",
    nonce=ROWS + 1,
    key_id="key",
    mac="c" * 64,
)


def fill(db: Database, rows: int = ROWS) -> None:
    """Write the audit of a year: one person does a third of all, few things are refused, some belong to no group."""
    detail = '{"before":{"schedule_conf":"0 0 3 * * ?","revision":4},"after":{"schedule_conf":"0 0 4 * * ?"}}'
    # a colon with a name behind it would be a parameter
    columns = {
        "id": "n",
        "at_ms": f"{NOW} - ({rows} - n) * {APART_MS}",
        "actor_kind": "'account'",
        "actor": "CASE WHEN n % 3 = 0 THEN 'alice' WHEN n % 1000 = 1 THEN 'seldom' ELSE 'bob' END",
        "account_id": "n % 3",
        "credential": "'session 12'",
        "address": "'192.0.2.7'",
        "action": "CASE WHEN n % 2 = 0 THEN 'job.edit' WHEN n % 50021 = 0 THEN 'calendar.edit' ELSE 'run.create' END",
        "object_kind": "CASE WHEN n % 2 = 0 THEN 'job' ELSE 'run' END",
        "object_id": f"CASE WHEN n % 10 = 0 THEN '7' ELSE CAST(n % {JOBS} AS CHAR(20)) END",
        "group_id": f"CASE WHEN n % 20 = 1 THEN NULL ELSE n % {GROUPS} + 1 END",
        "outcome": "CASE WHEN n % 5000 = 7 THEN 'refused' ELSE 'done' END",
        "reason": "''",
        "detail": "'" + detail.replace(":", "\\:") + "'",
        "nonce": "n * 7919",
        "key_id": "'key'",
        "mac": f"'{'c' * 64}'",
        "position": f"CASE WHEN n > {rows - WAITING} THEN NULL ELSE n END",
        "link": f"CASE WHEN n > {rows - WAITING} THEN NULL ELSE '{'d' * 64}' END",
    }
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    with db.write() as conn:
        # to make an index of rows that are there takes a fraction of the time
        for index in indexes:
            index.drop(conn)
        _copy(conn, "audit", rows, columns)
        for index in indexes:
            index.create(conn)
        audit_chain.insert_head(conn, HEAD)
        if db.backend == "postgresql":
            conn.execute(text("SELECT setval('audit_id_seq', (SELECT max(id) FROM audit))"))


def analyze(db: Database) -> None:
    """Let MariaDB analyze this table; the others analyzed all of theirs."""
    if db.backend == "mysql":
        with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.execute(text("ANALYZE TABLE audit")).all()


FILTERS: Final[dict[str, AuditFilter]] = {
    "all": AuditFilter(),
    "a day": AuditFilter(from_ms=NOW - 10**9, to_ms=NOW - 9 * 10**8),
    "who does much": AuditFilter(actor="alice"),
    "who does little": AuditFilter(actor="seldom"),
    "who does nothing": AuditFilter(actor="nobody"),
    "what is done often": AuditFilter(action="job.edit"),
    "what is done seldom": AuditFilter(action="calendar.edit"),
    "an object": AuditFilter(object_kind="job", object_id="7"),
    "an object of few rows": AuditFilter(object_kind="job", object_id="12"),
    "a group": AuditFilter(group_id=5),
    "refusals": AuditFilter(outcome="refused"),
    "who does much, in a day": AuditFilter(actor="alice", from_ms=NOW - 10**9, to_ms=NOW - 9 * 10**8),
}
"""Filters that an index answers, by what is asked for."""

SEARCHES: Final[dict[str, AuditFilter]] = {
    "who and what": AuditFilter(actor="alice", action="run.create"),
    "what no one did": AuditFilter(actor="alice", action="calendar.edit"),
    "what was done": AuditFilter(outcome="done"),
    "a kind": AuditFilter(object_kind="run"),
    "a kind of a group that has none": AuditFilter(object_kind="calendar", group_id=5),
    "refusals of a group": AuditFilter(outcome="refused", group_id=5),
    "who, in some groups": AuditFilter(actor="alice", groups=FEW_GROUPS),
    "refusals, in some groups": AuditFilter(outcome="refused", groups=FEW_GROUPS),
    "an object, in some groups": AuditFilter(object_kind="job", object_id="7", groups=FEW_GROUPS),
}
"""Filters of which an index answers a part."""


def cases() -> Iterator[Case]:
    """Give all calls, as :func:`tests.support.plan_cases.cases` does."""
    before = AuditKey(NOW - 10**8, ROWS // 2)
    for words, wanted in FILTERS.items():
        yield Case(f"storage.audit_list.page_audit: {words}", _page(wanted, None))
        yield Case(f"storage.audit_list.page_audit: {words}, next", _page(wanted, before))
    yield Case("storage.audit_list.page_audit: some groups", _page(AuditFilter(groups=FEW_GROUPS), None))
    for words, wanted in SEARCHES.items():
        yield Case(f"storage.audit_list.page_audit: {words}", _page(wanted, None), SEARCH, SEARCHED)
        yield Case(f"storage.audit_list.page_audit: {words}, next", _page(wanted, before), SEARCH, SEARCHED)
    rows = [replace(ROW, nonce=ROWS + 10 + number) for number in range(MANY)]
    yield Case("audit.trail.insert_rows", lambda conn: audit.insert_rows(conn, rows))
    yield Case("storage.audit_chain.find_head", lambda conn: audit_chain.find_head(conn, lock=True))
    yield Case("storage.audit_chain.insert_head", _begin)
    yield Case("storage.audit_chain.update_head", lambda conn: audit_chain.update_head(conn, HEAD))
    yield Case("storage.audit_chain.has_unsealed", audit_chain.has_unsealed)
    yield Case("storage.audit_chain.list_unsealed", lambda conn: audit_chain.list_unsealed(conn, 0, MANY))
    for words, signed in (("of a key", {"key_id": "key"}), ("but of a key", {"but": "other"})):
        yield Case(
            f"storage.audit_chain.has_unsealed: {words}",
            lambda conn, signed=signed: audit_chain.has_unsealed(conn, **signed),
        )
        yield Case(
            f"storage.audit_chain.list_unsealed: {words}",
            lambda conn, signed=signed: audit_chain.list_unsealed(conn, 0, MANY, **signed),
        )
    yield Case(
        "storage.audit_chain.list_unsealed: next", lambda conn: audit_chain.list_unsealed(conn, ROWS - MANY // 2, MANY)
    )
    places = [(ROWS - number, ROWS - number, "e" * 64) for number in range(MANY)]
    yield Case("storage.audit_chain.seal_rows", lambda conn: audit_chain.seal_rows(conn, places))
    for words, after in (("first", audit_chain.BEFORE_ALL), ("next", ROWS // 2)):
        yield Case(
            f"storage.audit_chain.list_sealed: {words}", lambda conn, a=after: audit_chain.list_sealed(conn, a, MANY)
        )
    copied = [
        replace(ROW, id=number, nonce=number * 7919, at_ms=NOW - (ROWS - number) * APART_MS)
        for number in range(1, MANY)
    ]
    yield Case("storage.audit_chain.find_copies", lambda conn: audit_chain.find_copies(conn, copied))
    yield Case("storage.audit_chain.delete_sealed", lambda conn: audit_chain.delete_sealed(conn, MANY))
    for words, after in (("news", ROWS - MANY), ("many", 5), ("none", ROWS + 5)):
        yield Case(
            f"storage.audit_news.list_audited: {words}", lambda conn, a=after: audit_news.list_audited(conn, a, MANY)
        )
    yield Case("storage.audit_news.find_newest_id", audit_news.find_newest_id)


def _page(wanted: AuditFilter, before: AuditKey | None) -> Any:
    return lambda conn: audit_list.page_audit(conn, wanted, before=before, limit=MANY)


def _begin(conn: Any) -> None:
    conn.execute(text("DELETE FROM audit_head"))
    audit_chain.insert_head(conn, HEAD)
