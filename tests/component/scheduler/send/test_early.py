"""Fires that travel to executors of ours before they are due: what changes in between asks for them back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.api.xxl.executor_calls import reported_outcome
from xwheel.clock import ManualClock
from xwheel.errors import HiddenError, RevisionError, StorageError
from xwheel.model import BlockScope, BlockStrategy, Job, Reporter, Run, RunState
from xwheel.model.access import UNKNOWN_ACTOR, acting
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.jobs.versions import JobHistory
from xwheel.scheduler.records import Fate, Outcome
from xwheel.scheduler.send import recall
from xwheel.scheduler.send.lane import encode_parcel
from xwheel.storage import jobs
from xwheel.wire.codec import EARLY_GENERATION, decode_batch, decode_states, recalled_payload
from xwheel.wire.contract import OK
from xwheel.wire.messages import CallbackItem, Response

DUE = NOW + 2000
HOME = "http://127.0.0.1:9001"


class Asked:
    """Executors that give back what they are told to, and note what they were asked for."""

    def __init__(self) -> None:
        self.runs: list[int] = []
        self.is_willing = True
        self.takes_ms = 0
        self.clock: ManualClock | None = None

    def answer(self, _url: str, body: bytes, **_: object) -> Response:
        ids = [key.run_id for key in decode_states(body)[1]]
        self.runs += ids
        if self.clock is not None:
            self.clock.advance(self.takes_ms)
        return Response(code=OK, data=recalled_payload(ids if self.is_willing else []))


@pytest.fixture
def early(node: HandNode) -> HandNode:
    node.scheduler.planning.tick.arm_ms = 300
    node.register(HOME, generation=EARLY_GENERATION)
    return node


@pytest.fixture
def asked(early: HandNode, monkeypatch: pytest.MonkeyPatch) -> Asked:
    asked = Asked()
    monkeypatch.setattr(recall, "post", asked.answer)
    return asked


def sent(node: HandNode, *, accepted: bool = False, **job: Any) -> tuple[Job, Run]:
    """Return a job and its run that left 100 ms before it is due."""
    made = node.job(schedule_conf="2", **job)
    node.run_for(1900, step_ms=50)
    (run,) = (run for run in node.runs(made.id) if run.due_ms == DUE)
    assert [shard.run.id for parcel in node.sent for shard in parcel.shards] == [run.id]
    assert run.check_ms == DUE + node.scheduler.core.answer_ms  # no one asks about it before it is due
    if accepted:
        node.answer()
    return made, run


def states(node: HandNode, job: Job) -> list[tuple[str, str]]:
    return sorted((str(run.state), run.reason) for run in node.runs(job.id) if run.due_ms == DUE)


def test_it_says_when_it_is_due(early: HandNode) -> None:
    _, run = sent(early)
    now_ms = early.clock.now_ms()
    assert now_ms < DUE
    (request,) = decode_batch(encode_parcel(early.sent[0], now_ms)[1])[1]
    assert (request.run_id, request.due_ms, request.sent_ms) == (run.id, DUE, now_ms)
    (asked_again,) = decode_batch(encode_parcel(early.sent[0], DUE)[1])[1]
    assert (asked_again.due_ms, asked_again.sent_ms) == (0, 0)


@pytest.mark.parametrize("why", ["foreign", "older", "cluster", "unknown executor"])
def test_what_must_be_decided_when_it_is_due_leaves_then(early: HandNode, why: str) -> None:
    group = early.group(app_name="other") if why != "cluster" else 1
    if why in ("foreign", "older"):
        early.register("http://127.0.0.1:9008", app_name="other", generation=EARLY_GENERATION)
        facts = {"kind": "foreign", "instance": "", "boot": ""} if why == "foreign" else {"generation": 4}
        early.register("http://127.0.0.1:9009", app_name="other", **facts)
    scope = BlockScope.CLUSTER if why == "cluster" else BlockScope.EXECUTOR
    job = early.job(schedule_conf="2", group_id=group, block_scope=scope)
    early.run_for(1950, step_ms=50)
    assert states(early, job) == [("planned", "")]
    early.run_for(100, step_ms=50)
    assert states(early, job) == [("refused", "no_executor") if why == "unknown executor" else ("dispatching", "")]


def test_the_shards_of_a_broadcast_leave_when_they_are_due(early: HandNode) -> None:
    """Some executors might give theirs back, and others not: there is no fire of one half."""
    early.register("http://127.0.0.1:9002", generation=EARLY_GENERATION)
    job = early.job(schedule_conf="2", route_strategy="SHARDING_BROADCAST")
    early.run_for(1950, step_ms=50)
    assert states(early, job) == [("planned", "")]
    early.run_for(100, step_ms=50)
    assert states(early, job) == [("dispatching", "")] * 2


def reported(run: Run, **changes: Any) -> Outcome:
    """Return what an executor's word comes to that it gave a run back."""
    item = CallbackItem(
        run_id=run.id,
        job_id=run.job_id,
        created_ms=run.created_ms,
        code=500,
        state=RunState.FAILED,
        reason="failed_over",
        message="given back",
        instance=run.instance or "",
    )
    return reported_outcome(replace(item, **changes), Reporter(None))


