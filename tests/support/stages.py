"""Time the stages of ``make``, and give tests that failed a second try: ``python stages.py run|table|judge``.

The Makefile runs each of its commands through ``run``, which notes when it began and ended. ``table`` prints that.
``.ci/run`` allows some failed tests in all (``--again 5``). While there are no more, ``run`` notes them, and
``make`` goes on. At the end ``judge`` runs them once more, one after the other, with nothing next to them. A test that
fails again fails the run. A test that passes is unsteady: it is printed, and written to ``build/unsteady.txt``.
Whatever else fails, a process of tests that died included, fails at once.

``BEGUN`` says which run of ``make`` this is: when it began, in seconds since 1970. The script needs no package: the
first stages install them.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1  # pytest's status for that; others mean that it could not run them
DIED = re.compile(r"worker '\w+' crashed while running")  # xdist's words in place of the failure


@dataclass(frozen=True, slots=True)
class Command:
    """A command that ended."""

    stage: str
    command: list[str]
    folder: str
    begun_s: float
    ended_s: float
    cpu_s: float
    """What it and its children took of the processors."""
    status: int
    failed: dict[str, str] = field(default_factory=dict)
    """Each test that failed and is to be run again, with the last line of its failure."""
    report: str = ""
    """What the names of its report and of its list of failed tests begin with."""


class Stages:
    """The stages of one run of ``make``, in a folder of their own."""

    def __init__(self, folder: Path, begun_s: int) -> None:
        self._begun_s = begun_s
        self._folder = folder / str(begun_s)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._log = self._folder / "commands.jsonl"

    def run(self, stage: str, command: Sequence[str], again: int) -> int:
        """Run a command; return its status, or 0 if all that failed were a few tests.

        Args:
            stage: Under which name its time counts.
            command: Its words.
            again: How many failed tests of all stages are allowed here; above 0 the command must be pytest's.
        """
        begun_s = time.time()
        report = f"{stage}-{time.monotonic_ns()}".replace("/", "-").replace(" ", "-")
        words = [*command, *self._report_to(report)] if again else list(command)
        status = _run(words, Path.cwd())
        failed: dict[str, str] = {}
        if again and status == TESTS_FAILED:
            failed = failures(self._folder / f"{report}.xml") or {}
        with self._log.open("a+") as log:
            fcntl.flock(log, fcntl.LOCK_EX)
            before = sum(len(done.failed) for done in self._done())
            forgiven = bool(failed) and before + len(failed) <= again
            noted = failed if forgiven else {}
            used = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s = used.ru_utime + used.ru_stime
            done = Command(stage, list(command), str(Path.cwd()), begun_s, time.time(), cpu_s, status, noted, report)
            log.write(json.dumps(asdict(done)) + "\n")
        if forgiven:
            print(f"{stage}: {len(failed)} failed and will be run again at the end", flush=True)
            return 0
        return status

    def table(self) -> list[str]:
        """Return a line for each stage: when it began and ended since the run began, and how long it ran."""
        lines = [f"{'stage':<40} {'from':>6} {'to':>6} {'ran':>6} {'cpu':>6}  seconds"]
        stages: dict[str, list[Command]] = {}
        for done in sorted(self._done(), key=lambda each: each.begun_s):
            stages.setdefault(done.stage, []).append(done)
        for stage, mine in stages.items():
            first_s, last_s = mine[0].begun_s - self._begun_s, max(each.ended_s for each in mine) - self._begun_s
            ran_s, cpu_s = sum(each.ended_s - each.begun_s for each in mine), sum(each.cpu_s for each in mine)
            lines.append(f"{stage:<40} {first_s:>6.0f} {last_s:>6.0f} {ran_s:>6.0f} {cpu_s:>6.0f}")
        all_s, cpu_s = time.time() - self._begun_s, sum(each.cpu_s for done in stages.values() for each in done)
        return [*lines, f"{'all':<40} {0:>6} {all_s:>6.0f} {all_s:>6.0f} {cpu_s:>6.0f}"]

    def judge(self, unsteady_file: Path) -> int:
        """Run each noted test again; return 1 if one failed again, else 0, and say which were unsteady."""
        unsteady: list[str] = []
        still: list[str] = []
        for done in [each for each in self._done() if each.failed]:
            again = f"{done.report}-again"
            words = [
                *done.command, *(["-n", "0"] if "-n" in done.command else []),
                *self._report_to(again, done.report), "--last-failed", "--last-failed-no-failures", "none",
            ]  # fmt: skip
            print(f"again: {shlex.join(words)}", flush=True)
            _run(words, Path(done.folder))
            passed = passes(self._folder / f"{again}.xml")
            for test, last in done.failed.items():
                (unsteady if test in passed else still).append(f"{done.stage}: {test}: {last}")
        unsteady_file.unlink(missing_ok=True)
        if unsteady:
            unsteady_file.write_text("".join(f"{line}\n" for line in unsteady))
        for line in unsteady:
            print(f"unsteady: {line}")
        for line in still:
            print(f"failed twice: {line}")
        return int(bool(still))

    def _done(self) -> list[Command]:
        if not self._log.exists():
            return []
        return [Command(**json.loads(line)) for line in self._log.read_text().splitlines()]

    def _report_to(self, report: str, failed: str | None = None) -> list[str]:
        """Return pytest's arguments: where its report goes, and where it lists what failed."""
        cache = self._folder / f"{failed or report}-cache"
        return [f"--junit-xml={self._folder / report}.xml", "-o", f"cache_dir={cache}"]


def failures(report: Path) -> dict[str, str] | None:
    """Return the tests that failed, with the last line of each failure; None if a process of tests died."""
    found: dict[str, str] = {}
    for case in _cases(report):
        for failure in [*case.iter("failure"), *case.iter("error")]:
            text = failure.text or failure.get("message", "")
            if DIED.search(failure.get("message", "")):
                return None
            found[_name(case)] = (text.strip().splitlines() or [""])[-1]
    return found


def passes(report: Path) -> set[str]:
    """Return the tests that passed: skipped ones are none."""
    kinds = ("failure", "error", "skipped")
    return {_name(case) for case in _cases(report) if all(case.find(kind) is None for kind in kinds)}


def _cases(report: Path) -> list[ElementTree.Element]:
    """Return nothing for a report that is missing or cut short: its process died."""
    try:
        return list(ElementTree.parse(report).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"


def _run(command: Sequence[str], folder: Path) -> int:
    """Run a command to its end, which a signal to this process brings sooner; return its status as a shell has it."""
    with subprocess.Popen(command, cwd=folder) as process:
        signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        signal.signal(signal.SIGINT, lambda *_: None)  # the terminal sends it to both
        status = process.wait()
    return status if status >= 0 else 128 - status


def main(arguments: Sequence[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(description="Time the stages of make, and judge tests that failed once.")
    parser.add_argument("--folder", type=Path, default=ROOT / "build", help="where runs are noted")
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="run a command of a stage")
    run.add_argument("--again", type=int, default=0, help="how many failed tests are left to the judge")
    run.add_argument("stage")
    run.add_argument("command", nargs=argparse.REMAINDER)
    actions.add_parser("table", help="print what each stage took")
    actions.add_parser("judge", help="run tests that failed once more")
    given = parser.parse_args(arguments)
    stages = Stages(given.folder / "stages", int(os.environ["BEGUN"]))
    if given.action == "run":
        return stages.run(given.stage, given.command, given.again)
    if given.action == "judge":
        return stages.judge(given.folder / "unsteady.txt")
    print("\n".join(stages.table()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
