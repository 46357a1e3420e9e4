"""The benchmark's other side really does the work it is timed for, and its mix of due times is the one it claims."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks import baseline
from benchmarks._site import site
from benchmarks.baseline_store import open_store
from benchmarks.pipeline import _steady_job, measure_baseline, measure_flat_out

FIRES = 150


def test_both_sides_execute_and_record_every_fire_once_on_one_executor() -> None:
    with site() as place:
        # both check rows and the executor's own count; between them the executor stays and the node comes back
        result = measure_baseline(place, FIRES, workers=20)
        assert result["rate"] > 0
        assert result["repeated"] == 0
        _, final, _ = measure_flat_out(place, FIRES)
        assert final > 0
        assert place.executed() == 2 * FIRES
        (path,) = place.folder.glob("baseline_*.db")
        conn = sqlite3.connect(path)
        rows = conn.execute("SELECT job_id, trigger_code, handle_code FROM job_log").fetchall()
        conn.close()
    assert sorted(rows) == [(number, 200, 200) for number in range(1, FIRES + 1)]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("INSERT INTO job_log (group_id, job_id, trigger_ms) VALUES (1, 1, 1)", "log rows: 2"),
        ("UPDATE job_log SET handle_code = 500", "succeeded: 0"),
        ("UPDATE job_log SET trigger_code = 500", "accepted: 0"),
        ("DELETE FROM job_log", "jobs with a log row: 0"),
        ("UPDATE job_info SET next_ms = 0", "jobs still due: 1"),
    ],
)  # fmt: skip
def test_a_fire_that_is_lost_repeated_or_failed_is_noticed(tmp_path: Path, damage: str, complaint: str) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'baseline.db'}", 1, create=True)
    scheduler = baseline.Baseline(store, "http://127.0.0.1:9", token="t", app_name="bench", workers=1)
    scheduler.add_jobs(1, "nothing")
    store.write("UPDATE job_info SET next_ms = ?", (baseline.now_ms() + 60_000,))
    store.insert(baseline.INSERT_LOG, (1, 1, 1))
    store.write("UPDATE job_log SET trigger_code = 200, handle_code = 200")
    assert baseline.check(store, 1) == []
    store.write(damage)
    assert any(line.startswith(complaint) for line in baseline.check(store, 1))
    scheduler.start()
    scheduler.stop()
    store.close()


def test_half_of_the_due_times_lie_on_whole_seconds_and_half_are_spread_evenly() -> None:
    jobs = [_steady_job(1, 200, number, 5000, 9000) for number in range(200)]
    offsets = [job["anchor_ms"] - 5000 for job in jobs]
    spread = sorted(offset for offset in offsets if offset)
    assert offsets.count(0) == len(spread) == 100
    assert {later - earlier for earlier, later in pairwise(spread)} == {10}
