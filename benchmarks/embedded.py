"""Embedded mode: from the start of a program to the first fire of its job, against ``python -c pass``.

The program is the five lines of the tutorial with a job that fires every 100 ms, in an empty folder: it makes the
database, leads, and its job ends it. Both are started one after the other; the ratio says how many times as long the
program takes as an interpreter that does nothing. A second start on the same folder is a restart.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
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


class Took(NamedTuple):
    """What a program took: by the clock, and of the processor."""

    wall_s: float
    cpu_s: float


def run(code: str, folder: str) -> Took:
    """Run a program and return what it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall_s = timed(
        lambda: subprocess.run(
            [sys.executable, "-c", code], cwd=folder, check=True, stderr=subprocess.DEVNULL
        )
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall_s, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main() -> None:
    """Measure."""
    report = Report(__doc__ or "", repeats=10)
    args = report.parse()
    nothing, first, again = [], [], []
    for _ in range(args.repeats):
        with tempfile.TemporaryDirectory() as folder:
            nothing.append(run("pass", folder))
            first.append(run(PROGRAM, folder))
            again.append(run(PROGRAM, folder))
            assert (Path(folder) / "schedule" / "xwheel.db").exists()
    report.figure("python -c pass", [took.wall_s for took in nothing], "s")
    for name, rounds in (("first fire, empty folder", first), ("first fire, restart after a kill", again)):
        samples = [took.wall_s for took in rounds]
        report.figure(name, samples, "s")
        word = "held" if statistics.median(samples) < GOAL_S else "MISSED"
        report.note(name, f"goal below {GOAL_S:g} s: {word}")
        report.figure(f"{name}, CPU", [took.cpu_s for took in rounds], "s")
    report.ratio(
        "first fire / python -c pass", [took.wall_s for took in first], [took.wall_s for took in nothing]
    )
    report.finish()


if __name__ == "__main__":
    main()
