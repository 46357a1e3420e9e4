"""What happens to runs is told as the rules ask, on a whole node whose clock stands still."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from xwheel_alarms.matching import READ_ALL_MS, OpenAlarm, RuleIndex, _recovers
from xwheel_alarms.records import AlarmKind, AlarmState, AlarmWhen, AttemptState
from xwheel_alarms.storage.alarms import NewAlarm, rows_of

from tests.product.alarms.support import AlarmNode, Recorder, alarms_of, attempts_of, rule, run_once, send, settle
from tests.support.rows import NOW, make_run
from xwheel.model import MisfirePolicy, RunState
from xwheel.scheduler.records import Fate
from xwheel.storage import jobs


def test_a_failure_is_told_with_its_run_and_job(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed", recovery=False)
    job = node.job(enabled=False, name="nightly")
    run_once(node, job)
    settle(node)
    (alarm,) = pager.told
    (row,) = alarms_of(node)
    assert (alarm.kind, alarm.id, alarm.count, alarm.receivers) == ("failed", row.id, 1, ("me",))
    assert alarm.job.id == job.id
    assert alarm.group is not None
    assert alarm.run.state is RunState.FAILED
    assert alarm.title == f"Job {job.id} (nightly) failed"
    (attempt,) = attempts_of(node)
    assert (attempt.state, attempt.answer, attempt.number) == (AttemptState.SENT, f"took {row.id}", 1)


def test_success_and_what_a_person_ends_raise_no_alarm(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed", "lost", "refused", "skipped")
    job = node.job(enabled=False)
    run_once(node, job, RunState.SUCCEEDED)
    sent = send(node, job)
    node.scheduler.management.killer.kill(sent[0].id)
    node.finish(sent, RunState.KILLED)
    settle(node)
    assert alarms_of(node) == []
    assert pager.told == []


@pytest.mark.parametrize(
    ("state", "kind"), [(RunState.TIMED_OUT, "failed"), (RunState.KILLED, "failed"), (RunState.LOST, "lost")]
)
def test_each_bad_end_has_its_kind(node: AlarmNode, pager: Recorder, state: RunState, kind: str) -> None:
    rule(node, "failed", "lost")
    run_once(node, node.job(enabled=False, recover_lost=False), state)
    settle(node)
    assert pager.kinds() == [kind]
    assert kind == "lost" or pager.told[0].reason == state


def test_a_run_without_executor_is_told_as_refused(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "refused")
    group = node.group("empty")
    job = node.job(enabled=False, group_id=group)
    node.scheduler.management.run_now.run(job.id)
    node.adopt()
    node.tick(20)
    settle(node)
    assert [(alarm.kind, alarm.reason) for alarm in pager.told] == [("refused", "no_executor")]


def test_an_executor_that_refuses_is_told(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "refused")
    job = node.job(enabled=False)
    node.scheduler.management.run_now.run(job.id)
    node.adopt()
    node.tick(20)
    node.answer(Fate.REFUSED, "full")
    settle(node)
    assert pager.kinds() == ["refused"]


def test_skipped_fires_are_told_with_their_number(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "skipped")
    job = node.job(schedule_conf="1", misfire_policy=MisfirePolicy.SKIP, misfire_threshold_ms=5000)
    node.clock.advance(60_000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.plan()
    settle(node)
    (alarm,) = pager.told
    assert alarm.run.job_id == job.id
    assert (alarm.kind, alarm.count, alarm.reason) == ("skipped", alarm.run.skip_count, "misfire")
    assert alarm.count > 40


def test_a_schedule_that_fails_is_told(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "schedule_error")
    job = node.job(schedule_conf="1")
    with node.db.write() as conn:
        jobs.update_job(conn, job.id, {"schedule_type": "CRON", "schedule_conf": "nonsense"})
    node.clock.advance(2000)
    node.scheduler.core.lease.step(node.clock.now_ms())
    node.plan()
    settle(node)
    assert node.load(job.id).schedule_error
    assert [(alarm.kind, alarm.run) for alarm in pager.told] == [("schedule_error", None)]


def test_only_the_last_retry_is_told_if_the_rule_says_so(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed", when=AlarmWhen.LAST)
    job = node.job(enabled=False, max_retries=2, retry_delay_ms=1000)
    run_once(node, job)
    settle(node)
    assert pager.told == []
    for _ in range(2):
        node.clock.advance(1000)
        node.scheduler.core.lease.step(node.clock.now_ms())
        node.adopt()
        node.tick(20)
        node.finish(node.answer(), RunState.FAILED)
    settle(node)
    (alarm,) = pager.told
    assert alarm.run.attempt == 3


def test_each_attempt_is_told_if_the_rule_says_so(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed", when=AlarmWhen.EACH)
    job = node.job(enabled=False, max_retries=1, retry_delay_ms=0)
    run_once(node, job)
    node.adopt()
    node.tick(20)
    node.finish(node.answer(), RunState.FAILED)
    settle(node)
    assert [alarm.run.attempt for alarm in pager.told if alarm.run is not None] == [1, 2]


def test_the_nearest_rule_of_a_kind_wins(node: AlarmNode, pager: Recorder) -> None:
    group = node.group("other")
    node.register("http://127.0.0.1:9002", app_name="other")
    mine, ours, theirs = (node.job(enabled=False), node.job(enabled=False), node.job(enabled=False, group_id=group))
    rule(node, "failed", name="all", channels=["sms"])
    rule(node, "failed", name="group", group_id=ours.group_id)
    rule(node, "lost", name="job, another kind", job_id=mine.id)
    rule(node, "failed", name="silent", job_id=mine.id, targets=())
    for job in (mine, ours, theirs):
        run_once(node, job)
    settle(node)
    assert [alarm.job.id for alarm in pager.told if alarm.job is not None] == [ours.id]
    assert {(row.job_id, row.rule_id) for row in alarms_of(node)} == {(ours.id, 2), (theirs.id, 1)}


def test_a_success_after_an_alarm_is_told_once(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed")
    job = node.job(enabled=False)
    run_once(node, job, RunState.SUCCEEDED)
    run_once(node, job)
    for _ in range(2):
        run_once(node, job, RunState.SUCCEEDED)
    settle(node)
    assert pager.kinds() == ["failed", "recovered"]
    assert pager.told[1].reason == "failed"
    run_once(node, job, RunState.SUCCEEDED)
    settle(node)
    assert len(alarms_of(node)) == 2 or alarms_of(node)[-1].state is AlarmState.DROPPED


def test_a_new_node_knows_the_open_alarms(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed")
    job = node.job(enabled=False)
    run_once(node, job)
    settle(node)
    node.crash()
    successor = AlarmNode(node.db, node.clock, channels=[pager])
    run_once(successor, job, RunState.SUCCEEDED)
    settle(successor)
    assert pager.kinds() == ["failed", "recovered"]


def test_another_shard_of_the_same_fire_recovers_nothing(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed")
    node.register("http://127.0.0.1:9002")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    first, second = send(node, job)
    node.finish([first], RunState.FAILED)
    node.finish([second])
    settle(node)
    assert pager.kinds() == ["failed"]
    run_once(node, job, RunState.SUCCEEDED)
    settle(node)
    assert pager.kinds() == ["failed", "recovered"]


def test_without_a_rule_for_it_nothing_is_written(node: AlarmNode) -> None:
    rule(node, "failed", job_id=node.job(enabled=False).id)
    run_once(node, node.job(enabled=False))
    assert alarms_of(node) == []


def test_a_shard_ends_its_own_alarm_and_no_other_of_the_same_fire() -> None:
    failed = OpenAlarm(root_id=7, shard_index=1)
    assert _recovers(make_run(9, root_id=7, shard_index=1, shard_total=2, attempt=2), failed)
    assert not _recovers(make_run(9, root_id=7, shard_index=0, shard_total=2), failed)
    assert _recovers(make_run(9, root_id=8, shard_index=0, shard_total=2), failed)


def _failure(root_id: int) -> NewAlarm:
    return NewAlarm(rule_id=1, job_id=7, group_id=1, partition=7, kind=AlarmKind.FAILED, at_ms=NOW, root_id=root_id)


def test_a_success_of_a_later_fire_ends_the_alarm_in_memory_too(node: AlarmNode) -> None:
    index = RuleIndex()
    index.note(rows_of([_failure(7)]))
    assert index.open_alarms(7)
    index.note(rows_of([replace(_failure(8), kind=AlarmKind.RECOVERED)]))
    assert index.open_alarms(7) == {}


def test_an_alarm_that_was_noted_just_now_outlasts_the_reading_of_all(node: AlarmNode) -> None:
    """The database may not show it, as its transaction commits later than its time says."""
    rule(node, "failed")
    index = RuleIndex()
    index.note(rows_of([_failure(7)]))
    index.refresh(node.db, NOW + 1)
    assert index.open_alarms(7)
    index.refresh(node.db, NOW + READ_ALL_MS + 1)
    assert index.open_alarms(7) == {}
