"""Mutants among faults: each must be caught, by a finding that it is known for."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.faults.mutants.caught import CAUGHT_BY
from tests.faults.soak.seeds import Ground, SeedResult


def hunt(names: Sequence[str], seeds: Sequence[int], backend: str, seconds: int) -> int:
    """Run each mutant through seeds until one catches it, and print which; return 1 if one is not caught."""
    home = Path(tempfile.mkdtemp(prefix="xwheel-mutants-"))
    free = [name for name in names if not _is_caught(name, seeds, backend, seconds, home)]
    print(f"{len(names) - len(free)} of {len(names)} mutants were caught" + (f"; not {free}" if free else ""))
    if free:
        print(f"what is left of their seeds is in {home}")
        return 1
    shutil.rmtree(home, ignore_errors=True)
    return 0


def _is_caught(name: str, seeds: Sequence[int], backend: str, seconds: int, home: Path) -> bool:
    began = time.monotonic()
    others: list[str] = []
    with Ground(backend, home / name) as ground:
        for number, seed in enumerate(seeds, 1):
            try:
                result = ground.run(seed, seconds=seconds, mutant=name)
            except RuntimeError as error:  # such as a process that does not come up: no verdict catches anything
                others.append(f"seed {seed}: {error}")
                continue
            found = caught_by(name, result)
            if found:
                took_s = time.monotonic() - began
                print(f"{name}: caught by seed {seed}, the {number}. on {backend}, {took_s:.0f} s: {found}", flush=True)
                return True
            others += [f"seed {seed}: {dict(result.verdict.counts)}"] if result.verdict.findings else []
    print(f"{name}: NOT caught by {len(seeds)} seeds on {backend}; {'; '.join(others) or 'nothing was found'}")
    return False


def caught_by(name: str, result: SeedResult) -> dict[str, int]:
    """Return how often what a mutant is known for was found, by the kind of the finding."""
    counts = result.verdict.counts
    return {kind: counts[kind] for kind in CAUGHT_BY[name].findings if counts[kind]}
