"""``python -m tests.mutants``: make each mistake, run the tests that it names, and list what no test noticed.

Exit status 1 says that a mistake survived that :mod:`tests.mutants.explained` does not explain, or, of all mistakes,
more than five in a hundred; 2 says that one does not fit the code, or that its tests fail without it.
"""

from __future__ import annotations

import argparse
import itertools
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants import Mistake, catalogue
from tests.mutants.catalogue import StaleError, check, folder_of, mistakes
from tests.mutants.copies import Copy
from tests.mutants.explained import EXPLAINED
from tests.support.paths import ROOT

GOAL: Final = 0.95


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    survived: list[Mistake]
    """No test noticed them."""
    unproven: dict[str, str]
    """The sentences of those whose tests fail without any mistake, with what they say: they were not made."""


def survivors(given: Sequence[Mistake], root: Path, jobs: int) -> Outcome:
    """Return the mistakes that no test noticed.

    Args:
        given: Which to make.
        root: The checkout; nothing is written there.
        jobs: How many to make at once, each in a copy of its own.

    Raises:
        StaleError: A mistake does not fit.
    """
    for mistake in given:
        check(mistake, root)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [Copy(root, Path(folder, str(number)).resolve()) for number in range(min(jobs, len(given)))]
        return _in_parallel(_Work(given), copies)


class _Work:
    """What is left to do, and what was found; any thread takes from it."""

    def __init__(self, given: Sequence[Mistake]) -> None:
        self.outcome = Outcome([], {})
        self.errors: list[BaseException] = []
        # those of the same tests one after another: bytecode is there, and the tests were seen to pass
        self.left: queue.SimpleQueue[list[Mistake]] = queue.SimpleQueue()
        for _, same in itertools.groupby(sorted(given, key=_tests_of), key=_tests_of):
            self.left.put(list(same))


def _tests_of(mistake: Mistake) -> tuple[str, ...]:
    return mistake.tests


def _in_parallel(work: _Work, copies: Sequence[Copy]) -> Outcome:
    threads = [threading.Thread(target=_do, args=(work, copy), daemon=True) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if work.errors:
        raise work.errors[0]
    return work.outcome


def _do(work: _Work, copy: Copy) -> None:
    try:
        while not work.errors:
            same = work.left.get_nowait()
            copy.check_imports(same[0].tests)
            if fault := _fault_of(copy, same[0].tests):
                work.outcome.unproven.update({mistake.why: fault for mistake in same})
                print("UNPROVEN", *[mistake.why for mistake in same], sep="\n  ", flush=True)
                continue
            for mistake in same:
                with copy.made(mistake):
                    ran = copy.run(mistake.tests)
                if not ran.failed:
                    work.outcome.survived.append(mistake)
                word = f"noticed  by {ran.first}" if ran.failed else "SURVIVED"
                print(f"{mistake.file}: {mistake.why}\n  {word}", flush=True)
    except queue.Empty:
        pass
    except BaseException as error:
        work.errors.append(error)


def _fault_of(copy: Copy, tests: Sequence[str]) -> str:
    """Return what is wrong with tests as they are, nothing if they pass at the first or the second time."""
    for _ in range(2):
        ran = copy.run(tests, keep_bytecode=True)
        if not ran.failed:
            return ""
    return f"tests fail without any mistake:\n{ran.output}"


def table(given: Sequence[Mistake], survived: Sequence[Mistake]) -> str:
    """Return the count by folder as lines."""
    lines = [f"{'folder':42}{'made':>8}{'noticed':>10}{'survived':>10}"]
    for folder in [*sorted({folder_of(mistake) for mistake in given}), "all"]:
        made = sum(folder in ("all", folder_of(mistake)) for mistake in given)
        missed = sum(folder in ("all", folder_of(mistake)) for mistake in survived)
        lines.append(f"{folder:42}{made:8}{made - missed:10}{missed:10}")
    return "\n".join(lines)


def verdict(
    given: Sequence[Mistake], survived: Sequence[Mistake], explained: Mapping[str, str], *, whole: bool
) -> str | None:
    """Return what is wrong with the outcome, or None.

    Args:
        given: What was made.
        survived: What was not noticed.
        explained: Why some may survive.
        whole: Whether those are all that there are: a part is too small for a rate.
    """
    strange = [mistake for mistake in survived if mistake.why not in explained]
    if strange:
        return f"{len(strange)} survived without an explanation"
    if whole and len(survived) > (1 - GOAL) * len(given):
        return f"{len(given) - len(survived)} of {len(given)} noticed, under {GOAL:.0%}"
    return None


def main(arguments: Sequence[str]) -> int:
    """Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (default 2)")
    parser.add_argument("--sample", type=int, help="only this many, others at each commit")
    parser.add_argument("--seed", help="which sample (default: the commit)")
    parser.add_argument("only", nargs="*", help="text in the file or the sentence of those to make (default: all)")
    options = parser.parse_args(arguments)
    try:
        given = [
            mistake
            for mistake in mistakes()
            if not options.only or any(text in mistake.file + mistake.why for text in options.only)
        ]
        whole = not options.only and options.sample is None
        if options.sample is not None:
            given = catalogue.sample(given, options.sample, options.seed or _commit())
        outcome = survivors(given, ROOT, options.jobs)
    except StaleError as error:
        print(error, file=sys.stderr)
        return 2
    survived = outcome.survived
    given = [mistake for mistake in given if mistake.why not in outcome.unproven]
    print(f"\n{table(given, survived)}\n")
    for mistake in survived:
        reason = EXPLAINED.get(mistake.why, "NOT EXPLAINED")
        print(f"survived: {mistake.file}: {mistake.why}\n  {mistake.old!r} -> {mistake.new!r}\n  {reason}")
    fault = verdict(given, survived, EXPLAINED, whole=whole)
    if fault is not None:
        print(fault, file=sys.stderr)
    for text in dict.fromkeys(outcome.unproven.values()):
        print(text, file=sys.stderr)
    return 2 if outcome.unproven else int(fault is not None)


def _commit() -> str:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return head.stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
