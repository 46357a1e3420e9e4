"""What is not needed any more goes back."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xwheel.runtime.memory import tidy, trim

BLOCK = 100_000  # what is larger, the allocator gives back by itself
MB = 1024 * 1024


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.mark.parametrize("give_back", [trim, tidy])
def test_what_is_free_between_what_is_used_goes_back_to_the_system(give_back: Callable[[], None]) -> None:
    """Steady: a node kept 17 MB of its 126 for nothing after 40 minutes."""
    blocks = [b"x" * BLOCK for _ in range(640)]
    kept = blocks[::16]
    del blocks
    before = _resident()
    give_back()
    assert before - _resident() > 30 * MB
    assert len(kept) == 40


class Knot:
    """Holds itself, so that only a search for cycles finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_what_only_cycles_hold_is_dropped() -> None:
    """Steady: the collector's own rule needs half an hour of 150 fires a second for its first pass."""
    knot = weakref.ref(Knot())
    trim()
    assert knot() is not None
    tidy()
    assert knot() is None
