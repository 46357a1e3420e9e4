"""xwheel with one guard taken out: what the fault checker must catch, or it proves nothing.

``python -m tests.faults.mutants NAME server …`` and ``… NAME executor …`` replace functions of xwheel in memory and
then run the ordinary command line. ``names`` says which mutants there are and which process each changes; ``fire``,
``plan``, ``sends`` and ``journal`` hold them, one function each, whose docstring says what is missing; ``patches``
replaces and counts. ``fair`` runs them without any fault (``python -m tests.faults.mutants --check``), ``hunt`` among
random ones (``--hunt``), until the checker finds what ``caught`` says that each is known for.
"""

from __future__ import annotations

import sys


def command(mutant: str | None) -> list[str]:
    """Return the program to put before ``server …`` and ``executor …``: xwheel, or a mutant of it."""
    if mutant is None:
        return [sys.executable, "-m", "xwheel"]
    return [sys.executable, "-m", "tests.faults.mutants", mutant]
