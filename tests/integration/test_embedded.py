"""Embedded mode in plain programs: handlers, declared jobs as rows, standing by, taking over, and the end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.executors import ROOT, wait_until
from xwheel import embedded
from xwheel.errors import ConfigError, NotFoundError, WireError
from xwheel.runtime.ports import free_port

PROGRAM = """
import os
from pathlib import Path
from xwheel import embedded

scheduler = embedded.EmbeddedScheduler(os.environ["FOLDER"])

@scheduler.job(every="500ms")
def beat(ctx):
    with open(os.environ["FOLDER"] + ".beats", "a") as file:
        file.write(f"{ctx.run_id} {os.getpid()}\\n")

"""
FOREVER = f"{PROGRAM}\nscheduler.run_forever()\n"
UNTIL_A_BEAT = f"""{PROGRAM}
import time
scheduler.start()
while not Path(os.environ["FOLDER"] + ".beats").exists():
    time.sleep(0.01)
"""


def make(folder: Path, **further: Any) -> embedded.EmbeddedScheduler:
    return embedded.EmbeddedScheduler(folder, announce=None, **further)


def jobs(scheduler: embedded.EmbeddedScheduler) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in scheduler.call("GET", "jobs")["items"]}


def log_of(scheduler: embedded.EmbeddedScheduler, run_id: int) -> str:
    return str(scheduler.call("GET", f"runs/{run_id}/log")["content"])


def finished(scheduler: embedded.EmbeddedScheduler, run_id: int) -> dict[str, Any]:
    def ended() -> Any:
        run = scheduler.call("GET", f"runs/{run_id}")
        return run if run["finished_ms"] else None

    run: dict[str, Any] = wait_until(ended)
    return run


@contextmanager
def program(text: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with folder.with_suffix(".log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", text],
            cwd=folder.parent,
            env={**os.environ, "PYTHONPATH": str(ROOT), "FOLDER": str(folder)},
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def beats(folder: Path, pid: int) -> list[str]:
    file = folder.with_suffix(".beats")
    return [line for line in file.read_text().split("\n") if line.endswith(f" {pid}")] if file.exists() else []


def test_u8_plain_and_coroutine_functions_fire(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scheduler = make(tmp_path / "s")
    fired = threading.Event()
    async_fired = threading.Event()

    @scheduler.job(every="200ms")
    def plain() -> None:
        fired.set()

    @scheduler.job(cron="* * * * * ?")
    async def coroutine(ctx: embedded.JobContext) -> None:
        assert ctx.planned_ms
        async_fired.set()

    @scheduler.job()
    def by_hand(ctx: embedded.JobContext) -> str:
        print("printed")
        logging.getLogger("application").warning("logged %s", ctx.param)
        return f"did {ctx.param}"

    with scheduler:
        assert scheduler.leads
        assert fired.wait(60)
        assert async_fired.wait(60)
        run = finished(scheduler, scheduler.run_now("by_hand", "it"))
        assert (run["state"], run["message"]) == ("succeeded", "did it")
        log = log_of(scheduler, run["id"])
        assert "printed" in log
        assert "WARNING application: logged it" in log
        with pytest.raises(NotFoundError):
            scheduler.run_now("nothing")
        with pytest.raises(ConfigError, match="declared before the scheduler starts"):
            scheduler.add(by_hand, "late")
        scheduler.start()  # a second one changes nothing
        key = scheduler.run_now("by_hand", key="once")
        assert scheduler.run_now("by_hand", key="once") == key
    assert not scheduler.leads
    assert "printed" in capsys.readouterr().out  # the application's own output has it, too
    with pytest.raises(WireError):
        scheduler.run_now("by_hand", timeout_s=0)


def test_the_host_keeps_its_signals_and_its_logging(tmp_path: Path) -> None:
    root = logging.getLogger()
    kept: Callable[[], object] = lambda: (  # noqa: E731
        [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)],
        list(root.handlers),
        root.level,
        logging.getLogger("xwheel").level,
    )
    before, streams = kept(), (sys.stdout, sys.stderr)
    with make(tmp_path / "s"):
        assert kept() == before
    assert (sys.stdout, sys.stderr) == streams
    assert logging.getLogRecordFactory() is logging.LogRecord


def test_declared_jobs_are_rows(tmp_path: Path) -> None:
    def work() -> None: ...

    first = make(tmp_path / "s")
    first.add(work, "kept", every="1h", param="a")
    first.add(work, "changed", every="1h")
    first.add(work, "dropped", every="1h")
    first.add(work, "stopped by a person", every="1h")
    with first:
        before = jobs(first)
        first.call("POST", f"jobs/{before['stopped by a person']['id']}/stop")
        first.call("PATCH", f"jobs/{before['kept']['id']}", {"description": "a person's words"})
        first.call("POST", "jobs", {"group_id": 1, "name": "of a person", "handler": "kept"})

    second = make(tmp_path / "s")
    second.add(work, "kept", every="1h", param="a")
    second.add(work, "changed", every="2h")
    second.add(work, "stopped by a person", every="1h")
    with second:
        after = jobs(second)
        assert after["kept"]["next_fire_ms"] == before["kept"]["next_fire_ms"]
        assert after["kept"]["description"] == "a person's words"
        assert after["kept"]["revision"] == before["kept"]["revision"] + 1
        assert after["changed"]["id"] == before["changed"]["id"]
        assert after["changed"]["schedule_conf"] == "2h"
        assert after["changed"]["next_fire_ms"] > before["changed"]["next_fire_ms"]
        assert not after["dropped"]["enabled"]
        assert not after["stopped by a person"]["enabled"]
        assert "of a person" in after

    third = make(tmp_path / "s")
    third.add(work, "dropped", every="1h")
    third.add(work, "changed")
    third.add(work, "over", at="2001-01-01T00:00:00")
    with third:
        again = jobs(third)
        assert (again["changed"]["enabled"], again["changed"]["schedule_type"]) == (False, "NONE")
        assert not again["over"]["enabled"]
        assert again["dropped"]["enabled"]
        assert not again["kept"]["enabled"]
        assert "of a person" in again


def test_no_fire_is_refused_at_the_end_or_at_the_start(tmp_path: Path) -> None:
    """Nothing is sent while there is no executor, though the job's runs wait for none."""
    ran: list[int] = []
    for _ in range(3):
        scheduler = make(tmp_path / "s")
        scheduler.add(lambda ctx: ran.append(ctx.run_id), "often", every="50ms", wait_for_executor_s=0)
        before = len(ran)
        with scheduler:
            wait_until(lambda before=before: len(ran) > before + 5)
    with make(tmp_path / "s") as last:
        runs = last.call("GET", "runs", params={"limit": 1000})["items"]
    states = {run["id"]: run["state"] for run in runs}
    assert set(states.values()) <= {"succeeded", "planned", "cancelled"}
    assert sorted(ran) == sorted(number for number, state in states.items() if state == "succeeded")


