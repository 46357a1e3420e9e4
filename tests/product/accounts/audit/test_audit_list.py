"""Pages of the audit: every filter alone and together, of all groups and of some, page by page."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection

import pytest
from xwheel_accounts.audit.records import AuditRow
from xwheel_accounts.audit.trail import insert_rows
from xwheel_accounts.storage.audit_list import AuditFilter, AuditKey, page_audit

from xwheel.storage.database.engine import Database

NOW = 1_800_000_000_000
ACTORS, ACTIONS, KINDS, GROUPS = (("alice", "bob", "Alice"), ("job.edit", "job.start"), ("job", "run"), (None, 1, 2, 3))


@pytest.fixture
def rows(db: Database) -> list[AuditRow]:
    """Four hundred rows, many of one millisecond, as the database has them."""
    dice = random.Random(18)
    made = [
        AuditRow(
            id=number,
            at_ms=NOW + dice.randrange(60),
            actor_kind="account",
            actor=dice.choice(ACTORS),
            account_id=None,
            credential="",
            address="",
            action=dice.choice(ACTIONS),
            object_kind=dice.choice(KINDS),
            object_id=str(dice.randrange(5)),
            group_id=dice.choice(GROUPS),
            outcome=dice.choice(("done", "done", "done", "refused")),
            reason="",
            detail="{}",
            nonce=number,
            key_id="k",
            mac="m",
        )
        for number in range(1, 401)
    ]
    db.transaction(lambda conn: insert_rows(conn, made))
    return made


def expected(rows: list[AuditRow], wanted: AuditFilter) -> list[int]:
    names = ("actor", "action", "object_kind", "object_id", "group_id", "outcome")
    found = [
        row
        for row in rows
        if all(getattr(wanted, name) in (None, getattr(row, name)) for name in names)
        and (wanted.from_ms is None or row.at_ms >= wanted.from_ms)
        and (wanted.to_ms is None or row.at_ms < wanted.to_ms)
        and (wanted.groups is None or row.group_id in wanted.groups)
    ]
    return [row.id for row in sorted(found, key=lambda row: (row.at_ms, row.id), reverse=True)]


def walked(db: Database, wanted: AuditFilter, *, limit: int, look: int) -> list[int]:
    found: list[int] = []
    before: AuditKey | None = None
    for _ in range(1000):
        with db.read() as conn:
            page = page_audit(conn, wanted, before=before, limit=limit, look=look)
        assert len(page.rows) <= limit
        found += [row.id for row in page.rows]
        before = page.next
        if before is None:
            return found
    raise AssertionError("the pages do not end")


def filters() -> list[AuditFilter]:
    choices = itertools.product(
        (None, "alice"),
        (None, "job.edit"),
        ((None, None), ("job", None), ("job", "3")),
        (None, 2),
        (None, "done", "refused"),
        ((None, None), (NOW + 10, NOW + 40)),
    )
    return [
        AuditFilter(
            actor=actor,
            action=action,
            object_kind=kind,
            object_id=object_id,
            group_id=group_id,
            outcome=outcome,
            from_ms=from_ms,
            to_ms=to_ms,
        )
        for actor, action, (kind, object_id), group_id, outcome, (from_ms, to_ms) in choices
    ]


def test_every_filter_gives_its_rows_newest_first(db: Database, rows: list[AuditRow]) -> None:
    for wanted in filters():
        assert walked(db, wanted, limit=50, look=5000) == expected(rows, wanted), wanted


@pytest.mark.parametrize(("limit", "look"), [(7, 20), (1, 2), (50, 51)])
def test_short_pages_miss_nothing_and_repeat_nothing(db: Database, rows: list[AuditRow], limit: int, look: int) -> None:
    for wanted in filters()[:: 7 if limit > 1 else 17]:
        assert walked(db, wanted, limit=limit, look=look) == expected(rows, wanted), wanted


@pytest.mark.parametrize("groups", [(), (2,), (1, 3), (9,)])
def test_an_admin_of_some_groups_sees_rows_of_these_only(
    db: Database, rows: list[AuditRow], groups: Collection[int]
) -> None:
    for wanted in filters()[::5]:
        mine = wanted._replace(groups=frozenset(groups))
        assert walked(db, mine, limit=20, look=100) == expected(rows, mine), mine


@pytest.mark.parametrize("groups", [(2,), (1, 3), (9,)])
def test_where_a_page_ends_is_told_by_rows_of_the_groups_alone(
    db: Database, rows: list[AuditRow], groups: Collection[int]
) -> None:
    mine = {AuditKey(row.at_ms, row.id) for row in rows if row.group_id in groups}
    for wanted in filters()[::5]:
        before: AuditKey | None = None
        for _ in range(1000):
            with db.read() as conn:
                page = page_audit(conn, wanted._replace(groups=frozenset(groups)), before=before, limit=1, look=2)
            before = page.next
            if before is None:
                break
            assert before in mine, wanted
        assert before is None


def test_a_name_of_other_case_is_another_one(db: Database, rows: list[AuditRow]) -> None:
    assert set(walked(db, AuditFilter(actor="Alice"), limit=50, look=5000)).isdisjoint(
        walked(db, AuditFilter(actor="alice"), limit=50, look=5000)
    )
    assert rows
