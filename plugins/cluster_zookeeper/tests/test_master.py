"""What a master decides, by the states that it finds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from states import NOW, Cluster, keys

from xwheel_cluster_zookeeper.master import MasterSettings, reconcile
from xwheel_cluster_zookeeper.model import JobState, Mode, Result, Wanted


def cluster(*node_ids: str, mode: Mode = Mode.MASTER_SLAVE) -> Cluster:
    made = Cluster(settings=MasterSettings(mode=mode))
    made.join(*node_ids)
    return made


def running(count: int, *node_ids: str, mode: Mode = Mode.MASTER_SLAVE) -> Cluster:
    """A cluster whose jobs are all started."""
    made = cluster(*node_ids, mode=mode)
    made.order(*keys(count))
    made.step()
    made.work()
    return made


def test_thirty_jobs_are_ten_for_each_of_three() -> None:
    """CLU-15: 30 jobs that are started at once are 10/10/10 on three nodes."""
    made = running(30, "n1", "n2", "n3")
    assert made.loads() == {"n1": 10, "n2": 10, "n3": 10}


def test_the_next_job_goes_to_the_node_with_the_fewest() -> None:
    """CLU-15: with 3, 1 and 2 jobs the next goes to the one with 1; then the lowest id of those that are even."""
    made = cluster("n1")
    made.order(*keys(3))
    made.step()
    made.join("n3")
    made.order(*keys(1, 3))
    made.step()
    made.join("n2")
    for key, node in {"00004": "n2", "00005": "n2"}.items():
        made.order(key)
        made.step()
        made.give(key, node)
    made.order("00006")
    made.step()
    assert made.node_of("00006") == "n3"
    made.order("00007")
    made.step()
    assert made.node_of("00007") == "n2"


def test_counts_come_from_assignments() -> None:
    """CLU-15: starting again, or pausing what no node has, changes nothing of the counts."""
    made = running(6, "n1", "n2")
    for _ in range(3):
        made.order("00000")
        made.order("00009", wanted=Wanted.STOPPED)
        made.step()
        made.work()
    assert made.loads() == {"n1": 3, "n2": 3}


@pytest.mark.parametrize("lost", [("n1",), ("n1", "n2")])
def test_jobs_of_lost_nodes_go_to_others_and_the_rest_stay(lost: tuple[str, ...]) -> None:
    """CLU-5, CLU-6: a new master gives away what the old one had, and slaves lost with it; others keep theirs."""
    made = running(30, "n1", "n2", "n3", "n4")
    before = dict(made.assignments)
    made.lose(*lost)
    made.elect("n3")
    plan = made.step()
    gone = {key for key, item in before.items() if item.value.node_id in lost}
    assert {change.key for change in plan.changes} == gone
    for key, item in before.items():
        assert (made.assignments[key] == item) == (key not in gone)
    assert {made.assignments[key].value.epoch for key in gone} == {2}
    assert {made.assignments[key].value.attempt for key in gone} == {1}
    assert max(made.loads().values()) - min(made.loads().values()) <= 1


def test_a_node_that_joins_later_gets_nothing_of_others() -> None:
    """CLU-16: a node that joins takes only what is started after it."""
    made = running(10, "n1", "n2")
    made.join("n3")
    assert made.step().changes == []
    made.order("00010")
    made.step()
    assert made.node_of("00010") == "n3"


def test_a_rebalance_moves_each_job_once_at_most() -> None:
    """CLU-16: who asks for even loads gets them with the fewest moves, and each job moves once for it."""
    made = running(30, "n1", "n2")
    made.join("n3")
    before = {key: made.node_of(key) for key in made.assignments}
    marked = made.mark()
    assert len(marked) == 10
    plan = made.step()
    moved = [key for key in before if made.node_of(key) != before[key]]
    assert sorted(moved) == sorted(marked)
    assert len(plan.changes) == len(moved)
    assert made.loads() == {"n1": 10, "n2": 10, "n3": 10}
    made.work()
    assert made.mark() == []
    made.join("n4")
    assert made.step().changes == []


def test_a_rebalance_fills_all_nodes_that_are_new() -> None:
    made = running(6, "n1")
    made.join("n2", "n3")
    assert len(made.mark()) == 4
    made.step()
    assert made.loads() == {"n1": 2, "n2": 2, "n3": 2}


def test_loads_that_differ_by_one_are_even() -> None:
    """CLU-16: no job moves where that would only exchange who has one more."""
    made = running(5, "n1", "n2")
    assert sorted(made.loads().values()) == [2, 3]
    assert made.mark() == []


def test_a_mark_that_comes_too_late_moves_nothing_and_is_used_up() -> None:
    """CLU-16: when loads are even already, a marked job stays, now and when nodes join."""
    made = running(4, "n1")
    path = made.join("n2")
    assert len(made.mark()) == 2
    del made.nodes[path]
    made.step()
    made.join("n3")
    assert made.step().changes == []
    assert made.loads() == {"n1": 4, "n3": 0}


def test_a_job_with_a_tag_waits_for_a_node_that_has_it() -> None:
    """CLU-17: a job for a tag is Waiting(no_eligible_node) until there is such a node; no other gets it."""
    made = cluster("n1", "n2")
    made.order("00000", tag="gpu")
    made.step()
    status = made.statuses["00000"].value
    assert (status.result, status.reason, status.op_seq) == (Result.WAITING, "no_eligible_node", 1)
    assert status.job_state is JobState.SHUTDOWN
    assert "'gpu'" in status.error
    assert made.assignments == {}
    made.join("n3", tags=("gpu",))
    made.step()
    assert made.node_of("00000") == "n3"


def test_a_job_whose_tag_is_changed_moves() -> None:
    """CLU-17: after an operation that asks for a tag, the job goes to a node with it."""
    made = running(1, "n1", "n2")
    made.join("n3", tags=("gpu",))
    made.order("00000", tag="gpu")
    made.step()
    assert made.node_of("00000") == "n3"


def test_a_job_goes_to_nodes_of_its_group_alone() -> None:
    """S15: another team's node gets neither job nor package; a node or job of an older version says no group."""
    made = cluster()
    made.join("n1", app_name="theirs")
    made.order("00000", app_name="ours")
    made.order("00001")
    made.step()
    assert made.statuses["00000"].value.error.startswith("no node of the group ours has room")
    assert made.node_of("00001") == "n1"
    made.join("n2", app_name="ours")
    made.step()
    assert made.node_of("00000") == "n2"
    made.work()
    made.join("n3")
    made.lose("n2")
    made.step()
    assert made.node_of("00000") == "n3"


