"""Thousands of executors: what their beats cost the database, and nodes that hear different ones of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import event

from tests.support.rows import NOW, make_executor
from xwheel.clock import ManualClock
from xwheel.model import RegisteredExecutor
from xwheel.runtime.sealing import KeyRing
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.storage import executors
from xwheel.storage.database.bulk import insert_many
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import executor

COUNT = 5000
BEAT_S = 30
SECONDS = 40
"""One beat of each, and a flush."""

MOST_A_SECOND = 5


@pytest.fixture
def clock(db: Database) -> ManualClock:
    db.transaction(lambda conn: executors.insert_group(conn, app_name="demo", title="demo", now_ms=NOW))
    return ManualClock(NOW)


def make_registry(db: Database, clock: ManualClock) -> ExecutorRegistry:
    secrets = ExecutorSecrets(db, clock, "x" * 32, KeyRing())
    return ExecutorRegistry(db, secrets, dead_after_ms=90_000)


def facts_of(number: int) -> RegisteredExecutor:
    address = f"http://10.0.{number // 250}.{number % 250}:9999"
    return make_executor(address, instance=f"instance-{number}", boot="boot", seen_ms=NOW)


@contextmanager
def counted(db: Database) -> Iterator[list[str]]:
    """Give a list of the statements that a server gets through this engine, ends of transactions among them."""
    seen: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):  # only SQLite is sent it
            seen.append(statement)

    def end(_conn: object) -> None:
        seen.append("COMMIT or ROLLBACK")

    hooks: dict[str, Callable[..., None]] = {"before_cursor_execute": note, "commit": end, "rollback": end}
    for name, hook in hooks.items():
        event.listen(db.engine, name, hook)
    try:
        yield seen
    finally:
        for name, hook in hooks.items():
            event.remove(db.engine, name, hook)


@pytest.mark.long
@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_five_thousand_executors_cost_a_node_five_statements_a_second(
    db: Database, clock: ManualClock, nodes: int
) -> None:
    """Each of them beats every thirty seconds, at each node."""
    crowd = [facts_of(number) for number in range(COUNT)]
    rows = [tuple(getattr(item, name) for name in executors.REGISTERED) for item in crowd]
    db.transaction(lambda conn: insert_many(conn, executor, executors.REGISTERED, rows))
    registries = [make_registry(db, clock) for _ in range(nodes)]
    for registry in registries:
        registry.step(clock.now_ms())
    with counted(db) as seen:
        for second in range(SECONDS):
            now_ms = clock.advance(1000)
            for registry in registries:
                for facts in crowd[second % BEAT_S :: BEAT_S]:
                    registry.register("demo", facts, now_ms)
                registry.step(now_ms)
    assert len(seen) <= MOST_A_SECOND * nodes * SECONDS
    assert 1 <= sum("UPDATE executor" in statement for statement in seen) <= 2 * nodes
    for registry in registries:
        assert len(registry.live(1, clock.now_ms())) == COUNT
    with db.read() as conn:
        assert min(item.seen_ms for item in executors.list_executors(conn)) > NOW


def test_a_node_that_hears_an_executor_no_more_does_not_write_its_last_beat_again(
    db: Database, clock: ManualClock
) -> None:
    """The network between them is cut; another node hears it, and what that one writes is newer."""
    deaf, hearing = make_registry(db, clock), make_registry(db, clock)
    for registry in (deaf, hearing):
        registry.register("demo", facts_of(1), clock.now_ms())
        registry.step(clock.now_ms())
    clock.advance(1000)
    deaf.register("demo", facts_of(1), clock.now_ms())
    for second in range(300):
        now_ms = clock.advance(1000)
        if second % BEAT_S == 0:
            hearing.register("demo", facts_of(1), now_ms)
        for registry in (hearing, deaf):
            registry.step(now_ms)
            assert len(registry.live(1, now_ms)) == 1
