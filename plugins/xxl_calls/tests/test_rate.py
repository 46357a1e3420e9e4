"""How often a token may call."""

from __future__ import annotations

from xwheel_devtools.testing import ManualClock

from xwheel_xxl_calls.rate import MAX_CALLERS, RateLimiter


def test_a_bucket_fills_up_evenly_and_holds_a_second() -> None:
    clock = ManualClock(0)
    limiter = RateLimiter(clock, 100)
    assert [limiter.allow("a") for _ in range(101)].count(True) == 100
    for _ in range(300):  # a permit takes 10 ms, in steps that are no multiple of it
        clock.advance(3)
        limiter.allow("a")
    clock.advance(7)
    assert not all(limiter.allow("a") for _ in range(2))
    clock.advance(3_600_000)
    assert [limiter.allow("a") for _ in range(150)].count(True) == 100


def test_buckets_are_bounded() -> None:
    limiter = RateLimiter(ManualClock(0), 1)
    assert limiter.allow("first")
    for number in range(MAX_CALLERS):
        assert limiter.allow(f"caller-{number}")
    assert not limiter.allow(f"caller-{MAX_CALLERS - 1}")
    assert len(limiter._buckets) == MAX_CALLERS