def test_a_node_has_as_many_jobs_as_it_has_slots() -> None:
    """CLU-17: what finds no slot waits, and begins when one is free."""
    made = Cluster()
    made.join("n1", "n2", slots=2)
    made.order(*keys(5))
    made.step()
    assert made.loads() == {"n1": 2, "n2": 2}
    (waiting,) = made.statuses.values()
    assert waiting.value.key == "00004"
    made.work()
    made.order("00000", wanted=Wanted.STOPPED)
    made.step()
    made.work("00000")
    made.step()
    made.step()
    assert made.node_of("00004") == "n1"


def test_a_job_that_waits_says_so_when_its_last_node_goes() -> None:
    """CLU-17: a started job that is left without a node is Waiting(no_eligible_node), and begins when one joins."""
    made = running(1, "n1")
    made.lose("n1")
    made.step()
    status = made.statuses["00000"].value
    assert (status.result, status.reason, status.job_state) == (Result.WAITING, "no_eligible_node", JobState.STARTUP)
    assert made.assignments == {}
    made.join("n2")
    made.step()
    assert made.node_of("00000") == "n2"


def test_a_transient_failure_is_tried_again_elsewhere() -> None:
    """OPS-6: after 5, 15 and 45 s, each time on another node while there is one; then it has failed."""
    made = cluster("n1", "n2", "n3")
    made.order("00000")
    made.step()
    tried = [made.node_of("00000")]
    for number, waits in enumerate((5_000, 15_000, 45_000), 2):
        made.say("00000", Result.RETRYING, reason="console_unreachable")
        plan = made.step()
        item = made.assignments["00000"].value
        assert (item.attempt, item.not_before_ms) == (number, made.now + waits)
        assert plan.next_ms == made.now + waits
        tried.append(item.node_id)
        made.now += waits
        assert made.step().next_ms is None
    assert sorted(tried[:3]) == ["n1", "n2", "n3"]
    made.say("00000", Result.RETRYING, reason="console_unreachable", error="no answer")
    made.step()
    status = made.statuses["00000"].value
    assert (status.result, status.reason, status.error) == (Result.FAILED, "console_unreachable", "no answer")
    assert status.job_state is JobState.SHUTDOWN
    assert made.assignments == {}


