"""Runs by hand that are due later: rows until they come near, fired however late, cancelled like any planned run."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from tests.support.rows import NOW, make_run
from xwheel.errors import FieldError
from xwheel.model import Run, RunState
from xwheel.scheduler.runs.run_now import AT_ONCE, MAX_DELAY_MS, PAST_MS, When, read_when
from xwheel.storage import runs

MINUTE_MS = 60_000


def plan(node: HandNode, when: When, **changes: object) -> Run:
    job = node.job(**{"enabled": False, **changes})
    return node.scheduler.management.run_now.run(job.id, when=when)


def load(node: HandNode, run_id: int) -> Run:
    with node.db.read() as conn:
        return runs.get_run(conn, run_id)


def sent(node: HandNode) -> list[int]:
    return [shard.run.id for parcel in node.sent for shard in parcel.shards]


def test_it_is_a_row_until_pre_read_and_fires_when_it_is_due(node: HandNode) -> None:
    run = plan(node, When(MINUTE_MS))
    assert (run.due_ms, run.planned_ms, run.created_ms) == (NOW + MINUTE_MS, NOW + MINUTE_MS, NOW)
    node.run_for(MINUTE_MS - 6000)
    assert (load(node, run.id).epoch, node.scheduler.planning.tick.is_held(run.id)) == (0, False)
    node.run_for(5000)
    assert load(node, run.id).epoch > 0
    assert node.scheduler.planning.tick.is_held(run.id)
    node.run_for(900)
    assert sent(node) == []
    node.run_for(200)
    assert sent(node) == [run.id]
    # no one took it for lost, and no one for late
    assert node.scheduler.planning.adopt.recovered == 0
    node.answer()
    assert load(node, run.id).state is RunState.RUNNING


def test_it_survives_a_restart(node: HandNode) -> None:
    run = plan(node, When(MINUTE_MS))
    node.run_for(1000)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.run_for(MINUTE_MS)
    assert sent(heir) == [run.id]


@pytest.mark.parametrize("policy", ["skip", "fire_once", "fire_all"])
def test_one_whose_time_passed_while_no_node_lived_fires_late(node: HandNode, policy: str) -> None:
    """A person asked for it: no misfire policy is asked."""
    run = plan(node, When(MINUTE_MS), misfire_policy=policy, misfire_threshold_ms=5000)
    node.crash()
    node.clock.advance(60 * MINUTE_MS)
    heir = node.successor()
    heir.register("http://127.0.0.1:9001")
    heir.run_for(1000)
    assert sent(heir) == [run.id]


def test_it_is_cancelled_as_any_planned_run(node: HandNode) -> None:
    run = plan(node, When(MINUTE_MS), max_retries=3)
    node.run_for(1000)
    killed = node.scheduler.management.killer.kill(run.id)
    assert (killed.state, killed.reason) == (RunState.CANCELLED, "killed_by_user")
    near = plan(node, When(3000), name="near")
    node.run_for(1000)  # it is in the ring by now
    assert node.scheduler.planning.tick.is_held(near.id)
    node.scheduler.management.killer.kill(near.id)
    node.run_for(2 * MINUTE_MS)
    assert sent(node) == []


def test_a_stop_leaves_it_and_a_deletion_cancels_it(node: HandNode) -> None:
    run = plan(node, When(MINUTE_MS), enabled=True, schedule_conf="3600")
    node.scheduler.management.jobs.stop(run.job_id)
    assert load(node, run.id).state is RunState.PLANNED
    node.scheduler.management.jobs.delete(run.job_id)
    assert (load(node, run.id).state, load(node, run.id).reason) == (RunState.CANCELLED, "deleted")


def test_the_schedule_of_its_job_goes_on(node: HandNode) -> None:
    run = plan(node, When(MINUTE_MS), enabled=True, schedule_conf="10", wait_for_executor_s=30)
    node.run_for(45_000, each=node.answer)
    others = [item for item in node.runs(run.job_id) if item.id != run.id and item.due_ms <= node.clock.now_ms()]
    assert [item.state for item in others] == [RunState.RUNNING] * 4
    assert load(node, run.id).state is RunState.PLANNED


def test_many_jobs_are_due_together(node: HandNode) -> None:
    made = [node.job(enabled=False, name=f"job {number}") for number in range(3)]
    done = node.scheduler.management.run_now.run_many([job.id for job in made], None, When(MINUTE_MS))
    found = [load(node, int(run_id)) for run_id in done.values() if isinstance(run_id, int)]
    assert [run.due_ms for run in found] == [NOW + MINUTE_MS] * 3


def test_what_a_request_says() -> None:
    assert read_when(None, None) is AT_ONCE
    assert read_when(5000, None).due_ms(NOW) == NOW + 5000
    at = read_when(None, "2033-05-18T03:33:20.5+00:00")
    assert at.at_ms == 2_000_000_000_500
    assert read_when(None, "2033-05-18 11:33:20+08:00").at_ms == 2_000_000_000_000
    assert read_when(None, "2033-05-18T03:33:20Z").at_ms == 2_000_000_000_000
    for text, words in (
        ("tomorrow", "not ISO 8601"),
        ("2033-05-18T03:33:20", "no offset"),
        ("2033-02-30T00:00Z", "not ISO"),
    ):
        with pytest.raises(FieldError, match=words):
            read_when(None, text)
    with pytest.raises(FieldError, match="give one of them"):
        read_when(0, "2033-05-18T03:33:20Z")


def test_the_past_is_refused_unless_clocks_differ() -> None:
    assert When(at_ms=NOW - PAST_MS).due_ms(NOW) == NOW
    with pytest.raises(FieldError, match="has passed"):
        When(at_ms=NOW - PAST_MS - 1).due_ms(NOW)
    assert When(at_ms=NOW + MAX_DELAY_MS).due_ms(NOW) == NOW + MAX_DELAY_MS
    with pytest.raises(FieldError, match="at most 366 days ahead"):
        When(at_ms=NOW + MAX_DELAY_MS + 1).due_ms(NOW)


def test_a_repeated_request_is_told_from_another_one() -> None:
    delayed = make_run(1, created_ms=NOW, planned_ms=NOW + 5000)
    assert When(5000).was_asked_for(delayed)
    assert When(at_ms=NOW + 5000).was_asked_for(delayed)
    assert not AT_ONCE.was_asked_for(delayed)
    assert not When(at_ms=NOW + 5001).was_asked_for(delayed)
    at_once = make_run(1, created_ms=NOW, planned_ms=NOW)
    assert AT_ONCE.was_asked_for(at_once)
    assert When(at_ms=NOW - 1).was_asked_for(at_once)
