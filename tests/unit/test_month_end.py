"""How far the clock is put forward, so that a month ends in two minutes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.support.month_end import until_month_end


@pytest.mark.parametrize(
    ("now", "then"),
    [
        ("2026-11-28T15:00:00", "2026-11-30T18:28:00"),
        ("2026-11-30T18:27:59", "2026-11-30T18:28:00"),
        ("2026-11-30T18:28:00", "2026-12-31T18:28:00"),
        ("2026-11-30T20:00:00", "2026-12-31T18:28:00"),
        ("2026-12-31T00:00:00", "2026-12-31T18:28:00"),
        ("2028-01-31T19:00:00", "2028-02-29T18:28:00"),
    ],
    ids=["a month", "a second before", "just then", "the next month here", "a year", "a leap year"],
)
def test_it_is_put_forward_to_two_minutes_before_the_end(now: str, then: str) -> None:
    given = datetime.fromisoformat(now).replace(tzinfo=UTC)
    assert given + until_month_end(given) == datetime.fromisoformat(then).replace(tzinfo=UTC)