def test_what_was_sent_when_it_was_due_cannot_be_given_back(early: HandNode) -> None:
    """It may have begun, and would be executed twice."""
    asked = early.scheduler.management.run_now.run(early.job(enabled=False).id)
    early.run_for(100, step_ms=50)
    early.answer()
    (run,) = (item for item in early.runs(asked.job_id) if item.id == asked.id)
    assert early.scheduler.finishing.finisher.finish([reported(run)]) == {run.id: OutcomeStatus.REPEATED}


@pytest.mark.parametrize("changes", [{"instance": ""}, {"job_id": 0, "instance": "", "created_ms": 0}])
def test_who_names_no_instance_gives_nothing_back(early: HandNode, changes: dict[str, Any]) -> None:
    """Run ids are easily guessed, and what is given back gets a further attempt."""
    job = early.job(schedule_conf="60", max_retries=0)
    early.run_for(55_500, step_ms=500)
    (planned,) = early.runs(job.id)
    assert planned.state is RunState.PLANNED
    assert early.scheduler.finishing.finisher.finish([reported(planned, **changes)]) == {
        planned.id: OutcomeStatus.REPEATED
    }
    soon = early.job(schedule_conf="2")
    early.run_for(2_000, step_ms=50)
    run = next(item for item in early.runs(soon.id) if item.instance)
    early.scheduler.finishing.finisher.finish([reported(run, **changes)])
    assert [item.attempt for item in early.runs(soon.id) if item.root_id == run.id] == [1]


def test_a_retry_of_what_was_refused_before_it_was_due_comes_after_that(early: HandNode) -> None:
    job, run = sent(early, max_retries=1, retry_delay_ms=0)
    early.answer(Fate.REFUSED)
    (retry,) = (item for item in early.runs(job.id) if item.attempt == 2)
    assert (retry.origin_key, retry.due_ms) == (run.id, DUE)


def test_an_executor_of_before_that_came_meanwhile_gets_it_when_it_is_due(early: HandNode) -> None:
    job = early.job(schedule_conf="2")
    early.run_for(1750, step_ms=50)
    early.register(HOME, generation=4)
    early.run_for(200, step_ms=50)
    assert states(early, job) == [("planned", "")]
    early.run_for(100, step_ms=50)
    (request,) = decode_batch(encode_parcel(early.sent[0], DUE - 50)[1])[1]  # whatever the time
    assert (request.due_ms, request.sent_ms) == (0, 0)