def test_the_only_node_tries_again_itself() -> None:
    """OPS-6: where there is no other node, the same one tries again."""
    made = cluster("n1")
    made.order("00000")
    made.step()
    made.say("00000", Result.RETRYING)
    made.step()
    item = made.assignments["00000"].value
    assert (item.node_id, item.attempt, item.excluded) == ("n1", 2, ("n1",))


def test_a_node_lost_while_it_prepares_counts_as_a_failure_but_never_the_last() -> None:
    """OPS-6: what was being prepared when its node went is retried; however many nodes go, it is not given up."""
    made = cluster("n1")
    made.order("00000")
    made.step()
    for number in range(2, 9):
        made.say("00000", Result.EXECUTING)
        made.lose(made.node_of("00000"))
        made.join(f"n{number}")
        made.step()
        item = made.assignments["00000"].value
        assert item.attempt == min(number, 4)
        assert item.not_before_ms > made.now
        made.now = item.not_before_ms


def test_a_loss_is_counted_by_what_the_lost_node_said_itself() -> None:
    """OPS-6: a node that goes before it began has not failed, though the one before it had begun."""
    made = cluster("n1", "n2", "n3")
    made.order("00000")
    made.step()
    made.say("00000", Result.EXECUTING)
    made.lose(made.node_of("00000"))
    made.step()
    second = made.assignments["00000"].value
    assert second.attempt == 2
    made.lose(second.node_id)
    made.step()
    third = made.assignments["00000"].value
    assert (third.attempt, third.not_before_ms) == (2, second.not_before_ms)


def test_a_retry_keeps_its_time_when_its_node_goes() -> None:
    """OPS-6: a retry that is not due yet is not hastened, and counted once, when the node that waits is lost."""
    made = cluster("n1", "n2", "n3")
    made.order("00000")
    made.step()
    made.say("00000", Result.RETRYING)
    made.step()
    waiting = made.assignments["00000"].value
    made.lose(waiting.node_id)
    made.step()
    item = made.assignments["00000"].value
    assert item.node_id not in {waiting.node_id, "n1"}
    assert (item.attempt, item.not_before_ms) == (waiting.attempt, waiting.not_before_ms)


def test_a_job_that_ran_at_its_second_attempt_begins_anew() -> None:
    """OPS-6: retries are counted for each beginning; a release of what ran is a first attempt, on any node."""
    made = cluster("n1", "n2")
    made.order("00000")
    made.step()
    made.say("00000", Result.RETRYING)
    made.step()
    made.work()
    made.lose(made.node_of("00000"))
    made.step()
    item = made.assignments["00000"].value
    assert (item.attempt, item.not_before_ms, item.excluded) == (1, 0, ())


