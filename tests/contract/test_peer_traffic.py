"""What real peers said and were told, kept by ``python -m tests.interop.record``, played again without them.

What we say to a peer must still be what it was told, byte for byte; what it said must still mean the same.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, Api, api
from tests.support.rows import make_executor, make_job, make_run
from xwheel.model import RegisteredExecutor, Run, RunState
from xwheel.scheduler.check.questions import QuestionKind, RunQuestion, encode_question, read_reply
from xwheel.scheduler.executors.calls import read_answer
from xwheel.scheduler.records import Fate, Parcel, Shard
from xwheel.scheduler.send.lane import encode_parcel, read_answers
from xwheel.storage.open_runs import OpenRun
from xwheel.wire import codec, contract
from xwheel.wire.http import HttpResult
from xwheel.wire.messages import LogRequest

__all__ = ["api"]

DATA: Final = Path(__file__).parent / "data" / "peers"
FILES: Final = sorted(DATA.glob("*.json"))
PEERS: Final = [path.stem for path in FILES]
AT_MS: Final = 1_790_000_000_123
TEXT: Final = "grüße 世界 <&>"

Exchange = dict[str, Any]

SAID: Final = {
    "java": {
        "echo": (RunState.SUCCEEDED, 200, f"{TEXT} 0/1"),
        "fail": (RunState.FAILED, 500, "no luck with it"),
        "late": (RunState.TIMED_OUT, 502, "job execute timeout"),
        "kept": (RunState.FAILED, 500, "scheduling center kill job."),
        "lines": (RunState.SUCCEEDED, 200, "logged"),
    },
    "go": {
        "echo": (RunState.SUCCEEDED, 200, f"{TEXT} 0/1"),
        "fail": (RunState.FAILED, 500, "no luck with it"),
        "late": (RunState.FAILED, 500, "context deadline exceeded"),
        "kept": (RunState.FAILED, 500, "context canceled"),
        "lines": (RunState.SUCCEEDED, 200, "logged"),
    },
    "pyxxl": {
        "echo": (RunState.SUCCEEDED, 200, f"{TEXT} 0/1"),
        "fail": (RunState.FAILED, 500, "no luck with it"),
        "late": (RunState.FAILED, 500, "TimeoutError"),
        "kept": (RunState.FAILED, 500, "CancelledError"),
        "lines": (RunState.SUCCEEDED, 200, "logged"),
    },
}
"""By kind of peer and what the run did: the state that its callback brings, the code, and words of the message."""

REFUSALS: Final = {
    "java": {"unknown": "job handler [nobody] not found.", "discarded": contract.TEXT_DISCARD},
    "go": {"unknown": "Task not registered", "discarded": "There are tasks running"},
    "pyxxl": {"unknown": "nobody", "discarded": "already executing"},
}
IDLE_TEXTS: Final = {"java": contract.TEXT_BUSY, "go": "Task is busy", "pyxxl": "is running"}


class Recording:
    """The traffic of one peer."""

    def __init__(self, name: str) -> None:
        found = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        self.kind = name.partition("-")[0]
        self.labels: dict[int, str] = {int(run_id): label for run_id, label in found["runs"].items()}
        self.exchanges: list[Exchange] = found["exchanges"]

    def told(self, *paths: str) -> list[Exchange]:
        """Return what xwheel said to the peer, of these paths."""
        return [item for item in self.exchanges if item["from"] == "xwheel" and item["path"] in paths]

    def said(self, call: str) -> list[Exchange]:
        """Return what the peer said to xwheel, of one call."""
        return [item for item in self.exchanges if item["from"] == "peer" and item["path"].endswith(f"/{call}")]


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest) -> Recording:
    return Recording(request.param)


def foreign() -> RegisteredExecutor:
    return make_executor("http://127.0.0.1:9999", kind="foreign", instance="", boot="")


def result(exchange: Exchange) -> HttpResult:
    return HttpResult(
        key=None, status=exchange["status"], body=exchange["reply"].encode(), error="", sent=True, cost_ms=5
    )


def parcel(body: dict[str, Any]) -> Parcel:
    """Return what a node would send: a job and a run as their rows are."""
    job = make_job(
        id=body["jobId"],
        handler=body["executorHandler"],
        block_strategy=body["executorBlockStrategy"],
        timeout_s=body["executorTimeout"],
    )
    run: Run = make_run(
        body["logId"], job_id=body["jobId"], param=body["executorParams"], created_ms=AT_MS, planned_ms=AT_MS
    )
    return Parcel(lane=0, executor=foreign(), shards=[Shard(run=run, job=job, executor=foreign())])


def open_run(job_id: int) -> OpenRun:
    return OpenRun(
        id=1,
        job_id=job_id,
        group_id=1,
        partition=job_id,
        state=RunState.RUNNING,
        created_ms=AT_MS,
        address="http://127.0.0.1:9999",
        instance="",
        dispatched_ms=AT_MS,
        accepted_ms=AT_MS,
        check_ms=AT_MS,
        reason="",
        kill_requested=False,
        started_ms=None,
        timeout_s=0,
    )


def question(ask: QuestionKind, exchange: Exchange) -> RunQuestion:
    job_id = json.loads(exchange["body"])["jobId"]
    return RunQuestion(ask, foreign(), [open_run(job_id)], AT_MS, AT_MS)


def replay(api: Api, exchange: Exchange) -> None:
    """Let the peer say it again; the answer must be the recorded one."""
    headers = {**exchange["headers"], "xxl-job-access-token": EXECUTOR_TOKEN}
    answer = api.executor.simulate_post(exchange["path"], body=exchange["body"].encode(), headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (exchange["status"], exchange["type"])
    assert answer.text == exchange["reply"]


def test_all_peers_have_a_recording_of_every_call() -> None:
    assert {name.partition("-")[0] for name in PEERS} == {"java", "go", "pyxxl"}
    for name in PEERS:
        recording = Recording(name)
        for path in (contract.BEAT, contract.IDLE_BEAT, contract.RUN, contract.KILL, contract.LOG):
            assert recording.told(path), (name, path)
        for call in (contract.REGISTRY, contract.REGISTRY_REMOVE, contract.CALLBACK):
            assert recording.said(call), (name, call)


def test_headers_are_as_they_were(peer: Recording) -> None:
    ours = {name.lower(): value for name, value in contract.headers_for("the-recorded-token", "recorded").items()}
    for exchange in peer.told(contract.BEAT, contract.IDLE_BEAT, contract.RUN, contract.KILL, contract.LOG):
        length = {"content-length": str(len(exchange["body"].encode()))}
        assert exchange["headers"] == {**ours, **length}


def test_registration_and_farewell(peer: Recording, api: Api) -> None:
    group_id = api.group("recorded")
    (beat,), (farewell,) = peer.said(contract.REGISTRY), peer.said(contract.REGISTRY_REMOVE)
    replay(api, beat)
    (live,) = api.parts.registry.live(group_id, api.clock.now_ms())
    assert (live.address, live.kind, live.generation) == ("http://127.0.0.1:9999", "foreign", 3)
    assert live.registered_as == "http://127.0.0.1:9999" + ("/" if peer.kind == "java" else "")
    replay(api, farewell)
    assert api.parts.registry.live(group_id, api.clock.now_ms()) == []


def test_outcomes(peer: Recording, api: Api) -> None:
    api.group("recorded")
    api.running(*peer.labels)
    for exchange in peer.said(contract.CALLBACK):
        replay(api, exchange)
    for run_id, label in peer.labels.items():
        run = api.run(run_id)
        if label in REFUSALS[peer.kind]:
            assert run.state is RunState.RUNNING, label  # refused by the reply to /run: nothing was reported
            continue
        state, code, words = SAID[peer.kind][label]
        assert (label, run.state, run.result_code) == (label, state, code)
        assert words in run.message


def test_runs(peer: Recording) -> None:
    seen = set()
    for exchange in peer.told(contract.RUN):
        body = json.loads(exchange["body"])
        sent = parcel(body)
        url, spelled = encode_parcel(sent)
        assert (url, spelled.decode()) == ("http://127.0.0.1:9999/run", exchange["body"])
        label = peer.labels[body["logId"]]
        (answer,) = read_answers(sent, result(exchange))
        refusal = REFUSALS[peer.kind].get(label)
        assert (label, answer.fate) == (label, Fate.REFUSED if refusal else Fate.ACCEPTED)
        assert (refusal or "") in answer.message
        seen.add(label)
    assert seen == set(peer.labels.values())


def test_idle_beats(peer: Recording) -> None:
    busy = []
    for exchange in peer.told(contract.IDLE_BEAT):
        asked = question(QuestionKind.IDLE, exchange)
        path, body = encode_question(asked)
        assert (path, body.decode()) == (contract.IDLE_BEAT, exchange["body"])
        reply = read_reply(asked, read_answer(result(exchange)))
        assert (reply.error, reply.reached) == ("", True)
        busy.append(not reply.yes)
        assert reply.yes or IDLE_TEXTS[peer.kind] in codec.decode_response(exchange["reply"].encode()).message
    assert any(busy)


def test_kills(peer: Recording) -> None:
    for exchange in peer.told(contract.KILL):
        asked = question(QuestionKind.KILL, exchange)
        path, body = encode_question(asked)
        assert (path, body.decode()) == (contract.KILL, exchange["body"])
        assert read_reply(asked, read_answer(result(exchange))).yes


def test_beats(peer: Recording) -> None:
    (exchange,) = peer.told(contract.BEAT)
    assert exchange["body"] == ""
    assert codec.decode_response(exchange["reply"].encode()).ok


def test_logs(peer: Recording) -> None:
    contents: dict[int, list[str]] = {}
    for exchange in peer.told(contract.LOG):
        body = json.loads(exchange["body"])
        request = LogRequest(run_id=body["logId"], created_ms=AT_MS, from_line=body["fromLineNum"])
        assert codec.encode_log_request(request).decode() == exchange["body"]
        page = codec.read_log_data(codec.decode_response(exchange["reply"].encode()).data)
        contents.setdefault(request.from_line, []).append(page.content)
    lines = [f"line {number} of 4" for number in range(1, 5)]
    assert all(contents[1][-1].count(line) == 1 for line in lines)
    assert any(all((line in page) == (line in lines[:2]) for line in lines) for page in contents[1])
    assert contents[1000] == [""]
