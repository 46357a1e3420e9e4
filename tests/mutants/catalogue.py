"""Which mistakes there are, and what a file's text is with one of them."""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import tests.mutants
from tests.mutants import Mistake


class StaleError(Exception):
    """A mistake no longer fits the code or the tests that it names."""


def mistakes() -> list[Mistake]:
    """Return all, area by area.

    Raises:
        StaleError: Two say the same.
    """
    found = [mistake for _, given in areas() for mistake in given]
    twice = [why for why, count in Counter(mistake.why for mistake in found).items() if count > 1]
    if twice:
        raise StaleError(f"more than one mistake says {twice[0]!r}")
    return found


def areas() -> Iterator[tuple[str, Sequence[Mistake]]]:
    """Yield the name of each module that has mistakes, with them."""
    for module in pkgutil.iter_modules(tests.mutants.__path__):
        if not module.name.startswith(("__", "test_")):
            given = getattr(importlib.import_module(f"tests.mutants.{module.name}"), "MISTAKES", None)
            if given is not None:
                yield module.name, given


def changed(text: str, mistake: Mistake) -> str:
    """Return a file's text with the mistake in it.

    Raises:
        StaleError: What it replaces does not stand there exactly once, or what comes out is no Python.
    """
    count = text.count(mistake.old)
    if count != 1 or mistake.old == mistake.new:
        fault = f"stands there {count} times, not once" if count != 1 else "would not change"
        raise StaleError(f"{mistake.file}: {mistake.old!r} {fault} ({mistake.why})")
    after = text.replace(mistake.old, mistake.new)
    if mistake.file.endswith(".py"):
        try:
            compile(after, mistake.file, "exec", dont_inherit=True)
        except SyntaxError as error:
            raise StaleError(f"{mistake.file}:{error.lineno}: {error.msg} ({mistake.why})") from error
    return after


def check(mistake: Mistake, root: Path) -> None:
    """Check that a mistake can be made.

    Raises:
        StaleError: It names a file or a test that is not there, or replaces what does not stand there.
    """
    file = root / mistake.file
    if not file.is_file():
        raise StaleError(f"{mistake.file} does not exist ({mistake.why})")
    changed(file.read_text(encoding="utf-8"), mistake)
    if not mistake.tests:
        raise StaleError(f"{mistake.file}: no tests are named ({mistake.why})")
    for test in mistake.tests:
        if not (root / test.partition("::")[0]).exists():
            raise StaleError(f"{test} does not exist ({mistake.why})")


def folder_of(mistake: Mistake) -> str:
    """Return the line of the table that a mistake counts in: its folder, or its plugin."""
    parts = PurePosixPath(mistake.file).parts
    return "/".join(parts[:2] if parts[0] == "plugins" else parts[:-1])


def sample(given: Sequence[Mistake], count: int, seed: str) -> list[Mistake]:
    """Return some mistakes, the same ones for the same seed."""
    return random.Random(seed).sample(list(given), min(count, len(given)))