def test_a_permanent_failure_is_not_tried_again() -> None:
    """OPS-7: the assignment goes, the state stays as it was, and only a newer operation begins again."""
    made = running(1, "n1", "n2")
    made.order("00000")
    made.step()
    made.say("00000", Result.FAILED, reason="sdk_mismatch", is_permanent=True)
    made.step()
    assert made.assignments == {}
    status = made.statuses["00000"].value
    assert (status.result, status.reason, status.job_state) == (Result.FAILED, "sdk_mismatch", JobState.STARTUP)
    made.join("n3")
    assert made.step().changes == []
    made.order("00000")
    made.step()
    assert made.node_of("00000")


def test_a_newer_operation_ends_the_retries_of_an_older() -> None:
    """OPS-8: a retry that waits for its time is dropped for the newer operation, which begins at once."""
    made = cluster("n1", "n2")
    made.order("00000")
    made.step()
    made.say("00000", Result.RETRYING)
    made.step()
    assert made.assignments["00000"].value.not_before_ms > made.now
    made.order("00000")
    assert made.step().next_ms is None
    item = made.assignments["00000"].value
    assert (item.op_seq, item.attempt, item.not_before_ms, item.excluded) == (2, 1, 0, ())


def test_a_late_failure_of_an_older_operation_changes_nothing() -> None:
    """OPS-8: what a node says of an operation that is superseded is not retried."""
    made = cluster("n1", "n2")
    made.order("00000")
    made.step()
    made.say("00000", Result.FAILED, is_permanent=True)
    made.order("00000")
    made.step()
    item = made.assignments["00000"].value
    assert (item.op_seq, item.attempt) == (2, 1)


def test_restart_stays_on_its_node() -> None:
    """OPS-3: the newer operation of a job that runs is for the node that has it."""
    made = running(4, "n1", "n2")
    made.join("n3")
    before = made.node_of("00001")
    made.order("00001")
    made.step()
    assert made.node_of("00001") == before
    assert made.assignments["00001"].value.op_seq == 2


def test_pause_takes_the_assignment_away_when_the_node_has_stopped() -> None:
    """OPS-5: the node says first that it stopped the job; then it loses it."""
    made = running(1, "n1")
    made.order("00000", wanted=Wanted.STOPPED)
    assert made.step().changes == []
    made.work()
    made.step()
    assert made.assignments == {}
    assert made.statuses["00000"].value.job_state is JobState.PAUSE


@pytest.mark.parametrize("is_lost", [True, False])
def test_pause_of_what_no_node_has_is_done_by_the_master(is_lost: bool) -> None:
    """OPS-5: a job whose node is gone, or that never had one, is paused without a node."""
    made = running(1, "n1") if is_lost else cluster()
    made.lose("n1")
    made.order("00000", wanted=Wanted.STOPPED)
    made.step()
    status = made.statuses["00000"].value
    assert (status.result, status.job_state, status.op_seq) == (
        Result.SUCCESS,
        JobState.PAUSE,
        made.jobs["00000"].value.op_seq,
    )
    assert made.assignments == {}


def test_what_no_scheduler_knows_any_more_has_no_node() -> None:
    made = running(2, "n1")
    del made.jobs["00001"]
    made.step()
    assert list(made.assignments) == ["00000"]


def test_in_standby_the_master_has_all() -> None:
    """CLU-15: in a standby cluster each job goes to the master, and to the next one when it is elected."""
    made = running(5, "n1", "n2", "n3", mode=Mode.STANDBY)
    assert made.loads() == {"n1": 5, "n2": 0, "n3": 0}
    made.elect("n2")  # the former one lives
    made.step()
    assert made.loads() == {"n1": 0, "n2": 5, "n3": 0}
    made.work()
    made.lose("n2")
    made.step()
    assert made.assignments == {}
    made.elect("n3")
    made.step()
    assert made.loads() == {"n1": 0, "n3": 5}
    assert {stored.value.attempt for stored in made.assignments.values()} == {1}


