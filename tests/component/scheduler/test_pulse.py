"""One question for many loops: who is woken, by what, and who asks while it cannot be put."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest
from sqlalchemy import event, update

from tests.support.asking import wait_for
from tests.support.databases import twin_of
from tests.support.node import HandNode
from tests.support.rows import NOW, make_executor, make_run
from xwheel.scheduler.pulse import REST_MS, SLOW_MS, TRUST_MS, Pulse
from xwheel.storage import executors, news, runs, settings
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import executor, job

HOUR_MS = 3_600_000
WHOLE = "ORDER BY executor.group_id, executor.address"


@pytest.fixture
def pulse(node: HandNode) -> Pulse:
    """Give the pulse of a node that has nothing to do; its first answers woke all that follow a version."""
    pulse = node.scheduler.core.pulse
    pulse.step(node.clock.now_ms())
    node.scheduler.core.registry.step(node.clock.now_ms())
    node.clock.advance(SLOW_MS)
    wakeups = node.scheduler.core.wakeups
    for item in (wakeups.adopt, wakeups.claim, wakeups.check):
        item.clear()
    return pulse


def test_a_planned_row_of_another_process_wakes_adopting(node: HandNode, pulse: Pulse) -> None:
    adopt, job_ = node.scheduler.core.wakeups.adopt, node.job(next_fire_ms=None)
    adopt.clear()
    pulse.step(node.clock.now_ms())
    assert not adopt.is_set()
    twin = twin_of(node.db)
    run = make_run(1, job_id=job_.id, partition=job_.partition, due_ms=NOW + HOUR_MS)
    twin.transaction(lambda conn: runs.insert_runs(conn, [run]))
    pulse.step(node.clock.advance(200))
    assert not adopt.is_set()  # not due within the pre-read
    run = make_run(2, job_id=job_.id, partition=job_.partition, due_ms=node.clock.now_ms() + 1000)
    twin.transaction(lambda conn: runs.insert_runs(conn, [run]))
    twin.close()
    pulse.step(node.clock.advance(200))
    assert adopt.is_set()


def test_a_job_that_falls_due_wakes_claiming_once_its_time_comes(node: HandNode, pulse: Pulse) -> None:
    claim, job_ = node.scheduler.core.wakeups.claim, node.job()
    due_ms = node.clock.now_ms() + 60_000
    node.db.transaction(lambda conn: conn.execute(update(job).where(job.c.id == job_.id).values(next_fire_ms=due_ms)))
    claim.clear()
    pulse.step(node.clock.advance(SLOW_MS))
    assert not claim.is_set()
    node.scheduler.core.lease.step(node.clock.advance(60_000 - 7000))
    claim.clear()  # a lease that ended is taken again
    pulse.step(node.clock.now_ms())
    assert not claim.is_set()
    pulse.step(node.clock.advance(SLOW_MS))  # nothing was written meanwhile
    pulse.step(node.clock.advance(SLOW_MS))
    assert claim.is_set()


def test_an_open_run_that_is_to_be_checked_wakes_the_check(node: HandNode, pulse: Pulse) -> None:
    node.job(schedule_conf="1", end_ms=NOW + 3000)
    node.run_for(4000)
    check, now_ms = node.scheduler.core.wakeups.check, node.clock.now_ms()
    open_ms = min(run.check_ms or 0 for run in node.runs() if run.check_ms)
    check.clear()
    pulse.step(node.clock.advance(SLOW_MS))
    assert not check.is_set()
    pulse.step(node.clock.advance(open_ms - now_ms))
    assert check.is_set()


def test_a_calendar_of_another_process_wakes_its_loop(node: HandNode, pulse: Pulse) -> None:
    woken = node.scheduler.core.wakeups.calendars
    woken.clear()
    pulse.step(node.clock.advance(SLOW_MS))
    assert not woken.is_set()
    definition = {"dates": ["2026-01-01"]}
    node.db.transaction(lambda conn: settings.save_calendar(conn, "holidays", definition, NOW))
    pulse.step(node.clock.advance(SLOW_MS))
    assert woken.is_set()


def test_the_registry_is_read_only_when_an_executor_changed(node: HandNode, pulse: Pulse) -> None:
    registry = node.scheduler.core.registry
    registry.is_told = lambda: True
    read = counting(node.db, WHOLE)
    for _ in range(5):
        step(node, pulse)
    assert read() == 0
    (known,) = registry.all(node.clock.now_ms())
    again = make_executor(
        known.address,
        instance=known.instance,
        group_id=known.group_id,
        seen_ms=node.clock.now_ms(),
        labels={"zone": "b"},
    )
    twin = twin_of(node.db)
    twin.transaction(lambda conn: executors.save_executor(conn, again))
    twin.close()
    step(node, pulse)
    assert read() == 1
    assert registry.all(node.clock.now_ms())[0].labels == {"zone": "b"}
    assert node.scheduler.core.wakeups.registry.is_set()  # not with its next step


def test_a_registry_that_could_not_be_read_is_read_again(
    node: HandNode, pulse: Pulse, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = node.scheduler.core.registry
    registry.is_told = lambda: True
    following = next(item for item in node.scheduler.core.services if item.name == "registry")
    registry.note_change()
    with monkeypatch.context() as away:
        away.setattr(registry, "look", broken)
        following.start()
        wait_for(lambda: following.failures > 0)
        assert following.stop()
    read = counting(node.db, WHOLE)
    registry.step(node.clock.now_ms())
    assert read() == 1


def broken(_now_ms: int) -> None:
    raise RuntimeError


def test_executors_that_come_and_go_on_other_nodes_are_seen_within_a_second(node: HandNode, pulse: Pulse) -> None:
    registry = node.scheduler.core.registry
    registry.is_told = lambda: True
    (known,) = registry.all(node.clock.now_ms())
    item = make_executor(
        "http://127.0.0.1:9002", instance="other", group_id=known.group_id, seen_ms=node.clock.now_ms()
    )
    node.db.transaction(lambda conn: executors.save_executor(conn, item))
    step(node, pulse)
    assert len(registry.all(node.clock.now_ms())) == 2
    node.db.transaction(lambda conn: executors.delete_executor(conn, known.group_id, item.address))
    step(node, pulse)
    assert [item.address for item in registry.all(node.clock.now_ms())] == [known.address]


def test_beats_of_other_nodes_keep_executors_alive(node: HandNode, pulse: Pulse) -> None:
    registry = node.scheduler.core.registry
    registry.is_told = lambda: True
    for _ in range(10):
        node.db.transaction(lambda conn: conn.execute(update(executor).values(seen_ms=node.clock.now_ms())))
        step(node, pulse)
        node.clock.advance(20_000)
        node.keep_lease()
    assert len(registry.all(node.clock.now_ms())) == 1


def test_loops_ask_themselves_while_the_pulse_cannot(node: HandNode, pulse: Pulse) -> None:
    resting = pulse.rests(lambda _: 200, Event(), news.FIRE, ahead_ms=0, least_ms=200)
    assert resting(0) == REST_MS
    assert pulse.rests(lambda _: 0, Event(), news.FIRE, ahead_ms=0, least_ms=200)(0) == 0  # there is more to do
    assert pulse.rests(lambda _: 200, Event(), least_ms=200)(0) == 200  # nothing would wake it
    node.clock.advance(TRUST_MS)
    assert resting(0) == 200
    pulse.step(node.clock.now_ms())
    assert resting(0) == REST_MS
    node.scheduler.core.wakeups.adopt.clear()
    pulse.failed()
    assert resting(0) == 200
    assert node.scheduler.core.wakeups.adopt.is_set()  # not when its rest is over


def test_what_changed_between_two_looks_at_it_wakes_although_the_file_did_not_change_again(
    node: HandNode, pulse: Pulse
) -> None:
    woken = node.scheduler.core.wakeups.calendars
    pulse.step(node.clock.advance(SLOW_MS))
    woken.clear()
    node.db.transaction(lambda conn: settings.save_calendar(conn, "holidays", {"dates": ["2026-01-01"]}, NOW))
    pulse.step(node.clock.advance(200))
    assert not woken.is_set()  # calendars are no prompt matter
    pulse.step(node.clock.advance(SLOW_MS))
    assert woken.is_set()


def test_addresses_that_are_entered_or_taken_away_wake_their_loop(node: HandNode, pulse: Pulse) -> None:
    woken, group_id = Event(), node.job().group_id
    pulse.watch(woken.set, news.ADDRESSES)
    for wanted in ({}, {"http://10.0.0.1:9999": 0}, {"http://10.0.0.2:9999": 0}, {}):
        node.db.transaction(lambda conn, wanted=wanted: executors.replace_addresses(conn, group_id, wanted))
        pulse.step(node.clock.advance(SLOW_MS))
        assert woken.is_set()
        woken.clear()
    pulse.step(node.clock.advance(SLOW_MS))
    assert not woken.is_set()


def test_what_is_watched_from_now_on_is_asked_though_nothing_was_written(node: HandNode, pulse: Pulse) -> None:
    late = Event()
    pulse.watch(late.set, news.CALENDARS)
    pulse.step(node.clock.advance(SLOW_MS))
    assert late.is_set()


def test_an_executor_that_died_wakes_the_check(node: HandNode, pulse: Pulse) -> None:
    core = node.scheduler.core
    core.registry.take_news()
    core.wakeups.check.clear()
    core.registry.step(node.clock.advance(1000))
    assert not core.wakeups.check.is_set()
    for _ in range(15):
        core.registry.step(node.clock.advance(9000))
    assert core.wakeups.check.is_set()


def test_loops_are_woken_while_the_lease_is_renewed_under_a_new_time(node: HandNode, pulse: Pulse) -> None:
    node.job(next_fire_ms=node.clock.now_ms())
    core = node.scheduler.core
    core.lease.halt()
    core.wakeups.claim.clear()
    pulse.step(node.clock.advance(SLOW_MS))
    assert core.wakeups.claim.is_set()  # until it can act


def test_a_file_that_nobody_wrote_to_is_not_asked(sqlite_node: HandNode) -> None:
    pulse = sqlite_node.scheduler.core.pulse
    asked = counting(sqlite_node.db, "FROM partition_lease WHERE partition_lease.owner")
    pulse.step(sqlite_node.clock.now_ms())
    pulse.step(sqlite_node.clock.advance(200))
    assert asked() == 2  # once for all loops, once for what is prompt
    for _ in range(20):
        pulse.step(sqlite_node.clock.advance(200))
    assert asked() == 2
    twin = twin_of(sqlite_node.db)
    twin.transaction(lambda conn: settings.insert_setting(conn, "some", ""))
    twin.close()
    pulse.step(sqlite_node.clock.advance(200))
    assert asked() == 3


def step(node: HandNode, pulse: Pulse) -> None:
    """Do what a second brings."""
    pulse.step(node.clock.advance(SLOW_MS))
    node.scheduler.core.registry.step(node.clock.now_ms())


def counting(db: Database, words: str) -> Callable[[], int]:
    """Return what counts the statements from now on that hold these words."""
    seen: list[str] = []

    def note(_conn: object, _cursor: object, statement: str, *_: object) -> None:
        if words in " ".join(statement.split()):
            seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    return lambda: len(seen)
