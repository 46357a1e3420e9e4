"""Traps of Java peers: section 10.3 of the protocol reference, as far as no other test has them already."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import cast

import falcon.testing
import pytest
from msgspec.structs import replace

from tests.contract.test_peer_traffic import PEERS, Recording, parcel
from tests.contract.test_traps_go import ADDRESS, RUN, load, node
from tests.support.node import HandNode
from tests.support.peers import Peer, answer
from tests.support.rows import NOW, make_run
from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.executor.intake.endpoints import CallsApp, Endpoints
from xwheel.model import RunState
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.records import Fate, Parcel
from xwheel.scheduler.runs.logs import ExecutorLogs
from xwheel.scheduler.send.lane import encode_parcel, trigger_request
from xwheel.wire import codec, contract
from xwheel.wire.http import post
from xwheel.wire.http.networks import ExecutorNetworks
from xwheel.wire.messages import Response

__all__ = ["node"]

JAVA = [name for name in PEERS if name.startswith("java-")]


def test_the_fourth_generation_gets_its_own_path_and_the_app_name() -> None:
    sent = parcel(RUN)
    body = encode_parcel(sent)[1]
    newest = Parcel(lane=0, executor=dataclasses.replace(sent.executor, generation=4), shards=sent.shards)
    assert encode_parcel(newest) == (f"{sent.executor.address}/trigger", body)
    assert encode_parcel(sent)[0] == f"{sent.executor.address}/run"
    assert contract.headers_for("a-token", "demo")[contract.APP_NAME_HEADER] == "demo"


@pytest.mark.parametrize("name", JAVA)
def test_replies_called_html_are_read_as_json(name: str) -> None:
    told = Recording(name).told(contract.RUN)
    assert {item["type"] for item in told} == {"text/html;charset=UTF-8"}
    page = answer("200 OK", told[0]["reply"].encode(), "Content-Type: text/html;charset=UTF-8\r\n")
    with Peer(lambda *_: page) as peer:
        assert post(f"{peer.url}/run", b"{}", token="a-token-for-tests-only").ok


def test_a_beat_without_body_and_length_has_an_empty_body() -> None:
    class Heard(Endpoints):
        def __init__(self) -> None:
            self.bodies: list[bytes] = []

        def answer(
            self, method: str, path: str, header: Callable[[str], str | None], read: Callable[[], bytes]
        ) -> Response:
            assert header("Content-Length") is None
            self.bodies.append(read())
            return Response(code=contract.OK)

    heard = Heard()
    client = falcon.testing.TestClient(CallsApp(heard, max_body_bytes=100, clock=ManualClock()))
    assert client.simulate_post("/beat").json["code"] == contract.OK
    assert heard.bodies == [b""]


class OneExecutor:
    """A registry in which each address is a live executor's."""

    def is_live(self, _group_id: int, _address: str, _now_ms: int) -> bool:
        return True

    def token_at(self, _group_id: int, _address: str) -> str:
        return "a-token-for-tests-only"

    def app_name(self, _group_id: int) -> str:
        return "demo"


def test_the_log_is_asked_for_with_the_very_time_of_the_run() -> None:
    # log directories have their day in the executor's zone: any other millisecond might be another day
    created_ms = NOW + 86_399_999
    page = b'{"code":200,"data":{"fromLineNum":1,"toLineNum":0,"logContent":"","isEnd":false}}'
    with Peer(lambda *_: answer("200 OK", page)) as peer:
        run = make_run(7, address=peer.url, created_ms=created_ms)
        networks = ExecutorNetworks.from_config(build_config({}))
        logs = ExecutorLogs(cast(ExecutorRegistry, OneExecutor()), lambda: NOW, timeout_s=5, networks=networks)
        logs.read_log(run, 1)
        asked = json.loads(peer.requests[0].partition(b"\r\n\r\n")[2])
    assert (asked["logDateTim"], asked["logDateTime"]) == (created_ms, created_ms)
    (shard,) = parcel(RUN).shards
    sent = trigger_request(replace(shard, run=run))
    assert json.loads(codec.encode_trigger(sent))["logDateTime"] == created_ms


def test_a_run_whose_reply_came_too_late_is_not_sent_again(node: HandNode) -> None:
    node.register(ADDRESS, kind="foreign", instance="", boot="")
    job = node.job(enabled=False, max_retries=3)
    run_id = node.scheduler.management.run_now.run(job.id).id
    node.run_for(300)
    assert len(node.sent) == 1
    node.answer(Fate.UNKNOWN, "timed out")
    assert load(node, run_id).state is RunState.RUNNING
    node.run_for(60_000, step_ms=1000)
    assert node.sent == []
    assert len(node.runs(job.id)) == 1  # and no retry is planned: it may run there
    node.finish([load(node, run_id)])
    assert load(node, run_id).state is RunState.SUCCEEDED
