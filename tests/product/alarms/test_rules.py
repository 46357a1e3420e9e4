"""Rules are checked when they are saved, and known at once."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_alarms import rules as alarm_rules
from xwheel_alarms.matching import RuleIndex
from xwheel_alarms.records import AlarmKind, AlarmTarget, AlarmWhen
from xwheel_alarms.rules import AlarmManager
from xwheel_alarms.storage.lists import AlarmFilter
from xwheel_alarms.storage.rules import RuleFilter

from tests.product.alarms.support import AlarmNode, Recorder, alarms_of, attempts_of, rule, run_once, settle
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import ConflictError, FieldError, NotFoundError, RevisionError
from xwheel.scheduler.upkeep.retention import RetentionLoop
from xwheel.storage import jobs, plugin_rows
from xwheel.storage.database.engine import Database

DAY_MS = 86_400_000


@pytest.fixture
def rules(node: AlarmNode) -> AlarmManager:
    return node.alarms.service.manager


@pytest.fixture
def sqlite_rules(sqlite_db: Database) -> AlarmManager:
    """For tests that need no server."""
    return AlarmNode(sqlite_db, ManualClock(NOW), channels=[Recorder()]).alarms.service.manager


def test_a_rule_is_kept_as_it_was_given(node: AlarmNode, rules: AlarmManager) -> None:
    job = node.job(enabled=False)
    made = rules.create(
        {
            "name": "Grün",
            "job_id": job.id,
            "kinds": (AlarmKind.NOT_RUN, AlarmKind.FAILED, AlarmKind.FAILED),
            "when": AlarmWhen.EACH,
            "targets": (AlarmTarget(channel="pager", receivers=("ä@example.org", "b")),),
            "not_run_s": 60,
            "quiet_from": "22:00",
            "quiet_to": "07:00",
            "quiet_timezone": "Asia/Shanghai",
            "quiet_pass": (AlarmKind.LOST,),
        }
    )
    assert made.kinds == (AlarmKind.FAILED, AlarmKind.NOT_RUN)
    assert (made.revision, made.window_s, made.recovery, made.enabled) == (1, 300, True, True)
    assert rules.get(made.id) == made
    assert rules.list_rules(RuleFilter(job_id=job.id)) == [made]


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"kinds": ()}, "kinds", "at least one"),
        ({"kinds": (AlarmKind.RECOVERED,)}, "kinds", "cannot be asked for; allowed: failed"),
        ({"job_id": 1, "group_id": 1}, "group_id", "not both"),
        ({"targets": (AlarmTarget(channel="fax"),)}, "targets", "'fax' is not installed; installed: pager"),
        ({"targets": (AlarmTarget(channel="pager"),) * 21}, "targets", "at most 20"),
        ({"targets": (AlarmTarget(channel="pager", receivers=("a",) * 51),)}, "targets", "at most 50"),
        ({"targets": (AlarmTarget(channel="pager", receivers=("a\r\nBcc: b",)),)}, "targets", "printable"),
        ({"window_s": -1}, "window_s", "0 to 86400"),
        ({"not_run_s": 60}, "not_run_s", "only for rules whose kinds name not_run"),
        ({"kinds": (AlarmKind.NOT_RUN,)}, "not_run_s", "10 to"),
        ({"kinds": (AlarmKind.STILL_RUNNING,)}, "still_running_s", "1 to"),
        ({"quiet_from": "22:00"}, "quiet_to", "time of day"),
        ({"quiet_from": "24:00", "quiet_to": "07:00"}, "quiet_from", "time of day"),
        ({"quiet_from": "07:00", "quiet_to": "07:00"}, "quiet_to", "differ"),
        ({"quiet_from": "22:00", "quiet_to": "07:00", "quiet_timezone": "../etc"}, "quiet_timezone", "zone"),
        ({"quiet_pass": (AlarmKind.LOST,)}, "quiet_pass", "quiet hours"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(
    sqlite_rules: AlarmManager, values: dict[str, Any], field: str, words: str
) -> None:
    made = sqlite_rules.create({"kinds": (AlarmKind.FAILED,)})
    for save in (
        lambda: sqlite_rules.create({"kinds": (AlarmKind.FAILED,), **values}),
        lambda: sqlite_rules.update(made.id, values),
    ):
        with pytest.raises(FieldError, match=words) as caught:
            save()
        assert caught.value.field == field
    assert sqlite_rules.list_rules(RuleFilter()) == [made]


def test_jobs_and_groups_must_be_there(rules: AlarmManager) -> None:
    for owner in ({"job_id": 99}, {"group_id": 99}):
        with pytest.raises(NotFoundError):
            rules.create({"kinds": (AlarmKind.FAILED,), **owner})
    with pytest.raises(FieldError, match="kinds"):
        rules.create({})
    with pytest.raises(NotFoundError, match="alarm rule 99"):
        rules.get(99)


def test_the_number_of_rules_is_limited(sqlite_rules: AlarmManager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alarm_rules, "MAX_RULES", 2)
    for _ in range(2):
        sqlite_rules.create({"kinds": (AlarmKind.FAILED,)})
    with pytest.raises(ConflictError, match="2 alarm rules already"):
        sqlite_rules.create({"kinds": (AlarmKind.FAILED,)})


def test_two_editors_of_a_rule_do_not_overwrite_each_other(rules: AlarmManager) -> None:
    made = rules.create({"kinds": (AlarmKind.FAILED,)})
    changed = rules.update(made.id, {"window_s": 5}, revision=1)
    assert (changed.revision, changed.window_s) == (2, 5)
    with pytest.raises(RevisionError) as caught:
        rules.update(made.id, {"window_s": 6}, revision=1)
    assert caught.value.revision == 2
    with pytest.raises(RevisionError):
        rules.delete(made.id, revision=1)
    rules.delete(made.id, revision=2)
    assert rules.list_rules(RuleFilter()) == []


def test_a_rule_whose_channel_went_can_be_disabled(node: AlarmNode) -> None:
    made = rule(node, "failed")
    node.crash()
    successor = AlarmNode(node.db, node.clock).alarms.service.manager
    assert not successor.update(made.id, {"enabled": False}).enabled
    with pytest.raises(FieldError, match="installed: none"):
        successor.create({"kinds": (AlarmKind.FAILED,), "targets": made.targets})


def test_another_process_sees_a_change_in_a_second(node: AlarmNode, rules: AlarmManager) -> None:
    made = rule(node, "failed")
    other = RuleIndex()
    other.step(node.db, NOW)
    assert other.rules_for(AlarmKind.FAILED, 1, 1) == (made,)
    changed = rules.update(made.id, {"window_s": 7})
    other.step(node.db, NOW + 1000)
    assert other.rules_for(AlarmKind.FAILED, 1, 1) == (changed,)
    rules.update(made.id, {"enabled": False})
    other.step(node.db, NOW + 2000)
    assert not other.kinds
    rules.delete(made.id)
    other.step(node.db, NOW + 3000)
    assert other.by_id == {}


def test_rules_of_a_group_are_its_own_and_those_of_its_jobs(node: AlarmNode, rules: AlarmManager) -> None:
    group = node.group("other")
    mine, theirs = node.job(enabled=False), node.job(enabled=False, group_id=group)
    rule(node, "failed")
    wanted = [rule(node, "failed", group_id=group), rule(node, "failed", job_id=theirs.id)]
    rule(node, "failed", job_id=mine.id)
    assert rules.list_rules(RuleFilter(group_id=group)) == wanted
    assert rules.list_rules(RuleFilter(), after_id=1, limit=2) == wanted


def test_alarms_and_attempts_are_read_in_pages(node: AlarmNode, rules: AlarmManager) -> None:
    rule(node, "failed")
    ours, theirs = node.job(enabled=False), node.job(enabled=False)
    for job in (ours, theirs) * 3:
        run_once(node, job)
    settle(node)
    every = alarms_of(node)
    assert rules.list_alarms(AlarmFilter(), limit=4) == every[:-5:-1]
    assert rules.list_alarms(AlarmFilter(), before_id=every[2].id, limit=4) == every[1::-1]
    mine = [row for row in every if row.job_id == ours.id]
    assert rules.list_alarms(AlarmFilter(job_id=ours.id)) == mine[::-1]
    assert rules.list_alarms(AlarmFilter(run_id=mine[0].run_id)) == mine[:1]
    assert rules.get_alarm(mine[0].id) == mine[0]
    (attempt,) = rules.list_attempts(AlarmFilter(alarm_id=mine[0].id))
    assert attempt.job_id == ours.id
    assert len(rules.list_attempts(AlarmFilter(job_id=ours.id), limit=2)) == 2
    assert rules.list_attempts(AlarmFilter(group_id=99)) == []


def test_old_alarms_go_and_open_ones_stay(node: AlarmNode) -> None:
    rule(node, "failed", window_s=86_400)
    job = node.job(enabled=False)
    run_once(node, job)
    settle(node)
    node.clock.advance(40 * DAY_MS)
    node.scheduler.core.lease.step(node.clock.now_ms())
    for _ in range(2):
        run_once(node, job)
    settle(node)
    _sweep(node)
    assert [str(row.state) for row in alarms_of(node)] == ["told", "held"]
    assert {item.alarm_id for item in attempts_of(node)} == {alarms_of(node)[0].id}


def test_rules_go_with_their_job_and_their_group(node: AlarmNode, rules: AlarmManager) -> None:
    group = node.group("other")
    job = node.job(enabled=False)
    kept = rule(node, "failed")
    rule(node, "failed", job_id=job.id)
    rule(node, "failed", group_id=group)
    tables = node.scheduler.core.plugins.tables
    node.db.transaction(lambda conn: plugin_rows.delete_of_group(conn, tables, group))
    node.db.transaction(lambda conn: jobs.delete_jobs(conn, [job.id], NOW))
    node.clock.advance(40 * DAY_MS)
    node.scheduler.core.lease.step(node.clock.now_ms())
    _sweep(node)
    assert rules.list_rules(RuleFilter()) == [kept]


def _sweep(node: AlarmNode) -> None:
    loop: RetentionLoop = node.scheduler.management.retention
    for step in (loop.step, node.alarms.service.sweep.step):
        for _ in range(30):
            node.clock.advance(step(node.clock.now_ms()))
            node.scheduler.core.lease.step(node.clock.now_ms())
