"""What the time ring promises; every test runs on the compiled ring and on its twin."""

from __future__ import annotations

import random
from array import array
from types import ModuleType

import pytest

from xwheel import _ring, _ring_py

REVOLUTION_MS = 20 * 4096
BIG = (1 << 53) - 1


@pytest.fixture(params=[_ring, _ring_py], ids=["compiled", "twin"])
def ring(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def test_due_ids_come_out_in_order_of_due_time(ring):
    timers = ring.TimeRing(1_000)
    assert timers.push_many([1, 2, 3, 4], [1_500, 1_100, 1_300, 9_000]) == 4
    assert timers.advance(1_099) == []
    assert timers.advance(1_400) == [2, 3]
    assert timers.advance(1_500) == [1]
    assert len(timers) == 1
    assert 4 in timers
    assert 1 not in timers


def test_ties_come_out_in_push_order(ring):
    timers = ring.TimeRing(0)
    ids = random.Random(3).sample(range(1, 10_000), 500)
    timers.push_many(ids, [700] * 500)
    assert timers.advance(700) == ids


def test_order_within_one_tick(ring):
    timers = ring.TimeRing(0, tick_ms=1_000)
    dues = list(range(999, 0, -1))
    timers.push_many([due + 1 for due in dues], dues)
    assert timers.advance(400) == list(range(2, 402))
    assert timers.advance(999) == list(range(402, 1_001))


def test_an_entry_many_revolutions_ahead_stays(ring):
    timers = ring.TimeRing(0)
    due = 1_000 * REVOLUTION_MS + 7
    timers.push(BIG, due)
    timers.push(1, due - REVOLUTION_MS)
    for now in range(0, due - REVOLUTION_MS, REVOLUTION_MS // 2):
        assert timers.advance(now) == []
    assert timers.advance(due - REVOLUTION_MS) == [1]
    assert timers.advance(due - 1) == []
    assert timers.advance(due) == [BIG]


@pytest.mark.parametrize("stall", [19, 20, REVOLUTION_MS - 1, REVOLUTION_MS, 10 * REVOLUTION_MS + 3, 1 << 40])
def test_a_stall_loses_and_delays_nothing(ring, stall):
    timers = ring.TimeRing(5)
    source = random.Random(stall)
    pairs = sorted((5 + source.randrange(2 * stall), number) for number in range(1, 400))
    shuffled = source.sample(pairs, len(pairs))
    timers.push_many([number for _, number in shuffled], [due for due, _ in shuffled])
    expected = [due for due, _ in pairs if due <= 5 + stall]
    dues = {number: due for due, number in pairs}
    assert [dues[number] for number in timers.advance(5 + stall)] == expected
    assert [dues[number] for number in timers.advance(5 + 2 * stall)] == sorted(dues.values())[len(expected) :]


def test_what_is_already_due_comes_out_next(ring):
    timers = ring.TimeRing(1_000_000)
    timers.push(1, 5)
    timers.push(2, 999_999)
    timers.push(3, -7)
    assert timers.next_due_ms() <= 5
    assert timers.advance(1_000_000) == [3, 1, 2]
    timers.advance(1_000_123)
    timers.push(4, 1_000_122)
    assert timers.advance(1_000_123) == [4]


def test_time_going_back_does_nothing(ring):
    timers = ring.TimeRing(10_000)
    timers.push(1, 10_500)
    assert timers.advance(9_000) == []
    assert timers.advance(10_400) == []
    timers.push(2, 100)
    assert timers.advance(10_399) == []
    assert timers.advance(10_400) == [2]
    assert timers.advance(10_500) == [1]


def test_time_before_1970(ring):
    timers = ring.TimeRing(-5_000)
    timers.push_many([1, 2, 3], [-4_999, -1, 0])
    assert timers.advance(-4_980) == [1]
    assert timers.advance(-1) == [2]
    assert timers.advance(0) == [3]


def test_cancelled_ids_do_not_come_out(ring):
    timers = ring.TimeRing(0)
    timers.push_many([1, 2, 3], [10, 10, 10])
    assert timers.cancel(2)
    assert not timers.cancel(2)
    assert not timers.cancel(99)
    assert not timers.cancel(-1)
    assert timers.cancel_many([1, 1, 50, 0]) == 1
    assert timers.advance(10) == [3]


def test_pushing_a_held_id_moves_it(ring):
    timers = ring.TimeRing(0)
    timers.push(1, 100)
    timers.push(1, 5_000)
    assert len(timers) == 1
    assert timers.advance(100) == []
    timers.push(1, 4_000)
    assert timers.advance(4_000) == [1]
    timers.push(1, 6_000)
    assert timers.advance(5_999) == []
    assert timers.advance(6_000) == [1]


def test_a_moved_id_goes_behind_its_ties(ring):
    timers = ring.TimeRing(0)
    timers.push_many([1, 2, 3], [50, 50, 50])
    timers.push(1, 50)
    timers.cancel(2)
    timers.push(2, 50)
    assert timers.advance(50) == [3, 1, 2]


def test_limit(ring):
    timers = ring.TimeRing(0, limit=3)
    assert timers.push_many([1, 2], [10, 10]) == 2
    assert timers.push_many([2, 3, 1, 4, 5], [20, 20, 20, 20, 20]) == 3
    assert not timers.push(9, 5)
    assert timers.push(3, 30)
    assert timers.advance(20) == [2, 1]
    assert timers.push(9, 40)
    assert len(timers) == 2


@pytest.mark.parametrize("kind", [list, tuple, lambda values: array("q", values)], ids=["list", "tuple", "array"])
def test_kinds_of_sequences(ring, kind):
    timers = ring.TimeRing(0)
    assert timers.push_many(kind([]), kind([])) == 0
    assert timers.push_many(kind([BIG, 5]), kind([40, 30])) == 2
    assert timers.cancel_many(kind([5])) == 1
    assert timers.advance(50) == [BIG]


def test_buffers(ring):
    timers = ring.TimeRing(0)
    values = memoryview(array("q", range(1, 11)))
    assert timers.push_many(values, values) == 10
    assert timers.cancel_many(values[5:]) == 5
    assert timers.advance(100) == list(range(1, 6))


@pytest.mark.parametrize(
    ("ids", "dues", "error"),
    [
        ([1, 2], [1], ValueError),
        ([1, 0], [1, 1], ValueError),
        ([1, -5], [1, 1], ValueError),
        ([1, 1 << 63], [1, 1], OverflowError),
        ([1, 2], [1, 1 << 63], OverflowError),
        ([1, "2"], [1, 1], TypeError),
        ([1, 2], [1, None], TypeError),
    ],
)
def test_a_bad_batch_takes_nothing(ring, ids, dues, error):
    timers = ring.TimeRing(0)
    with pytest.raises(error):
        timers.push_many(ids, dues)
    assert len(timers) == 0
    assert timers.drain() == []


def test_a_bad_id_is_refused(ring):
    timers = ring.TimeRing(0)
    with pytest.raises(ValueError, match="run_id must be at least 1, not 0"):
        timers.push(0, 5)


@pytest.mark.parametrize("bad", [{"tick_ms": 0}, {"slots": 0}, {"limit": 0}])
def test_bad_measures(ring, bad):
    with pytest.raises(ValueError, match="must be at least 1"):
        ring.TimeRing(0, **bad)


@pytest.mark.parametrize(("tick_ms", "slots"), [(1, 1), (7, 3), (1_000, 60), (20, 4096), (1 << 33, 5)])
def test_any_measures(ring, tick_ms, slots):
    timers = ring.TimeRing(123, tick_ms, slots)
    source = random.Random(tick_ms)
    dues = {number: 123 + source.randrange(5 * tick_ms * slots + 100) for number in range(1, 300)}
    timers.push_many(list(dues), list(dues.values()))
    out = []
    now = 123
    while len(timers):
        now += max(1, source.randrange(tick_ms * slots))
        due = timers.advance(now)
        assert all(dues[number] <= now for number in due)
        out += due
        assert all(dues[number] > now for number in dues.keys() - set(out))
    assert [dues[number] for number in out] == sorted(dues.values())


def test_next_due_is_never_late(ring):
    timers = ring.TimeRing(0)
    assert timers.next_due_ms() is None
    timers.push_many([1, 2, 3], [90_000_000, 700, 650])
    assert timers.next_due_ms() == 650
    timers.cancel(3)
    assert timers.next_due_ms() <= 700
    assert timers.advance(700) == [2]
    assert timers.next_due_ms() == 90_000_000
    timers.cancel(1)
    assert timers.next_due_ms() is None


def test_next_due_knows_that_an_id_was_moved_to_later(ring):
    timers = ring.TimeRing(0)
    timers.push_many([1, 2], [500, 700])
    timers.push(1, 900)
    assert timers.next_due_ms() <= 700


def test_what_others_leave_hides_no_id(ring):
    timers = ring.TimeRing(0)
    timers.push_many(range(1, 5_001), [900] * 5_000)
    assert timers.cancel_many(list(range(1, 5_001, 2))) == 2_500
    assert timers.cancel_many(list(range(2, 5_001, 2))) == 2_500
    assert timers.advance(900) == []


def test_drain_gives_the_rest_in_order(ring):
    timers = ring.TimeRing(0)
    timers.push_many([4, 5, 6, 7], [900, 10 * REVOLUTION_MS, 900, 3])
    timers.cancel(6)
    timers.push(4, 901)
    timers.advance(100)
    assert timers.drain() == [(901, 4), (10 * REVOLUTION_MS, 5)]
    assert len(timers) == 0
    assert timers.advance(1 << 50) == []
    assert timers.push(4, 5)


def test_drain_puts_a_moved_id_where_it_was_pushed_last(ring):
    timers = ring.TimeRing(0)
    timers.push_many([1, 2], [500, 9_000])
    timers.push_many([2, 3], [500, 500])
    timers.push_many([1, 4], [700, 700])
    timers.push(1, 500)
    assert timers.drain() == [(500, 2), (500, 3), (500, 1), (700, 4)]


def test_cancelling_does_not_pile_up(ring):
    timers = ring.TimeRing(0)
    for turn in range(40):
        timers.push_many(range(1, 2_001), [3_600_000 + turn] * 2_000)
        assert timers.cancel_many(list(range(2, 2_001))) == 1_999
    assert timers.advance(3_600_039) == [1]


def test_ids_may_be_asked_for_with_anything(ring):
    timers = ring.TimeRing(0)
    timers.push(1, 5)
    assert 1 in timers
    assert "1" not in timers
    assert (1 << 80) not in timers
    assert -1 not in timers


def test_many_ids(ring):
    source = random.Random(9)
    ids = list({source.getrandbits(53) | 1 for _ in range(100_000)})
    dues = [source.randrange(600_000) for _ in ids]
    timers = ring.TimeRing(0)
    assert timers.push_many(ids, dues) == len(ids)
    assert timers.cancel_many(ids[::2]) == len(ids[::2])
    out = [number for now in range(0, 600_020, 20) for number in timers.advance(now)]
    order = {number: at for at, number in enumerate(ids)}
    due_of = dict(zip(ids, dues, strict=True))
    assert out == sorted(ids[1::2], key=lambda number: (due_of[number], order[number]))


def test_pool_rule(ring):
    pools = ring.PoolSelector()
    for _ in range(10):
        pools.record(7, 501, 60_000)
        pools.record(8, 500, 60_000)
    assert pools.choose(7) == ring.FAST == 0
    pools.record(7, 501, 119_999)
    assert pools.choose(7) == ring.SLOW == 1
    assert pools.choose(8) == ring.FAST
    pools.record(8, 1, 120_000)  # any send that finishes in a new window clears all counters
    assert pools.choose(7) == ring.FAST


def test_pool_measures(ring):
    pools = ring.PoolSelector(threshold_ms=0, count=0, window_ms=1_000)
    pools.record(1, 1, -1)
    assert pools.choose(1) == ring.SLOW
    pools.record(1, 0, 0)
    assert pools.choose(1) == ring.FAST
    with pytest.raises(ValueError, match="window_ms must be at least 1"):
        ring.PoolSelector(window_ms=0)
    with pytest.raises(ValueError, match="at least 0"):
        ring.PoolSelector(count=-1)
