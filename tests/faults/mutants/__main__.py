"""``python -m tests.faults.mutants NAME server …``: xwheel's command line, one guard short.

``--check`` runs every mutant without a fault instead, and says whether what it replaces was reached.
"""

from __future__ import annotations

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
    if name not in MUTANTS or not rest:
        print(
            f"usage: python -m tests.faults.mutants NAME server|executor …\n{', '.join(MUTANTS)}",
            file=sys.stderr,
        )
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
