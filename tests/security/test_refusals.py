"""Finding S10: who is refused again and again waits longer and longer, and the log says it in a line."""

from __future__ import annotations

import logging
from typing import Any

import falcon.testing
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, TOKEN, Api
from tests.support.admins import APP_NAME, FakeAdmin
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.executor import Executor
from xwheel.runtime import http_limits
from xwheel.runtime.http_limits import FORGET_MS, FREE, LAST_PAUSE_MS, MOST_KNOWN, WINDOW_MS, Refusals
from xwheel.wire.contract import TOKEN_HEADER

STRANGER = "203.0.113.9"
LOGGER = http_limits.__name__


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def manage(api: Api, token: str, address: str = STRANGER, path: str = "jobs") -> falcon.testing.Result:
    return falcon.testing.TestClient(api.management.app).simulate_get(
        f"/api/v1/{path}", headers={"Authorization": f"Bearer {token}"}, remote_addr=address
    )


def beat(api: Api, token: str, address: str = STRANGER) -> dict[str, Any]:
    body = {"registryGroup": "EXECUTOR", "registryKey": "demo", "registryValue": "http://10.0.0.1:9999"}
    found: dict[str, Any] = (
        falcon.testing.TestClient(api.executor.app)
        .simulate_post("/api/registry", json=body, headers={TOKEN_HEADER: token}, remote_addr=address)
        .json
    )
    return found


def test_s10_an_address_waits_longer_and_longer(api: Api) -> None:
    answers = [manage(api, f"wrong-{number}") for number in range(FREE + 3)]
    assert [answer.status_code for answer in answers] == [401] * FREE + [429] * 3
    assert answers[-1].json["type"] == "urn:xwheel:problem:throttled"
    assert [answer.headers["retry-after"] for answer in answers[FREE:]] == ["1"] * 3
    waits = []
    for _ in range(8):
        api.clock.advance(1000 * int(manage(api, "wrong").headers["retry-after"]))
        waits.append(int(manage(api, "wrong").headers["retry-after"]))
    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]


def test_s10_a_right_token_is_never_throttled(api: Api) -> None:
    """Others share the address of a proxy: a stranger behind it must not shut them out."""
    api.group("demo")
    for number in range(2 * FREE):
        manage(api, f"wrong-{number}")
        beat(api, f"wrong-{number}")
    assert manage(api, "wrong").status_code == 429
    assert manage(api, TOKEN).status_code == 200
    assert beat(api, EXECUTOR_TOKEN)["code"] == 200


def test_s10_a_token_waits_wherever_it_comes_from(api: Api) -> None:
    for number in range(FREE):
        assert manage(api, "leaked-and-deleted", f"198.51.100.{number}").status_code == 401
    assert manage(api, "leaked-and-deleted", "198.51.100.200").status_code == 429
    assert manage(api, "another", "198.51.100.200").status_code == 401


def test_s10_the_executor_api_says_so_in_its_envelope(api: Api) -> None:
    answers = [beat(api, "wrong-token") for _ in range(FREE + 1)]
    assert {answer["code"] for answer in answers} == {500}
    assert "ask again" not in answers[0]["msg"]
    assert answers[-1]["msg"].endswith("too many such calls: ask again in 1 s")


def test_s10_eight_thousand_refused_calls_are_two_lines(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        for number in range(8000):
            beat(api, f"wrong-{number}") if number else manage(api, "wrong")
        assert len(caplog.records) == 2  # the first of each listener, at once
        assert "refused POST '/api/registry' from 203.0.113.9" in lines(caplog)[1]
        api.clock.advance(WINDOW_MS)
        beat(api, EXECUTOR_TOKEN)  # whatever comes next
        (said,) = lines(caplog)[2:]
    assert said == (
        "refused 7998 calls with a token missing or wrong in 30 s: 203.0.113.9 POST '/api/registry' 7998 times"
    )
    assert "wrong-" not in caplog.text


def test_s10_large_bodies_are_counted_once(api: Api) -> None:
    """The listener asks for the caller before it reads such a body, and then lets the application refuse it."""
    environ = falcon.testing.create_environ(
        "/api/registry", method="POST", headers={TOKEN_HEADER: "wrong"}, remote_addr=STRANGER
    )
    for _ in range(2 * FREE):
        assert not api.executor.app.admits(environ)
        assert not api.management.app.admits(environ)
    assert "ask again" not in beat(api, "wrong")["msg"]


def test_s10_an_executor_names_who_it_refuses(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    with FakeAdmin() as admin:
        executor = Executor(
            glue_types={"BEAN": BeanGlue()},
            app_name=APP_NAME,
            admin_addresses=[admin.url],
            access_token="Wm5v-token-of-this-test",
            port=0,
            data_dir=tmp_path,
            leave_s=0,
        )
        with executor:
            address = executor.address
            for _ in range(50):
                assert admin.call(address, "/run", {"jobId": 1})["code"] == 500
    assert lines(caplog) == [
        "refused POST '/run' from 127.0.0.1: token missing or wrong; further refused calls are counted"
    ]


def test_s10_a_window_names_the_worst_and_counts_the_rest(caplog: pytest.LogCaptureFixture) -> None:
    counted = Refusals()
    counted.note("10.0.0.1", "", "GET '/first'", 0)
    for number, times in enumerate((5, 40, 3, 20, 1), 1):
        for _ in range(times):
            counted.note(f"10.0.0.{number}", "", f"GET '/{number}'", 10)
    counted.sum_up(WINDOW_MS - 1)
    assert len(lines(caplog)) == 1
    counted.sum_up(WINDOW_MS)
    assert lines(caplog)[1] == (
        "refused 69 calls with a token missing or wrong in 30 s: 10.0.0.2 GET '/2' 40 times, "
        "10.0.0.4 GET '/4' 20 times, 10.0.0.1 GET '/1' 5 times, others 4 times"
    )
    counted.sum_up(2 * WINDOW_MS)  # a quiet window is no line, and the next refused call is told at once
    counted.note("10.0.0.1", "", "GET '/x'", 2 * WINDOW_MS)
    assert lines(caplog)[2:] == [
        "refused GET '/x' from 10.0.0.1: token missing or wrong; further refused calls are counted"
    ]


def test_s10_memory_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    counted = Refusals()
    for number in range(3 * MOST_KNOWN):
        counted.note(f"10.1.{number // 256}.{number % 256}", f"token-{number}", f"GET '/{number}'", number)
        counted.note("10.9.9.9", f"other-{number}", f"GET '/{number}'", number)
    assert [len(known) for known in counted._records] == [MOST_KNOWN, MOST_KNOWN]
    assert len(counted._window.routes) <= MOST_KNOWN + 1
    assert sum(map(len, counted._window.routes.values())) <= 5 * (MOST_KNOWN + 1)
    counted.sum_up(WINDOW_MS)
    assert len(caplog.records) == 2
    assert len(lines(caplog)[1]) < 500


def test_s10_networks_of_ipv6_are_one_address() -> None:
    counted = Refusals()
    waits = [counted.note(f"2001:db8::{number:x}", "", "GET '/'", 0) for number in range(1, FREE + 2)]
    assert waits[-2:] == [0, 1000]


def test_s10_who_was_quiet_for_long_begins_anew() -> None:
    counted = Refusals()
    for _ in range(FREE + 1):
        wait_ms = counted.note(STRANGER, "", "GET '/'", 0)
    assert wait_ms == 1000
    assert counted.note(STRANGER, "", "GET '/'", LAST_PAUSE_MS) == 2000
    assert counted.note(STRANGER, "", "GET '/'", LAST_PAUSE_MS + FORGET_MS + 1) == 0
