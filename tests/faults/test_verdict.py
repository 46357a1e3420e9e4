"""The verdict: nothing is found where all is well, and whatever is planted is found."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xwheel_devtools.verify.follow_ups import retries
from xwheel_devtools.verify.load import load_jobs
from xwheel_devtools.verify.records import Did, Disturbances, Executed, ExpectedJob, FindingKind, UserAction
from xwheel_devtools.verify.verdict import judge

from tests.support.verify_world import CHILD, FAILING, JOBS, PARENT, PLAIN, SHARDED, T, World, good_world


@pytest.fixture
def world() -> World:
    return good_world()


def test_nothing_is_found_where_all_is_well(world: World) -> None:
    verdict = world.judge()
    assert verdict.ok
    assert verdict.findings == []
    assert (verdict.due, verdict.executed, verdict.rows, verdict.executions) == (9, 9, 12, 12)
    assert (verdict.late(0.5), verdict.late(1.0), verdict.late(0.99, T + 5000)) == (30, 30, None)


def test_nothing_due_is_no_success() -> None:
    assert not judge({}, [], []).ok


def test_a_due_time_without_a_row_is_missing(world: World) -> None:
    world.remove(11)
    assert world.kinds() == [(FindingKind.MISSING, 1)]
    assert world.judge().executed == 8


def test_a_skip_row_counts_each_due_time_that_it_covers(world: World) -> None:
    world.remove(11)
    world.remove(12)
    world.add(60, PLAIN, T + 1000, state="skipped", skip_last_ms=T + 2000, reason="misfire")
    world.forget(60)
    assert world.kinds() == [(FindingKind.SKIPPED, 0)] * 2
    assert "misfire" in world.judge().findings[0].text


def test_a_planned_run_that_was_skipped_later_counts_once(world: World) -> None:
    world.change(11, state="skipped", reason="misfire")
    world.forget(11)
    assert world.kinds() == [(FindingKind.SKIPPED, 0)]


def test_a_due_time_with_a_row_and_a_skip_that_covers_it_is_planned_twice(world: World) -> None:
    world.add(60, PLAIN, T + 1000, state="skipped", skip_last_ms=T + 1000)
    world.forget(60)
    assert world.kinds() == [(FindingKind.TWICE_PLANNED, 1)]


def test_a_run_at_a_time_that_no_schedule_calls_for(world: World) -> None:
    world.add(60, PLAIN, T + 1500)
    assert world.kinds() == [(FindingKind.NOT_DUE, 1)]


@pytest.mark.parametrize(
    ("state", "found"),
    [
        ("lost", FindingKind.LOST),
        ("refused", FindingKind.REFUSED),
        ("timed_out", FindingKind.OTHER_END),
        ("failed", FindingKind.OTHER_END),
    ],
)
def test_a_run_that_ends_otherwise(world: World, state: str, found: FindingKind) -> None:
    world.change(11, state=state)
    if state == "refused":
        world.forget(11)
    assert world.kinds() == [(found, 0)]


def test_a_run_that_was_executed_and_is_refused_is_found_for_both(world: World) -> None:
    world.change(11, state="refused", reason="no_executor")
    assert world.kinds() == [(FindingKind.REFUSED, 0), (FindingKind.EXECUTED_ANYWAY, 3)]


def test_a_run_that_never_ended(world: World) -> None:
    world.change(12, state="running")
    assert world.kinds() == [(FindingKind.OPEN, 4)]


def test_a_run_that_is_executed_twice(world: World) -> None:
    world.executions.append(Executed(11, PLAIN, T + 1000, T + 1200, "executor1"))
    assert world.kinds() == [(FindingKind.DOUBLE, 2)]
    text = world.judge().findings[0].text
    assert "executor0" in text
    assert "executor1" in text


def test_a_due_time_that_is_executed_by_two_runs(world: World) -> None:
    world.add(60, PLAIN, T + 1000, origin="recovery", origin_key=11, root_id=11)
    assert world.kinds() == [(FindingKind.DOUBLE, 2)]


def test_a_success_without_an_execution(world: World) -> None:
    world.forget(11)
    assert world.kinds() == [(FindingKind.NOT_EXECUTED, 0)]


@pytest.mark.parametrize(("before_ms", "found"), [(80, []), (81, [(FindingKind.EARLY, 1)])])
def test_a_fire_that_began_before_its_time(world: World, before_ms: int, found: list[tuple[FindingKind, int]]) -> None:
    (at,) = (place for place, item in enumerate(world.executions) if item.run_id == 11)
    due_ms = world.executions[at].planned_ms
    world.executions[at] = replace(world.executions[at], at_ms=due_ms - before_ms)
    assert world.kinds() == found
    assert world.kinds(disturbances=Disturbances(clock_moved=True)) == []


def test_an_execution_without_a_row(world: World) -> None:
    world.executions.append(Executed(99, PLAIN, T, T, "executor0"))
    assert world.kinds() == [(FindingKind.EXECUTED_ANYWAY, 1)]


@pytest.mark.parametrize(
    ("states", "last"),
    [
        (["running", "planned"], "succeeded"),  # backwards
        (["planned", "succeeded", "failed"], "failed"),  # out of a final state
        (["planned", "succeeded"], "lost"),  # after the last time that it was seen
        (["skipped"], "running"),
    ],
)
def test_a_transition_that_does_not_exist(world: World, states: list[str], last: str) -> None:
    world.watched.states[11] = states
    world.change(11, state=last)
    assert (FindingKind.TRANSITION, 3) in world.kinds()


def test_states_between_two_glances_need_not_be_seen_and_lost_may_be_corrected(world: World) -> None:
    world.watched.states |= {11: ["planned"], 12: ["planned", "running", "lost"]}
    assert world.judge().ok


def test_a_row_that_vanishes(world: World) -> None:
    world.watched.states[98] = ["planned"]
    assert world.kinds() == [(FindingKind.TRANSITION, 3)]


def test_what_the_watcher_saw_is_found(world: World) -> None:
    world.watched.epochs.append("the epoch of partition 1 fell from 3 to 2")
    world.watched.unwritten.append("run 5 is running, and its outcome was acknowledged")
    world.watched.delays.append("job 5 has both")
    world.watched.overdue = {10: 12_000, 11: 12_001}
    assert world.kinds() == [
        (FindingKind.EPOCH, 5),
        (FindingKind.UNWRITTEN, 9),
        (FindingKind.OVERDUE, 4),
        (FindingKind.DELAY, 8),
    ]


def test_a_fixed_delay_without_a_next_fire_is_found_unless_the_clock_jumped_over_its_end(world: World) -> None:
    world.watched.idle.append("job 5 has neither")
    assert world.kinds() == [(FindingKind.DELAY, 8)]
    assert world.judge(disturbances=Disturbances(clock_moved=True)).ok


def test_what_is_planned_for_later_is_not_judged_with_its_retries_and_children(world: World) -> None:
    world.change(20, planned_ms=T + 1)
    world.change(21, planned_ms=T + 1, state="cancelled")
    world.change(30, planned_ms=T + 1)
    world.change(31, state="planned")
    world.forget(31)
    world.watched.states[31] = ["planned"]
    world.executions.append(Executed(11, PLAIN, T + 1000, T + 1200, "executor1"))
    jobs = {
        PLAIN: ExpectedJob(name="plain", due=[T]),
        PARENT: ExpectedJob(name="parent", children=[CHILD]),
        CHILD: JOBS[CHILD],
    }
    jobs |= {FAILING: ExpectedJob(name="failing", failures=1), SHARDED: JOBS[SHARDED]}
    for number in (40, 41, 42):
        world.remove(number)
    rows = list(world.rows.values())
    verdict = judge(jobs, rows, world.executions, world.watched, until_ms=T)
    assert verdict.findings == []
    assert (verdict.due, verdict.rows) == (2, 3)


def test_a_failure_without_its_retry(world: World) -> None:
    world.remove(21)
    assert world.kinds() == [(FindingKind.OTHER_END, 0), (FindingKind.RETRY, 7)]


def test_a_retry_of_a_run_that_is_not_there(world: World) -> None:
    world.change(21, origin_key=19)
    assert world.kinds() == [(FindingKind.RETRY, 7)] * 2


def test_a_success_that_was_retried(world: World) -> None:
    world.add(60, PLAIN, T + 1000, origin="retry", origin_key=11, root_id=11, attempt=2)
    assert world.kinds() == [(FindingKind.DOUBLE, 2), (FindingKind.RETRY, 7)]


def test_a_root_without_its_child_and_one_with_two(world: World) -> None:
    world.remove(31)
    assert world.kinds() == [(FindingKind.CHILD, 7)]
    world.add(31, CHILD, T + 50, origin="child", origin_key=30, chain_id=30)
    world.add(32, CHILD, T + 60, origin="child", origin_key=30, chain_id=30)
    assert world.kinds() == [(FindingKind.CHILD, 7)]


def test_a_child_of_a_root_that_did_not_succeed(world: World) -> None:
    world.add(60, CHILD, T + 70, origin="child", origin_key=10)
    assert world.kinds() == [(FindingKind.CHILD, 7)]


def test_a_fixed_delay_that_stops_firing(world: World) -> None:
    world.remove(42)
    world.remove(41)
    assert world.kinds() == [(FindingKind.MISSING, 8)]


def test_a_fixed_delay_that_fires_first_at_another_time(world: World) -> None:
    world.change(40, planned_ms=T + 2000)
    assert (FindingKind.DELAY, 8) in world.kinds()


def test_a_fixed_delay_that_fires_before_its_predecessor_ended(world: World) -> None:
    world.change(41, planned_ms=T + 1500)
    assert (FindingKind.DELAY, 8) in world.kinds()


@pytest.mark.parametrize("values", [{"shard_index": 0}, {"shard_total": 3}])
def test_shards_that_are_not_all_there(world: World, values: dict[str, int]) -> None:
    world.change(51, **values)
    assert (FindingKind.SHARDS, 10) in world.kinds()


def test_a_shard_that_is_not_there(world: World) -> None:
    world.remove(51)
    assert world.kinds() == [(FindingKind.SHARDS, 10)]


def test_the_load_has_every_schedule_type_and_as_many_fires_as_asked() -> None:
    start_ms = T - T % 60_000
    jobs = load_jobs(60, start_ms, start_ms + 30_000 - 1)
    assert {item.fields["schedule_type"] for item in jobs} == {
        "FIX_RATE", "FIX_DELAY", "CRON", "UNIX_CRON", "DAILY_INTERVAL", "ONCE", "NONE",
    }  # fmt: skip
    assert len({item.name for item in jobs}) == len(jobs)
    counted = sum(len(item.due) for item in jobs) + 30 * sum(bool(item.delay_ms) for item in jobs)
    assert abs(counted - 60 * 30) < 60
    assert not any({"misfire_policy", "misfire_threshold_ms"} & set(item.fields) for item in jobs)


@pytest.mark.parametrize(("reason", "found"), [("instance_gone", []), ("unknown_there", [(FindingKind.LOST, 0)])])
def test_an_executor_that_ended_may_lose_runs_but_not_its_journal(
    world: World, reason: str, found: list[tuple[FindingKind, int]]
) -> None:
    world.jobs[PLAIN] = replace(world.jobs[PLAIN], recover_lost=True)
    world.change(11, state="lost", reason=reason)
    world.add(60, PLAIN, T + 1000, origin="recovery", origin_key=11, root_id=11, attempt=2)
    assert world.kinds(disturbances=Disturbances(executors_ended=True)) == found


STORM = Disturbances(executors_ended=True, overdue_limit_ms=None, slack_ms=5000)


def action(did: Did, job_id: int, asked_ms: int, answered_ms: int | None, **values: object) -> UserAction:
    return UserAction(did=did, job_id=job_id, asked_ms=asked_ms, answered_ms=answered_ms, **values)  # type: ignore[arg-type]


def test_a_due_time_may_be_missing_while_its_job_is_stopped_and_no_longer(world: World) -> None:
    world.remove(11)
    stop = action(Did.STOP, PLAIN, T + 900, T + 950)
    assert world.kinds(actions=[stop, action(Did.START, PLAIN, T + 1400, T + 1500)]) == []
    assert world.kinds(actions=[stop, action(Did.START, PLAIN, T + 960, T + 980)]) == [(FindingKind.MISSING, 1)]
    assert world.kinds(actions=[action(Did.STOP, FAILING, T + 900, None)]) == [(FindingKind.MISSING, 1)]


def test_what_a_stop_cancels_is_planned_again_or_not(world: World) -> None:
    world.change(12, state="cancelled", reason="stopped", finished_ms=T + 940)
    world.forget(12)
    actions = [action(Did.STOP, PLAIN, T + 900, T + 950), action(Did.START, PLAIN, T + 2400, T + 2500)]
    assert world.kinds(actions=actions) == []
    world.add(60, PLAIN, T + 2000)
    assert world.kinds(actions=[actions[0], action(Did.START, PLAIN, T + 1400, T + 1500)]) == []
    assert (FindingKind.OTHER_END, 0) in world.kinds()


def test_nothing_is_sent_between_the_answers_to_a_stop_and_the_start(world: World) -> None:
    world.change(11, dispatched_ms=T + 3000)
    stopped = [action(Did.STOP, PLAIN, T + 1500, T + 1600), action(Did.START, PLAIN, T + 4000, T + 4100)]
    assert world.kinds(actions=stopped) == [(FindingKind.EXECUTED_ANYWAY, 1)]
    paused = [action(Did.PAUSE, 0, T + 1500, T + 1600), action(Did.RESUME, 0, T + 4000, T + 4100)]
    assert world.kinds(actions=paused) == [(FindingKind.EXECUTED_ANYWAY, 1)] * 2  # a pause is for all jobs
    close = [action(Did.STOP, PLAIN, T + 2600, T + 2700), action(Did.START, PLAIN, T + 4000, T + 4100)]
    assert world.kinds(actions=close) == []  # the clocks of two machines


def test_what_is_sent_after_an_edit_has_its_parameter(world: World) -> None:
    world.change(12, dispatched_ms=T + 2005)
    edits = [action(Did.EDIT, PLAIN, T + 1000, T + 1100, param="new")]
    world.executions = [
        replace(item, param="old" if item.run_id == 12 else "") for item in world.executions if item.job_id == PLAIN
    ] + [item for item in world.executions if item.job_id != PLAIN]
    assert world.kinds(actions=edits) == [(FindingKind.OLD_EDITION, 1)]
    before = action(Did.EDIT, PLAIN, T, T + 10, param="old")  # the run before has neither
    assert world.kinds(actions=[before, *edits]) == [(FindingKind.OLD_EDITION, 1)] * 2
    begun_ms = next(item.at_ms for item in world.executions if item.run_id == 12)
    for asked_ms, answered_ms in ((T + 1900, None), (begun_ms, begun_ms + 4000)):
        newer = action(Did.EDIT, PLAIN, asked_ms, answered_ms, param="old")
        assert world.kinds(actions=[*edits, newer]) == []
    after = action(Did.EDIT, PLAIN, begun_ms + 501, begun_ms + 600, param="old")
    assert world.kinds(actions=[*edits, after]) == [(FindingKind.OLD_EDITION, 1)]


def test_no_more_runs_at_once_than_a_limit_allows(world: World) -> None:
    world.jobs[PLAIN] = replace(JOBS[PLAIN], limit=("alone", 1))
    world.executions = [replace(item, end_ms=item.at_ms + 1000) for item in world.executions]
    assert world.kinds() == []
    world.executions = [replace(item, end_ms=item.at_ms + 1001) for item in world.executions]
    assert world.kinds() == [(FindingKind.TOGETHER, 0)] * 2


def test_a_run_by_hand_is_there_once_however_often_it_was_asked_for(world: World) -> None:
    world.add(60, PLAIN, T + 100, origin="api", origin_key=60)
    asked = action(Did.RUN, PLAIN, T, T + 50, run_id=60)
    assert world.kinds(actions=[asked]) == []
    assert world.judge(actions=[asked]).due == 10
    assert world.kinds() == [(FindingKind.BY_HAND, 1)]
    assert world.kinds(actions=[action(Did.RUN, PLAIN, T, None)]) == []
    assert world.kinds(actions=[asked, replace(asked, run_id=61)]) == [(FindingKind.BY_HAND, 1)]


def test_a_killed_run_may_end_so_and_has_no_retry(world: World) -> None:
    world.change(11, state="killed", kill_requested=True, retries_left=3)
    assert world.kinds() == []
    world.add(60, PLAIN, T + 1000, origin="retry", origin_key=11, root_id=11, attempt=2)
    assert (FindingKind.RETRY, 7) in world.kinds()


def test_a_join_runs_once_in_each_chain_in_which_all_parents_succeeded(world: World) -> None:
    left, right, join = 7, 8, 9
    world.jobs |= {
        PARENT: replace(JOBS[PARENT], children=[CHILD, left, right]),
        left: ExpectedJob(name="left", children=[join]),
        right: ExpectedJob(name="right", children=[join]),
        join: ExpectedJob(name="join", parents=[left, right]),
    }
    for number, job_id in ((70, left), (71, right)):
        world.add(number, job_id, T + 60, origin="child", origin_key=30, chain_id=30)
    assert world.kinds() == [(FindingKind.CHILD, 7)]
    world.add(72, join, T + 90, origin="child", origin_key=30, chain_id=30)
    assert world.kinds() == []
    world.change(71, state="failed")
    assert (FindingKind.CHILD, 7) in world.kinds()


def test_an_interrupted_run_that_was_retried_is_nothing_in_a_storm(world: World) -> None:
    world.change(11, state="failed", reason="interrupted", retries_left=3)
    assert world.kinds(disturbances=STORM) == [(FindingKind.OTHER_END, 0), (FindingKind.RETRY, 7)]
    world.add(60, PLAIN, T + 1000, origin="retry", origin_key=11, root_id=11, attempt=2, retries_left=2)
    assert world.kinds(disturbances=STORM) == []
    assert world.kinds() == [(FindingKind.OTHER_END, 0)]


def test_a_run_that_was_given_back_for_a_change_that_came_late_is_nothing(world: World) -> None:
    world.change(11, state="failed", reason="failed_over")
    kinds = world.kinds()
    assert (FindingKind.OTHER_END, 0) in kinds
    assert (FindingKind.EXECUTED_ANYWAY, 3) in kinds
    assert (FindingKind.NOT_EXECUTED, 0) not in kinds
    ended_ms = world.rows[11].finished_ms or 0
    late = [action(Did.PAUSE, 0, T - 5000, ended_ms + 100)]
    assert (FindingKind.OTHER_END, 0) not in world.kinds(actions=late)


def test_an_at_most_once_job_runs_a_fire_no_second_time(world: World) -> None:
    world.jobs[PLAIN] = replace(JOBS[PLAIN], at_most_once=True)
    world.change(11, state="failed", reason="interrupted")
    assert world.kinds(disturbances=STORM) == []
    world.add(60, PLAIN, T + 1000, origin="recovery", origin_key=11, root_id=11, attempt=2)
    assert world.kinds(disturbances=STORM) == [(FindingKind.DOUBLE, 2)]


def test_a_lost_run_has_its_recovery_run_if_its_job_says_so(world: World) -> None:
    world.jobs[PLAIN] = replace(JOBS[PLAIN], recover_lost=True)
    world.change(11, state="lost", reason="instance_gone")
    assert (FindingKind.RETRY, 7) in world.kinds(disturbances=STORM)
    world.add(60, PLAIN, T + 1000, origin="recovery", origin_key=11, root_id=11, attempt=2)
    assert world.kinds(disturbances=STORM) == []


def test_a_retry_that_a_stop_cancelled_counts_for_nothing(world: World) -> None:
    world.change(21, state="cancelled", reason="stopped", origin_key=-21, finished_ms=T + 90)
    world.forget(21)
    actions = [action(Did.STOP, FAILING, T + 10, T + 95), action(Did.START, FAILING, T + 400, T + 500)]
    assert world.kinds(actions=actions) == []


@pytest.mark.parametrize("did", [Did.STOP, Did.RESCHEDULE])
def test_a_retry_or_recovery_run_that_a_stop_or_a_new_schedule_cancelled_counts_for_nothing(
    world: World, did: Did
) -> None:
    world.change(21, state="cancelled", reason="edited", origin_key=-21, finished_ms=T + 90)
    world.forget(21)
    world.change(11, state="lost", reason="instance_gone")
    gone = {"state": "cancelled", "reason": "edited", "origin_key": -60, "root_id": 11, "attempt": 2}
    world.add(60, PLAIN, T + 1000, origin="recovery", **gone)
    rows = list(world.rows.values())
    asked = [action(did, job_id, T + 10, T + 95) for job_id in (FAILING, PLAIN)]
    assert list(retries(world.jobs, rows, asked)) == []
    assert [item.kind for item in retries(world.jobs, rows, [])] == [FindingKind.RETRY]
