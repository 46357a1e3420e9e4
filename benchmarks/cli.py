"""How long commands take, each next to ``python -c pass``: what an operator waits for at a prompt.

``--version``, ``--help``, and calls to a node on the same machine that has one group and no job. Every round runs each
command once, right after an interpreter that does nothing, so that what else the machine does hits both.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time

from benchmarks._report import Report
from benchmarks._site import Site, site

GOALS_S = {"--version": 0.25, "--help": 0.25, "group list": 0.35, "run list": 0.35, "job list --json": 0.35}


def took_s(words: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Run a command and return how long it took, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, check=False)
    took = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed:\n{done.stderr.decode()}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(report: Report, place: Site) -> None:
    """Measure each command against an interpreter that does nothing."""
    environment = {**os.environ, "XWHEEL_URL": f"http://127.0.0.1:{place.port}", "XWHEEL_TOKEN": place.token}
    bare: dict[str, list[float]] = {name: [] for name in GOALS_S}
    ours: dict[str, list[float]] = {name: [] for name in GOALS_S}
    busy: dict[str, list[float]] = {name: [] for name in GOALS_S}
    for _ in range(report.args.repeats):
        for name in GOALS_S:
            bare[name].append(took_s([sys.executable, "-c", "pass"], environment)[0])
            took, cpu = took_s([sys.executable, "-m", "xwheel", *name.split()], environment)
            ours[name].append(took)
            busy[name].append(cpu)
    report.figure("python -c pass", [one for samples in bare.values() for one in samples], "s")
    for name, goal in GOALS_S.items():
        report.figure(f"xwheel {name}", ours[name], "s")
        middle = float(report.figures[f"xwheel {name}"]["median"])
        report.note(f"xwheel {name}", f"goal below {goal} s: {'held' if middle < goal else 'MISSED'}")
        report.figure(f"xwheel {name}, CPU", busy[name], "s")
        report.ratio(f"xwheel {name} / python -c pass", ours[name], bare[name])


def main() -> None:
    """Measure, and print."""
    report = Report(__doc__ or "", repeats=20)
    report.parse()
    with site(with_executor=False) as place:
        measure(report, place)
    report.finish()


if __name__ == "__main__":
    main()
