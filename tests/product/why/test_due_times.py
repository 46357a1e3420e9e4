"""The last due time before an instant, found by asking for next ones alone."""

from __future__ import annotations

from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st
from xwheel_why.due_times import last_due

EDGES = st.integers(0, 60) | st.integers(0, 10**7)  # close together, and far apart
TIMES = st.lists(EDGES, max_size=40).map(sorted)


class Asked:
    """A schedule of these times, which counts how often it was asked."""

    def __init__(self, times: list[int]) -> None:
        self.times = times
        self.count = 0

    def __call__(self, after_ms: int) -> int | None:
        self.count += 1
        place = bisect_right(self.times, after_ms)
        return self.times[place] if place < len(self.times) else None


@given(TIMES, EDGES, EDGES)
def test_it_is_the_last_one_in_the_range(times: list[int], low_ms: int, high_ms: int) -> None:
    wanted = [time for time in times if low_ms < time <= high_ms]
    assert last_due(Asked(times), low_ms, high_ms) == (wanted[-1] if wanted else None)


def test_many_due_times_are_not_gone_through_one_by_one() -> None:
    # each millisecond of an hour a day, for years, and the night after the last of them
    day, hour = 86_400_000, 3_600_000
    for end in (1000 * day + hour, 1000 * day + 20 * hour):
        asked = _Bursts(day, hour)
        found = last_due(asked, 0, end)
        assert found == 1000 * day + hour - 1
        assert asked.count < 100


class _Bursts:
    def __init__(self, day: int, hour: int) -> None:
        self.day, self.hour, self.count = day, hour, 0

    def __call__(self, after_ms: int) -> int:
        self.count += 1
        following = after_ms + 1
        return following if following % self.day < self.hour else following - following % self.day + self.day


def test_one_time_long_ago_is_found() -> None:
    asked = Asked([5])
    assert last_due(asked, 0, 3 * 10**12) == 5
    assert asked.count < 40
    assert last_due(Asked([]), 0, 3 * 10**12) is None
