"""What the command ``xwheel server`` does while it waits for its end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import cast

import pytest

from xwheel.cli import main
from xwheel.runtime.signals import StopSignals


class Knot:
    """Holds itself, so that only a search for cycles finds it."""

    def __init__(self) -> None:
        self.itself = self


class Signals:
    """Hears a signal at the third time it is asked."""

    def __init__(self) -> None:
        self.left = [weakref.ref(Knot()) for _ in range(2)]
        self.alive: list[int] = []

    def heard(self, timeout_s: float) -> bool:
        assert timeout_s == main.TIDY_S
        self.alive.append(sum(knot() is not None for knot in self.left))
        return len(self.alive) > 2


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_a_node_that_waits_drops_what_only_cycles_hold() -> None:
    """Steady: the collector's own rule needs half an hour of 150 fires a second for its first pass."""
    signals = Signals()
    main._wait(cast("StopSignals", signals))
    assert signals.alive == [2, 0, 0]
