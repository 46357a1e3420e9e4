"""What sends come to in the rows, by way of the real lanes and the real reading of answers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.lines import batch_body
from tests.support.node import HandNode
from tests.support.rows import NOW
from xwheel.clock import ManualClock
from xwheel.errors import DatabaseUnreachableError
from xwheel.model import DeliveryPolicy, Job, Run, RunState
from xwheel.scheduler.check.decide import LOOK_MS
from xwheel.scheduler.finish.acceptances import Acceptances
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.records import Outcome
from xwheel.scheduler.send import results
from xwheel.storage import leases
from xwheel.storage.database.engine import Database
from xwheel.wire.codec import encode_response
from xwheel.wire.messages import Response


def start(node: HandNode, count: int = 1, **job: Any) -> tuple[Job, list[Run]]:
    """Send runs of one job in one request."""
    made = node.job(enabled=False, **job)
    asked = [node.scheduler.management.run_now.run(made.id) for _ in range(count)]
    node.run_for(300)
    assert [shard.run.id for shard in node.sent[0].shards] == [run.id for run in asked]
    return made, asked


def ends(node: HandNode, job: Job) -> list[tuple[str, str]]:
    return [(str(run.state), run.reason) for run in node.runs(job.id)]


@pytest.mark.parametrize("reply", [{"status": 413}, {"status": 401}, {"error": "refused", "sent": False}, "no"])
@pytest.mark.parametrize("delivery", list(DeliveryPolicy))
def test_r2_runs_that_are_asked_about_again_are_not_refused_by_what_is_not_about_them(
    node: HandNode, reply: Any, delivery: DeliveryPolicy
) -> None:
    """R2: no retry goes out next to a run that executed, and its success counts."""
    job, asked = start(node, 3, delivery=delivery, max_retries=3)
    node.reply(error="timed out")
    node.write_answers()
    for _ in range(3):
        node.run_for(8000, step_ms=500)
        (parcel,) = node.sent
        assert [shard.run.id for shard in parcel.whole().shards] == [run.id for run in asked]
        while node.sent:
            answer = {"body": encode_response(Response(code=500, message="x"))} if reply == "no" else reply
            node.reply(**answer)
        node.write_answers()
        assert ends(node, job) == [("dispatching", "")] * 3
    node.finish(asked)
    assert ends(node, job) == [("succeeded", "")] * 3


def test_r2_runs_that_are_asked_about_again_travel_in_requests_of_bounded_size(db: Database) -> None:
    """R2: a takeover with hundreds of open runs splits them like first sends, by runs and by bytes."""
    node = HandNode(db, ManualClock(NOW), trigger={"batch_bytes": 300_000})
    node.group()
    node.register("http://127.0.0.1:9001")
    job = node.job(enabled=False, param="漢" * 1000)
    asked = [node.scheduler.management.run_now.run(job.id) for _ in range(250)]
    node.run_for(1000)
    first = [len(call.body) for call in node.line.calls]
    while node.sent:
        node.reply(error="timed out")
        node.write_answers()
        node.tick(100)
    assert {run.state for run in node.runs(job.id)} == {RunState.DISPATCHING}
    node.run_for(12_000, step_ms=1000)
    again: list[int] = []
    while node.sent:
        assert all(parcel.again for parcel in node.sent)
        again += [len(call.body) for call in node.line.calls]
        parcel = node.sent[0]
        node.reply(body=batch_body(parcel, {shard.run.id: True for shard in parcel.shards}))
    node.write_answers()
    assert max(first + again) <= 300_000
    assert len(again) >= 3
    assert [run.state for run in node.runs(job.id)] == [RunState.RUNNING] * len(asked)
    assert not any(node.scheduler.sending.pool.in_flight().values())


def test_r3_first_sends_are_bounded_by_their_encoded_bytes(db: Database) -> None:
    """R3: 200 runs of 9,000 CJK characters are 5.5 MB; `trigger.batch_bytes` holds."""
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001")
    job = node.job(enabled=False, param="漢" * 9000)
    for _ in range(100):
        node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    sizes, runs = [], 0
    while node.sent:
        assert len(node.line.calls) <= 4  # requests of one address
        sizes += [len(call.body) for call in node.line.calls]
        runs += len(node.answer())
        node.tick(50)
    assert runs == 100
    assert max(sizes) <= 1024 * 1024
    assert len(sizes) == 3  # 38 runs each
    assert {run.state for run in node.runs(job.id)} == {RunState.RUNNING}


def test_r3_a_broadcast_to_executors_of_two_kinds_keeps_to_the_bytes(db: Database) -> None:
    node = HandNode(db, ManualClock(NOW), trigger={"batch_bytes": 300_000})
    node.group()
    node.register("http://127.0.0.1:9001")
    node.register("http://127.0.0.1:9002", kind="java", generation=3, instance="", boot="")
    job = node.job(enabled=False, param="漢" * 9000, route_strategy="SHARDING_BROADCAST")
    for _ in range(12):
        node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    sizes, runs = [], 0
    while node.sent:
        sizes += [len(call.body) for call in node.line.calls]
        runs += len(node.answer())
        node.tick(50)
    assert runs == 24
    assert max(sizes) <= 300_000
    assert {run.state for run in node.runs(job.id)} == {RunState.RUNNING}


def test_r3_an_executor_that_takes_less_gets_less(node: HandNode) -> None:
    """R3: its limit is learned, so that not each batch is refused first."""
    job = node.job(enabled=False, param="x" * 1000)
    for round_number in range(3):
        for _ in range(40):
            node.scheduler.management.run_now.run(job.id)
        node.run_for(300)
        refused = 0
        while node.sent:
            if len(node.line.calls[0].body) > 20_000:
                refused += 1
                node.reply(status=413)
            else:
                parcel = node.sent[0]
                node.reply(body=batch_body(parcel, {shard.run.id: True for shard in parcel.shards}))
            node.write_answers()
            node.tick(20)
        assert bool(refused) is (round_number == 0)
    assert {run.state for run in node.runs(job.id)} == {RunState.RUNNING}
    assert not any(node.scheduler.sending.pool.in_flight().values())
    node.clock.advance(600_000)
    node.keep_lease()
    node.register("http://127.0.0.1:9001")
    for _ in range(40):
        node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert len(node.line.calls[0].body) > 20_000  # it may have been given more since


def test_r3_one_run_too_large_ends_with_the_limit_and_the_way_out(node: HandNode) -> None:
    """R3: refused, and said so in the row."""
    job, _ = start(node)
    node.reply(status=413)
    node.write_answers()
    (run,) = node.runs(job.id)
    assert (run.state, run.reason) == (RunState.REFUSED, "executor_refused")
    assert "executor.max_body_bytes" in run.message


def test_r20_a_run_whose_executor_did_not_answer_is_called_so(node: HandNode) -> None:
    """R20: `unreachable`; what an executor says itself stays `executor_refused`. Both are tried again."""
    gone, _ = start(node, max_retries=1)
    node.reply(error="connection refused", sent=False)
    node.write_answers()
    node.run_for(300)
    assert ends(node, gone) == [("refused", "unreachable"), ("dispatching", "")]
    node.reply(status=404)
    node.write_answers()
    assert ends(node, gone) == [("refused", "unreachable"), ("refused", "executor_refused")]


def test_a_batch_that_an_executor_took_and_never_answered_is_nobodys_refusal(node: HandNode) -> None:
    """R2: it took the runs on a kept connection and died; curl's second try found no listener."""
    job, asked = start(node, 200, max_retries=1)
    node.reply(error="could not connect (curl 7)", sent=True, repeated=True)
    node.write_answers()
    assert ends(node, job) == [("dispatching", "")] * 200
    node.finish(asked)
    assert ends(node, job) == [("succeeded", "")] * 200


