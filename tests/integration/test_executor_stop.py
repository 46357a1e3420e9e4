"""SIGTERM under load, a disk that fills up, and schedulers that fall silent."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import FakeAdmin, trigger
from tests.support.executors import ExecutorProcess, executor_of, wait_until
from xwheel.clock import SystemClock
from xwheel.executor import JobContext, job


def test_sigterm_under_load_loses_nothing(tmp_path: Path) -> None:
    accepted: list[int] = []
    refused: list[str] = []
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path, workers=8) as executor:
        stop = threading.Event()

        def load(first: int) -> None:
            for log_id in range(first, first + 100_000):
                if stop.is_set():
                    return
                try:
                    answer = admin.run(executor.address, "slow", log_id, job_id=log_id % 50 + 1, executorParams="0.002")
                except (OSError, AssertionError):
                    return  # it does not listen any more: nothing was accepted
                (accepted if answer["code"] == 200 else refused).append(
                    log_id if answer["code"] == 200 else answer["msg"]
                )  # type: ignore[arg-type]

        threads = [threading.Thread(target=load, args=(1 + number * 1_000_000,)) for number in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(accepted) > 300)
        assert executor.terminate() == 0
        stop.set()
        for thread in threads:
            thread.join(20)
        assert set(executor.executed("end")) == set(accepted)
        assert sorted(item["logId"] for item in admin.outcomes) == sorted(accepted)
        assert all(item["handleCode"] == 200 for item in admin.outcomes)
        assert len(admin.removed) == 1
        assert all("stopping" in text for text in refused)


def test_runs_on_their_way_to_an_executor_that_said_farewell_are_taken(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path, leave_s=60, stop_timeout_s=6) as executor:
        ending = threading.Thread(target=executor.terminate)
        ending.start()
        admin.wait_for(lambda: admin.removed)
        for number in range(1, 11):
            assert admin.run(executor.address, "quick", number)["code"] == 200
        ending.join(60)
        assert sorted(item["logId"] for item in admin.outcomes) == list(range(1, 11))
        assert [item["handleCode"] for item in admin.outcomes] == [200] * 10


def test_what_does_not_finish_in_time_is_told(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path, stop_timeout_s=0.2) as executor:
        admin.run(executor.address, "process", 1, executorParams="60")
        admin.run(executor.address, "quick", 2)
        wait_until(lambda: executor.executed() == [1])
        assert executor.terminate() == 1
        assert admin.outcome(1)["xwheel"]["reason"] == "executor_stopped"
        assert admin.outcome(2)["xwheel"]["reason"] == "not_started"
        assert executor.executed() == [1]


def test_outcomes_outlive_a_stop_without_a_scheduler(tmp_path: Path) -> None:
    with FakeAdmin() as admin:
        with ExecutorProcess(admin, tmp_path) as executor:
            admin.refuse = lambda uri, _body: {"code": 500, "msg": "busy"} if uri == "callback" else None
            admin.run(executor.address, "quick", 1)
            wait_until(lambda: executor.executed() == [1])
            assert executor.terminate() == 1
        admin.refuse = lambda _uri, _body: None
        with ExecutorProcess(admin, tmp_path):
            assert admin.outcome(1)["handleCode"] == 200


@job("noop")
def noop() -> None:
    pass


def test_a_full_disk_refuses_runs_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reserve goes first, so that accepted runs finish; new ones are refused until there is room again."""
    import sqlite3

    from xwheel.executor import journal

    full = threading.Event()
    real = journal.accept

    def accept(db: sqlite3.Connection, *further: Any) -> list[journal.Acceptance]:
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        return real(db, *further)

    fallocate = os.posix_fallocate

    def no_room(number: int, offset: int, length: int) -> None:
        if full.is_set():
            raise OSError(28, "No space left on device")
        fallocate(number, offset, length)

    monkeypatch.setattr(journal, "accept", accept)
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with FakeAdmin() as admin, executor_of(admin, tmp_path, [noop]) as executor:
        admin.run(executor.address, "noop", 1)
        admin.outcome(1)
        full.set()
        for log_id in (2, 3):
            answer = admin.run(executor.address, "noop", log_id)
            assert answer["code"] == 500
            assert answer["msg"].startswith("the executor's journal cannot take more runs: database or disk is full")
        assert not (tmp_path / "journal.reserve").exists()
        full.clear()
        wait_until(lambda: admin.run(executor.address, "noop", 2)["code"] == 200)
        assert admin.outcome(2)["handleCode"] == 200
        assert (tmp_path / "journal.reserve").exists()


class ShiftedClock(SystemClock):
    """The system's clock, which a test can move on."""

    shift_ms = 0

    def monotonic_ms(self) -> int:
        return super().monotonic_ms() + self.shift_ms


def test_silence_of_the_scheduler_stops_new_starts(tmp_path: Path) -> None:
    """Runs of xwheel schedulers are not started then; runs of foreign ones are not bound by our beats."""
    clock = ShiftedClock()
    started = threading.Event()
    release = threading.Event()

    @job("holds")
    def holds(ctx: JobContext) -> None:
        started.set()
        release.wait(10)

    with FakeAdmin() as admin, executor_of(admin, tmp_path, [holds, noop], clock=clock, beat_s=1) as executor:
        extra = {"instance": executor.instance, "planned_ms": 0, "attempt": 1}
        admin.wait_for(lambda: admin.registered)
        admin.refuse = lambda uri, _body: {"code": 500, "msg": "busy"} if uri == "registry" else None
        admin.run(executor.address, "holds", 1, xwheel=extra)
        admin.run(executor.address, "noop", 2, xwheel=extra)
        admin.run(executor.address, "noop", 3)
        started.wait(10)
        clock.shift_ms = 120_000
        release.set()
        refused = admin.outcome(2)
        assert (refused["handleCode"], refused["xwheel"]["reason"]) == (500, "not_started")
        assert "no scheduler confirmed a beat for 12" in refused["handleMsg"]
        assert admin.outcome(3)["handleCode"] == 200
        batch = {"instance": executor.instance, "runs": [trigger("noop", 4, 9, xwheel=extra)]}
        admin.call(executor.address, "/runBatch", batch)
        assert admin.outcome(4)["xwheel"]["reason"] == "not_started"
