"""Finding U3: an executor that cannot register says what is wrong and what helps."""

from __future__ import annotations

import pytest
from xwheel_devtools.testing.web import WebServer, web_reply

from xwheel.clock import ManualClock
from xwheel.errors import ConfigError, WireError
from xwheel.executor import Executor
from xwheel.executor.reporting.admin_client import AdminClient, Registration
from xwheel.wire.messages import RegistryRequest

TOKEN = "k7Qz-2fW9-xR4m-Vb8s"
REQUEST = RegistryRequest(group="EXECUTOR", app_name="orders", address="http://127.0.0.1:9999/")


def refusal(server: WebServer) -> str:
    client = AdminClient([server.url], token=TOKEN, app_name="orders", instance="i")
    with pytest.raises(WireError) as caught:
        client.register(REQUEST)
    return str(caught.value)


@pytest.mark.parametrize("status", [401, 404, 302])
def test_u3_the_wrong_port_is_named(status: int) -> None:
    with WebServer(web_reply(status, {"title": "A valid token is needed"})) as server:
        said = refusal(server)
    assert f"HTTP status {status}" in said
    assert "executor.admin_addresses takes the address of a node's executor API" in said
    assert "(port 8081 unless told otherwise)" in said


def test_u3_a_wrong_token_names_its_setting() -> None:
    with WebServer(web_reply(200, {"code": 500, "msg": "The access token is wrong."})) as server:
        said = refusal(server)
    assert "The access token is wrong. executor.access_token takes the executor token that the node showed" in said
    assert TOKEN not in said


def test_u3_an_unset_token_is_missing_and_not_short() -> None:
    with pytest.raises(ConfigError, match="access_token is missing: the executor token that the node showed"):
        Executor(handlers=[], app_name="orders", admin_addresses=["http://127.0.0.1:8081"])


@pytest.mark.parametrize(("beat_ms", "waits"), [(30_000, [1000, 2000, 4000, 5000, 5000]), (1500, [1000, 1500, 1500])])
def test_u20_a_refused_registration_is_repeated_soon_and_then_less_often(beat_ms: int, waits: list[int]) -> None:
    refused = web_reply(200, {"code": 500, "msg": "The access token is wrong."})
    with WebServer(refused) as server:
        client = AdminClient([server.url], token=TOKEN, app_name="orders", instance="i")
        registration = Registration(client, lambda: REQUEST, ManualClock(), beat_ms=beat_ms)
        assert [registration.step(0) for _ in waits] == waits
        server.reply = web_reply(200, {"code": 200})
        assert registration.step(0) == beat_ms
        server.reply = refused
        assert registration.step(0) == 1000
