"""A broadcast to more executors than there are places goes to all of them, and waits for no more than one place."""

from __future__ import annotations

import socket

import pytest

from tests.support.node import HandNode
from xwheel.model import RunState
from xwheel.ring import FAST
from xwheel.wire.http import HttpCall, HttpResult, MultiClient

WIDE = 1500


def test_r16_a_broadcast_to_1500_executors_goes_to_all_of_them(sqlite_node: HandNode) -> None:
    node = sqlite_node
    node.group()
    node.group("other")
    node.register("http://127.0.0.1:9999", app_name="other")
    node.register(*(f"http://10.0.{n // 250}.{n % 250}:9001" for n in range(WIDE)), kind="foreign", instance="")
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(200)
    runs = node.runs(job.id)
    assert len(runs) == WIDE
    assert {run.state for run in runs} == {RunState.DISPATCHING}
    assert sorted(run.shard_index for run in runs) == list(range(WIDE))
    assert node.scheduler.sending.pool.in_flight()[FAST] == WIDE
    # so the places of all others are taken until these come back
    single = node.job(enabled=False, group_id=2)
    node.scheduler.management.run_now.run(single.id)
    node.run_for(200)
    assert [run.state for run in node.runs(single.id)] == [RunState.PLANNED]
    node.answer()
    node.run_for(300)
    assert [run.state for run in node.runs(single.id)] == [RunState.DISPATCHING]
    assert {run.state for run in node.runs(job.id)} == {RunState.RUNNING}


def test_r16_a_broadcast_waits_while_not_a_single_place_is_free(sqlite_node: HandNode) -> None:
    node = sqlite_node
    node.group()
    node.register(*(f"http://10.0.0.{n}:9001" for n in range(5)), kind="foreign", instance="")
    places = [f"http://10.0.1.{n}:1" for n in range(200)]
    for address in places:
        assert node.scheduler.sending.pool.acquire(FAST, address, batch=False)
    job = node.job(enabled=False, route_strategy="SHARDING_BROADCAST")
    node.scheduler.management.run_now.run(job.id)
    node.run_for(300)
    assert [run.state for run in node.runs(job.id)] == [RunState.PLANNED]
    node.scheduler.sending.pool.release(FAST, places[0])
    node.run_for(300)
    assert [run.state for run in node.runs(job.id)] == [RunState.DISPATCHING] * 5


@pytest.mark.parametrize("wait_ms", [0, None])
def test_r16_what_waits_too_long_for_its_turn_is_not_sent(wait_ms: int | None) -> None:
    """Or others might ask about it already."""
    client = MultiClient(max_in_flight=1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client.submit(HttpCall(key="before", url=url, body=b"{}", timeout_ms=50))
        client.submit(HttpCall(key="waits", url="http://127.0.0.1:1", body=b"{}", wait_ms=wait_ms))
        try:
            results: dict[object, HttpResult] = {}
            while len(results) < 2:
                results |= {item.key: item for item in client.poll(50)}
        finally:
            client.close()
    assert results["before"].sent
    assert not results["waits"].sent
    assert ("waited for its turn" in results["waits"].error) is (wait_ms == 0)
