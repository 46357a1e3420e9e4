"""What a calendar's entries cover together."""

from __future__ import annotations

from datetime import datetime

from xwheel.calendars import parse_calendar


def test_a_stretch_inside_a_longer_one_does_not_cut_it_short() -> None:
    calendar = parse_calendar({"times": ["2026-01-01T00:00..2026-01-09T00:00", "2026-01-02T00:00..2026-01-03T00:00"]})
    assert [calendar.covers(datetime(2026, 1, day)) for day in (1, 2, 3, 8, 9)] == [True] * 4 + [False]
