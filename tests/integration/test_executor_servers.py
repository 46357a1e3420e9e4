"""Executors inside web servers: forking ones, and mounted without a port of their own."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from tests.support.admins import FakeAdmin, raw_call, trigger
from tests.support.executors import ROOT, executor_of, make_executor, wait_until
from xwheel.errors import ConfigError
from xwheel.executor import JobContext, job

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


GUNICORN = [
    sys.executable, "-m", "gunicorn",
    "-c", "tests/support/gunicorn_conf.py",
    "tests.support.web_app:application",
]  # fmt: skip
UWSGI = [
    str(Path(sys.executable).with_name("uwsgi")),
    "--http-socket", "127.0.0.1:0",
    "--master", "--processes", "4", "--enable-threads", "--die-on-term", "--need-app",
    "--virtualenv", sys.prefix,
    "--module", "tests.support.uwsgi_app:application",
]  # fmt: skip


@pytest.mark.parametrize("command", [GUNICORN, UWSGI], ids=["gunicorn", "uwsgi"])
def test_four_workers_forked_after_loading(command: list[str], tmp_path: Path) -> None:
    """One of them serves; it is killed in the middle of a run, and another one takes over."""
    with FakeAdmin() as admin, (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "WEB_APP_ADMIN": admin.url,
                "EXECUTOR_APP_FOLDER": str(tmp_path),
            },
            stdout=log,
            stderr=log,
        )
        try:
            first = admin.wait_for(lambda: admin.registered)[0]
            admin.run(first["registryValue"], "quick", 1)
            assert admin.outcome(1)["handleCode"] == 200
            threading.Event().wait(1.5)  # the others had their chance
            assert {beat["xwheel"]["boot"] for beat in admin.registered} == {first["xwheel"]["boot"]}
            admin.run(first["registryValue"], "slow", 2)
            executed = tmp_path / "executed"
            wait_until(lambda: "start 2" in executed.read_text())
            serving = lock_holder(tmp_path)
            assert serving != server.pid
            os.kill(serving, signal.SIGKILL)
            second = admin.wait_for(
                lambda: [beat for beat in admin.registered if beat["xwheel"]["boot"] != first["xwheel"]["boot"]]
            )[0]
            assert second["xwheel"]["instance"] == first["xwheel"]["instance"]
            assert admin.outcome(2)["xwheel"]["reason"] == "interrupted"
            admin.run(second["registryValue"], "quick", 3)
            assert admin.outcome(3)["handleCode"] == 200
            admin.run(second["registryValue"], "process", 4)
            assert admin.outcome(4)["handleMsg"].startswith("pid ")
        finally:
            server.terminate()
            status = server.wait(60)
        assert status == 0
        assert admin.removed[-1]["registryValue"] == second["registryValue"]


def lock_holder(folder: Path) -> int:
    """Return the process that holds the journal's lock, as the kernel tells."""
    number = (folder / "journal.lock").stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        parts = line.split()
        if "FLOCK" in parts and parts[5].endswith(f":{number}"):
            return int(parts[4])
    raise AssertionError("no process holds the lock")


@job("trace")
def trace(ctx: JobContext) -> str:
    return ctx.trace_parent


class Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def test_mounted_in_a_web_application(tmp_path: Path) -> None:
    with FakeAdmin() as admin:
        server = make_server("127.0.0.1", 0, lambda *_: [], handler_class=Quiet)
        address = f"http://127.0.0.1:{server.server_port}/"
        executor = make_executor(admin, tmp_path, [trace], listen=False, address=address)
        server.set_app(executor.wsgi_app)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            with pytest.raises(AssertionError):
                admin.call(address, "/beat")  # 503 while it is not running
            with executor:
                assert admin.wait_for(lambda: admin.registered)[0]["registryValue"] == address
                assert executor.port == 0
                admin.run(address, "trace", 1)
                assert admin.outcome(1)["handleMsg"] == ""
        finally:
            server.shutdown()
            server.server_close()
            thread.join(5)


def test_without_a_listener_the_address_must_be_told(tmp_path: Path) -> None:
    with FakeAdmin() as admin, pytest.raises(ConfigError, match=r"executor\.address is missing"):
        make_executor(admin, tmp_path, [trace], listen=False)


def test_trace_context_is_passed_on(tmp_path: Path) -> None:
    with FakeAdmin() as admin, executor_of(admin, tmp_path, [trace]) as executor:
        raw_call(executor.address, "/run", json.dumps(trigger("trace", 1)).encode(), traceparent=TRACE)
        assert admin.outcome(1)["handleMsg"] == TRACE


HOLD = multiprocessing.get_context("fork")


def hold(started: int) -> None:
    os.write(started, b"!")  # what runs after a fork has run by now, however busy the machine is
    signal.pause()


@job("forks")
def forks(ctx: JobContext) -> int:
    reader, writer = os.pipe()
    child = HOLD.Process(target=hold, args=(writer,), daemon=False)
    child.start()
    assert os.read(reader, 1) == b"!"
    os.close(reader)
    os.close(writer)
    assert child.pid is not None
    return child.pid


def test_children_of_handlers_hold_neither_lock_nor_port(tmp_path: Path) -> None:
    """A handler forks with multiprocessing; the executor can start again on its port while that child lives."""
    with FakeAdmin() as admin:
        with executor_of(admin, tmp_path, [forks, trace]) as executor:
            port = executor.port
            admin.run(executor.address, "forks", 1)
            pid = int(admin.outcome(1)["handleMsg"])
        try:
            with executor_of(admin, tmp_path, [forks, trace], port=port) as executor:
                admin.run(executor.address, "trace", 2)
                assert admin.outcome(2)["handleCode"] == 200
        finally:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: os.waitpid(pid, 0))