def test_a_job_that_cannot_be_ends_the_start(tmp_path: Path) -> None:
    scheduler = make(tmp_path / "s")
    scheduler.add(lambda: None, "bad", cron="61 * * * *")
    with pytest.raises(ConfigError, match=r"job 'bad', schedule '61 \* \* \* \*': minute"):
        scheduler.start()
    better = make(tmp_path / "s")
    with better:
        assert better.leads


@pytest.mark.parametrize("place", range(3), ids=["management API", "executor API", "executor"])
def test_a_port_that_others_take_before_it_is_used_is_chosen_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as others:
        chosen = [0, 0, 0]
        chosen[place] = others.getsockname()[1]
        ports = iter(chosen)
        monkeypatch.setattr("xwheel.embedded.folder.free_port", lambda wanted: next(ports, 0) or free_port(wanted))
        with make(tmp_path / "s") as scheduler:
            assert scheduler.leads


def test_coroutines_run_on_the_loop_of_the_application(tmp_path: Path) -> None:
    seen: list[object] = []

    async def application() -> None:
        scheduler = make(tmp_path / "s")
        done = asyncio.Event()

        @scheduler.job(every="100ms")
        async def work(ctx: embedded.JobContext) -> None:
            seen.append((asyncio.get_running_loop(), embedded.current_job().run_id == ctx.run_id))
            done.set()

        async with scheduler:
            await asyncio.wait_for(done.wait(), 60)
            assert seen[0] == (asyncio.get_running_loop(), True)

    asyncio.run(application())


@pytest.mark.processes
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_another_process_takes_over(number: signal.Signals, tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with program(FOREVER, folder) as leader:
        wait_until(lambda: beats(folder, leader.pid))
        scheduler = make(folder)
        ran = threading.Event()
        scheduler.add(ran.set, "beat", every="500ms")
        with scheduler:
            assert not scheduler.leads
            assert jobs(scheduler)["beat"]["enabled"]
            run = finished(scheduler, scheduler.run_now("beat"))
            assert run["state"] == "succeeded"
            assert not ran.is_set()
            url = scheduler.url
            leader.send_signal(number)
            assert ran.wait(60)
            wait_until(lambda: scheduler.leads)  # a run may come before all of the start is done
            assert scheduler.url == url  # a bookmark goes on working
            assert leader.wait(60) == (0 if number is signal.SIGTERM else -signal.SIGKILL)
            assert finished(scheduler, scheduler.run_now("beat"))["state"] == "succeeded"


@pytest.mark.processes
def test_a_program_that_ends_without_a_stop_leaves_cleanly(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    with program(UNTIL_A_BEAT, folder) as process:
        assert process.wait(60) == 0, folder.with_suffix(".log").read_text()
    with sqlite3.connect(folder / "xwheel.db") as database:
        for table in ("node", "executor"):
            assert database.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table
    scheduler = make(folder)
    scheduler.add(lambda: None, "beat")
    with scheduler:
        states = {run["state"] for run in scheduler.call("GET", "runs")["items"]}
    assert states <= {"succeeded", "planned", "cancelled"}


class _NoThread(threading.Thread):
    def start(self) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")


def test_an_interpreter_that_ends_starts_no_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = make(tmp_path / "s")
    scheduler.start()
    monkeypatch.setattr("xwheel.node.loops.threading", SimpleNamespace(Thread=_NoThread, Event=threading.Event))
    assert scheduler.stop()
    with sqlite3.connect(tmp_path / "s" / "xwheel.db") as database:
        assert database.execute("SELECT count(*) FROM node").fetchone() == (0,)


@pytest.mark.processes
def test_a_child_of_the_leader_holds_nothing_and_never_leads(tmp_path: Path) -> None:
    said: list[str] = []
    scheduler = embedded.EmbeddedScheduler(tmp_path / "s", announce=said.append)
    scheduler.add(lambda: None, "beat", every="1s")
    reader, writer = os.pipe()
    scheduler.start()
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            led = scheduler.leads
            scheduler.run_now("beat")
            scheduler.start()
            os.write(writer, f"{led} {scheduler.leads} {said[-1]}".encode())
            signal.pause()
        finally:
            os._exit(1)
    try:
        answer = os.read(reader, 1000).decode()
        assert answer.startswith(f"False False process {child} was forked from one that led")
        assert scheduler.stop()
        # the child keeps neither locks nor ports of its parent
        url = scheduler.url
        scheduler.start()
        assert scheduler.leads
        assert scheduler.url == url
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)
        scheduler.stop()
