"""Mistakes made on purpose, one at a time, in a copy of the tree: the tests next to the code must notice each.

Each module here that has a list ``MISTAKES`` holds those of one area. ``python -m tests.mutants`` makes them and lists
what no test noticed. ``tests/faults/mutants`` is another thing: guards taken out of nodes that random faults then hit.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """A change to one place of the code that looks plausible and is wrong."""

    file: str
    """Where, as a path in the checkout: ``xwheel/…`` or ``plugins/NAME/…``."""
    old: str
    """Text that stands there exactly once."""
    new: str
    why: str
    """What goes wrong then, in one sentence; no two mistakes have the same."""
    tests: tuple[str, ...]
    """Tests that must notice it: files, folders or pytest's ids, as paths in the checkout."""
