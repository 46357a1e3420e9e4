"""Executors for tests: in this process, or in one of their own that can be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.admins import APP_NAME, TOKEN, FakeAdmin
from tests.support.paths import ROOT
from tests.support.small_disk import unshare
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.executor import Executor
from xwheel.executor.running.supervisor import descendants


def make_executor(admin: FakeAdmin, data_dir: Path, handlers: list[object], **settings: Any) -> Executor:
    """Return an executor that is not started."""
    values = {
        "app_name": APP_NAME,
        "admin_addresses": [admin.url],
        "access_token": TOKEN,
        "port": 0,
        "data_dir": data_dir,
        "kill_grace_s": 0.3,
        "stop_timeout_s": 5,
        "leave_s": 0,
        **settings,
    }
    return Executor(handlers=handlers, glue_types={"BEAN": BeanGlue()}, **values)


@contextmanager
def executor_of(admin: FakeAdmin, data_dir: Path, handlers: list[object], **settings: Any) -> Iterator[Executor]:
    """Run an executor and stop it in the end."""
    executor = make_executor(admin, data_dir, handlers, **settings)
    executor.start()
    try:
        yield executor
    finally:
        executor.stop()


class ExecutorProcess:
    """An executor in a process of its own; see :mod:`tests.support.executor_app`.

    Args:
        disk_mb: Give its data directory a disk of its own, of this many megabytes.
        settings: Settings of the executor.
    """

    def __init__(self, admin: FakeAdmin, data_dir: Path, *, disk_mb: int = 0, **settings: Any) -> None:
        self.data_dir = data_dir
        self._admin = admin
        data_dir.mkdir(parents=True, exist_ok=True)
        # what handlers write must have room even when the small disk has none
        self.notes = data_dir.with_name(data_dir.name + ".notes") if disk_mb else data_dir
        self.notes.mkdir(exist_ok=True)
        known = len(admin.registered)
        options = [f"{name}={value}" for name, value in settings.items()]
        self.log = (self.notes / "process.log").open("ab")
        command = [sys.executable, "-m", "tests.support.executor_app", admin.url, str(data_dir), *options]
        self.process = subprocess.Popen(
            unshare(str(data_dir), disk_mb, command) if disk_mb else command,
            cwd=ROOT,
            env={**os.environ, "EXECUTOR_APP_FOLDER": str(self.notes)},
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        beat = admin.wait_for(lambda: admin.registered[known:])[0]
        self.address: str = beat["registryValue"]
        self.instance: str = beat["xwheel"]["instance"]

    @property
    def disk(self) -> Path:
        """The data directory as the process sees it, on its small disk."""
        return Path(f"/proc/{self.process.pid}/root{self.data_dir}")

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.kill()
        self.process.wait(10)
        self.log.close()

    def terminate(self, timeout_s: float = 30) -> int:
        """Ask it to end and return its status."""
        self.process.terminate()
        status = self.process.wait(timeout_s)
        self.log.close()
        return status

    def executed(self, word: str = "start") -> list[int]:
        """Return the ids of runs whose handler wrote this word."""
        path = self.notes / "executed"
        lines = path.read_text().split("\n") if path.exists() else []
        return [int(line.split()[1]) for line in lines if line.startswith(word)]

    def __enter__(self) -> ExecutorProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self.log.close()


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def started_beside(others: set[int]) -> set[int]:
    """Return the processes below this one but for those known before, such as other tests' servers, and theirs."""
    known = others.union(*(descendants(pid) for pid in others))
    return set(descendants(os.getpid())) - known


def wait_until(done: Callable[[], Any], deadline_s: float = 60) -> Any:
    """Poll until something is true; return it."""
    end = time.monotonic() + deadline_s
    while not (found := done()):
        assert time.monotonic() < end, f"not within {deadline_s} s"
        time.sleep(0.01)
    return found
