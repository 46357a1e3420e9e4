"""``python -m tests.faults.mutants NAME server …``: xwheel's command line, one guard short.

``--check`` runs every mutant without a fault instead, and says whether what it replaces was reached. ``--hunt`` runs
each through random faults until the checker catches it.
"""

from __future__ import annotations

import argparse
import secrets
import signal
import sys
from collections.abc import Sequence
from typing import Final

from tests.faults.mutants.names import MUTANTS
from tests.faults.mutants.patches import PatchError, apply
from xwheel.__main__ import main as xwheel

EXIT_USAGE: Final = 2
EXIT_STALE: Final = 3


def main(arguments: Sequence[str]) -> int:
    """Run a command as a mutant, or check them all; return the exit status."""
    name, *rest = arguments or [""]
    if name == "--check":
        from tests.faults.mutants.fair import check

        return check(rest or list(MUTANTS))
    if name == "--hunt":
        return _hunt(rest)
    if name not in MUTANTS or not rest:
        print(f"usage: python -m tests.faults.mutants NAME server|executor …\n{', '.join(MUTANTS)}", file=sys.stderr)
        return EXIT_USAGE
    if rest[0] == MUTANTS[name].role:
        try:
            apply(name)
        except PatchError as error:
            print(f"mutant {name}: {error}", file=sys.stderr)
            return EXIT_STALE
    sys.argv = ["xwheel", *rest]
    xwheel()
    return 0


def _hunt(arguments: Sequence[str]) -> int:
    from tests.faults.mutants.hunt import hunt
    from tests.support.databases import BACKENDS

    parser = argparse.ArgumentParser(prog="python -m tests.faults.mutants --hunt")
    parser.add_argument("--backend", choices=["sqlite", *BACKENDS], default="mariadb")
    parser.add_argument("--seeds", type=int, default=10, help="how many at most for each (default 10)")
    parser.add_argument("--first", type=int, help="the first seed; default: at random")
    parser.add_argument("--seconds", type=int, default=10, help="how long jobs fire (default 10)")
    parser.add_argument("mutant", nargs="*", help="default: all of them")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that every process is stopped then too
    first = secrets.randbelow(10**6) if options.first is None else options.first
    seeds = range(first, first + options.seeds)
    print(f"seeds {first} to {seeds[-1]} on {options.backend}", flush=True)
    return hunt(options.mutant or list(MUTANTS), seeds, options.backend, options.seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
