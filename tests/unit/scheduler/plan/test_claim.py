"""A claim's transaction stays short: how much it takes follows how long the last ones took."""

from __future__ import annotations

from xwheel.scheduler.plan.claim import (
    FIRST_SHARE,
    LEAST_SHARE,
    MOST_CHARS,
    MOST_TRAVEL_MS,
    ROUND_TRIPS,
    TARGET_MS,
    BatchLimit,
)


def test_the_first_batch_is_small_and_fast_ones_let_it_grow_to_the_setting() -> None:
    limit = BatchLimit(1000)
    sizes = [limit.jobs]
    for _ in range(10):
        limit.note(5, is_full=True)
        sizes.append(limit.jobs)
    assert sizes[0] <= 250
    assert sizes == sorted(sizes)
    assert sizes[-1] == 1000


def test_a_slow_transaction_makes_the_next_one_smaller_even_if_it_was_not_full() -> None:
    for is_full in (True, False):
        limit = _grown(1000)
        limit.note(2 * TARGET_MS, is_full=is_full)
        assert limit.jobs == 500
        assert limit.runs == 2500


def test_one_stall_costs_at_most_three_quarters_and_the_floor_holds() -> None:
    limit = _grown(1000)
    limit.note(60_000, is_full=True)
    assert limit.jobs == 250
    for _ in range(20):
        limit.note(60_000, is_full=True)
    assert limit.jobs == 50
    tiny = BatchLimit(1)
    tiny.note(60_000, is_full=True)
    assert tiny.jobs == 1


def test_a_batch_that_was_not_full_says_nothing_about_a_larger_one() -> None:
    limit = BatchLimit(1000)
    before = limit.jobs
    limit.note(0, is_full=False)
    assert limit.jobs == before


def test_it_settles_where_a_transaction_takes_the_target() -> None:
    """Whatever a job costs here: 0.1 to 1 ms each."""
    for each_ms in (0.1, 0.2, 0.5, 1.0):
        limit = BatchLimit(1000)
        longest = 0.0
        for _ in range(30):
            took_ms = each_ms * limit.jobs
            longest = max(longest, took_ms)
            limit.note(round(took_ms), is_full=True)
        assert abs(each_ms * limit.jobs - TARGET_MS) < 3
        assert longest <= max(1.5 * TARGET_MS, each_ms * 250)


def test_p11_claims_of_long_parameters_get_smaller_however_fast_they_are() -> None:
    limit = _grown(1000)
    limit.note(1, chars=1000 * 65_535, is_full=False)
    assert limit.jobs == 250
    for _ in range(20):
        limit.note(1, chars=limit.jobs * 65_535, is_full=True)
    assert 0.9 * MOST_CHARS <= limit.jobs * 65_535 <= 1.1 * MOST_CHARS
    for _ in range(20):
        limit.note(1, chars=limit.jobs * 1000, is_full=True)
    assert limit.jobs == 1000


def _grown(most: int) -> BatchLimit:
    limit = BatchLimit(most)
    for _ in range(10):
        limit.note(1, is_full=True)
    assert limit.jobs == most
    return limit


def noted(*took_and_trip: tuple[int, int], times: int = 20) -> int:
    """Return how many jobs a claim may take after these."""
    limit = BatchLimit(1000)
    for _ in range(times):
        for took_ms, trip_ms in took_and_trip:
            limit.note(took_ms, trip_ms, is_full=True)
    return limit.jobs


def test_what_statements_spend_on_their_way_makes_no_claim_smaller() -> None:
    """A database 5, 20 or 50 ms away: a claim of a few jobs would take as many round trips as one of a thousand."""
    for trip_ms in (5, 20, 50):
        assert noted((TARGET_MS + ROUND_TRIPS * trip_ms, trip_ms)) == 1000 * FIRST_SHARE
        assert noted((TARGET_MS // 2 + ROUND_TRIPS * trip_ms, trip_ms)) == 1000
        assert noted((2 * TARGET_MS + ROUND_TRIPS * trip_ms, trip_ms)) == 1000 * LEAST_SHARE


def test_a_statement_that_waited_for_something_says_nothing_of_the_distance() -> None:
    assert noted((2 * TARGET_MS + 10, 1), (2 * TARGET_MS + 10, 40)) == 1000 * LEAST_SHARE


def test_a_database_that_is_farther_away_than_any_other_counts_as_slow() -> None:
    assert noted((MOST_TRAVEL_MS + 2 * TARGET_MS, 1000)) == 1000 * LEAST_SHARE
