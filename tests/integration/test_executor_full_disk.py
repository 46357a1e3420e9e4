"""A real disk that is really full: a tmpfs of a few megabytes under the journal of a real executor."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.support.admins import FakeAdmin
from tests.support.executors import ExecutorProcess, wait_until
from tests.support.small_disk import fill

DISK_MB = 8


def test_a_full_disk_refuses_runs_finishes_accepted_ones_and_recovers(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path / "data", disk_mb=DISK_MB) as executor:
        assert not (executor.data_dir / "journal.db").exists()
        disk = executor.disk
        assert os.statvfs(disk).f_blocks * os.statvfs(disk).f_frsize == DISK_MB << 20
        admin.run(executor.address, "quick", 1)
        admin.outcome(1)
        accepted = list(range(10, 15))
        for log_id in accepted:
            assert admin.run(executor.address, "waits", log_id, job_id=log_id)["code"] == 200
        queued = list(range(20, 25))
        for log_id in queued:
            assert admin.run(executor.address, "quick", log_id, job_id=log_id - 10)["code"] == 200
        wait_until(lambda: set(accepted) <= set(executor.executed()))

        fill(disk / "filler")
        refused: list[str] = []

        def ask_until_refused(log_id: int) -> bool:
            answer = admin.run(executor.address, "quick", log_id, job_id=log_id)
            if answer["code"] != 200:
                refused.append(answer["msg"])
            return bool(refused)

        # pages that the journal has already take some more runs
        taken: list[int] = []
        while not ask_until_refused(1000 + len(taken)):
            taken.append(1000 + len(taken))
        assert len(taken) < 5000
        for log_id in range(5000, 5020):
            answer = admin.run(executor.address, "quick", log_id, job_id=log_id)
            assert answer["code"] == 500
            refused.append(answer["msg"])
        assert all(
            text.startswith("the executor's journal cannot take more runs: ") and ("full" in text or "no room" in text)
            for text in refused
        ), set(refused)

        # while it is full, what was accepted still ends and is told
        (executor.notes / "go").touch()
        for log_id in [*accepted, *queued, *taken]:
            assert admin.outcome(log_id)["handleCode"] == 200
        # the reserve, which is free now, is no room for new runs: it stays so for as long as the disk is full
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            assert admin.run(executor.address, "quick", 5000, job_id=5000)["code"] == 500
            time.sleep(0.05)

        (disk / "filler").unlink()
        wait_until(lambda: admin.run(executor.address, "quick", 5000, job_id=5000)["code"] == 200)
        assert admin.outcome(5000)["handleCode"] == 200
        wait_until((disk / "journal.reserve").exists)
        assert admin.run(executor.address, "quick", 1)["code"] == 200  # known, so not run again
        assert executor.terminate() == 0
        ran = executor.executed()
        assert sorted(ran) == sorted([1, *accepted, *queued, *taken, 5000])
        log = (executor.notes / "process.log").read_text()
        assert log.count("refuses new runs") == 1
        assert log.count("accepts runs again") == 1


def test_processes_that_print_on_a_full_disk_still_end_well(tmp_path: Path) -> None:
    with FakeAdmin() as admin, ExecutorProcess(admin, tmp_path / "data", disk_mb=DISK_MB) as executor:
        assert admin.run(executor.address, "prints", 1)["code"] == 200
        wait_until(lambda: executor.executed() == [1])
        fill(executor.disk / "filler")
        (executor.notes / "go").touch()
        item = admin.outcome(1)
        assert (item["handleCode"], item["handleMsg"]) == (200, "printed")