def test_it_counts_as_accepted_when_it_is_due(early: HandNode) -> None:
    job, run = sent(early, accepted=True)
    assert states(early, job) == [("dispatching", "")]
    early.run_for(2000, step_ms=50)
    early.write_answers()
    (row,) = (item for item in early.runs(job.id) if item.id == run.id)
    assert (row.state, row.accepted_ms) == (RunState.RUNNING, DUE)


@pytest.mark.parametrize("strategy", [BlockStrategy.DISCARD_LATER, BlockStrategy.COVER_EARLY])
def test_what_another_run_may_stand_in_the_way_of_leaves_when_it_is_due(
    early: HandNode, strategy: BlockStrategy
) -> None:
    early.job(schedule_conf="2")
    early.job(schedule_conf="2", block_strategy=strategy)
    early.run_for(1900, step_ms=50)
    assert [len(parcel.shards) for parcel in early.sent] == [1]
    early.run_for(150, step_ms=50)
    assert [len(parcel.shards) for parcel in early.sent] == [1, 1]


def test_what_waits_at_its_executor_takes_no_place_here(early: HandNode) -> None:
    sent(early, accepted=True)
    assert sum(early.scheduler.sending.pool.in_flight().values()) == 0


@pytest.mark.parametrize("is_accepted", [False, True])
@pytest.mark.parametrize("way", ["stop", "delete", "edit"])
def test_a_change_asks_for_it_back(early: HandNode, asked: Asked, way: str, is_accepted: bool) -> None:
    job, run = sent(early, accepted=is_accepted)
    manager = early.scheduler.management.jobs
    if way == "edit":
        manager.edit(job.id, {"schedule_conf": "3600"})
    else:
        getattr(manager, way)(job.id)
    assert asked.runs == [run.id]
    early.run_for(2000, step_ms=50)
    reason = {"stop": "stopped", "delete": "deleted", "edit": "edited"}[way]
    assert states(early, job) == [("cancelled", reason)]


def test_an_edit_that_keeps_the_due_time_sends_it_again(early: HandNode, asked: Asked) -> None:
    job, run = sent(early, accepted=True)
    early.scheduler.management.jobs.edit(job.id, {"end_ms": NOW + 3_600_000})
    early.run_for(150, step_ms=50)
    again = [shard.run for parcel in early.sent for shard in parcel.shards if shard.run.id != run.id]
    assert asked.runs == [run.id]
    assert [item.planned_ms for item in again] == [DUE]
    assert ("cancelled", "edited") in states(early, job)


def test_a_pause_gives_it_back_to_its_job(early: HandNode, asked: Asked) -> None:
    job, _ = sent(early, accepted=True)
    more = [sent_job.id for sent_job in (early.job(schedule_conf="7200") for _ in range(3))]
    early.scheduler.management.schedules.pause()
    assert states(early, job) == [("cancelled", "paused")]
    assert len(asked.runs) == 1
    with early.db.read() as conn:
        assert jobs.get_job(conn, job.id).next_fire_ms == DUE
        assert all(jobs.get_job(conn, job_id).next_fire_ms for job_id in more)


def test_many_jobs_are_asked_for_at_once(early: HandNode, asked: Asked) -> None:
    made = [early.job(schedule_conf="2") for _ in range(8)]
    early.run_for(1900, step_ms=50)
    early.scheduler.management.schedules.pause()
    assert len(asked.runs) == 8
    assert {state for job in made for state in states(early, job)} == {("cancelled", "paused")}


def test_a_calendar_asks_for_all_of_its_jobs_at_once(early: HandNode, asked: Asked) -> None:
    schedules = early.scheduler.management.schedules
    schedules.save_calendar("holidays", {"dates": ["2030-01-01"]})
    made = [early.job(schedule_conf="2", calendar_exclude=["holidays"]) for _ in range(8)]
    early.run_for(1900, step_ms=50)
    schedules.save_calendar("holidays", {"dates": ["2030-01-02"]})
    assert len(asked.runs) == 8
    assert {("cancelled", "calendar")} <= {state for job in made for state in states(early, job)}


