"""Which executors the built-in routers choose."""

from __future__ import annotations

from dataclasses import replace

from xwheel_devtools.testing import sample_executors, sample_job, sample_route_context

from xwheel.builtin.routers import First, Last, Random, Round, ShardingBroadcast
from xwheel.plugin import Router

NOW = 1000


def choose(router: Router, job_id: int = 1, suspects: tuple[int, ...] = ()) -> list[int]:
    """Return the places, by address, of those that are chosen among three."""
    three = [
        replace(item, suspect_until_ms=NOW + 1 if place in suspects else 0)
        for place, item in enumerate(sample_executors(3))
    ]
    addresses = [item.address for item in three]
    given = sorted(three, key=lambda item: (item.suspect_until_ms, item.address))
    chosen = router.route(sample_route_context(given, sample_job(id=job_id, group_id=1), now_ms=NOW))
    return [addresses.index(str(getattr(item, "address", item))) for item in chosen]


def test_first_and_last_pass_over_suspects() -> None:
    assert (choose(First()), choose(Last())) == ([0], [2])
    assert (choose(First(), suspects=(0,)), choose(Last(), suspects=(2,))) == ([1], [1])
    assert choose(Last(), suspects=(0, 1, 2)) == [2]


def test_random_chooses_each_but_suspects() -> None:
    router = Random()
    assert {choose(router, suspects=(1,))[0] for _ in range(200)} == {0, 2}


def test_each_job_has_turns_of_its_own() -> None:
    """Two jobs of a group that fire one after the other see every executor, each in its own order."""
    router = Round()
    turns = [(choose(router, 1)[0], choose(router, 2)[0]) for _ in range(6)]
    for mine in zip(*turns, strict=True):
        first = mine[0]
        assert list(mine) == [(first + step) % 3 for step in range(6)]


def test_a_broadcast_goes_to_all_and_a_suspect_keeps_its_shard() -> None:
    assert choose(ShardingBroadcast()) == [0, 1, 2]
    assert choose(ShardingBroadcast(), suspects=(0,)) == [0, 1, 2]
