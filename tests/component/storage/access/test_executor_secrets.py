"""Executor secrets in the database: sealed, taken once, and whose key the database's is."""

from __future__ import annotations

import pytest

from tests.support.rows import NOW
from xwheel.errors import ConfigError, ConflictError, NotFoundError
from xwheel.runtime.sealing import KeyRing, make_key
from xwheel.storage import executors
from xwheel.storage.access import executor_secrets, tokens
from xwheel.storage.database.engine import Database

SECRET = "the-secret-of-the-orders-group"


@pytest.fixture
def group_id(db: Database) -> int:
    return db.transaction(lambda conn: executors.insert_group(conn, app_name="orders", title="", now_ms=NOW).id)


def store(db: Database, group_id: int, keys: KeyRing, name: str = "one", secret: str = SECRET) -> None:
    db.transaction(lambda conn: executor_secrets.insert_secret(conn, name, secret, keys, NOW, group_id=group_id))


def test_a_key_of_another_cluster_and_a_missing_one_are_refused(db: Database) -> None:
    ours = KeyRing([make_key()])
    executor_secrets.bind_key(db, KeyRing())  # nothing is encrypted yet
    executor_secrets.bind_key(db, ours)
    executor_secrets.bind_key(db, ours)
    with pytest.raises(ConfigError, match="security.key_file holds another key"):
        executor_secrets.bind_key(db, KeyRing([make_key()]))
    with pytest.raises(ConfigError, match="security.key_file is not set"):
        executor_secrets.bind_key(db, KeyRing())
    # nor does it become the cluster's, though there is no secret that it cannot open
    with pytest.raises(ConfigError, match="security.key_file holds another key"):
        db.transaction(lambda conn: executor_secrets.seal_all(conn, KeyRing([make_key()])))
    executor_secrets.bind_key(db, ours)


def test_a_key_is_replaced_with_the_old_one_below_it(db: Database, group_id: int) -> None:
    old, new = make_key(), make_key()
    store(db, group_id, KeyRing())
    with pytest.raises(ConfigError, match="no key"):
        db.transaction(lambda conn: executor_secrets.seal_all(conn, KeyRing()))
    executor_secrets.bind_key(db, KeyRing([old]))
    store(db, group_id, KeyRing([old]), "two", f"{SECRET}-two")
    both = KeyRing([new, old])
    assert db.transaction(lambda conn: executor_secrets.seal_all(conn, both)) == 2
    with db.read() as conn:
        stored = executor_secrets.list_secrets(conn)
    assert [KeyRing([new]).open(item.sealed) for item in stored] == [SECRET, f"{SECRET}-two"]
    executor_secrets.bind_key(db, KeyRing([new]))
    with pytest.raises(ConfigError, match="another key"):
        store(db, group_id, KeyRing([old]), "three", f"{SECRET}-three")


def test_a_name_a_value_and_a_token_are_taken_once(db: Database, group_id: int) -> None:
    keys = KeyRing()
    store(db, group_id, keys)
    with pytest.raises(ConflictError, match="one"):
        store(db, group_id, keys, "one", f"{SECRET}-other")
    with pytest.raises(ConflictError):
        store(db, group_id, keys, "two", SECRET)
    db.transaction(lambda conn: tokens.insert_token(conn, "t", f"{SECRET}-token", NOW, group_id=group_id))
    with pytest.raises(ConflictError, match="a token already"):
        store(db, group_id, keys, "three", f"{SECRET}-token")
    with pytest.raises(NotFoundError, match="group"):
        store(db, group_id + 1, keys, "four", f"{SECRET}-four")


def test_a_deleted_group_takes_its_secrets_along(db: Database, group_id: int) -> None:
    store(db, group_id, KeyRing())
    db.transaction(lambda conn: executors.delete_group(conn, group_id))
    with db.read() as conn:
        assert executor_secrets.list_secrets(conn) == []
    with pytest.raises(NotFoundError, match="executor secret"):
        db.transaction(lambda conn: executor_secrets.delete_secret(conn, "one"))


def test_what_is_shown_of_a_secret_holds_neither_value_nor_digest(db: Database, group_id: int) -> None:
    store(db, group_id, KeyRing())
    with db.read() as conn:
        (stored,) = executor_secrets.list_secrets(conn)
    assert SECRET not in repr(stored)
    assert "digest" not in repr(stored)
    key = make_key()
    assert key not in repr(KeyRing([key]))