@pytest.mark.parametrize("way", ["stop", "pause", "edit", "kill"])
def test_what_is_due_by_the_time_that_it_was_given_back_is_cancelled_too(
    early: HandNode, asked: Asked, way: str
) -> None:
    job, run = sent(early, accepted=True)
    asked.clock, asked.takes_ms = early.clock, 150
    management = early.scheduler.management
    match way:
        case "stop":
            management.jobs.stop(job.id)
        case "pause":
            management.schedules.pause()
        case "edit":
            management.jobs.edit(job.id, {"schedule_conf": "3600"})
        case _:
            management.killer.kill(run.id)
    assert early.clock.now_ms() > DUE
    assert [state for state, _ in states(early, job)] == ["cancelled"]


def test_it_may_be_too_late(early: HandNode, asked: Asked) -> None:
    asked.is_willing = False
    job, run = sent(early, accepted=True)
    early.scheduler.management.jobs.stop(job.id)
    assert asked.runs == [run.id]
    early.run_for(2000, step_ms=50)
    early.write_answers()
    assert states(early, job) == [("running", "")]


def test_nothing_is_asked_for_a_change_that_is_refused(early: HandNode, asked: Asked) -> None:
    """Else who may change nothing could keep fires from starting."""
    job, _ = sent(early, accepted=True)
    manager = early.scheduler.management.jobs
    with pytest.raises(RevisionError):
        manager.stop(job.id, revision=job.revision + 7)
    with acting(UNKNOWN_ACTOR), pytest.raises(HiddenError):
        manager.stop(job.id)
    assert not asked.runs


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_change_that_fails_loses_no_fire(
    early: HandNode, asked: Asked, monkeypatch: pytest.MonkeyPatch, is_accepted: bool
) -> None:
    """The executor says some seconds later that it gave the run back."""
    job, run = sent(early)

    def fail(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(JobHistory, "record", fail)
        with pytest.raises(StorageError):
            early.scheduler.management.jobs.stop(job.id)
    assert asked.runs == [run.id]
    if is_accepted:
        early.answer()
        early.run_for(300, step_ms=50)
        early.write_answers()
    assert asked.runs == [run.id]
    outcome = reported(run)
    assert early.scheduler.finishing.finisher.finish([outcome]) == {run.id: OutcomeStatus.FINISHED}
    found = sorted((str(run.state), run.reason, run.attempt) for run in early.runs(job.id) if run.due_ms == DUE)
    assert found == [("planned", "", 2), ("refused", "failed_over", 1)]
    assert early.scheduler.finishing.finisher.finish([outcome]) == {run.id: OutcomeStatus.REPEATED}


def test_a_killed_run_that_was_given_back_without_an_answer_was_killed(early: HandNode, asked: Asked) -> None:
    asked.is_willing = False
    job, run = sent(early, accepted=True)
    early.scheduler.management.killer.kill(run.id)
    early.scheduler.finishing.finisher.finish([reported(run)])
    assert states(early, job) == [("cancelled", "killed_by_user")]


@pytest.mark.parametrize("is_accepted", [False, True])
def test_a_kill_asks_for_it_back(early: HandNode, asked: Asked, is_accepted: bool) -> None:
    job, run = sent(early, accepted=is_accepted)
    assert early.scheduler.management.killer.kill(run.id).state is RunState.CANCELLED
    assert asked.runs == [run.id]
    assert states(early, job) == [("cancelled", "killed_by_user")]


def test_a_kill_that_is_too_late_is_sent(early: HandNode, asked: Asked) -> None:
    asked.is_willing = False
    _, run = sent(early, accepted=True)
    assert early.scheduler.management.killer.kill(run.id).kill_requested
    early.run_for(100, step_ms=50)
    assert early.scheduler.management.killer.kill(run.id).kill_requested
    assert asked.runs == [run.id]  # it is due by now
