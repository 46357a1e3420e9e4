"""Who is alive: beats in memory, registrations and farewells at once."""

from __future__ import annotations

import logging
from typing import NoReturn

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import DatabaseUnreachableError, NotFoundError
from xwheel.scheduler.executors.registry import RETURN_MS
from xwheel.storage import executors
from xwheel.storage.database.engine import Database
from xwheel.storage.open_runs import Holder


def test_beats_stay_in_memory_until_they_are_flushed(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    registry.step(node.clock.now_ms())
    node.clock.advance(20_000)
    node.register("http://127.0.0.1:9001")
    assert _seen(node) == NOW
    node.clock.advance(10_000)
    registry.step(node.clock.now_ms())
    assert _seen(node) == NOW + 20_000


def test_beats_are_flushed_though_the_time_went_back(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    registry.step(node.clock.now_ms())
    node.clock.step_wall(-600_000)
    node.register("http://127.0.0.1:9002")
    registry.step(node.clock.now_ms())
    beat_ms = node.clock.advance(20_000)
    node.register("http://127.0.0.1:9002")
    registry.step(node.clock.advance(10_000))
    with node.db.read() as conn:
        assert beat_ms in {item.seen_ms for item in executors.list_executors(conn)}


def test_an_executor_without_a_beat_dies_and_is_swept(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    for _ in range(90):
        registry.step(node.clock.advance(1000))
    assert len(registry.live(1, node.clock.now_ms())) == 1
    node.clock.advance(1)
    assert registry.live(1, node.clock.now_ms()) == []
    for _ in range(40):
        registry.step(node.clock.advance(1000))
    with node.db.read() as conn:
        assert executors.list_executors(conn) == []
    node.register("http://127.0.0.1:9001")
    assert len(registry.live(1, node.clock.now_ms())) == 1


def test_executors_that_beat_through_a_long_outage_of_the_database_stay_live(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = node.scheduler.core.registry
    registry.step(node.clock.now_ms())
    with monkeypatch.context() as patch:
        patch.setattr(node.db, "transaction", _away)
        patch.setattr(node.db, "read", _away)
        for _ in range(20):
            node.clock.advance(30_000)
            node.register("http://127.0.0.1:9001")
            assert len(registry.live(1, node.clock.now_ms())) == 1
    registry.step(node.clock.now_ms())
    assert len(registry.live(1, node.clock.now_ms())) == 1
    assert _seen(node) == NOW + 600_000


def test_nobody_is_missing_since_before_a_gap_in_which_no_beat_could_be_taken(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    (executor,) = registry.live(1, node.clock.now_ms())
    holder = Holder(1, executor.address, executor.instance)
    for _ in range(2):
        registry.step(node.clock.now_ms())
        node.clock.advance(1000)
    node.clock.advance(600_000)
    assert registry.missing_since(holder, node.clock.now_ms()) == node.clock.now_ms()
    registry.step(node.clock.now_ms())
    back_ms = node.clock.now_ms()
    for _ in range(RETURN_MS // 1000):
        node.clock.advance(1000)
        registry.step(node.clock.now_ms())
    assert registry.live(1, node.clock.now_ms()) == []
    assert registry.missing_since(holder, node.clock.now_ms()) >= back_ms


@pytest.mark.parametrize("has_stepped", [False, True])
def test_who_lived_before_a_gap_counts_as_live_until_it_had_time_to_beat_again(
    node: HandNode, has_stepped: bool
) -> None:
    """A shared clock that jumps ten minutes ahead, or a node that stood still, makes no one dead."""
    registry = node.scheduler.core.registry
    for _ in range(3):
        registry.step(node.clock.advance(1000))
    registry.take_news()
    node.clock.advance(600_000)
    for _ in range(RETURN_MS // 1000 - 1):
        if has_stepped:
            registry.step(node.clock.now_ms())
        assert [item.address for item in registry.live(1, node.clock.now_ms())] == ["http://127.0.0.1:9001"]
        node.clock.advance(1000)
    assert registry.take_news() == []


def test_who_was_dead_before_a_gap_is_dead_after_it(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    for _ in range(100):
        node.clock.advance(1000)
        registry.step(node.clock.now_ms())
    node.clock.advance(600_000)
    registry.step(node.clock.now_ms())
    assert registry.live(1, node.clock.now_ms()) == []


def test_beats_are_written_before_they_are_too_old_for_other_nodes(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW), trigger={"dead_after_s": 20})
    node.group()
    for _ in range(60):
        node.register("http://127.0.0.1:9001")
        node.scheduler.core.registry.step(node.clock.now_ms())
        assert node.clock.now_ms() - _seen(node) <= 10_000
        node.clock.advance(1000)


def _away(*_: object, **__: object) -> NoReturn:
    raise DatabaseUnreachableError("the database is away")


def test_a_leave_takes_effect_at_once(node: HandNode) -> None:
    assert node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    assert not node.scheduler.core.registry.remove("demo", "http://127.0.0.1:9001")
    assert node.scheduler.core.registry.live(1, node.clock.now_ms()) == []


def test_a_new_boot_is_written_at_once(node: HandNode) -> None:
    node.register("http://127.0.0.1:9001", boot="boot-2")
    with node.db.read() as conn:
        assert [item.boot for item in executors.list_executors(conn)] == ["boot-2"]


def test_new_labels_are_written_at_once(node: HandNode) -> None:
    for labels in ({"zone": "a", "gpu": "yes"}, {"zone": "b"}, {}):
        node.register("http://127.0.0.1:9001", labels=labels)
        with node.db.read() as conn:
            assert [item.labels for item in executors.list_executors(conn)] == [labels]
        assert node.scheduler.core.registry.live(1, node.clock.now_ms())[0].labels == labels


def test_an_unknown_group_is_refused(node: HandNode) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        node.register("http://127.0.0.1:9001", app_name="nowhere")


def _seen(node: HandNode) -> int:
    with node.db.read() as conn:
        return executors.list_executors(conn)[0].seen_ms


def test_r47_two_executors_with_one_journal_are_told_once(node: HandNode, caplog: pytest.LogCaptureFixture) -> None:
    """R47: each took the other's place at every beat, and only INFO said that something registered."""
    first, second = "http://127.0.0.1:9011", "http://127.0.0.1:9012"
    for boot in range(4):  # one that restarts elsewhere each time, or as it was
        node.register((first, second, first, first)[boot], instance="moves", boot=str(boot))
    assert [item for item in caplog.records if item.levelno >= logging.WARNING] == []
    for _ in range(4):
        node.register(first, instance="copied", boot="a")
        node.register(second, instance="copied", boot="b")
    (warning,) = [item.getMessage() for item in caplog.records if item.levelno >= logging.WARNING]
    assert f"executors {first} and {second} of group demo have one journal (instance copied)" in warning


def test_an_instance_that_moved_leaves_its_old_address_at_once(node: HandNode) -> None:
    registry = node.scheduler.core.registry
    node.register("http://127.0.0.1:9002")
    node.register("http://127.0.0.1:9009", instance="instance-1", boot="boot-2")
    for _ in range(2):
        assert [item.address for item in registry.live(1, node.clock.now_ms())] == [
            "http://127.0.0.1:9002",
            "http://127.0.0.1:9009",
        ]
        registry.step(node.clock.now_ms())


def test_who_comes_or_goes_while_the_rows_are_read_stays_so(node: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, now_ms = node.scheduler.core.registry, node.clock.now_ms()
    node.register("http://127.0.0.1:9002")
    with node.db.read() as conn:
        before = executors.list_executors(conn)
    # one moves, one leaves, one is new; then the look goes on with what it had read before
    node.register("http://127.0.0.1:9004", instance="instance-1")
    registry.remove("demo", "http://127.0.0.1:9002")
    node.register("http://127.0.0.1:9003")
    here = [item.address for item in registry.live(1, now_ms)]

    was_read: list[bool] = []

    def read_too_early(*_: object) -> list[object]:
        node.register("http://127.0.0.1:9001", instance="instance-1")
        node.register("http://127.0.0.1:9004", instance="instance-1")
        registry.remove("demo", "http://127.0.0.1:9002")
        node.register("http://127.0.0.1:9003", boot="boot-2")
        was_read.append(True)
        return list(before)

    with monkeypatch.context() as patch:
        patch.setattr(executors.ExecutorReader, "read", read_too_early)
        registry.step(now_ms)
    assert was_read
    assert [item.address for item in registry.live(1, now_ms)] == here
    registry.step(now_ms)
    assert (
        [item.address for item in registry.live(1, now_ms)]
        == here
        == ["http://127.0.0.1:9003", "http://127.0.0.1:9004"]
    )
