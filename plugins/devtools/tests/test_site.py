"""The cluster that is verified, as its management API shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from xwheel_devtools.verify.site import Site

GROUP = 1


class Moving(Site):
    """A cluster in which something happens after each call."""

    def __init__(self, *happens: Callable[[Moving], None]) -> None:
        super().__init__(list)
        self.happens = list(happens)
        self.next_fire_ms: int | None = None
        self.open_runs = 0

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        items = [{"next_fire_ms": self.next_fire_ms}] if path == "/jobs" else [{}] * self.open_runs
        if self.happens:
            self.happens.pop(0)(self)
        return {"items": items, "next": None}


def plans(site: Moving) -> None:
    site.next_fire_ms, site.open_runs = None, 1


def ends(site: Moving) -> None:
    site.next_fire_ms, site.open_runs = 1000, 0


def rests(_site: Moving) -> None:
    pass


@pytest.mark.parametrize("calls_before", range(4))
def test_a_fire_that_is_planned_between_two_questions_is_open(calls_before: int) -> None:
    site = Moving(*[rests] * calls_before, plans)
    site.next_fire_ms = 1000
    assert site.is_open([GROUP])


@pytest.mark.parametrize("calls_before", range(4))
def test_a_delay_that_begins_between_two_questions_is_open(calls_before: int) -> None:
    site = Moving(*[rests] * calls_before, ends)
    site.open_runs = 1
    assert site.is_open([GROUP])


def test_a_cluster_at_rest_is_not_open() -> None:
    assert not Moving().is_open([GROUP])
