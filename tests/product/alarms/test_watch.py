"""What did not happen is told: jobs that do not run, and runs that do not end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import event
from xwheel_alarms import watch

from tests.product.alarms.support import AlarmNode, Recorder, alarms_of, rule, send, settle
from xwheel.model import RunState
from xwheel.storage import open_runs

SECOND = 1000


def watch_on(node: AlarmNode, by_s: int) -> None:
    """Let time pass in which nothing runs, and watch for ten rounds."""
    node.clock.advance(by_s * SECOND)
    node.scheduler.core.lease.step(node.clock.now_ms())
    for _ in range(10):
        settle(node)
        node.clock.advance(watch.PIECE_MS)


def test_a_run_that_does_not_end_is_told_once(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "still_running", still_running_s=60)
    (run,) = send(node, node.job(enabled=False))
    watch_on(node, 50)
    assert pager.told == []
    for _ in range(3):
        watch_on(node, 20)
    assert [(str(alarm.kind), alarm.run.id if alarm.run else 0) for alarm in pager.told] == [("still_running", run.id)]
    assert pager.told[0].reason.startswith("for 6") or pager.told[0].reason.startswith("for 7")
    node.finish([run])
    settle(node)
    assert pager.kinds() == ["still_running", "recovered"]


def test_a_run_counts_from_when_it_began_and_before_that_is_said_to_wait(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "still_running", still_running_s=60)
    began, waits = send(node, node.job(enabled=False)) + send(node, node.job(enabled=False))
    at_ms = node.clock.now_ms() + 30 * SECOND
    later_ms = at_ms + 10**7
    found = [(began.id, later_ms, "", at_ms), (waits.id, later_ms, f"waits:{at_ms}", None)]
    node.db.transaction(lambda conn: open_runs.update_findings(conn, found))
    watch_on(node, 70)
    assert [alarm.run.id for alarm in pager.told if alarm.run] == [waits.id]
    assert pager.told[0].reason.endswith(" s, waiting on its executor")
    watch_on(node, 30)
    assert [alarm.run.id for alarm in pager.told if alarm.run] == [waits.id, began.id]
    assert pager.told[1].reason.startswith(("for 6", "for 7"))


def test_a_new_node_does_not_tell_again_what_still_runs(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "still_running", still_running_s=60)
    send(node, node.job(enabled=False))
    watch_on(node, 70)
    node.crash()
    successor = AlarmNode(node.db, node.clock, channels=[pager])
    watch_on(successor, 70)
    assert pager.kinds() == ["still_running"]


def test_many_open_runs_are_read_in_batches(node: AlarmNode, pager: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "BATCH", 3)
    watched, other = node.job(enabled=False), node.job(enabled=False)
    rule(node, "still_running", still_running_s=60, job_id=watched.id)
    mine = [run for job in (watched, other) * 5 for run in send(node, job) if job is watched]
    watch_on(node, 70)
    assert {alarm.run.id for alarm in pager.told if alarm.run} == {run.id for run in mine}


def test_a_job_that_does_not_run_is_told_once_and_again_after_it_ran(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "not_run", not_run_s=100)
    job = node.job(schedule_type="CRON", schedule_conf="0 0 0 1 1 ?")
    watch_on(node, 50)
    assert pager.told == []
    for _ in range(3):
        watch_on(node, 60)
    assert [(str(alarm.kind), alarm.run) for alarm in pager.told] == [("not_run", None)]
    run = send(node, job)
    watch_on(node, 20)
    assert pager.kinds() == ["not_run", "recovered"]
    assert pager.told[1].reason == "not_run"
    node.finish(run, RunState.FAILED)
    watch_on(node, 60)
    assert len(pager.told) == 2
    watch_on(node, 60)
    assert pager.kinds() == ["not_run", "recovered", "not_run"]


def test_stopped_jobs_and_those_with_a_nearer_rule_are_left_alone(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "not_run", not_run_s=100)
    never = {"schedule_type": "CRON", "schedule_conf": "0 0 0 1 1 ?"}
    node.job(enabled=False)
    slow = node.job(**never)
    rule(node, "not_run", not_run_s=1000, job_id=slow.id)
    mine = node.job(**never)
    for _ in range(5):
        watch_on(node, 100)
    assert [alarm.job.id for alarm in pager.told if alarm.job] == [mine.id]
    for _ in range(6):
        watch_on(node, 100)
    assert [alarm.job.id for alarm in pager.told if alarm.job] == [mine.id, slow.id]


def test_while_schedules_are_paused_no_job_is_missed(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "not_run", not_run_s=100)
    node.job(schedule_type="CRON", schedule_conf="0 0 0 1 1 ?")
    node.scheduler.management.schedules.pause()
    watch_on(node, 300)
    assert pager.told == []


def test_without_a_rule_for_it_nothing_is_read(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "failed")
    send(node, node.job())
    settle(node)
    node.clock.advance(100 * SECOND)
    node.scheduler.core.lease.step(node.clock.now_ms())
    seen: list[str] = []

    def note(*given: object) -> None:
        seen.append(str(given[2]))

    event.listen(node.db.engine, "before_cursor_execute", note)
    settle(node)
    event.remove(node.db.engine, "before_cursor_execute", note)
    assert not [statement for statement in seen if " run" in statement.replace("run_", "")]
    assert alarms_of(node) == []
    assert pager.told == []


def test_a_round_that_fails_begins_anew(node: AlarmNode, pager: Recorder) -> None:
    rule(node, "still_running", still_running_s=60)
    send(node, node.job(enabled=False))
    node.clock.advance(70 * SECOND)
    node.scheduler.core.lease.step(node.clock.now_ms())
    restore = _fail_once(node)
    with pytest.raises(InterruptedError):
        node.alarms.step(node.clock.now_ms())
    restore()
    watch_on(node, 20)
    assert pager.kinds() == ["still_running"]


def _fail_once(node: AlarmNode) -> Callable[[], None]:
    def strike(*given: object) -> None:
        if "INSERT INTO alarm " in str(given[2]):
            raise InterruptedError

    event.listen(node.db.engine, "before_cursor_execute", strike)
    return lambda: event.remove(node.db.engine, "before_cursor_execute", strike)


def test_n35_of_a_partition_that_went_elsewhere_nothing_is_told(
    node: AlarmNode, pager: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule(node, "still_running", still_running_s=60)
    (first,) = send(node, node.job(enabled=False))
    lease = node.scheduler.core.lease
    with monkeypatch.context() as patch:
        patch.setattr(type(lease), "lock", lambda _self, _conn: {})  # the node that holds it tells
        watch_on(node, 70)
    assert alarms_of(node) == []
    (run,) = send(node, node.job(enabled=False))
    watch_on(node, 70)
    assert [alarm.run.id for alarm in pager.told if alarm.run] == [first.id, run.id]
