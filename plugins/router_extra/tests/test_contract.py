"""Every router is held to the core's suite for routers, and none lets a suspect go first."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel.plugin import RouteContext, Router, TakesOptions
from xwheel_devtools.testing import check_router, load_plugin, sample_executors, sample_job, sample_route_context

FOUND = load_plugin("router_extra").routers
NAMES = [
    "BUSYOVER",
    "CONSISTENT_HASH",
    "FAILOVER",
    "LABELS",
    "LABELS_ASKING",
    "LEAST_FREQUENTLY_USED",
    "LEAST_LOADED",
    "LEAST_RECENTLY_USED",
    "STICKY",
    "WEIGHTED",
]


def test_these_routers_are_there() -> None:
    assert sorted(FOUND.keys() - {"FIRST", "LAST", "RANDOM", "ROUND", "SHARDING_BROADCAST"}) == NAMES
    assert {name for name in NAMES if FOUND[name].asks} == {"BUSYOVER", "FAILOVER", "LABELS_ASKING"}
    assert {name for name in NAMES if isinstance(FOUND[name], TakesOptions)} == {"LABELS", "LABELS_ASKING"}


def options_of(router: Router) -> str:
    return "!spot | LEAST_FREQUENTLY_USED" if router.name.startswith("LABELS") else ""


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds(name: str) -> None:
    router = FOUND[name]
    job = sample_job(route_strategy=name, route_options=options_of(router))
    check_router(router, job, routers=FOUND)


def context_of(router: Router, executors: Any, job_id: int, **more: Any) -> RouteContext:
    job = sample_job(id=job_id, route_strategy=router.name, route_options=options_of(router))
    return sample_route_context(executors, job, routers=FOUND, **more)


@given(
    name=st.sampled_from(NAMES),
    suspects=st.lists(st.booleans(), min_size=1, max_size=12),
    job_ids=st.lists(st.integers(1, 5), min_size=1, max_size=20),
)
def test_a_suspect_gets_nothing_while_there_are_others(name: str, suspects: list[bool], job_ids: list[int]) -> None:
    made = sample_executors(len(suspects))
    until = [1000 if suspect else 0 for suspect in suspects]
    executors = sorted(
        (
            type(item)(**{**{key: getattr(item, key) for key in item.__slots__}, "suspect_until_ms": end})
            for item, end in zip(made, until, strict=True)
        ),
        key=lambda item: (item.suspect_until_ms > 10, item.address),
    )
    router = FOUND[name]
    for job_id in job_ids:
        (chosen,) = router.route(context_of(router, executors, job_id, now_ms=10))
        assert chosen in executors
        if not all(suspects):
            assert not chosen.suspect_until_ms


@given(counts=st.lists(st.integers(1, 6), min_size=1, max_size=30))
def test_executors_may_come_and_go_at_any_time(counts: list[int]) -> None:
    for router in (FOUND[name] for name in NAMES):
        for count in counts:
            executors = sample_executors(count)
            (chosen,) = router.route(context_of(router, executors, 7))
            assert chosen in executors
