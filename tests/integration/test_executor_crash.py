"""``kill -9`` of an executor, and its restart: nothing runs twice, nothing is lost, every fate is told."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import FakeAdmin, trigger
from tests.support.executors import ExecutorProcess, is_alive, wait_until


@pytest.mark.parametrize("seed", range(10))
def test_every_journal_state_survives(seed: int, tmp_path: Path) -> None:
    """Runs are finished and told, finished and not told, running, waiting; the kill comes at a random moment."""
    chance = random.Random(seed)
    sent: set[int] = set()
    with FakeAdmin() as admin:
        with ExecutorProcess(admin, tmp_path, workers=4) as executor:
            for log_id in range(1, 6):
                admin.run(executor.address, "quick", log_id, job_id=log_id)
                admin.outcome(log_id)
            admin.refuse = lambda uri, _body: {"code": 500, "msg": "busy"} if uri == "callback" else None
            for log_id in range(6, 11):
                admin.run(executor.address, "quick", log_id, job_id=log_id)
            wait_until(lambda: set(range(1, 11)) <= set(executor.executed()))
            for log_id in (11, 12):
                admin.run(executor.address, "slow", log_id, job_id=log_id)
            wait_until(lambda: {11, 12} <= set(executor.executed()))
            for log_id in (13, 14):  # behind run 11 of the same job
                admin.run(executor.address, "quick", log_id, job_id=11)
            for log_id in range(100, 100 + chance.randrange(1, 40)):
                if admin.run(executor.address, "quick", log_id, job_id=chance.randrange(20, 30))["code"] == 200:
                    sent.add(log_id)
            time.sleep(chance.random() * 0.01)
            executor.kill()
            ran_before = executor.executed()
        admin.refuse = lambda _uri, _body: None
        with ExecutorProcess(admin, tmp_path) as executor:
            for log_id in (11, 12):
                assert outcome(admin, log_id) == (500, "failed", "interrupted")
            for log_id in (13, 14):
                assert outcome(admin, log_id) == (500, "failed", "not_started")
            for log_id in range(6, 11):
                assert outcome(admin, log_id)[:2] == (200, "succeeded")
            check_fates(admin, sent, ran_before)
            # a repeated id is answered and not run
            assert admin.run(executor.address, "quick", 6, job_id=6)["code"] == 200
            assert admin.run(executor.address, "slow", 11, job_id=11)["code"] == 200
            assert "not started" in admin.run(executor.address, "quick", 13, job_id=11)["msg"]
            assert admin.run(executor.address, "quick", 500, job_id=11)["code"] == 200
            assert outcome(admin, 500)[0] == 200
            assert executor.terminate() == 0
            ran = executor.executed()
            assert len(ran) == len(set(ran))
            assert sorted(ran) == sorted([*ran_before, 500])


def test_an_id_of_another_database_is_another_run(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path) as executor:
        for created_ms in (1_790_000_000_000, 1_790_000_000_001):
            admin.run(executor.address, "quick", 1, logDateTime=created_ms)
        admin.wait_for(lambda: len(admin.outcomes_of(1)) == 2)
        assert executor.executed() == [1, 1]


def test_process_handlers_die_with_the_executor(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path / "data") as executor:
        admin.run(executor.address, "stubborn", 1, executorParams=str(pids))
        wait_until(pids.exists)
        found = wait_until(lambda: [int(word) for word in pids.read_text().split()])
        assert all(is_alive(pid) for pid in found)
        executor.kill()
        wait_until(lambda: not any(is_alive(pid) for pid in found))


def test_state_is_told_by_key(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path) as executor:
        admin.run(executor.address, "quick", 1)
        admin.outcome(1)
        admin.run(executor.address, "slow", 2)
        wait_until(lambda: 2 in executor.executed())
        admin.run(executor.address, "quick", 3)
        keys = [[log_id, 1, 1_790_000_000_000] for log_id in (1, 2, 3, 4)]
        reply = admin.call(executor.address, "/runState", {"instance": executor.instance, "keys": keys})
        states = {item["id"]: item["state"] for item in reply["data"]["runs"]}
        assert states == {1: "finished", 2: "started", 3: "accepted", 4: "unknown"}
        assert reply["data"]["instance"] == executor.instance
        refused = admin.call(executor.address, "/runState", {"instance": "another", "keys": keys})
        assert refused["code"] == 500


def test_a_restart_keeps_the_instance_and_changes_the_boot(tmp_path: Path) -> None:
    with FakeAdmin() as admin:
        for _ in range(2):
            with ExecutorProcess(admin, tmp_path) as executor:
                executor.kill()
        first, second = admin.registered[0]["xwheel"], admin.registered[-1]["xwheel"]
        assert first["instance"] == second["instance"]
        assert first["boot"] != second["boot"]


def test_a_run_for_another_instance_is_refused(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path) as executor:
        wrong: dict[str, Any] = {"instance": "another", "planned_ms": 1, "attempt": 1}
        assert admin.run(executor.address, "quick", 1, xwheel=wrong)["code"] == 500
        batch = {"instance": "another", "runs": [trigger("quick", 2)]}
        assert admin.call(executor.address, "/runBatch", batch)["code"] == 500
        right = {**wrong, "instance": executor.instance}
        assert admin.run(executor.address, "quick", 3, xwheel=right)["code"] == 200
        admin.outcome(3)
        assert executor.executed() == [3]


def check_fates(admin: FakeAdmin, sent: set[int], ran_before: list[int]) -> None:
    for log_id in sent:
        code, _, reason = outcome(admin, log_id)
        assert code == 200 or reason in ("interrupted", "not_started")
        if reason == "not_started":
            assert log_id not in ran_before


def outcome(admin: FakeAdmin, log_id: int) -> tuple[int, str, str]:
    item = admin.outcome(log_id)
    return item["handleCode"], item["xwheel"]["state"], item["xwheel"]["reason"]
