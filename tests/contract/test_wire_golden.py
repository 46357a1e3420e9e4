"""Every message of every generation, as the protocol reference spells it, against our records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from xwheel.errors import NotYetError, WireError
from xwheel.model import BlockStrategy, RunState
from xwheel.wire import codec, contract
from xwheel.wire.messages import (
    Answers,
    BatchAnswer,
    CallbackItem,
    ExecutionState,
    KillRequest,
    LogData,
    LogPart,
    LogReceipt,
    LogRequest,
    RegistryRequest,
    Response,
    RunKey,
    StateAnswer,
    TriggerRequest,
)

DATA = Path(__file__).parent / "data" / "wire"

RUN = TriggerRequest(
    job_id=7,
    run_id=1234567890123,
    created_ms=1790000000123,
    handler="demoJobHandler",
    param="a=1&b=<2>",
    block_strategy=BlockStrategy.DISCARD_LATER,
    timeout_s=30,
    glue_updated_ms=1780000000000,
    shard_index=2,
    shard_total=5,
)
ABSENT = TriggerRequest(job_id=7, run_id=12, created_ms=1790000000123, handler="demoJobHandler")
XWHEEL_RUN = TriggerRequest(
    job_id=7,
    run_id=12,
    created_ms=1790000000123,
    handler="demoJobHandler",
    param="p",
    planned_ms=1790000000000,
    attempt=2,
    instance="f00d",
)
PARAM_RUN = msgspec.structs.replace(XWHEEL_RUN, job_param="stored")
KILLED = CallbackItem(
    run_id=11,
    created_ms=1790000000123,
    code=500,
    message="scheduling center kill job.",
    job_id=7,
    state=RunState.KILLED,
    reason="killed",
    started_ms=1790000000200,
    finished_ms=1790000000300,
)
BEAT = RegistryRequest(group="EXECUTOR", app_name="demo-app", address="http://10.0.0.5:9999/")
XWHEEL_BEAT = RegistryRequest(
    group="EXECUTOR",
    app_name="demo-app",
    address="http://10.0.0.5:9999/",
    instance="f00d",
    boot="beef",
    labels={"zone": "a"},
)
DECLARING_BEAT = msgspec.structs.replace(XWHEEL_BEAT, release="1.4.2", declared="ab12" * 16)
LOG = LogData(from_line=5, to_line=6, content="five\nsix\n", is_end=False)
BATCH_REPLY = Answers(
    "f00d", [BatchAnswer(run_id=12, code=200), BatchAnswer(run_id=13, code=500, message="job handler [x] not found.")]
)
STATE_REPLY = Answers(
    "f00d",
    [
        StateAnswer(run_id=12, state=ExecutionState.STARTED, running_ms=1500),
        StateAnswer(run_id=11, state=ExecutionState.FINISHED, outcome=KILLED),
    ],
)


def golden(name: str) -> bytes:
    return (DATA / f"{name}.json").read_bytes()


def done(run_id: int, code: int, message: str, created_ms: int, state: RunState) -> CallbackItem:
    return CallbackItem(run_id=run_id, code=code, message=message, created_ms=created_ms, state=state)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("run.g1-g3", RUN), ("run.absent-params", ABSENT), ("run.xwheel", XWHEEL_RUN), ("run.job-param", PARAM_RUN)],
)
def test_triggers_are_read(name: str, expected: TriggerRequest) -> None:
    assert codec.decode_trigger(golden(name)) == expected


@pytest.mark.parametrize(
    ("name", "request_"), [("run.g1-g3", RUN), ("run.xwheel", XWHEEL_RUN), ("run.job-param", PARAM_RUN)]
)
def test_triggers_are_spelled(name: str, request_: TriggerRequest) -> None:
    assert json.loads(codec.encode_trigger(request_)) == json.loads(golden(name))


OK = RunState.SUCCEEDED
CALLBACKS: dict[str, list[CallbackItem]] = {
    "g1": [
        done(11, 200, "", 1790000000123, OK),
        done(12, 502, "job execute timeout ", 1790000000124, RunState.TIMED_OUT),
    ],
    "g2-g3": [
        done(11, 200, "done", 1790000000123, OK),
        done(12, 500, "java.lang.RuntimeException: no", 1790000000124, RunState.FAILED),
    ],
    "g4": [done(11, 200, "done", 1790000000123, OK)],
    "go": [done(11, 500, "job handler panic", 1790000000123, RunState.FAILED)],
    "pyxxl": [done(11, 200, '{"rows":[1,2.5,null]}', 1790000000123, OK)],
    "single": [done(11, 200, "", 1790000000123, OK)],
    "xwheel": [KILLED],
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_callbacks_are_read(name: str) -> None:
    assert codec.decode_callbacks(golden(f"callback.{name}")) == (CALLBACKS[name], [])


def test_a_bad_outcome_fails_alone() -> None:
    good, bad = codec.decode_callbacks(golden("callback.some-bad"))
    assert [(item.run_id, item.code, item.message) for item in good] == [(11, 200, ""), (14, 404, "7")]
    assert [(item.index, item.run_id, item.error.split(":")[0]) for item in bad] == [
        (1, 12, "handleCode"),
        (2, 0, "logId"),
        (3, 0, "item 3"),
        (4, 13, "handleCode"),
    ]


def test_callbacks_are_spelled_in_both_styles() -> None:
    items = json.loads(golden("callback.xwheel"))
    assert json.loads(codec.encode_callbacks([KILLED], generation=1)) == items
    assert json.loads(codec.encode_callbacks([KILLED], generation=3)) == items
    assert json.loads(codec.encode_callbacks([KILLED], generation=4)) == {"callbackList": items}


def test_long_messages_are_cut() -> None:
    (item,) = json.loads(codec.encode_callbacks([CallbackItem(run_id=1, code=500, message="x" * 20_000)]))
    assert len(item["handleMsg"]) == 15_000
    assert item["handleMsg"].endswith(" … (20000 characters)")
    body = json.dumps([{"logId": 1, "handleCode": 500, "handleMsg": "y" * 20_000}]).encode()
    assert len(codec.decode_callbacks(body)[0][0].message) == 15_000


def test_registry() -> None:
    assert codec.decode_registry(golden("registry.java")) == BEAT
    assert codec.decode_registry(golden("registry.xwheel")) == XWHEEL_BEAT
    assert json.loads(codec.encode_registry(XWHEEL_BEAT)) == json.loads(golden("registry.xwheel"))
    assert codec.decode_registry(golden("registry.declares")) == DECLARING_BEAT
    assert json.loads(codec.encode_registry(DECLARING_BEAT)) == json.loads(golden("registry.declares"))


@pytest.mark.parametrize("field", ["registryGroup", "registryKey", "registryValue"])
@pytest.mark.parametrize("value", [None, "", "  ", 256 * "x", {}, []])
def test_blank_or_long_registry_fields_are_named(field: str, value: Any) -> None:
    message = {**json.loads(golden("registry.java")), field: value}
    with pytest.raises(WireError, match=f"^{field}: "):
        codec.decode_registry(json.dumps(message).encode())


def test_kill_and_idle_beat() -> None:
    assert codec.decode_kill(golden("kill")) == KillRequest(job_id=7)
    assert codec.decode_idle_beat(golden("kill")) == 7
    assert json.loads(codec.encode_idle_beat(7)) == {"jobId": 7}
    one = KillRequest(job_id=7, run_id=12)
    assert codec.decode_kill(golden("kill.xwheel")) == one
    assert json.loads(codec.encode_kill(one)) == json.loads(golden("kill.xwheel"))
    assert json.loads(codec.encode_kill(KillRequest(job_id=7))) == {"jobId": 7}


def test_log_requests() -> None:
    expected = LogRequest(run_id=12, created_ms=1790000000000, from_line=5)
    for name in ("log.g1-g3", "log.g4", "log.sent"):
        assert codec.decode_log_request(golden(name)) == expected
    assert json.loads(codec.encode_log_request(expected)) == json.loads(golden("log.sent"))


@pytest.mark.parametrize("name", ["log-g2", "log-g3", "log-console", "log-sent"])
def test_logs_are_read_from_either_key(name: str) -> None:
    answer = codec.decode_response(golden(f"reply.{name}"))
    assert codec.read_log_data(answer.data) == LOG


def test_our_answers_suit_everybody() -> None:
    answer = Response(code=200, data=codec.log_payload(LOG))
    assert json.loads(codec.encode_response(answer)) == json.loads(golden("reply.log-sent"))
    refused = json.loads(codec.encode_response(Response(code=500)))
    assert (refused["msg"], refused["success"]) == ("Fail", False)


@pytest.mark.parametrize(
    ("name", "code", "message", "data"),
    [
        ("admin-g1", 200, "", None),
        ("admin-g3", 200, "Success", None),
        ("executor-g1-g2", 200, "", None),
        ("executor-g3", 200, "Success", None),
        ("refused", 500, "block strategy effect：Discard Later", None),
        ("go-run", 500, "There are tasks running", None),
        ("kill-idle-g3", 200, "Success", "job thread already killed."),
    ],
)
def test_replies_are_read(name: str, code: int, message: str, data: object) -> None:
    expected = Response(code=code, message=message, data=data)
    assert codec.decode_response(golden(f"reply.{name}")) == expected


def test_batches() -> None:
    assert json.loads(codec.encode_batch("f00d", [XWHEEL_RUN])) == json.loads(golden("run_batch"))
    assert codec.decode_batch(golden("run_batch")) == ("f00d", [XWHEEL_RUN], [])
    reply = json.loads(golden("run_batch.reply"))
    assert codec.batch_payload("f00d", BATCH_REPLY.answers) == reply
    assert codec.read_batch_reply(reply) == BATCH_REPLY
    reply["runs"][1]["code"] = "what"
    assert [item.run_id for item in codec.read_batch_reply(reply).answers] == [12]


def test_an_executor_may_say_not_yet() -> None:
    text = "this node is in no cluster now"
    refusal = contract.error_response(NotYetError(text))
    assert refusal == Response(code=500, message=text, not_yet=True)
    assert json.loads(codec.encode_response(refusal)) == json.loads(golden("reply.not-yet"))
    assert codec.decode_response(golden("reply.not-yet")) == Response(code=500, message=text, xwheel=True, not_yet=True)
    reply = json.loads(golden("run_batch.reply.not-yet"))
    answers = [BatchAnswer(run_id=12, code=200), BatchAnswer(run_id=13, code=500, message=text, not_yet=True)]
    assert codec.batch_payload("f00d", answers) == reply
    assert codec.read_batch_reply(reply) == Answers("f00d", answers)


def test_peers_of_the_version_before_see_a_refusal_in_not_yet() -> None:
    """They read ``code`` and ``msg``, and that the key ``xwheel`` is there; what they answer says no ``not_yet``."""
    plain = json.loads(codec.encode_response(Response(code=500, message="this node is in no cluster now")))
    said = json.loads(golden("reply.not-yet"))
    assert {**said, "xwheel": 1} == plain
    item = json.loads(golden("run_batch.reply.not-yet"))["runs"][1]
    assert item.pop("not_yet") is True
    assert item == {"id": 13, "code": 500, "msg": "this node is in no cluster now"}
    assert not any(answer.not_yet for answer in codec.read_batch_reply(json.loads(golden("run_batch.reply"))).answers)
    for extra in (1, True, {}, {"not_yet": 1}, {"not_yet": "true"}, ["not_yet"], None):
        body = json.dumps({**said, "xwheel": extra}).encode()
        assert not codec.decode_response(body).not_yet
    for word in (1, "true", {}, [], None, False):
        (answer,) = codec.read_batch_reply({"instance": "f00d", "runs": [{**item, "not_yet": word}]}).answers
        assert answer == BatchAnswer(run_id=13, code=500, message="this node is in no cluster now")


def test_states() -> None:
    keys = [RunKey(12, 7, 1790000000123)]
    assert json.loads(codec.encode_states("f00d", keys)) == json.loads(golden("run_state"))
    assert codec.decode_states(golden("run_state")) == ("f00d", keys)
    reply = json.loads(golden("run_state.reply"))
    assert codec.state_payload("f00d", STATE_REPLY.answers) == reply
    assert codec.read_state_reply(reply) == STATE_REPLY


def test_shipped_logs() -> None:
    parts = [
        LogPart(run_id=12, created_ms=1790000000123, from_line=1, content="first\nsecond\n"),
        LogPart(run_id=13, created_ms=1790000000456, from_line=7, is_end=True),
    ]
    body = golden("ship_logs")
    assert json.loads(codec.encode_log_parts("f00d", parts)) == json.loads(body)
    assert codec.decode_log_parts(body) == ("f00d", parts, [])
    receipts = [
        LogReceipt(run_id=12, next_line=3),
        LogReceipt(run_id=13, next_line=7, settled=True),
        LogReceipt(run_id=14, settled=True, message="no run has this id and time"),
    ]
    reply = json.loads(golden("ship_logs.reply"))
    assert codec.receipts_payload(receipts) == reply
    assert codec.read_receipts(reply) == receipts
    request = json.loads(body)
    request["logs"][0]["logContent"] = "no end"
    _, good, bad = codec.decode_log_parts(json.dumps(request).encode())
    assert good == parts[1:]
    assert [(item.run_id, item.error) for item in bad] == [
        (12, "logContent: must be whole lines, each with a line feed at its end")
    ]
    assert [codec.wants_logs(codec.wishes_payload(ship_logs=wish)) for wish in (True, False)] == [True, False]
    for foreign in (None, "", "shipLogs", [], {"shipLogs": "yes"}):
        assert not codec.wants_logs(foreign)


def test_the_end_of_a_log_is_asked_for() -> None:
    request = LogRequest(run_id=12, created_ms=1790000000000, tail=20)
    assert json.loads(codec.encode_log_request(request)) == json.loads(golden("log.tail"))
    assert codec.decode_log_request(golden("log.tail")) == request


def test_refusals() -> None:
    bad = codec.decode_callbacks(golden("callback.some-bad"))[1]
    assert codec.read_refusals(codec.refusals_payload(bad)) == bad
    for foreign in (None, "text", {}, {"refused": "all"}, {"refused": [1]}):
        assert codec.read_refusals(foreign) == []


def test_every_golden_file_is_used() -> None:
    text = Path(__file__).read_text()
    for path in DATA.glob("*.json"):
        assert path.stem in text or path.stem.partition(".")[2] in text, path
