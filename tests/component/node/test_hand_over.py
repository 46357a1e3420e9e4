"""A node that ends gives its partitions to others, as long as its database answers."""

from __future__ import annotations

import pytest

from tests.support.node import HandNode
from xwheel.clock import ManualClock
from xwheel.node.loops import HAND_OVER_PAUSE_MS
from xwheel.storage.database.engine import Database

DRAIN_MS = 1000


class Leasing:
    """The loop of the leases, whose step fails each time it is woken, or never."""

    def __init__(self, *, fails: bool) -> None:
        self.failures = self.woken = 0
        self._fails = fails

    def is_alive(self) -> bool:
        return True

    def wake(self) -> None:
        self.woken += 1
        self.failures += self._fails


@pytest.mark.parametrize(("fails", "woken"), [(False, DRAIN_MS // HAND_OVER_PAUSE_MS), (True, 1)])
def test_a_database_that_is_away_is_not_asked_faster_than_its_loop_asks(
    db: Database, monkeypatch: pytest.MonkeyPatch, fails: bool, woken: int
) -> None:
    clock = ManualClock()
    scheduler = HandNode(db, clock).scheduler
    leasing = Leasing(fails=fails)
    monkeypatch.setattr(scheduler.core, "services", [leasing, *scheduler.core.services[1:]])
    monkeypatch.setattr(scheduler.core.lease, "is_drained", lambda: False)
    scheduler._hand_over(clock.monotonic_ms() + DRAIN_MS)
    assert leasing.woken == woken
