"""How answers are read: the real lane encodes and reads, an HTTP client that is a list says what came back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.lines import Line, batch_body
from tests.support.rows import NOW, make_executor, make_job, make_run
from tests.support.stubs import StubLease, StubLimits, StubRegistry, StubResults
from xwheel.clock import ManualClock
from xwheel.model import GlueVersion
from xwheel.scheduler.records import Delivery, Fate, Parcel, Shard
from xwheel.scheduler.send.lane import Lane, trigger_request
from xwheel.scheduler.send.parcels import Sizes
from xwheel.wire.codec import encode_response, encode_trigger
from xwheel.wire.contract import FAIL, TEXT_TOKEN
from xwheel.wire.messages import Response

YES, NO, UNKNOWN = Fate.ACCEPTED, Fate.REFUSED, Fate.UNKNOWN
ONE, TWO = 1, 2
Reply = Callable[[Parcel], dict[str, Any]]


def lane_of(
    line: Line,
    delivered: list[Delivery],
    *,
    may_send: Callable[..., bool] = lambda *_: True,
    too_large: Callable[[str, int], object] = lambda *_: None,
    clock: ManualClock | None = None,
    share: int = 50,
) -> Lane:
    parts: Any = (StubResults(delivered.extend), StubLease(may_send), StubRegistry(), StubLimits(too_large))
    return Lane(line, *parts, clock or ManualClock(NOW), timeout_ms=3000, share=share)


def parcel_of(count: int = 2, *, kind: str = "xwheel", again: bool = False, **run: Any) -> Parcel:
    executor = make_executor(kind=kind, instance="instance-1" if kind == "xwheel" else "")
    shards = [Shard(run=make_run(number, **run), job=make_job(), executor=executor) for number in range(1, count + 1)]
    return Parcel(lane=0, executor=executor, shards=shards, again=again)


def fates(delivered: list[Delivery]) -> dict[int, Fate]:
    """Return the fate of each run; each must have come back once."""
    answers = [answer for delivery in delivered for answer in delivery.answers]
    found = {answer.run_id: answer.fate for answer in answers}
    assert len(found) == len(answers)
    return found


def status(number: int) -> Reply:
    return lambda _: {"status": number, "body": b"<html>"}


def error(sent: bool) -> Reply:
    return lambda _: {"error": "it broke", "sent": sent}


def envelope(code: int, message: str) -> Reply:
    return lambda _: {"body": encode_response(Response(code=code, message=message))}


def batch(given: dict[int, bool], **reply: Any) -> Reply:
    return lambda parcel: {"body": batch_body(parcel, given, **reply)}


def raw(body: bytes) -> Reply:
    return lambda _: {"body": body}


def said(*items: tuple[int, int]) -> Reply:
    """Answer with items in this order, some perhaps twice."""
    runs = [{"id": run_id, "code": code, "msg": ""} for run_id, code in items]
    data = {"instance": "instance-1", "boot": "b", "runs": runs}
    return raw(json.dumps({"code": 200, "data": data}).encode())


# what comes back: of a first send, and of one that is asked again; the fates of run 1 and run 2
BATCHES: list[tuple[str, Reply, tuple[Fate, Fate], tuple[Fate, Fate]]] = [
    ("all yes", batch({1: True, 2: True}), (YES, YES), (YES, YES)),
    ("yes and no", batch({1: True, 2: False}), (YES, NO), (YES, NO)),
    ("one missing", batch({1: True}), (YES, UNKNOWN), (YES, UNKNOWN)),
    ("one missing, one no", batch({2: False}), (UNKNOWN, NO), (UNKNOWN, NO)),
    ("nothing about any", batch({}), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN)),
    ("runs of others", batch({7: True, 8: False}), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN)),
    ("twice the same", said((1, 200), (1, 200), (2, 500), (2, 502)), (YES, NO), (YES, NO)),
    ("twice, yes and no", said((1, 200), (1, 500), (2, 200)), (UNKNOWN, YES), (UNKNOWN, YES)),
    ("a code that is none", said((1, 0), (2, 200)), (UNKNOWN, YES), (UNKNOWN, YES)),
    ("of another instance", batch({1: True, 2: False}, instance="i-9"), (UNKNOWN,) * 2, (UNKNOWN,) * 2),
    ("wrong token", envelope(FAIL, TEXT_TOKEN), (NO, NO), (UNKNOWN, UNKNOWN)),
    ("internal error", envelope(FAIL, "internal error"), (NO, NO), (UNKNOWN, UNKNOWN)),
    ("yes without data", raw(b'{"code": 200, "data": null}'), (UNKNOWN,) * 2, (UNKNOWN,) * 2),
    ("yes with odd data", raw(b'{"code": 200, "data": {"runs": 5}}'), (UNKNOWN,) * 2, (UNKNOWN,) * 2),
    ("no JSON", raw(b"<html>"), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN)),
    ("empty", raw(b""), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN)),
    ("not connected", error(sent=False), (NO, NO), (UNKNOWN, UNKNOWN)),
    ("broken off", error(sent=True), (UNKNOWN, UNKNOWN), (UNKNOWN, UNKNOWN)),
    *[(f"HTTP {code}", status(code), (NO, NO), (UNKNOWN, UNKNOWN)) for code in (400, 401, 403, 404, 429)],
    *[(f"HTTP {code}", status(code), (UNKNOWN,) * 2, (UNKNOWN,) * 2) for code in (204, 301, 500, 502, 503)],
]
SINGLES: list[tuple[str, Reply, Fate]] = [
    ("yes", envelope(200, ""), YES),
    ("no", envelope(500, "busy"), NO),
    ("another no", envelope(502, "late"), NO),
    ("an array of Go", raw(b'[{"logId": 1, "handleCode": 500, "handleMsg": "x"}]'), NO),
    ("an array that says nothing", raw(b"[{}]"), UNKNOWN),
    ("no JSON", raw(b"ok"), UNKNOWN),
    ("not connected", error(sent=False), NO),
    ("broken off", error(sent=True), UNKNOWN),
    *[(f"HTTP {code}", status(code), NO) for code in (400, 401, 403, 404, 413, 429)],
    *[(f"HTTP {code}", status(code), UNKNOWN) for code in (301, 500, 502, 503)],
]


def send_one(parcel: Parcel, reply: Reply, **more: Any) -> list[Delivery]:
    line, delivered = Line(), list[Delivery]()
    lane = lane_of(line, delivered)
    lane.send(parcel)
    assert lane.is_held(ONE)
    line.reply(**reply(parcel), **more)
    lane.step(NOW)
    assert line.calls == []
    assert not lane.is_held(ONE)
    return delivered


@pytest.mark.parametrize("how", ["first", "again", "repeated by curl"])
@pytest.mark.parametrize(("reply", "first", "again"), [row[1:] for row in BATCHES], ids=[r[0] for r in BATCHES])
def test_r2_what_an_answer_to_a_batch_means(
    reply: Reply, first: tuple[Fate, Fate], again: tuple[Fate, Fate], how: str
) -> None:
    """R2, N9, N10: asked again, only an answer about that very run refuses it."""
    delivered = send_one(parcel_of(again=how == "again"), reply, repeated=how == "repeated by curl")
    meant = first if how == "first" else again
    assert fates(delivered) == {ONE: meant[0], TWO: meant[1]}


@pytest.mark.parametrize(("kind", "is_repeated"), [("xwheel", True), ("foreign", False)])
def test_n38_only_a_run_that_a_journal_knows_again_is_sent_twice(kind: str, is_repeated: bool) -> None:
    """The HTTP client sends what is repeatable once more over a new connection; a Java executor would run it twice."""
    line = Line()
    lane_of(line, []).send(parcel_of(1, kind=kind))
    assert [call.repeatable for call in line.calls] == [is_repeated]


@pytest.mark.parametrize(("reply", "fate"), [row[1:] for row in SINGLES], ids=[row[0] for row in SINGLES])
def test_what_the_answer_of_a_foreign_executor_means(reply: Reply, fate: Fate) -> None:
    assert fates(send_one(parcel_of(1, kind="foreign"), reply)) == {ONE: fate}


# a request that is too large


def by_size(line: Line, lane: Lane, most: int) -> list[int]:
    """Answer like an executor that takes this many bytes; return the sizes of what it was sent."""
    sizes = []
    while line.calls:
        call, parcel = line.calls[0], line.sent[0]
        sizes.append(len(call.body))
        if len(call.body) > most:
            line.reply(status=413)
        else:
            line.reply(body=batch_body(parcel, {shard.run.id: True for shard in parcel.shards}))
        lane.step(NOW)
    return sizes


@pytest.mark.parametrize("again", [False, True])
def test_r3_a_batch_that_is_too_large_is_halved_and_sent_again(again: bool) -> None:
    """R3: one request after the other in one place, until all fit."""
    line, delivered, told = Line(), list[Delivery](), list[tuple[str, int]]()
    lane = lane_of(line, delivered, too_large=lambda *what: told.append(what))
    parcel = parcel_of(7, param="漢" * 500, again=again)
    lane.send(parcel)
    sizes = by_size(line, lane, 4_500)
    assert fates(delivered) == dict.fromkeys(range(1, 8), YES)
    # 7, 3 and 4, and of the 4 two each: about 2,000 bytes a run
    assert [size > 4_500 for size in sizes] == [True, True, False, False, True, False, False]
    assert told == [(parcel.executor.address, size) for size in sizes if size > 4_500]
    assert [bool(delivery.parcel.rest) for delivery in delivered] == [True] * (len(delivered) - 1) + [False]
    assert not any(lane.is_held(run_id) for run_id in range(1, 8))


@pytest.mark.parametrize(("again", "fate"), [(False, NO), (True, UNKNOWN)])
def test_r3_one_run_that_is_too_large_says_the_limit_and_the_way_out(again: bool, fate: Fate) -> None:
    """R3: nothing is left to halve; asked again it proves nothing."""
    (delivery,) = send_one(parcel_of(1, again=again, param="x" * 9000), status(413))
    (answer,) = delivery.answers
    assert answer.fate is fate
    assert f"request of {delivery.parcel.body_bytes} bytes for one run" in answer.message
    assert "executor.max_body_bytes" in answer.message
    assert "job 1" in answer.message


def halved(line: Line, delivered: list[Delivery], again: bool = False, **parts: Any) -> Lane:
    """Return a lane that has just sent the first half of two runs; they were too large together."""
    lane = lane_of(line, delivered, **parts)
    lane.send(parcel_of(2, again=again, check_ms=NOW + 5000))
    line.reply(status=413)
    lane.step(NOW)
    assert [shard.run.id for shard in line.sent[0].shards] == [ONE]
    assert lane.is_held(TWO)
    return lane


@pytest.mark.parametrize(
    ("again", "sent", "fate"), [(False, False, NO), (True, False, UNKNOWN), (False, True, UNKNOWN)]
)
def test_what_follows_a_request_that_breaks_is_not_tried(again: bool, sent: bool, fate: Fate) -> None:
    line, delivered = Line(), list[Delivery]()
    lane = halved(line, delivered, again)
    line.reply(error="it broke", sent=sent)
    lane.step(NOW + 10)
    assert fates(delivered) == {ONE: fate, TWO: fate}
    assert line.calls == []
    assert not delivered[-1].parcel.rest


@pytest.mark.parametrize("why", ["lease", "time"])
def test_what_cannot_be_sent_in_time_is_left_to_be_asked_about(why: str) -> None:
    """Nothing leaves without a lease, nor so late that another node may ask about the run meanwhile."""
    line, delivered = Line(), list[Delivery]()
    may_send = [True]
    lane = halved(line, delivered, may_send=lambda *_: may_send[0])
    may_send[0] = why == "time"
    line.reply(body=batch_body(line.sent[0], {ONE: True}))
    lane.step(NOW + 2001 if why == "time" else NOW)
    assert fates(delivered) == {ONE: YES, TWO: UNKNOWN}
    assert line.calls == []
    assert [delivery.tried for delivery in delivered] == [True, False]
    assert not lane.is_held(TWO)


@pytest.mark.parametrize("again", [False, True])
def test_what_was_fenced_under_a_lease_that_ran_out_is_not_sent(again: bool) -> None:
    """Frozen between the fence and the send, a node wakes, retakes its partitions, and must not send old runs."""
    line, delivered, asked = Line(), list[Delivery](), list[int]()

    def may_send(fenced_ms: int, margin_ms: int) -> bool:
        asked.append(fenced_ms)
        return fenced_ms > NOW

    parcel = parcel_of(again=again, dispatched_ms=NOW)
    lane_of(line, delivered, may_send=may_send).send(parcel)
    assert len(line.sent) == again  # what is asked again was put under the present lease a moment ago
    assert again or asked == [NOW]


def test_r17_at_each_moment_the_lane_or_the_writer_has_a_run() -> None:
    """R17: a lane lets go of runs once their answers were handed over."""
    line, seen = Line(), list[bool]()
    lane = lane_of(line, [])
    lane.results = StubResults(  # type: ignore[assignment]
        lambda deliveries: seen.extend(lane.is_held(a.run_id) for d in deliveries for a in d.answers)
    )
    lane.send(parcel_of())
    line.reply(error="it broke")
    lane.step(NOW)
    assert seen == [True, True]
    assert not lane.is_held(ONE)


# turns at an executor that takes one run a request


def singles(count: int, **run: Any) -> list[Parcel]:
    executor = make_executor(kind="foreign", instance="")
    return [
        Parcel(
            lane=0, executor=executor, shards=[Shard(run=make_run(number, **run), job=make_job(), executor=executor)]
        )
        for number in range(1, count + 1)
    ]


def test_no_executor_gets_more_requests_at_once_than_its_share() -> None:
    """What was fenced ahead goes one by one in place of what ended, in order, however that ended."""
    line, delivered = Line(), list[Delivery]()
    lane = lane_of(line, delivered, share=2)
    for parcel in singles(6, check_ms=NOW + 5000):
        lane.send(parcel)
    seen = []
    for reply in ({"body": encode_response(Response(code=200))}, {"error": "it broke"}) * 3:
        assert len(line.calls) <= 2
        seen += [shard.run.id for shard in line.reply(**reply).shards]
        assert all(lane.is_held(run_id) for run_id in range(len(seen), 7))
        lane.step(NOW)
    assert seen == [1, 2, 3, 4, 5, 6]
    assert list(fates(delivered).values()) == [YES, UNKNOWN] * 3
    lane.send(singles(1)[0])
    assert len(line.calls) == 1


@pytest.mark.parametrize("why", ["lease", "time"])
def test_what_waits_too_long_for_its_turn_is_not_sent(why: str) -> None:
    line, delivered = Line(), list[Delivery]()
    may_send = [True]
    clock = ManualClock(NOW)
    lane = lane_of(line, delivered, share=1, may_send=lambda *_: may_send[0], clock=clock)
    for parcel in singles(3, check_ms=NOW + 5000):
        lane.send(parcel)
    may_send[0] = why == "time"
    line.reply(body=encode_response(Response(code=200)))
    clock.advance(2001 if why == "time" else 0)
    lane.step(clock.now_ms())
    assert line.calls == []
    assert [delivery.tried for delivery in delivered] == [True, False, False]
    assert not any(lane.is_held(run_id) for run_id in (1, 2, 3))
    # and what comes then finds its turn
    may_send[0] = True
    lane.send(singles(1, check_ms=NOW + 9000)[0])
    assert len(line.calls) == 1


@pytest.mark.parametrize(("own", "has_source", "told"), [("run", True, "job"), (None, True, ""), ("run", False, "")])
def test_the_jobs_own_parameter_goes_beside_that_of_the_run_if_its_code_is_its_source(
    own: str | None, has_source: bool, told: str
) -> None:
    """BEAN-5: an executor that merges parameters gets both; for others nothing is added."""
    shard = Shard(run=make_run(1, param=own), job=make_job(param="job"), executor=make_executor(instance="instance-1"))
    source = GlueVersion(job_id=1, number=1, glue_type="PACKAGE", source="{}", author="", remark="", created_ms=NOW)
    request = trigger_request(shard, source if has_source else None)
    assert (request.param, request.job_param) == (own or "job", told)
    sizes = [Sizes({shard.job.id: source} if has_source else {}).of(shard.run, shard.job)]
    assert sizes[0] >= len(encode_trigger(request))
