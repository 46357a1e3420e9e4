"""Kills and time limits of every kind of handler, and what handlers can do wrong."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import FakeAdmin
from tests.support.executor_app import HANDLERS
from tests.support.executors import executor_of, is_alive, wait_until
from xwheel.executor import Executor, JobContext, current_job, job

RELEASE = threading.Event()
SEEN: list[str] = []


@job("polite")
def polite(ctx: JobContext) -> str:
    while not ctx.cancelled:
        RELEASE.wait(0.01)
    SEEN.append("polite saw it")
    return "tidied up"


@job("busy")
def busy(ctx: JobContext) -> None:
    """Never look at the context; only an injected exception ends it."""
    try:
        while True:
            sum(range(1000))
    finally:
        SEEN.append("busy cleaned up")


@job("swallows")
def swallows(ctx: JobContext) -> str:
    for _ in range(2):
        try:
            while True:
                sum(range(1000))
        except Exception:
            SEEN.append("swallowed one")
    return "gave in"


@job("deaf")
def deaf(ctx: JobContext) -> str:
    RELEASE.wait(30)  # one call that never returns to Python code
    return "at last"


@job("async-waits")
async def async_waits(ctx: JobContext) -> None:
    try:
        await asyncio.sleep(60)
    finally:
        SEEN.append("async cleaned up")


@job("async-deaf")
async def async_deaf(ctx: JobContext) -> None:
    for _ in range(1000):
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            SEEN.append("async ignored it")
        if RELEASE.is_set():
            return


@job("returns")
async def returns(ctx: JobContext) -> Any:
    return ctx.param


@job("noop")
def noop() -> None:
    pass


OWN = [polite, busy, swallows, deaf, async_waits, async_deaf, returns, noop]


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin() as admin:
        yield admin


@pytest.fixture
def executor(admin: FakeAdmin, tmp_path: Path) -> Iterator[Executor]:
    RELEASE.clear()
    SEEN.clear()
    with executor_of(admin, tmp_path / "data", [*OWN, *HANDLERS], stop_timeout_s=0) as executor:
        yield executor
        RELEASE.set()


def end(admin: FakeAdmin, executor: Executor, handler: str, how: str, param: str = "") -> dict[str, Any]:
    """Start a run, make it end by a kill or its time limit, and return its outcome."""
    timeout = 1 if how == "timeout" else 0
    reply = admin.run(executor.address, handler, 1, executorTimeout=timeout, executorParams=param)
    assert reply["code"] == 200
    if how == "kill":
        wait_until(lambda: started(admin, executor))
        time.sleep(0.2)  # into the middle of it
        assert admin.call(executor.address, "/kill", {"jobId": 1})["code"] == 200
    return admin.outcome(1)


@pytest.mark.parametrize(
    ("how", "last"),
    [
        ("kill", "killed after [0-9.]+ s: scheduling center kill job."),
        ("timeout", "timed_out after [0-9.]+ s: the run passed its time limit of 1 s"),
    ],
)
def test_p7_the_log_of_a_run_that_was_ended_says_what_ran_and_how_it_ended(
    admin: FakeAdmin, executor: Executor, how: str, last: str
) -> None:
    end(admin, executor, "polite", how, "two\nlines")
    body = {"logId": 1, "logDateTim": 1_790_000_000_000, "fromLineNum": 1}
    lines = admin.call(executor.address, "/log", body)["data"]["logContent"].splitlines()
    limit = ", limit 1 s" if how == "timeout" else ""
    assert len(lines) == 2
    assert lines[0].endswith(f" run 1 of job 1, handler polite{limit}, parameter 'two\\nlines'")
    assert re.search(f" {last}$", lines[1])


def started(admin: FakeAdmin, executor: Executor) -> bool:
    keys = {"instance": executor.instance, "keys": [[1, 1, 1_790_000_000_000]]}
    return bool(admin.call(executor.address, "/runState", keys)["data"]["runs"][0]["state"] == "started")


def check(item: dict[str, Any], how: str, note: str = "") -> None:
    expected = {
        "kill": (500, "killed", "scheduling center kill job." + note),
        "timeout": (502, "timed_out", "the run passed its time limit of 1 s" + note),
    }[how]
    assert (item["handleCode"], item["xwheel"]["state"], item["handleMsg"]) == expected


@pytest.mark.parametrize("how", ["kill", "timeout"])
@pytest.mark.parametrize(
    ("handler", "trace"),
    [
        ("polite", "polite saw it"),
        ("busy", "busy cleaned up"),
        ("swallows", "swallowed one"),
        ("async-waits", "async cleaned up"),
        ("process", ""),
    ],
)
def test_it_ends_and_tells_why(admin: FakeAdmin, executor: Executor, handler: str, trace: str, how: str) -> None:
    check(end(admin, executor, handler, how, "60" if handler == "process" else ""), how)
    assert not trace or trace in SEEN
    admin.wait_for(lambda: admin.call(executor.address, "/idleBeat", {"jobId": 1})["code"] == 200)
    admin.run(executor.address, "noop", 2)
    assert admin.outcome(2)["handleCode"] == 200


@pytest.mark.parametrize("how", ["kill", "timeout"])
def test_grandchildren_that_ignore_term_are_gone(
    admin: FakeAdmin, executor: Executor, tmp_path: Path, how: str
) -> None:
    pids = tmp_path / "pids"
    reply = admin.run(
        executor.address,
        "stubborn",
        1,
        executorParams=str(pids),
        executorTimeout=12 if how == "timeout" else 0,  # two interpreters start first
    )
    assert reply["code"] == 200
    found = [int(word) for word in wait_until(lambda: pids.exists() and pids.read_text()).split()]
    if how == "kill":
        admin.call(executor.address, "/kill", {"jobId": 1})
    item = admin.outcome(1)
    assert item["handleCode"] == (500 if how == "kill" else 502)
    wait_until(lambda: not any(is_alive(pid) for pid in found))


@pytest.mark.parametrize("how", ["kill", "timeout"])
@pytest.mark.parametrize("handler", ["deaf", "async-deaf"])
def test_one_that_ignores_its_end_is_told_and_blocks_only_its_job(
    admin: FakeAdmin, executor: Executor, handler: str, how: str
) -> None:
    check(end(admin, executor, handler, how), how, "; the handler ignores it and still runs")
    admin.run(executor.address, "noop", 2)
    admin.run(executor.address, "noop", 3, job_id=2)
    assert admin.outcome(3)["handleCode"] == 200
    assert admin.outcomes_of(2) == []
    RELEASE.set()
    assert admin.outcome(2)["handleCode"] == 200
    assert len(admin.outcomes_of(1)) == 1


def test_what_a_process_leaves_behind_ends_with_it(admin: FakeAdmin, executor: Executor) -> None:
    admin.run(executor.address, "leaves-child", 1)
    pid = int(admin.outcome(1)["handleMsg"])
    wait_until(lambda: not is_alive(pid))


def test_process_handlers_tell_how_they_ended(admin: FakeAdmin, executor: Executor) -> None:
    admin.run(executor.address, "process", 1, job_id=1)
    admin.run(executor.address, "exits", 2, job_id=2, executorParams="3")
    admin.run(executor.address, "raises", 3, job_id=3, executorParams="no luck")
    admin.run(executor.address, "exits", 4, job_id=4, executorParams="x")
    assert admin.outcome(1)["handleMsg"].startswith("pid ")
    assert admin.outcome(2)["handleMsg"] == "the handler's process ended with status 3 and without a result"
    assert admin.outcome(3)["handleMsg"] == "ValueError: no luck"
    assert "ValueError: invalid literal" in admin.outcome(4)["handleMsg"]
    log = admin.call(executor.address, "/log", {"logId": 1, "logDateTim": 1_790_000_000_000, "fromLineNum": 1})
    lines = log["data"]["logContent"].splitlines()
    assert lines[1].endswith(" from the child")
    assert lines[2] == "printed by the child"


def test_killing_a_waiting_run_is_told(admin: FakeAdmin, executor: Executor) -> None:
    admin.run(executor.address, "polite", 1)
    admin.run(executor.address, "noop", 2)
    wait_until(lambda: started(admin, executor))
    one = {"jobId": 1, "xwheel": {"run_id": 2, "created_ms": 1_790_000_000_000}}
    admin.call(executor.address, "/kill", one)
    assert admin.outcome(2)["handleMsg"] == "scheduling center kill job."
    assert admin.outcomes_of(1) == []
    admin.call(executor.address, "/kill", {"jobId": 1})
    admin.outcome(1)


def test_block_strategies(admin: FakeAdmin, executor: Executor) -> None:
    admin.run(executor.address, "polite", 1)
    later = admin.run(executor.address, "noop", 2, executorBlockStrategy="DISCARD_LATER")
    assert (later["code"], later["msg"]) == (500, "block strategy effect：Discard Later")
    repeated = admin.run(executor.address, "polite", 1, executorBlockStrategy="DISCARD_LATER")
    assert repeated["code"] == 200
    admin.run(executor.address, "noop", 3, executorBlockStrategy="no such strategy")
    admin.run(executor.address, "noop", 4, executorBlockStrategy="COVER_EARLY")
    assert admin.outcome(4)["handleCode"] == 200
    for log_id in (1, 3):
        item = admin.outcome(log_id)
        assert (item["handleCode"], item["handleMsg"]) == (500, "block strategy effect：Cover Early")
    assert [item["logId"] for item in admin.outcomes][-1] == 4


@job("many", parallel=3)
def many(ctx: JobContext) -> int:
    SEEN.append("in")
    RELEASE.wait(60)
    return threading.active_count()


def test_parallel_runs_of_one_job(admin: FakeAdmin, tmp_path: Path) -> None:
    RELEASE.clear()
    SEEN.clear()
    with executor_of(admin, tmp_path, [many]) as executor:
        for log_id in range(1, 6):
            admin.run(executor.address, "many", log_id)
        wait_until(lambda: len(SEEN) == 3)
        RELEASE.wait(0.1)
        assert len(SEEN) == 3
        RELEASE.set()
        for log_id in range(1, 6):
            assert admin.outcome(log_id)["handleCode"] == 200


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


MISDEEDS: dict[str, Any] = {
    "SystemExit": (SystemExit(0), 500, "SystemExit: the handler called sys.exit(0)"),
    "KeyboardInterrupt": (KeyboardInterrupt(), 500, "KeyboardInterrupt"),
    "BaseException": (BaseException("odd"), 500, "BaseException: odd"),
    "ValueError": (ValueError("no luck"), 500, "ValueError: no luck"),
    "unprintable": (UnprintableError(), 500, "UnprintableError (its text cannot be shown)"),
    "CancelledError": (asyncio.CancelledError(), 500, "CancelledError"),
    "object": (Unshowable(), 200, "(Unshowable that cannot be shown)"),
    "lock": ({1: {2, 3}, "x": b"y"}, 200, None),
    "json": ({"a": [1, None]}, 200, '{"a":[1,null]}'),
    "number": (7, 200, "7"),
    "surrogate": ("a\udce9b", 200, "a?b"),
    "long": ("x" * 20_000, 200, None),
}


def misdeed(name: str) -> Any:
    value = MISDEEDS[name][0]
    if isinstance(value, BaseException):
        raise value
    return value


@job("misdeed")
def plain_misdeed(ctx: JobContext) -> Any:
    return misdeed(ctx.param)


@job("async-misdeed")
async def async_misdeed(ctx: JobContext) -> Any:
    return misdeed(ctx.param)


@pytest.mark.parametrize("handler", ["misdeed", "async-misdeed"])
def test_whatever_a_handler_does_has_an_outcome(admin: FakeAdmin, tmp_path: Path, handler: str) -> None:
    with executor_of(admin, tmp_path, [plain_misdeed, async_misdeed]) as executor:
        for log_id, (name, (_, code, message)) in enumerate(MISDEEDS.items(), 1):
            admin.run(executor.address, handler, log_id, executorParams=name)
            item = admin.outcome(log_id)
            assert item["handleCode"] == code, name
            assert message in (None, item["handleMsg"]), name
            assert len(item["handleMsg"]) <= 15_000
            assert item["xwheel"]["state"] == ("succeeded" if code == 200 else "failed")


@job("talks")
def talks() -> str:
    print("one", end="")
    print(" line")
    logging.getLogger("app").info("logged %d", 5)
    print("to stderr", file=sys.stderr)
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    current_job().log("ünïcode\nsecond part")
    return "ok"


def test_print_and_logging_land_in_the_log(
    admin: FakeAdmin, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "app")
    with executor_of(admin, tmp_path, [talks]) as executor:
        admin.run(executor.address, "talks", 1)
        admin.outcome(1)
        log = admin.call(executor.address, "/log", {"logId": 1, "logDateTim": 1_790_000_000_000, "fromLineNum": 1})
    lines = log["data"]["logContent"].splitlines()
    assert lines[1] == "one line"
    assert lines[2].endswith(" INFO app: logged 5")
    assert lines[3] == "to stderr"
    assert lines[4].endswith(" ünïcode")
    assert lines[5] == "second part"
    assert lines[6].endswith(" s: ok")
    assert log["data"]["toLineNum"] == 7
    assert "one line" not in capsys.readouterr().out
    print("back again")
    assert "back again" in capsys.readouterr().out


def test_init_and_destroy(admin: FakeAdmin, tmp_path: Path) -> None:
    calls: list[str] = []
    fail = [True]

    def init() -> None:
        calls.append("init")
        if fail.pop() if fail else False:
            raise OSError("not yet")

    @job("prepared", init=init, destroy=lambda: calls.append("destroy"))
    def prepared() -> str:
        calls.append("run")
        return "ok"

    with executor_of(admin, tmp_path, [prepared]) as executor:
        for log_id in (1, 2, 3):
            admin.run(executor.address, "prepared", log_id)
        assert "init of handler prepared failed: OSError: not yet" in admin.outcome(1)["handleMsg"]
        assert admin.outcome(3)["handleCode"] == 200
    assert calls == ["init", "init", "run", "run", "destroy"]