@pytest.mark.parametrize(
    "reply",
    [{"status": 401}, {"error": "refused", "sent": False}, {"error": "timed out"}, "yes", "no"],
    ids=["401", "not connected", "timed out", "yes", "no"],
)
@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED])
def test_n18_an_outcome_that_comes_before_the_answer_is_the_last_word(
    node: HandNode, reply: Any, state: RunState
) -> None:
    """N18: whatever the answer says, the final state stays and no other attempt follows."""
    job, asked = start(node, 2)
    node.finish(asked, state)
    if reply in ("yes", "no"):
        reply = {"body": batch_body(node.sent[0], {run.id: reply == "yes" for run in asked})}
    node.reply(**reply)
    node.write_answers()
    node.run_for(12_000, step_ms=1000)
    found = node.runs(job.id)
    assert [(run.state, run.check_ms) for run in found] == [(state, None)] * 2
    assert node.sent == []


def test_r17_answers_that_wait_to_be_written_are_held(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """R17: however slow the write before them is, a foreign refusal does not become `running`."""
    node = HandNode(db, ManualClock(NOW))
    node.group()
    node.register("http://127.0.0.1:9001", kind="foreign", instance="", boot="")
    job, (first,) = start(node)
    second = node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    answers = node.scheduler.sending.results
    node.reply(body=encode_response(Response(code=200)))
    held: list[bool] = []
    write = node.db.transaction

    def slow(work: Any) -> Any:
        """Ten seconds, in which the second answer comes and sends without an answer are looked for."""
        if not held:
            node.reply(body=encode_response(Response(code=500, message="busy")))
            held.extend(answers.is_held(run.id) for run in (first, second))
            node.clock.advance(9000)
            node.scheduler.core.lease.step(node.clock.now_ms())
            node.scheduler.planning.adopt.reconcile(node.clock.now_ms())
        return write(work)

    monkeypatch.setattr(node.db, "transaction", slow)
    node.write_answers()
    assert held == [True, True]
    assert [str(run.state) for run in node.runs(job.id)] == ["running", "refused"]
    assert not any(answers.is_held(run.id) for run in (first, second))


@pytest.mark.parametrize("ok", [True, False])
def test_r17_an_answer_that_the_database_did_not_take_stays_held(
    node: HandNode, monkeypatch: pytest.MonkeyPatch, ok: bool
) -> None:
    """R17: it stays so until it is written, and so does the place of a refusal."""
    job, (run,) = start(node)
    answers = node.scheduler.sending.results
    node.reply(body=batch_body(node.sent[0], {run.id: ok}))

    def fail(*_: object, **__: object) -> None:
        raise DatabaseUnreachableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(node.db, "transaction", fail)
        with pytest.raises(DatabaseUnreachableError):
            answers.step(node.clock.now_ms())
    assert answers.is_held(run.id)
    assert answers.pending() == 1
    assert any(node.scheduler.sending.pool.in_flight().values()) is not ok
    node.write_answers()
    assert not answers.is_held(run.id)
    assert ends(node, job) == [("running", "") if ok else ("refused", "executor_refused")]
    assert not any(node.scheduler.sending.pool.in_flight().values())


@pytest.fixture
def patient(node: HandNode) -> HandNode:
    """A node that waits for ends before it writes that runs were accepted, as real ones do."""
    node.scheduler.sending.results.hold_ms = 200
    return node


def test_what_ends_soon_is_written_once(patient: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    job, (run,) = start(patient)
    patient.answer()
    at_ms = patient.clock.now_ms()
    assert patient.scheduler.sending.results.is_held(run.id)
    assert ends(patient, job) == [("dispatching", "")]
    patient.clock.advance(150)
    patient.finish([run])
    (row,) = patient.runs(job.id)
    assert (row.state, row.accepted_ms, row.finished_ms) == (RunState.SUCCEEDED, at_ms, at_ms + 150)
    patient.clock.advance(100)
    with monkeypatch.context() as patch:
        patch.setattr(patient.db, "transaction", None)  # nothing is left to write
        patient.write_answers()
    assert patient.runs(job.id) == [row]
    assert not patient.scheduler.sending.results.is_held(run.id)


def test_what_goes_on_is_running_after_a_moment(patient: HandNode) -> None:
    job, (run,) = start(patient)
    patient.answer()
    at_ms = patient.clock.now_ms()
    patient.clock.advance(199)
    patient.write_answers()
    assert ends(patient, job) == [("dispatching", "")]
    patient.clock.advance(1)
    patient.write_answers()
    (row,) = patient.runs(job.id)
    assert (row.state, row.accepted_ms) == (RunState.RUNNING, at_ms)
    assert row.check_ms == at_ms + LOOK_MS
    assert not patient.scheduler.sending.results.is_held(run.id)


def test_a_clock_that_is_set_back_holds_up_no_acceptance(patient: HandNode) -> None:
    job, _ = start(patient)
    patient.answer()
    patient.clock.step_wall(-3_600_000)
    patient.write_answers()
    assert ends(patient, job) == [("running", "")]


def test_an_end_that_another_node_wrote_learns_when_the_run_was_accepted(
    patient: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, (run,) = start(patient)
    patient.answer()
    at_ms = patient.clock.now_ms()
    patient.clock.advance(50)
    # what this node keeps in memory is nothing to the one that gets the callback
    monkeypatch.setattr(patient.scheduler.finishing.finisher, "acceptances", Acceptances())
    patient.finish([run])
    (row,) = patient.runs(job.id)
    assert (row.state, row.accepted_ms) == (RunState.SUCCEEDED, None)
    patient.clock.advance(200)
    patient.write_answers()
    assert patient.runs(job.id) == [replace(row, accepted_ms=at_ms)]


def test_a_report_that_does_not_count_keeps_what_is_held(patient: HandNode) -> None:
    """A stranger who guesses an id cannot make the scheduler forget that the run was accepted."""
    job, (run,) = start(patient)
    patient.answer()
    wrong = Outcome(run_id=run.id, state=RunState.SUCCEEDED, created_ms=run.created_ms + 1)
    assert patient.scheduler.finishing.finisher.finish([wrong]) == {run.id: OutcomeStatus.UNKNOWN}
    patient.clock.advance(200)
    patient.write_answers()
    assert ends(patient, job) == [("running", "")]


def test_many_that_are_held_are_written_at_once(patient: HandNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_HELD", 1)
    job, _ = start(patient)
    patient.answer()
    assert ends(patient, job) == [("running", "")]


def test_a_kill_reaches_a_run_whose_acceptance_is_held(patient: HandNode) -> None:
    job, (run,) = start(patient)
    patient.answer()
    patient.scheduler.management.killer.kill(run.id)
    patient.clock.advance(200)
    patient.write_answers()
    (row,) = patient.runs(job.id)
    assert (row.state, row.check_ms) == (RunState.RUNNING, patient.clock.now_ms())


@pytest.mark.parametrize("ok", [True, False])
def test_whoever_sent_a_run_writes_its_answer_though_its_partition_went_elsewhere(node: HandNode, ok: bool) -> None:
    """R1: a fenced send of a node that gives a partition away goes on, and the giver writes what came of it."""
    job, (run,) = start(node, max_retries=1)
    node.db.transaction(lambda conn: leases.take_all_leases(conn, "another"))
    node.reply(body=batch_body(node.sent[0], {run.id: ok}))
    node.write_answers()
    meant = [("running", "")] if ok else [("refused", "executor_refused"), ("planned", "")]
    assert ends(node, job) == meant


def test_a_lease_that_is_too_short_sends_nothing_and_suspects_no_executor(node: HandNode) -> None:
    """The rows stay as they are, to be asked about by anyone who holds them then."""
    job, (run,) = start(node)
    parcel = node.sent.pop()
    node.line.calls.clear()
    node.clock.advance(9000)
    node.scheduler.sending.lanes.by_number[parcel.lane].send(parcel)
    node.write_answers()
    assert node.line.calls == []
    assert ends(node, job) == [("dispatching", "")]
    (executor,) = node.scheduler.core.registry.live(1, node.clock.now_ms())
    assert executor.suspect_until_ms <= node.clock.now_ms()
    assert not node.scheduler.sending.lanes.by_number[parcel.lane].is_held(run.id)


def test_n26_a_run_for_a_foreign_executor_that_was_not_sent_is_tried_again(node: HandNode) -> None:
    """No node could tell later that it was not sent, and one that counts as running would end as lost, unexecuted."""
    node.register("http://127.0.0.1:9002", kind="foreign", instance="", boot="")
    job = node.job(enabled=False, route_strategy="LAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    parcel = node.sent.pop()
    assert parcel.executor.kind == "foreign"
    node.line.calls.clear()
    node.clock.advance(9000)
    node.scheduler.sending.lanes.by_number[parcel.lane].send(parcel)
    node.write_answers()
    assert node.line.calls == []
    assert ends(node, job) == [("refused", "failed_over"), ("planned", "")]
    node.run_for(300)
    (again,) = node.sent
    (first,) = parcel.shards
    assert again.shards[0].run.id != first.run.id
    assert again.shards[0].run.due_ms == first.run.due_ms


def test_n35_of_a_partition_that_went_elsewhere_nothing_is_sent_again(
    node: HandNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, _ = start(node)
    node.reply(error="timed out")
    node.write_answers()
    (run,) = node.runs(job.id)
    lease = node.scheduler.core.lease
    monkeypatch.setattr(type(lease), "lock", lambda _self, _conn: {})  # its rows name another node
    node.scheduler.sending.resender.settle([run], node.clock.now_ms())
    assert node.sent == []
    assert node.runs(job.id)[0].check_ms == run.check_ms
    monkeypatch.undo()
    node.scheduler.sending.resender.settle([run], node.clock.now_ms())
    assert len(node.sent) == 1
