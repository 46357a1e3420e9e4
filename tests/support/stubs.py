"""Stand-ins for what a stage is given, for tests of that stage alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xwheel.model import RegisteredExecutor
from xwheel.scheduler.records import Delivery, Queued


class StubLease:
    """A lease that lasts, unless a function of the margin says otherwise."""

    def __init__(self, lasts: Callable[..., bool] = lambda *_: True) -> None:
        self.may_act = lasts
        self.may_send = lasts


class StubRegistry:
    """A registry that knows everybody, and notes the last digit of suspects."""

    def __init__(self) -> None:
        self.suspects: list[str] = []

    def app_name(self, group_id: int) -> str:
        del group_id
        return "demo"

    def token(self, executor: RegisteredExecutor) -> str:
        del executor
        return ""

    def suspect(self, address: str, now_ms: int) -> None:
        del now_ms
        self.suspects.append(address[-1])


class StubResults:
    """Gets what comes back from a lane."""

    def __init__(self, put: Callable[[Iterable[Delivery]], object]) -> None:
        self.put = put


class StubFiring:
    """Fires by a function of the due runs and the time."""

    def __init__(self, fire: Callable[[Sequence[Queued], int], set[int]]) -> None:
        self.fire = fire


class StubTimetable:
    """Says when jobs fire next by a function."""

    def __init__(self, next_fire: Callable[[Any, int], int | None]) -> None:
        self.next_fire = next_fire


class StubLimits:
    """Body limits that note what was refused."""

    def __init__(self, refused: Callable[[str, int], object] = lambda *_: None) -> None:
        self.refused = refused


class StubLoads:
    """Executors that have no run."""

    is_asked = False

    def load(self, address: str) -> int:
        del address
        return 0
