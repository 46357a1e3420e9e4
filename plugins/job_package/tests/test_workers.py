"""How many processes there are, and for how long."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import xwheel

import xwheel_package
from xwheel_job_package.contents import PackageContents
from xwheel_job_package.environments import Environment
from xwheel_job_package.failures import Cancel, PackageRunError
from xwheel_job_package.locks import HeldLock, take, try_take
from xwheel_job_package.node_options import NodeOptions
from xwheel_job_package.workers import Worker, WorkerPool

IDLE_MS = 1000
SUPERVISOR = Path(xwheel.__file__).parent / "executor" / "running" / "supervisor.py"


def environment(key: str, lock: HeldLock, python: Path = Path(sys.executable)) -> Environment:
    contents = PackageContents(
        sha256="",
        file="",
        project="",
        version="",
        kind="wheel",
        container="Common",
        factory="",
        dependencies=(),
        jobs=(),
    )
    return Environment(key, python, Path(), contents, lock)


class Site:
    """A pool whose environments are this test's own Python."""

    def __init__(self, folder: Path, most: int = 2) -> None:
        self.folder = folder
        self.now_ms = 0
        self.made = 0
        self.pool = WorkerPool(self._make, most, IDLE_MS, lambda: self.now_ms)

    def _make(self, environment: Environment) -> Worker:
        self.made += 1
        sdk = Path(xwheel_package.__file__).parent
        folder = self.folder / f"work{self.made}"
        return Worker(environment, folder, NodeOptions(), {"PATH": os.environ["PATH"]}, sdk, SUPERVISOR)

    def start(self, key: str = "a") -> Worker:
        worker = self.pool.find(key)
        if worker is None:
            lock = take(self.folder / f"{key}.lock", Cancel(), shared=True)
            worker = self.pool.add(environment(key, lock), Cancel())
            worker.start()
        return worker

    def is_in_use(self, key: str) -> bool:
        lock = try_take(self.folder / f"{key}.lock")
        if lock is not None:
            lock.release()
        return lock is None

    def settle(self) -> None:
        """Let what is to end do so."""
        end = time.monotonic() + 30
        while self.pool.leaving and time.monotonic() < end:
            self.pool.step(self.now_ms)
            time.sleep(0.005)
        assert not self.pool.leaving


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    site.pool.close()


def test_one_that_waits_is_taken_again_and_ends_after_its_time(site: Site) -> None:
    worker = site.start()
    site.pool.give_back(worker, keep=True)
    assert site.start() is worker
    site.pool.give_back(worker, keep=True)
    site.now_ms = IDLE_MS - 1
    site.pool.step(site.now_ms)
    assert (site.pool.idle, site.is_in_use("a")) == ([worker], True)
    site.now_ms = IDLE_MS
    site.pool.step(site.now_ms)
    assert site.pool.idle == []
    site.settle()
    assert not site.is_in_use("a")
    assert not list(site.folder.glob("work*"))


def test_there_are_never_more_than_the_limit(site: Site) -> None:
    """The one that waits for longest makes room; a run that finds all of them busy waits, and may be killed."""
    first, second = site.start("a"), site.start("b")
    cancel = Cancel()
    cancel.set()
    lock = take(site.folder / "c.lock", Cancel(), shared=True)
    with lock, pytest.raises(PackageRunError, match="killed"):
        site.pool.add(environment("c", lock), cancel)
    site.pool.give_back(first, keep=True)
    site.pool.give_back(second, keep=True)
    third = site.start("c")
    assert site.pool.idle == [second]
    site.settle()
    assert not site.is_in_use("a")
    site.pool.give_back(third, keep=True)


def test_one_that_died_while_it_waited_is_not_used(site: Site) -> None:
    worker = site.start()
    site.pool.give_back(worker, keep=True)
    worker.kill()
    again = site.start()
    assert again is not worker
    site.pool.give_back(again, keep=False)
    site.settle()
    assert not site.is_in_use("a")


def test_a_close_ends_all(site: Site) -> None:
    first, second = site.start("a"), site.start("b")
    site.pool.give_back(first, keep=True)
    site.pool.close()
    assert not site.is_in_use("a")
    with pytest.raises(Exception, match="was ended|ended with"):
        second.run({}, print)
    site.pool.give_back(second, keep=True)
    site.settle()
    assert not site.is_in_use("b")
    with pytest.raises(PackageRunError, match="stopping"):
        site.start("d")


def test_one_that_ends_before_it_answers_says_what_it_printed(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho no such library >&2\nexit 3\n")
    program.chmod(0o755)
    site = Site(tmp_path)
    lock = take(tmp_path / "x.lock", Cancel(), shared=True)
    worker = site.pool.add(environment("x", lock, program), Cancel())
    with pytest.raises(PackageRunError, match="worker_failed: its process ended with exit status 3: no such lib"):
        worker.start()
    site.pool.give_back(worker, keep=False)
    site.pool.close()
