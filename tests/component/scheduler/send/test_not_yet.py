"""R25: an executor that takes no run of a job yet is waited for, as one that is not there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.component.scheduler.send.conftest import AWAY, HOME, ends, send
from tests.support.lines import batch_body
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.model import Job, Run
from xwheel.scheduler.finish.retry import MOST_OVER
from xwheel.scheduler.records import Fate
from xwheel.scheduler.send.not_yet import ASKING_MS, KNOWN, NotYet, pause_ms
from xwheel.storage.database.engine import Database

WHY = "this node is in no cluster now"


def meet(node: HandNode, **job: Any) -> tuple[Job, Run]:
    """Send a run to an executor that takes none of its job yet."""
    made, asked = send(node, **job)
    assert [run.id for run in node.answer(Fate.NOT_YET, WHY)] == [asked.id]
    return made, asked


def say_not_yet(node: HandNode) -> None:
    if node.sent:
        node.answer(Fate.NOT_YET, WHY)


def test_a_run_waits_and_goes_once_its_executor_takes_it(node: HandNode) -> None:
    job, asked = meet(node)
    assert ends(node, job) == [("refused", "failed_over"), ("planned", "")]
    assert node.runs(job.id)[0].message == f"{HOME}: {WHY}"
    node.run_for(800)
    assert node.sent == []
    node.run_for(1500)
    (run,) = node.answer()
    assert ends(node, job) == [("refused", "failed_over"), ("running", "")]
    assert (run.due_ms, run.retries_left, run.attempt) == (asked.due_ms, asked.retries_left, 2)


@pytest.mark.parametrize("wait_s", [1, 60, 600])
def test_it_is_refused_with_the_reason_when_its_time_is_over_and_asked_less_and_less_often(
    node: HandNode, wait_s: int
) -> None:
    job, asked = meet(node, wait_for_executor_s=wait_s)
    node.run_for(wait_s * 1000 - 800, each=lambda: say_not_yet(node))
    assert ends(node, job)[-1] == ("planned", "")
    node.run_for(2000, each=lambda: say_not_yet(node))
    found = node.runs(job.id)
    assert (str(found[-1].state), found[-1].reason) == ("refused", "executor_refused")
    assert WHY in found[-1].message
    assert (found[-1].finished_ms or 0) >= asked.due_ms + wait_s * 1000
    assert len(found) <= MOST_OVER
    assert set(ends(node, job)[:-1]) == {("refused", "failed_over")}
    node.run_for(2000)
    assert node.sent == []


def test_a_job_that_does_not_wait_is_refused_as_before(node: HandNode) -> None:
    job, _ = meet(node, wait_for_executor_s=0, max_retries=1)
    assert ends(node, job) == [("refused", "executor_refused"), ("planned", "")]
    assert node.runs(job.id)[-1].retries_left == 0


def test_one_run_asks_and_the_others_of_its_job_wait(node: HandNode) -> None:
    job, _ = meet(node)
    others = [node.scheduler.management.run_now.run(job.id).id for _ in range(20)]
    asked: list[int] = []

    def answer() -> None:
        if node.sent:
            asked.extend(run.id for run in node.answer(Fate.NOT_YET, WHY))

    node.run_for(10_000, each=answer)
    assert 2 <= len(asked) <= 4
    assert not set(asked) & set(others)  # the oldest fire asks for all
    node.run_for(10_000, each=lambda: node.sent and node.answer())
    assert {str(run.state) for run in node.runs(job.id) if run.id in others} == {"running"}


def test_a_job_that_fires_each_second_makes_no_flood_and_no_fire_of_it_is_refused(node: HandNode) -> None:
    job = node.job(schedule_conf="1", wait_for_executor_s=60)
    node.run_for(10_000, each=lambda: say_not_yet(node))
    node.run_for(12_000, each=lambda: node.sent and node.answer())
    now_ms = node.clock.now_ms()
    found = [(str(run.state), run.reason) for run in node.runs(job.id) if run.due_ms <= now_ms - 1500]
    assert {reason for state, reason in found if state == "refused"} == {"failed_over"}
    assert found.count(("refused", "failed_over")) <= 5
    assert found[-1] == ("running", "")
    assert {reason for state, reason in found if state == "skipped"} == {"waiting_for_executor"}


def test_other_jobs_of_that_executor_go_at_once(node: HandNode) -> None:
    meet(node)
    other = node.job(enabled=False)
    node.scheduler.management.run_now.run(other.id)
    node.run_for(300)
    node.answer()
    assert ends(node, other) == [("running", "")]


def test_where_its_router_sends_it_elsewhere_it_goes_at_once(node: HandNode) -> None:
    job, _ = meet(node, route_strategy="LAST")
    node.register(AWAY)
    node.run_for(300)
    (run,) = node.answer()
    assert run.address == AWAY
    assert ends(node, job)[-1] == ("running", "")


def test_a_run_for_one_executor_goes_nowhere_else(node: HandNode) -> None:
    node.register(AWAY)
    job = node.job(enabled=False, wait_for_executor_s=60)
    node.scheduler.management.run_now.run(job.id, addresses=[HOME])
    node.run_for(300)
    node.answer(Fate.NOT_YET, WHY)
    node.run_for(3000)
    assert node.sent == []
    assert ends(node, job) == [("refused", "executor_refused")]


def test_a_foreign_row_is_read_in_the_same_way(db: Database) -> None:
    """An xwheel executor whose address was entered by hand gets ``/run``; its answer says that it is xwheel."""
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register(HOME, kind="foreign", instance="", boot="")
    job, _ = meet(node)
    assert ends(node, job) == [("refused", "failed_over"), ("planned", "")]


# -- sends that are asked again ----------------------------------------------------------------------------------


def lose_first_answer(node: HandNode, **job: Any) -> tuple[Job, Run]:
    made, asked = send(node, **job)
    node.answer(Fate.UNKNOWN)
    node.run_for(12_000, each=lambda: None)
    node.keep_lease()
    return made, asked


def resend(node: HandNode, by_ms: int = 10_000) -> None:
    for _ in range(by_ms // 500):
        if node.sent:
            return
        node.run_for(500)
        node.adopt()


def test_of_a_send_that_is_asked_again_it_proves_nothing(node: HandNode) -> None:
    """The first request may still arrive, and be taken then: the run stays with its executor."""
    job, asked = lose_first_answer(node)
    for _ in range(2):
        resend(node)
        assert [run.id for run in node.answer(Fate.NOT_YET, WHY)] == [asked.id]
        assert ends(node, job) == [("dispatching", "")]
    resend(node)
    node.answer()
    assert ends(node, job) == [("running", "")]


def test_when_its_time_is_over_it_refuses_such_a_run_too(node: HandNode) -> None:
    job, asked = lose_first_answer(node, wait_for_executor_s=15)
    node.register(HOME)
    for _ in range(4):
        resend(node)
        if node.clock.now_ms() > asked.due_ms + 15_000:
            break
        node.answer(Fate.NOT_YET, WHY)
    assert ends(node, job) == [("dispatching", "")]
    node.answer(Fate.NOT_YET, WHY)
    assert ends(node, job) == [("refused", "executor_refused")]


def test_a_send_that_the_connection_repeated_is_one_that_is_asked_again(node: HandNode) -> None:
    job = node.job(enabled=False, wait_for_executor_s=60)
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    parcel = node.sent[0]
    body = batch_body(parcel, {parcel.shards[0].run.id: False}, WHY, not_yet=True)
    node.reply(body=body, repeated=True)
    node.write_answers()
    assert ends(node, job) == [("dispatching", "")]


# -- how long ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait_s", [1, 5, 10, 60, 600, 3600, 86_400, 7 * 86_400])
def test_sixteen_attempts_last_for_the_whole_time(wait_s: int) -> None:
    pauses = [pause_ms(attempt, wait_s * 1000) for attempt in range(1, MOST_OVER)]
    assert sum(pauses) >= wait_s * 1000
    assert pauses == sorted(pauses)
    assert min(pauses) >= 1000
    # and none is so long that the time is over before the next one
    assert max(pauses) <= max(1000, wait_s * 125)


def test_what_is_known_is_bounded_and_ends_with_a_yes() -> None:
    known = NotYet()
    for number in range(3 * KNOWN):
        known.note(HOME, number, NOW + 1000, WHY)
    assert 0 < sum(known.find(HOME, number) is not None for number in range(3 * KNOWN)) <= KNOWN
    known.note(HOME, 1, NOW + 1000, WHY)
    assert known.find(HOME, 1) == (NOW + 1000, WHY)
    known.begin(HOME, 1, NOW + 1000)
    assert known.find(HOME, 1) == (NOW + 1000 + ASKING_MS, WHY)
    known.forget(HOME, 1)
    known.begin(HOME, 1, NOW)
    assert known.find(HOME, 1) is None


def test_one_that_waits_for_another_executor_holds_up_none(node: HandNode) -> None:
    job = node.job(enabled=False, wait_for_executor_s=60)
    held = node.scheduler.management.run_now.run(job.id, addresses=[AWAY])
    node.run_for(300)
    asked = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert [run.id for run in node.answer(Fate.NOT_YET, WHY)] == [asked.id]
    node.run_for(6000)
    (run,) = node.answer()
    assert run.address == HOME
    assert ends(node, job) == [("planned", ""), ("refused", "failed_over"), ("running", "")]
    assert node.runs(job.id)[0].id == held.id


def test_many_that_are_not_taken_are_one_line_of_the_log(node: HandNode, caplog: pytest.LogCaptureFixture) -> None:
    job = node.job(enabled=False, wait_for_executor_s=60)
    for _ in range(20):
        node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    with caplog.at_level("INFO", "xwheel.scheduler.send.results"):
        assert len(node.answer(Fate.NOT_YET, WHY)) == 20
    assert len([line for line in caplog.messages if "takes no run of it yet" in line]) == 1


def test_little_of_a_long_answer_is_kept() -> None:
    said = NotYet()
    said.note(HOME, 1, NOW, "x" * 15_000)
    found = said.find(HOME, 1)
    assert found is not None
    assert len(found.message) <= 1000
