"""A channel that hangs or raises delays no other, and each attempt is written down with its answer."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
from xwheel_alarms import Alarm, AlarmChannel, AlarmRetryLater
from xwheel_alarms.channels import MOST_HANGING, seconds
from xwheel_alarms.records import AlarmKind, AttemptState
from xwheel_alarms.storage import alarms
from xwheel_alarms.storage.alarms import NewAlarm

from tests.product.alarms.support import AlarmNode, Recorder, Stuck, alarms_of, attempts_of, rule, settle
from tests.support.rows import NOW, make_run
from tests.support.waiting import wait_until
from xwheel.clock import ManualClock
from xwheel.errors import ConflictError, FieldError
from xwheel.storage.database.engine import Database

SECOND = 1000


def a_node(db: Database, *channels: AlarmChannel, **alarm: int) -> AlarmNode:
    node = AlarmNode(db, ManualClock(NOW), channels=channels, alarm=alarm)
    node.group()
    return node


def a_node_that_hangs(db: Database, *others: AlarmChannel, count: int = 1, **alarm: int) -> tuple[AlarmNode, Stuck]:
    """Return a node with some alarms for a channel that hangs in the first of them."""
    stuck = Stuck()
    node = a_node(db, stuck, *others, **alarm)
    strike(node, rule(node, "failed", channels=["stuck"]).id, count)
    step(node)
    wait_until(lambda: stuck.calls == 1)
    return node, stuck


def strike(node: AlarmNode, rule_id: int, count: int = 1) -> None:
    """Let something happen that a rule asks for, each time in another job."""
    with node.db.write() as conn:
        run = make_run(1)
        new = [
            NewAlarm(
                rule_id=rule_id,
                job_id=number,
                group_id=run.group_id,
                partition=number % 64,
                kind=AlarmKind.FAILED,
                at_ms=node.clock.now_ms(),
            )
            for number in range(1, count + 1)
        ]
        alarms.insert_alarms(conn, new)


def step(node: AlarmNode, by_ms: int = 0) -> int:
    node.clock.advance(by_ms)
    node.scheduler.core.lease.step(node.clock.now_ms())
    return node.alarms.step(node.clock.now_ms())


def answers(node: AlarmNode, channel: str) -> list[tuple[int, str, str]]:
    return [(item.number, str(item.state), item.answer) for item in attempts_of(node) if item.channel == channel]


def test_a_channel_that_hangs_and_one_that_raises_delay_no_third(db: Database) -> None:
    def broken(_: Alarm) -> Exception:
        return ValueError("no such number")

    stuck, bad, good = Stuck(), Recorder("bad", broken), Recorder("good")
    node = a_node(db, stuck, bad, good, attempts=2, retry_delay_s=5)
    made = rule(node, "failed", channels=["stuck", "bad", "good"])
    strike(node, made.id, 20)
    step(node)
    wait_until(lambda: len(good.told) == 20 and len(bad.told) == 20 and stuck.calls == 1)
    assert node.clock.now_ms() == NOW, "the good channel has everything before any time passed"
    wait_until(lambda: len(node.alarms.service.channels.ended()) == 40)
    step(node)
    assert answers(node, "good") == [(1, "sent", f"took {row.id}") for row in alarms_of(node)]
    assert answers(node, "bad")[:20] == [(1, "failed", "ValueError: no such number")] * 20
    assert {state for _, state, _ in answers(node, "stuck")} == {"waiting"}

    for hanging in range(1, MOST_HANGING + 1):
        step(node, 30 * SECOND)
        (health,) = [item for item in node.alarms.health() if item.name == "stuck"]
        assert (health.hanging, health.ok) == (hanging, False)
        if hanging < MOST_HANGING:
            wait_until(lambda given_up=hanging: stuck.calls == given_up + 1)
    while step(node) == 0:
        pass
    ended = [item for item in answers(node, "stuck") if item[1] == "failed"]
    assert [text for _, _, text in ended].count("no answer in 30000 ms") == MOST_HANGING
    assert sum("still hanging" in text for _, _, text in ended) >= 20 - MOST_HANGING
    assert stuck.calls == MOST_HANGING
    strike(node, made.id)
    settle_good = len(good.told)
    step(node)
    wait_until(lambda: len(good.told) == settle_good + 1)
    stuck.gate.set()
    wait_until(lambda: node.alarms.health()[2].hanging == 0)


def test_a_channel_that_comes_back_is_used_again(sqlite_db: Database, caplog: pytest.LogCaptureFixture) -> None:
    node, stuck = a_node_that_hangs(sqlite_db, attempts=3, retry_delay_s=5)
    step(node, 30 * SECOND)
    with caplog.at_level(logging.WARNING):
        stuck.gate.set()
        wait_until(lambda: "came back late from alarm 1: late" in caplog.text)
    assert not node.alarms.health()[0].hanging
    step(node, 5 * SECOND)
    settle(node)
    assert answers(node, "stuck") == [(1, "failed", "no answer in 30000 ms"), (2, "sent", "late")]
    assert node.alarms.health()[0].ok


def test_failed_attempts_are_repeated_with_growing_pauses_and_the_same_id(db: Database) -> None:
    pager = Recorder(fail=lambda _: OSError("away"))
    node = a_node(db, pager, attempts=4, retry_delay_s=10, retry_max_delay_s=15)
    strike(node, rule(node, "failed").id)
    settle(node)
    for pause in (10, 15, 15):
        told = len(pager.told)
        step(node, pause * SECOND - 1)
        settle(node)
        assert len(pager.told) == told
        step(node, 1)
        settle(node)
        assert len(pager.told) == told + 1
    step(node, 3600 * SECOND)
    settle(node)
    assert [alarm.id for alarm in pager.told] == [1] * 4
    found = attempts_of(node)
    assert [(item.number, item.state) for item in found] == [(n, AttemptState.FAILED) for n in range(1, 5)]
    assert [item.started_ms for item in found] == [NOW + s * SECOND for s in (0, 10, 25, 40)]
    health = node.alarms.health()[0]
    assert (health.failures, health.ok, health.last_answer) == (4, False, "OSError: away")


def test_a_channel_that_asks_for_a_later_try_gets_it(sqlite_db: Database) -> None:
    pager = Recorder(fail=lambda _: AlarmRetryLater("slow down", 90) if len(pager.told) == 1 else None)
    node = a_node(sqlite_db, pager, retry_delay_s=1)
    strike(node, rule(node, "failed").id)
    settle(node)
    step(node, 89 * SECOND)
    settle(node)
    assert len(pager.told) == 1
    step(node, SECOND)
    settle(node)
    assert answers(node, "pager") == [(1, "failed", "slow down"), (2, "sent", "took 1")]


def test_a_rule_whose_channel_is_not_installed_says_what_is(sqlite_db: Database) -> None:
    node = a_node(sqlite_db, Recorder(), Recorder("sms"))
    made = rule(node, "failed", channels=["pager", "sms"])
    node.crash()
    successor = AlarmNode(node.db, node.clock, channels=[Recorder()])
    strike(successor, made.id)
    settle(successor)
    assert answers(successor, "sms") == [(1, "failed", "channel sms is not installed; installed: pager")]
    assert answers(successor, "pager") == [(1, "sent", "took 1")]


def test_what_waits_for_an_uninstalled_channel_is_ended(db: Database) -> None:
    node, stuck = a_node_that_hangs(db, Recorder())
    node.crash()
    successor = AlarmNode(node.db, node.clock, channels=[Recorder()])
    settle(successor)
    assert answers(successor, "stuck") == [(1, "failed", "channel stuck is not installed; installed: pager")]
    stuck.gate.set()


def test_a_full_queue_leaves_the_rest_in_its_rows(sqlite_db: Database) -> None:
    node, stuck = a_node_that_hangs(sqlite_db, count=10, queue_size=2)
    step(node)
    health = node.alarms.health()[0]
    assert health.queued <= 2
    assert len([item for item in attempts_of(node) if item.state is AttemptState.WAITING]) == 10
    stuck.gate.set()
    settle(node)
    assert [item.state for item in attempts_of(node)] == [AttemptState.SENT] * 10
    assert stuck.calls == 10


def test_what_waits_in_memory_is_left_to_the_next_holder_of_the_lease(sqlite_db: Database) -> None:
    node, stuck = a_node_that_hangs(sqlite_db, count=5)
    node.scheduler.core.lease.halt()
    stuck.gate.set()
    wait_until(lambda: len(node.alarms.service.channels.ended()) == 5)
    assert stuck.calls == 1
    node.alarms.step(node.clock.now_ms())
    assert sorted(str(item.state) for item in attempts_of(node)) == ["sent"] + ["waiting"] * 4
    node.scheduler.core.lease.step(node.clock.now_ms())
    settle(node)
    assert [str(item.state) for item in attempts_of(node)] == ["sent"] * 5
    assert stuck.calls == 5


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (5, 5.0),
        (0.5, 0.5),
        (-5, -5.0),
        (True, None),
        ("5", None),
        (None, None),
        (10**400, None),
        (float("nan"), None),
        (float("-inf"), None),
    ],
)
def test_r4_seconds_are_plain_finite_numbers(given: Any, wanted: float | None) -> None:
    assert seconds(given) == wanted


@pytest.mark.parametrize("after_s", [float("nan"), "soon", -5, 10**400, True])
def test_a_plugin_that_says_nonsense_stops_nothing(db: Database, after_s: Any) -> None:
    nonsense = "\ud800\x00" + "x" * 5000
    pager = Recorder(fail=lambda _: AlarmRetryLater(nonsense, after_s) if len(pager.told) == 1 else None)
    node = a_node(db, pager, retry_delay_s=1)
    strike(node, rule(node, "failed").id)
    settle(node)
    step(node, SECOND)
    settle(node)
    first, second = attempts_of(node)
    assert (first.state, first.answer[:4], len(first.answer)) == (AttemptState.FAILED, "?xxx", 1000)
    assert second.state is AttemptState.SENT
    assert node.alarms.health()[0].ok


def test_a_test_is_sent_at_once_and_kept(db: Database) -> None:
    pager = Recorder()
    node = a_node(db, pager)
    rules = node.alarms.service.manager
    made = rules.test_send("pager", ["you"])
    assert (made.state, made.answer, made.receivers) == (AttemptState.SENT, "took 1", ("you",))
    (alarm,) = pager.told
    assert (alarm.kind, alarm.job, alarm.receivers) == ("test", None, ("you",))
    assert attempts_of(node, made.alarm_id) == [made]
    with pytest.raises(FieldError, match="'fax' is not installed; installed: pager"):
        rules.test_send("fax")


def test_a_test_that_fails_is_a_result(sqlite_db: Database) -> None:
    node = a_node(sqlite_db, Recorder(fail=lambda _: ValueError("wrong key")))
    made = node.alarms.service.manager.test_send("pager")
    assert (made.state, made.answer) == (AttemptState.FAILED, "ValueError: wrong key")


def test_a_test_of_a_channel_that_hangs_ends_and_a_second_one_is_refused(sqlite_db: Database) -> None:
    stuck = Stuck()
    node = a_node(sqlite_db, stuck)
    found: list[str] = []
    thread = threading.Thread(
        target=lambda: found.append(node.alarms.service.manager.test_send("stuck").answer), daemon=True
    )
    thread.start()
    wait_until(lambda: stuck.calls == 1)
    with pytest.raises(ConflictError, match="test of channel stuck is under way"):
        node.alarms.service.manager.test_send("stuck")
    step(node, 30 * SECOND)
    thread.join(60)
    assert found == ["no answer in 30000 ms"]
    stuck.gate.set()
