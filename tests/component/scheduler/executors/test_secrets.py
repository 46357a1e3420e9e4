"""S1: which secret an executor is called with, and what expires, alternates and leaves."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.errors import StorageError
from xwheel.model import NO_SECRET, SHARED_SECRET, RegisteredExecutor
from xwheel.runtime.sealing import KeyRing, make_key
from xwheel.scheduler.executors.secrets import EXTRA_MS, EXTRA_READS
from xwheel.storage.access import executor_secrets
from xwheel.storage.database.engine import Connection
from xwheel.wire.contract import RUN_BATCH, TOKEN_HEADER, headers_for

SHARED = "x" * 32
ADDRESS = "http://127.0.0.1:9001"


def make_secret(node: HandNode, name: str, group_id: int = 1, *, is_read: bool = True) -> int:
    keys = node.scheduler.core.secrets.keys
    stored = node.db.transaction(
        lambda conn: executor_secrets.insert_secret(conn, name, f"value-of-{name}", keys, NOW, group_id=group_id)
    )
    if is_read:
        look(node)
    return stored.id


def retire(node: HandNode, name: str, expires_ms: int | None) -> None:
    node.db.transaction(lambda conn: executor_secrets.retire_secret(conn, name, expires_ms))
    look(node)


def look(node: HandNode) -> None:
    node.scheduler.core.registry.step(node.clock.now_ms())


def live(node: HandNode) -> Mapping[str, RegisteredExecutor]:
    found = node.scheduler.core.registry.live(1, node.clock.now_ms())
    return {item.address: item for item in found}


def sent_tokens(node: HandNode) -> list[str | None]:
    """What the next runs carry."""
    job = node.job(enabled=False)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert all(call.url.endswith(RUN_BATCH) for call in node.line.calls)
    tokens = [call.token for call in node.line.calls]
    node.finish(node.answer())
    return tokens


@pytest.mark.parametrize(("secret_id", "token"), [(SHARED_SECRET, SHARED), (NO_SECRET, ""), (None, SHARED)])
def test_s1_a_send_carries_what_was_proven_at_the_address(node: HandNode, secret_id: int | None, token: str) -> None:
    node.register(ADDRESS, secret_id=secret_id)
    assert sent_tokens(node) == [token]
    (run,) = node.runs()
    assert run.secret_id == secret_id
    assert node.scheduler.core.registry.token_at(1, ADDRESS) == token
    assert node.scheduler.core.registry.token_at(1, "http://127.0.0.1:9009") == ""
    assert node.scheduler.core.registry.token_at(2, ADDRESS) == ""


def test_s1_a_groups_secret_goes_to_who_proved_it_and_a_restart_with_the_next_gets_the_next(node: HandNode) -> None:
    first, second = make_secret(node, "first"), make_secret(node, "second")
    node.register(ADDRESS, secret_id=first)
    assert sent_tokens(node) == ["value-of-first"]
    node.register(ADDRESS, secret_id=second, boot="boot-2")
    assert sent_tokens(node) == ["value-of-second"]
    retire(node, "first", node.clock.now_ms())
    assert sent_tokens(node) == ["value-of-second"]


def test_s1_a_send_that_was_routed_before_a_restart_carries_the_next_secret(node: HandNode) -> None:
    first, second = make_secret(node, "first"), make_secret(node, "second")
    (before,) = node.register(ADDRESS, secret_id=first)
    before = live(node)[ADDRESS]
    node.register(ADDRESS, secret_id=second, boot="boot-2")
    assert node.scheduler.core.registry.token(before) == "value-of-second"


def test_an_executor_whose_secret_expired_is_not_live_and_is_sent_nothing(node: HandNode) -> None:
    secret_id = make_secret(node, "first")
    (executor,) = node.register(ADDRESS, secret_id=secret_id)
    executor = live(node)[ADDRESS]
    retire(node, "first", node.clock.now_ms() + 1000)
    assert live(node)
    assert node.scheduler.core.registry.token(executor) == "value-of-first"
    node.clock.advance(1000)
    assert not live(node)
    assert node.scheduler.core.registry.token(executor) == ""
    assert node.scheduler.core.secrets.find("value-of-first") is None


def test_a_deleted_secret_is_sent_to_nobody(node: HandNode) -> None:
    secret_id = make_secret(node, "first")
    node.register(ADDRESS, secret_id=secret_id)
    executor = live(node)[ADDRESS]
    node.db.transaction(lambda conn: executor_secrets.delete_secret(conn, "first"))
    look(node)
    assert not live(node)
    assert node.scheduler.core.registry.token(executor) == ""


def test_two_live_secrets_at_one_address_are_flagged(node: HandNode, caplog: pytest.LogCaptureFixture) -> None:
    first, second = make_secret(node, "first"), make_secret(node, "second")
    registry = node.scheduler.core.registry
    with caplog.at_level(logging.INFO, "xwheel.scheduler.executors.registry"):
        node.register(ADDRESS, secret_id=first)
        assert registry.secret_names(live(node)[ADDRESS]) == ("first", None)
        node.register(ADDRESS, secret_id=second)
        assert registry.secret_names(live(node)[ADDRESS]) == ("second", "first")
        # a rotation looks like this: no warning yet
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
        node.register(ADDRESS, secret_id=first)
    (odd,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "two executors with different secrets" in odd.getMessage()
    assert "value-of" not in caplog.text
    assert registry.secret_names(live(node)[ADDRESS]) == ("first", "second")
    retire(node, "second", node.clock.now_ms())
    assert registry.secret_names(live(node)[ADDRESS]) == ("first", None)


def test_the_shared_token_takes_out_nothing_that_proved_a_groups_secret(node: HandNode) -> None:
    secret_id = make_secret(node, "first")
    registry = node.scheduler.core.registry
    node.register(ADDRESS, secret_id=secret_id)
    assert not registry.remove("demo", ADDRESS, secret_id=SHARED_SECRET)
    assert live(node)
    assert registry.remove("demo", ADDRESS, secret_id=secret_id)
    assert not live(node)


def test_a_secret_that_cannot_be_opened_is_sent_to_nobody_and_said_once(
    node: HandNode, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = KeyRing([make_key()])
    stored = node.db.transaction(
        lambda conn: executor_secrets.insert_secret(conn, "sealed", "value-of-sealed", foreign, NOW, group_id=1)
    )
    for _ in range(3):
        look(node)
    node.register(ADDRESS, secret_id=stored.id)
    assert node.scheduler.core.registry.token(live(node)[ADDRESS]) == ""
    assert caplog.text.count("executor secret sealed cannot be used") == 1
    assert "value-of" not in caplog.text


def test_known_secrets_are_taken_while_the_database_is_away(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    secret_id = make_secret(node, "first")

    def away(conn: object) -> None:
        raise StorageError("the database is away")

    monkeypatch.setattr(executor_secrets, "list_secrets", away)
    node.clock.advance(60_000)
    secrets = node.scheduler.core.secrets
    assert secrets.find(SHARED) == (SHARED_SECRET, None)
    found = secrets.find("value-of-first")
    assert found is not None
    assert found[0] == secret_id
    with pytest.raises(StorageError):
        secrets.find("of-somebody-new")


def test_u20_a_secret_that_another_node_made_a_moment_ago_is_known_at_once(node: HandNode) -> None:
    secrets = node.scheduler.core.secrets
    for name in ("first", "second", "third"):  # each right after the registry's loop, and after each other
        look(node)
        secret_id = make_secret(node, name, is_read=False)
        found = secrets.find(f"value-of-{name}")
        assert found is not None
        assert found[0] == secret_id


def test_u20_strangers_cost_a_few_reads_a_second(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    really = executor_secrets.list_secrets

    def count(conn: Connection) -> list[executor_secrets.StoredSecret]:
        reads.append(node.clock.now_ms())
        return really(conn)

    monkeypatch.setattr(executor_secrets, "list_secrets", count)
    secrets = node.scheduler.core.secrets
    assert all(secrets.find(f"of-stranger-{number}") is None for number in range(500))
    assert len(reads) <= EXTRA_READS + 1
    reads.clear()
    for number in range(1000):
        node.clock.advance(10)
        assert secrets.find(f"of-stranger-{number}") is None
    assert len(reads) <= EXTRA_READS + 10_000 // EXTRA_MS
    node.clock.advance(EXTRA_READS * EXTRA_MS)
    secret_id = make_secret(node, "late", is_read=False)
    found = secrets.find("value-of-late")
    assert found is not None
    assert found[0] == secret_id


def test_without_a_token_a_call_has_no_header_for_it() -> None:
    assert TOKEN_HEADER not in headers_for("", "demo")
    assert headers_for("abc", "demo")[TOKEN_HEADER] == "abc"
