"""What handlers do to their process: each run has its outcome, the next run works, and the executor ends when told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.admins import APP_NAME, TOKEN, FakeAdmin
from tests.support.executors import ROOT, executor_of
from tests.support.hostile_handlers import DEEDS, on_process
from xwheel.executor import Executor, JobContext, job


@job("noop")
def noop() -> str:
    return "as ever"


@job("goes")
def goes(ctx: JobContext) -> None:
    os.chdir(ctx.param)


@pytest.fixture(scope="module")
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin() as admin:
        yield admin


@pytest.fixture(scope="module")
def executor(admin: FakeAdmin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with executor_of(admin, tmp_path_factory.mktemp("executor"), [on_process, noop], stop_timeout_s=0) as executor:
        yield executor


@pytest.mark.parametrize(("number", "deed"), list(enumerate(DEEDS, 1)), ids=list(DEEDS))
def test_a_process_handler_harms_only_its_own_run(admin: FakeAdmin, executor: Executor, number: int, deed: str) -> None:
    _, code, message = DEEDS[deed]
    admin.run(executor.address, "process", 2 * number, 2 * number, executorParams=deed)
    outcome = admin.outcome(2 * number)
    assert (outcome["handleCode"], outcome["handleMsg"]) == (code, message)
    assert len(admin.outcomes_of(2 * number)) == 1
    admin.run(executor.address, "noop", 2 * number + 1, 2 * number + 1)
    assert admin.outcome(2 * number + 1)["handleMsg"] == "as ever"


@pytest.mark.parametrize(
    ("deed", "lines"),
    [
        ("a wrapped stream", ["printed"]),
        ("a detached stream", ["printed", "ValueError: seen"]),
        ("closed streams", ["ValueError: unheard"]),
    ],
)
def test_what_a_handler_prints_and_raises_is_in_the_log_whatever_stream_it_uses(
    admin: FakeAdmin, executor: Executor, deed: str, lines: list[str]
) -> None:
    log_id = 900 + list(DEEDS).index(deed)
    admin.run(executor.address, "process", log_id, log_id, executorParams=deed)
    admin.outcome(log_id)
    body = {"logId": log_id, "logDateTim": 1_790_000_000_000, "fromLineNum": 1}
    content = str(admin.call(executor.address, "/log", body)["data"]["logContent"]).splitlines()
    assert [line for line in content if line in lines] == lines


def test_r38_a_handler_that_goes_elsewhere_takes_no_log_along(
    admin: FakeAdmin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    with executor_of(admin, Path("data"), [goes, noop], stop_timeout_s=0) as executor:
        admin.run(executor.address, "goes", 1001, 1001, executorParams=str(elsewhere))
        admin.outcome(1001)
        elsewhere.rmdir()
        admin.run(executor.address, "goes", 1002, 1002, executorParams="nowhere")
        assert admin.outcome(1002)["handleCode"] == 500
        body = {"logId": 1002, "logDateTim": 1_790_000_000_000, "fromLineNum": 1}
        assert "No such file" in admin.call(executor.address, "/log", body)["data"]["logContent"]
        os.chdir(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


HANDLERS = """
import multiprocessing, threading, time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from xwheel.executor import job

@job("leaves")
def leaves():
    threading.Thread(target=time.sleep, args=(600,), name="left-thread", daemon=False).start()
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
    ThreadPoolExecutor(1).submit(time.sleep, 600)
    ProcessPoolExecutor(1).submit(time.sleep, 600)
    return "left"

@job("prints")
def prints():
    print("a line", flush=True)
    return "printed"
"""


@contextmanager
def command(admin: FakeAdmin, folder: Path, ends: str = "") -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """An executor of :data:`HANDLERS`, begun as a command, and its address; ``ends`` is what a shell does with it."""
    (folder / "handlers.py").write_text(HANDLERS)
    known = len(admin.registered)
    settings = {
        "XWHEEL_EXECUTOR__APP_NAME": APP_NAME,
        "XWHEEL_EXECUTOR__ADMIN_ADDRESSES": f'["{admin.url}"]',
        "XWHEEL_EXECUTOR__ACCESS_TOKEN": TOKEN,
        "XWHEEL_EXECUTOR__PORT": "0",
        "XWHEEL_EXECUTOR__HOST": "127.0.0.1",
        "XWHEEL_EXECUTOR__LEAVE_S": "0",
        "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}",
    }
    words = ["/bin/sh", "-c", f"exec {sys.executable} -m xwheel executor handlers {ends}"]
    process = subprocess.Popen(words, cwd=folder, env={**os.environ, **settings}, start_new_session=True)
    try:
        yield process, admin.wait_for(lambda: admin.registered[known:])[0]["registryValue"]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_r39_an_executor_without_standard_streams_works(admin: FakeAdmin, tmp_path: Path) -> None:
    with command(admin, tmp_path, ">&- 2>&-") as (process, address):
        admin.run(address, "prints", 2001, 2001)
        assert admin.outcome(2001)["handleMsg"] == "printed"
        body = {"logId": 2001, "logDateTim": 1_790_000_000_000, "fromLineNum": 1}
        assert "a line\n" in admin.call(address, "/log", body)["data"]["logContent"]
        process.terminate()
        assert process.wait(30) == 0


def test_r37_what_handlers_left_holds_up_no_end(admin: FakeAdmin, tmp_path: Path) -> None:
    """R37: it said "stopped", and was there for as long as the child of a handler."""
    with command(admin, tmp_path, "2> log") as (process, address):
        admin.run(address, "leaves", 3001, 3001)
        assert admin.outcome(3001)["handleMsg"] == "left"
        process.terminate()
        assert process.wait(30) == 0
        last = (tmp_path / "log").read_text().splitlines()[-1]
    assert "ending without waiting for what handlers left: left-thread" in last
