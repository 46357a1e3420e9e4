"""What each router chooses."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from xwheel.plugin import RegisteredExecutor, RouteError
from xwheel_devtools.testing import sample_executors, sample_job, sample_route_context

from xwheel_router_extra.asking import Busyover, Failover
from xwheel_router_extra.counting import LeastFrequentlyUsed, LeastRecentlyUsed
from xwheel_router_extra.labels import Labels
from xwheel_router_extra.loads import LeastLoaded, Weighted
from xwheel_router_extra.memory import JobMemory
from xwheel_router_extra.selector import parse_selector
from xwheel_router_extra.sticky import Sticky


def labelled(*labels: dict[str, str]) -> list[RegisteredExecutor]:
    return [replace(item, labels=mine) for item, mine in zip(sample_executors(len(labels)), labels, strict=True)]


def choose(router: Any, executors: Sequence[RegisteredExecutor], job_id: int = 1, **more: Any) -> int:
    """Return the place of the one that is chosen."""
    job = sample_job(id=job_id, route_options=more.pop("options", ""))
    (chosen,) = router.route(sample_route_context(executors, job, **more))
    return list(executors).index(chosen)


def test_least_frequently_used_evens_out() -> None:
    router = LeastFrequentlyUsed()
    executors = sample_executors(4)
    counts = Counter(choose(router, executors) for _ in range(400))
    assert max(counts.values()) - min(counts.values()) <= 4
    assert len({choose(router, executors, job_id) for job_id in range(2, 200)}) == 4


def test_one_that_is_new_does_not_get_everything() -> None:
    router = LeastFrequentlyUsed()
    for _ in range(1000):
        choose(router, sample_executors(2))
    # as in XXL-JOB it begins near zero, and so it does get what comes until it caught up
    assert {choose(router, sample_executors(3)) for _ in range(100)} == {2}


def test_least_recently_used_takes_turns() -> None:
    router = LeastRecentlyUsed()
    three = sample_executors(3)
    turns = [choose(router, three) for _ in range(6)]
    assert turns == [0, 1, 2, 0, 1, 2]
    assert choose(router, three, 2) == 0
    assert choose(router, three[:2]) == 0
    assert choose(router, three) == 2


def test_failover_and_busyover_take_the_first_that_says_yes() -> None:
    executors = sample_executors(3)
    second = executors[1].address
    assert choose(Failover(), executors, beat=lambda address: address >= second) == 1
    assert choose(Busyover(), executors, idle_beat=lambda address: address == executors[2].address) == 2
    with pytest.raises(RouteError, match="none of 3 executors answers"):
        choose(Failover(), executors, beat=lambda _: False)
    with pytest.raises(RouteError, match="all of 3 executors are busy"):
        choose(Busyover(), executors, idle_beat=lambda _: False)


def test_least_loaded_follows_the_loads() -> None:
    executors = sample_executors(4)
    loads = dict(zip((item.address for item in executors), (5, 3, 3, 9), strict=True))
    found = {choose(LeastLoaded(), executors, load=loads.__getitem__) for _ in range(100)}
    assert found == {1, 2}


def test_weights_are_kept_and_evenly_mixed() -> None:
    executors = labelled({"weight": "5"}, {"weight": "1"}, {})
    router = Weighted()
    assert [choose(router, executors) for _ in range(7)] == [0, 0, 1, 0, 2, 0, 0]
    assert Counter(choose(router, executors) for _ in range(700)) == {0: 500, 1: 100, 2: 100}


def test_a_weight_of_zero_gets_nothing_unless_all_are_zero() -> None:
    router = Weighted()
    assert {choose(router, labelled({"weight": "0"}, {"weight": "3"})) for _ in range(50)} == {1}
    assert {choose(router, labelled({"weight": "0"}, {"weight": "0"}), 2) for _ in range(50)} == {0, 1}


def test_a_weight_that_is_no_number_counts_as_one_and_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    router = Weighted()
    for text in ("much", "-1", "1001", "99999999999999999999", "²", ""):
        executors = labelled({"weight": text}, {})
        assert Counter(choose(router, executors) for _ in range(100)) == {0: 50, 1: 50}
    assert len(caplog.records) == 6
    assert "weight 'much', which counts as 1" in caplog.text


def test_sticky_stays_when_others_come_and_moves_when_it_must() -> None:
    router = Sticky()
    many = sample_executors(20)
    few = many[:3]
    before = {job_id: choose(router, few, job_id) for job_id in range(1, 101)}
    assert len(set(before.values())) == 3
    assert {job_id: choose(router, many, job_id) for job_id in before} == before
    moved = {job_id: choose(router, many[1:], job_id) + 1 for job_id in before}
    assert all(moved[job_id] == before[job_id] for job_id in before if before[job_id])
    # and where it went it stays
    assert {job_id: choose(router, many, job_id) for job_id in before} == moved


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("gpu=yes", [0]),
        ("gpu==yes", [0]),
        ("gpu != yes", [1, 2, 3]),
        ("gpu", [0, 1]),
        ("!gpu", [2, 3]),
        ("! gpu , zone=北京", [2]),
        ("zone in (a, b)", [0, 1]),
        ("zone notin (a,b)", [2, 3]),
        ("zone in (a,b),gpu in (no)", [1]),
        ("gpu=yes,gpu=no", []),
    ],
)
def test_selectors(text: str, fits: list[int]) -> None:
    labels = [{"gpu": "yes", "zone": "a"}, {"gpu": "no", "zone": "b"}, {"zone": "北京"}, {}]
    wanted = parse_selector(text)
    assert [place for place, mine in enumerate(labels) if all(item.holds(mine) for item in wanted)] == fits


@pytest.mark.parametrize(
    "text", ["", ",", "a,", "a,,b", "=x", "a=", "a in ()", "a in (b", "a b", "a in b", "!", "!a=b", "a=b=c", "(a)"]
)
def test_selectors_that_cannot_be_read(text: str) -> None:
    with pytest.raises(RouteError, match="cannot read .* as a selector: write key=value"):
        parse_selector(text)


def labels_router(asks: bool = False) -> tuple[Labels, dict[str, Any]]:
    router = Labels("LABELS_ASKING" if asks else "LABELS", asks=asks)
    others: list[Any] = [LeastRecentlyUsed(), LeastLoaded(), Failover()]
    known = {item.name: item for item in others}
    return router, {**known, "ROUND": known["LEAST_RECENTLY_USED"]}


def test_labels_choose_among_those_that_fit_by_the_router_that_is_named() -> None:
    router, known = labels_router()
    executors = labelled({}, {"gpu": "yes"}, {"gpu": "no"}, {"gpu": "yes"})
    assert [choose(router, executors, options="gpu=yes", routers=known) for _ in range(4)] == [1, 3, 1, 3]
    loads = dict(zip((item.address for item in executors), (0, 9, 0, 4), strict=True))
    options = "gpu=yes | LEAST_LOADED"
    assert choose(router, executors, options=options, routers=known, load=loads.__getitem__) == 3
    with pytest.raises(RouteError, match="none of 4 executors has the labels zone=a"):
        choose(router, executors, options="zone=a | ROUND", routers=known)
    with pytest.raises(RouteError, match="GONE, which is not installed"):
        choose(router, executors, options="gpu | GONE", routers=known)


def test_labels_with_a_router_that_asks_need_the_other_name() -> None:
    router, known = labels_router()
    with pytest.raises(RouteError, match="LABELS_ASKING"):
        router.check("gpu=yes | FAILOVER")
    with pytest.raises(RouteError, match="use it with LABELS_ASKING"):
        choose(router, labelled({"gpu": "yes"}), options="gpu | STRANGER", routers={"STRANGER": Failover()})
    asking, known = labels_router(asks=True)
    asking.check("gpu=yes | FAILOVER")
    executors = labelled({}, {"gpu": "yes"}, {"gpu": "yes"})
    third = executors[2].address
    found = choose(asking, executors, options="gpu=yes|FAILOVER", routers=known, beat=lambda at: at == third)
    assert found == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("", "needs a selector"),
        ("| ROUND", "needs a selector"),
        ("gpu |", "name of one router"),
        ("gpu | A B", "name of one router"),
        ("gpu | A | B", "name of one router"),
        ("gpu | LABELS", "not one for labels again"),
        ("gpu=", "cannot read"),
    ],
)
def test_bad_options_are_refused_with_a_hint(options: str, words: str) -> None:
    router, _ = labels_router()
    with pytest.raises(RouteError, match=words):
        router.check(options)


def test_memory_is_bounded() -> None:
    memory: JobMemory[dict[str, int]] = JobMemory(dict, limit=100)
    for job_id in range(1000):
        found = memory.take(job_id)
        found.update({str(number): 1 for number in range(9)})
        memory.note(job_id, found)
        assert len(memory) <= 10
    assert memory.take(999)
    assert not memory.take(1)
