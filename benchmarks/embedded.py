"""Embedded mode: from the start of a program to the first fire of its job, against ``python -c pass``.

The program is the five lines of the tutorial with a job that fires every 100 ms, in an empty folder: it makes the
database, leads, and its job ends it. Both are started one after the other; the ratio says how many times as long the
program takes as an interpreter that does nothing. A second start on the same folder is a restart.

Then two programs share a folder: the one that leads is killed, and the other one's first fire is waited for.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks._report import Report, timed

GOAL_S = 2.0
PROGRAM = """
import os
from xwheel import embedded
scheduler = embedded.EmbeddedScheduler("schedule", announce=None)
@scheduler.job(every="100ms")
def first():
    os._exit(0)
scheduler.run_forever()
"""

PAIR = """
import os
from xwheel import embedded
scheduler = embedded.EmbeddedScheduler("schedule", announce=None)
@scheduler.job(every="100ms")
def first():
    with open("fires", "a") as file:
        file.write(f"{os.getpid()}\\n")
scheduler.run_forever()
"""
LIMIT_S = 60


class Took(NamedTuple):
    """What a program took: by the clock, and of the processor."""

    wall_s: float
    cpu_s: float


def run(code: str, folder: str) -> Took:
    """Run a program and return what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s = timed(
        lambda: subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def take_over(folder: Path) -> float:
    """Return how many seconds lie between the kill of a leader and the first fire of the process that stood by."""
    leader = subprocess.Popen([sys.executable, "-c", PAIR], cwd=folder, stderr=subprocess.DEVNULL)
    wait_for_fire(folder, leader.pid)
    other = subprocess.Popen([sys.executable, "-c", PAIR], cwd=folder, stderr=subprocess.DEVNULL)
    try:
        time.sleep(2)  # it stands by meanwhile
        leader.kill()
        return timed(lambda: wait_for_fire(folder, other.pid))
    finally:
        for process in (leader, other):
            process.kill()
            process.wait()


def wait_for_fire(folder: Path, pid: int) -> None:
    """Wait until a process fired."""
    fires, end = folder / "fires", time.monotonic() + LIMIT_S
    while not fires.exists() or f"{pid}\n" not in fires.read_text():
        if time.monotonic() > end:
            raise SystemExit(f"process {pid} does not fire")
        time.sleep(0.005)


def main() -> None:
    """Measure."""
    report = Report(__doc__ or "", repeats=10)
    args = report.parse()
    nothing, first, again, taken = [], [], [], []
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            nothing.append(run("pass", folder))
            first.append(run(PROGRAM, folder))
            again.append(run(PROGRAM, folder))
            taken.append(take_over(Path(folder)))
            assert (Path(folder) / "schedule" / "xwheel.db").exists()
    report.figure("python -c pass", [took.wall_s for took in nothing], "s")
    for name, rounds in (("first fire, empty folder", first), ("first fire, restart after a kill", again)):
        samples = [took.wall_s for took in rounds]
        report.figure(name, samples, "s")
        word = "held" if statistics.median(samples) < GOAL_S else "MISSED"
        report.note(name, f"goal below {GOAL_S:g} s: {word}")
        report.figure(f"{name}, CPU", [took.cpu_s for took in rounds], "s")
    report.figure("kill of the leader to a fire elsewhere", taken, "s")
    report.ratio("first fire / python -c pass", [took.wall_s for took in first], [took.wall_s for took in nothing])
    report.finish()


if __name__ == "__main__":
    main()
