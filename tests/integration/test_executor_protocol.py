"""An executor against schedulers of every generation: register, beat, run, outcome, log, kill, removal."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import APP_NAME, FakeAdmin
from tests.support.executors import executor_of
from xwheel.executor import JobContext, job


@job("echo")
def echo(ctx: JobContext) -> str:
    ctx.log(f"param is {ctx.param}")
    print("printed")
    return f"{ctx.param}/{ctx.shard_index}/{ctx.shard_total}"


@job("waits")
def waits(ctx: JobContext) -> None:
    ctx.log("waiting")
    ctx.wait(60)


@pytest.mark.parametrize("generation", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("context_path", ["", "/xxl-job-admin"])
def test_the_whole_scenario(generation: int, context_path: str, tmp_path: Path) -> None:
    with FakeAdmin(generation, context_path) as admin, executor_of(admin, tmp_path, [echo, waits]) as executor:
        beat = admin.wait_for(lambda: admin.registered)[0]
        assert (beat["registryGroup"], beat["registryKey"]) == ("EXECUTOR", APP_NAME)
        address = beat["registryValue"]
        assert address == executor.address == f"http://127.0.0.1:{executor.port}/"

        assert admin.call(address, "/beat")["code"] == 200
        assert admin.call(address, "/idleBeat", {"jobId": 1})["code"] == 200

        answer = admin.run(address, "echo", 11, executorParams="häß", broadcastIndex=1, broadcastTotal=3)
        assert answer["code"] == 200
        outcome = admin.outcome(11)
        assert outcome["executeResult"]["code"] == 200
        if generation != 1:
            assert (outcome["handleCode"], outcome["handleMsg"]) == (200, "häß/1/3")
        time_key = "logDateTime" if generation == 4 else "logDateTim"
        assert outcome[time_key] == 1_790_000_000_000

        # the scheduler's database keeps whole seconds
        request = {"logId": 11, time_key: 1_790_000_000_000, "fromLineNum": 1}
        log = admin.payload(admin.call(address, "/log", request))
        lines = log["logContent"].splitlines()
        assert lines[0].endswith(" run 11 of job 1, handler echo, shard 1 of 3, parameter 'häß'")
        assert lines[1].endswith(" param is häß")
        assert lines[2] == "printed"
        assert re.search(r" succeeded after \d+\.\d{3} s: häß/1/3$", lines[3])
        assert (log["fromLineNum"], log["toLineNum"], log["isEnd"]) == (1, 4, True)
        beyond = admin.payload(admin.call(address, "/log", {**request, "fromLineNum": 5}))
        assert beyond["fromLineNum"] > beyond["toLineNum"]
        assert beyond["logContent"] == ""

        assert admin.run(address, "waits", 12, job_id=7)["code"] == 200
        assert admin.call(address, "/idleBeat", {"jobId": 7})["msg"] == "job thread is running or has trigger queue."
        assert admin.call(address, "/kill", {"jobId": 7})["code"] == 200
        killed = admin.outcome(12)
        assert killed["executeResult"] == {"code": 500, "msg": "scheduling center kill job.", "content": None}
        admin.wait_for(lambda: admin.call(address, "/idleBeat", {"jobId": 7})["code"] == 200)
        again = admin.call(address, "/kill", {"jobId": 7})
        assert (again["code"], admin.payload(again)) == (200, "job thread already killed.")

        executor.stop()
        assert admin.removed[0]["registryValue"] == address


@pytest.mark.parametrize("generation", [0, 1, 2, 3, 4])
def test_outcomes_wait_for_a_scheduler_that_is_down(generation: int, tmp_path: Path) -> None:
    with FakeAdmin(generation) as admin, executor_of(admin, tmp_path, [echo]) as executor:
        admin.wait_for(lambda: admin.registered)
        gate = threading.Event()
        address = executor.address
        admin.refuse = lambda uri, _body: {"code": 500, "msg": "busy"} if uri == "callback" else None
        for log_id in range(1, 6):
            assert admin.run(address, "echo", log_id)["code"] == 200
        admin.wait_for(lambda: any(isinstance(body, list | dict) for body in admin.bodies))
        admin.down()
        for log_id in range(6, 11):
            assert admin.run(address, "echo", log_id)["code"] == 200
        gate.wait(0.3)
        assert admin.outcomes == []
        admin.refuse = lambda _uri, _body: None
        admin.up()
        for log_id in range(1, 11):
            assert admin.outcome(log_id)["executeResult"]["code"] == 200
        assert sorted(item["logId"] for item in admin.outcomes) == list(range(1, 11))


def test_the_next_address_takes_over(tmp_path: Path) -> None:
    with FakeAdmin(2) as first, FakeAdmin(3) as second:
        first.down()
        with executor_of(second, tmp_path, [echo], admin_addresses=[first.url, second.url + "/api/"]) as executor:
            second.wait_for(lambda: second.registered)
            second.run(executor.address, "echo", 1)
            assert second.outcome(1)["handleCode"] == 200


def test_one_outcome_that_is_refused_does_not_hold_up_the_others(tmp_path: Path) -> None:
    def refuse(uri: str, body: Any) -> dict[str, Any] | None:
        bad = uri == "callback" and any(item["logId"] == 2 for item in body)
        return {"code": 500, "msg": "NullPointerException"} if bad else None

    with FakeAdmin(1) as admin, executor_of(admin, tmp_path, [echo]) as executor:
        admin.refuse = refuse
        for log_id in range(1, 6):
            admin.run(executor.address, "echo", log_id)
        for log_id in (1, 3, 4, 5):
            admin.outcome(log_id)
        assert admin.outcomes_of(2) == []
