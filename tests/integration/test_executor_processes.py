"""What process handlers start ends with them: daemons that left group and session, however the run ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.admins import FakeAdmin
from tests.support.executor_app import HANDLERS
from tests.support.executors import ExecutorProcess, executor_of, is_alive, started_beside, wait_until


@pytest.mark.parametrize(
    ("how", "ending", "code", "text"),
    [
        ("stays", "kill", 500, "scheduling center kill job."),
        ("stays", "timeout", 502, "the run passed its time limit of 12 s"),
        ("returns", "", 200, "done"),
        ("exits", "", 500, "the handler's process ended with status 3 and without a result"),
        ("crashes", "", 500, "the handler's process was ended by SIGKILL"),
    ],
)
def test_a_daemon_that_ignores_term_is_gone_before_the_outcome(
    how: str, ending: str, code: int, text: str, tmp_path: Path
) -> None:
    path, others = tmp_path / "pid", started_beside(set())
    with FakeAdmin() as admin, executor_of(admin, tmp_path / "data", list(HANDLERS)) as executor:
        limit = 12 if ending == "timeout" else 0  # two interpreters start first
        admin.run(executor.address, "daemonizes", 1, executorParams=f"{path} {how}", executorTimeout=limit)
        pid = int(wait_until(lambda: path.exists() and path.read_text()))
        if ending == "kill":
            assert admin.call(executor.address, "/kill", {"jobId": 1})["code"] == 200
        item = admin.outcome(1)
        assert (item["handleCode"], item["handleMsg"]) == (code, text)
        assert not is_alive(pid)
        assert started_beside(others) == set()


def test_a_daemon_dies_with_the_executor(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path / "data") as executor:
        admin.run(executor.address, "daemonizes", 1, executorParams=f"{path} stays")
        pid = int(wait_until(lambda: path.exists() and path.read_text()))
        assert is_alive(pid)
        executor.kill()
        wait_until(lambda: not is_alive(pid))


def test_a_stop_kills_daemons_too(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path / "data", stop_timeout_s=0) as executor:
        admin.run(executor.address, "daemonizes", 1, executorParams=f"{path} stays")
        pid = int(wait_until(lambda: path.exists() and path.read_text()))
        assert executor.terminate() == 1
        assert not is_alive(pid)
        assert admin.outcome(1)["xwheel"]["reason"] == "executor_stopped"
