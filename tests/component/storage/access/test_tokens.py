"""Tokens as rows: what two processes do to them at once."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.databases import twin_of
from xwheel.errors import ConflictError, NotFoundError
from xwheel.model.access import Grant, Grants, Role
from xwheel.storage import executors
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import api_token


def names(db: Database) -> list[str]:
    with db.read() as conn:
        return [token.name for token in tokens.list_tokens(conn)]


def at_once(db: Database, *victims: str) -> list[str]:
    """Delete tokens from as many processes at once; return what each of them got."""
    barrier = threading.Barrier(len(victims))
    told: list[str] = []

    def delete(twin: Database, name: str) -> None:
        with twin.read():  # connected before the race begins
            pass
        barrier.wait()
        try:
            twin.transaction(lambda conn: tokens.delete_token(conn, name))
            told.append("deleted")
        except (ConflictError, NotFoundError) as error:
            told.append(type(error).__name__)

    twins = [twin_of(db) for _ in victims]
    threads = [threading.Thread(target=delete, args=pair) for pair in zip(twins, victims, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for twin in twins:
        twin.close()
    return sorted(told)


@pytest.mark.parametrize("round_", range(5))
def test_two_callers_cannot_delete_the_last_two_tokens_from_each_other(db: Database, round_: int) -> None:
    group = db.transaction(lambda conn: executors.insert_group(conn, app_name="a", title="", now_ms=1).id)
    db.transaction(lambda conn: tokens.insert_token(conn, "group", "token-g", 1, group_id=group))
    for name in ("one", "two"):
        db.transaction(lambda conn, name=name: tokens.insert_token(conn, name, f"token-{name}", 1))
    assert at_once(db, "one", "two") == ["ConflictError", "deleted"]
    assert len(set(names(db)) & {"one", "two"}) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"expires_ms": 10**15},
        {"account_id": 1},
        {"grants": tokens.grants_text(Grants(Grant(Role.ADMIN)))},
        {"group_id": 1},
    ],
    ids=lambda other: next(iter(other)),
)
def test_n34_the_last_token_that_opens_everything_for_ever_stays(db: Database, other: dict[str, Any]) -> None:
    """One that ends, that does what its account may, or less than everything does not do in its place."""
    db.transaction(lambda conn: executors.insert_group(conn, app_name="a", title="", now_ms=1))
    for name in ("lasting", "other"):
        db.transaction(lambda conn, name=name: tokens.insert_token(conn, name, f"token-{name}", 1))
    with db.write() as conn:
        conn.execute(api_token.update().where(api_token.c.name == "other").values(other))
    with pytest.raises(ConflictError, match="lasting is the last one"):
        db.transaction(lambda conn: tokens.delete_token(conn, "lasting"))
    db.transaction(lambda conn: tokens.delete_token(conn, "other"))
    assert names(db) == ["lasting"]


def test_a_token_is_deleted_once(db: Database) -> None:
    for name in ("one", "two"):
        db.transaction(lambda conn, name=name: tokens.insert_token(conn, name, f"token-{name}", 1))
    assert at_once(db, "two", "two") == ["NotFoundError", "deleted"]
    assert names(db) == ["one"]


def test_a_name_is_taken_once_and_a_failed_insert_leaves_nothing(db: Database) -> None:
    db.transaction(lambda conn: tokens.insert_token(conn, "one", "token-1", 1))
    for name, token in (("one", "token-2"), ("two", "token-1")):
        with pytest.raises(ConflictError, match=f"the name {name} exists already"):
            db.transaction(lambda conn, name=name, token=token: tokens.insert_token(conn, name, token, 1))
    with pytest.raises(NotFoundError, match="group 9"):
        db.transaction(lambda conn: tokens.insert_token(conn, "three", "token-3", 1, group_id=9))
    assert names(db) == ["one"]