def test_a_node_that_came_back_is_asked_anew() -> None:
    """CLU-10: a node that joined again before its old session ended counts once, by its newer registration."""
    made = running(4, "n1", "n2")
    path = made.join("n1")
    made.step()
    assert made.loads() == {"n1": 2, "n2": 2}
    paths = {item.value.node_path for item in made.assignments.values() if item.value.node_id == "n1"}
    assert paths == {path}


def test_times_are_those_given() -> None:
    made = cluster("n1")
    made.order("00000", tag="x")
    made.step()
    assert made.statuses["00000"].value.updated_ms == NOW


def test_a_drained_node_gives_its_jobs_to_others_and_gets_none() -> None:
    """P12: they are as even as they can be without it; resumed, it gets what comes next."""
    made = running(30, "n1", "n2", "n3")
    made.drain("n2")
    plan = made.step()
    assert len(plan.changes) == 10
    assert made.loads() == {"n1": 15, "n2": 0, "n3": 15}
    made.work()
    made.order(*keys(4, 30))
    made.step()
    assert made.loads() == {"n1": 17, "n2": 0, "n3": 17}
    made.lose("n2")
    made.join("n2")
    made.order(*keys(2, 34))
    made.step()
    assert made.loads()["n2"] == 0
    made.resume("n2")
    assert made.step().changes == []
    made.order(*keys(3, 36))
    made.step()
    assert made.loads()["n2"] == 3


def test_jobs_that_no_other_node_can_have_stay_on_a_drained_one() -> None:
    made = cluster()
    made.join("n1", tags=("gpu",))
    made.join("n2", slots=1)
    made.order("00000", tag="gpu")
    made.order("00001", "00002")
    made.step()
    made.work()
    made.drain("n1", "n2")
    assert made.step().changes == []
    made.order("00000")  # restarted where it is
    made.step()
    assert made.node_of("00000") == "n1"
    made.work()
    made.order("00003")
    made.step()
    assert made.node_of("00003") == ""
    assert "no node that is not drained has room" in made.statuses["00003"].value.error
    made.resume("n2")
    made.lose("n2")
    made.join("n2")
    made.step()
    assert made.loads() == {"n1": 1, "n2": 3}


def test_a_drained_master_of_a_standby_cluster_keeps_its_jobs_until_another_is_elected() -> None:
    made = running(5, "n1", "n2", mode=Mode.STANDBY)
    made.drain("n1")
    assert made.step().changes == []
    made.elect("n2")
    made.step()
    assert made.loads() == {"n1": 0, "n2": 5}


def test_a_stop_is_not_done_because_an_earlier_one_was() -> None:
    """A job is stopped, started, and stopped again before its node said anything: the node says that it stopped it."""
    made = running(1, "n1")
    made.order("00000", wanted=Wanted.STOPPED)
    made.work()
    made.step()
    assert made.assignments == {}
    made.order("00000")
    made.step()
    made.order("00000", wanted=Wanted.STOPPED)
    made.step()
    assert made.node_of("00000") == "n1"
    made.work()
    made.step()
    assert made.assignments == {}
    assert made.statuses["00000"].value.op_seq == made.jobs["00000"].value.op_seq


def test_a_retry_that_is_left_is_made_though_a_master_fell_between_two_writes() -> None:
    made = cluster("n1")
    made.settings = replace(made.settings, retries_ms=(5_000,))
    made.order("00000")
    made.step()
    made.say("00000", Result.RETRYING)
    del made.assignments["00000"]
    (change,) = reconcile(made.state(), made.now, made.settings).changes
    assert change.assignment is not None
    assert change.assignment.node_id == "n1"


def test_a_job_is_moved_under_the_epoch_of_the_master_that_moves_it() -> None:
    made = running(2, "n1")
    made.join("n2")
    made.elect("n2")
    (moved,) = made.mark()
    made.step()
    assert made.assignments[moved].value.epoch == 2
