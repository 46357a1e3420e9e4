"""Replace functions of xwheel in memory, and count their calls: a mutant that is never reached proves nothing."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from tests.faults.mutants.names import MUTANTS

REACHED_VARIABLE: Final = "MUTANT_REACHED"
"""Names a file to which each process appends the patches it reached, each once."""


class PatchError(Exception):
    """What a mutant would replace is not in xwheel any more, or takes other arguments."""


class Patches:
    """The functions that are replaced.

    Attributes:
        calls: How often each replacement was called, by ``owner.name``; 0 until then.
        rare: Those of them that nothing calls while there is no fault.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.rare: set[str] = set()
        self._originals: list[tuple[Any, str, Any]] = []

    def replace(self, owner: Any, name: str, make: Callable[[Any], Callable[..., Any]], *, rare: bool = False) -> None:
        """Replace a function of a class or module by what ``make`` makes of it.

        Raises:
            PatchError: There is no such function, or the new one takes other arguments.
        """
        label = f"{owner.__name__.rpartition('.')[2]}.{name}"
        original = vars(owner).get(name)
        if not inspect.isfunction(original):
            raise PatchError(f"{label} is no function of xwheel any more: the mutant must follow the code")
        made = make(original)
        was, now = (_shape(function) for function in (original, made))
        if was != now:
            raise PatchError(f"{label} takes {was}, its replacement {now}: the mutant must follow the code")
        self.calls[label] = 0
        if rare:
            self.rare.add(label)

        @functools.wraps(original)
        def counted(*args: Any, **options: Any) -> Any:
            self.calls[label] += 1
            if self.calls[label] == 1:
                _note(label)
            return made(*args, **options)

        self._originals.append((owner, name, original))
        setattr(owner, name, counted)

    def undo(self) -> None:
        """Put everything back."""
        for owner, name, original in reversed(self._originals):
            setattr(owner, name, original)
        self._originals.clear()


def apply(name: str) -> Patches:
    """Turn this process into a mutant for good; return what was replaced.

    Raises:
        PatchError: The mutant no longer fits xwheel.
    """
    patches = Patches()
    try:
        module = importlib.import_module(f"tests.faults.mutants.{MUTANTS[name].module}")
        getattr(module, name)(patches)
    except BaseException:
        patches.undo()
        raise
    return patches


@contextmanager
def mutated(name: str) -> Iterator[Patches]:
    """Turn this process into a mutant inside the block."""
    patches = apply(name)
    try:
        yield patches
    finally:
        patches.undo()


@contextmanager
def swapped(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Give an object another value in an attribute inside the block; for objects of one thread."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def _shape(function: Callable[..., Any]) -> list[tuple[str, Any]]:
    """Return names and kinds of a function's parameters."""
    return [(item.name, item.kind.description) for item in inspect.signature(function).parameters.values()]


def _note(label: str) -> None:
    """Write down that a replacement was called, in one write: the process may be killed any time."""
    if path := os.environ.get(REACHED_VARIABLE):
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, f"{label}\n".encode())
        finally:
            os.close(handle)
