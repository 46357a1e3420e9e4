"""What happens again and again is logged in few lines."""

from __future__ import annotations

from xwheel.runtime.repeats import MOST_KEYS, Repeats


def test_few_counts_are_worth_a_line() -> None:
    repeats = Repeats()
    said = [count for _ in range(3500) if (count := repeats.note("a"))]
    assert said == [1, 10, 100, 1000, 2000, 3000]
    assert repeats.note("b") == 1


def test_several_at_once_are_counted() -> None:
    repeats = Repeats()
    assert [repeats.note("a", 7), repeats.note("a", 2), repeats.note("a", 7)] == [7, 0, 16]


def test_names_of_others_fill_no_memory() -> None:
    repeats = Repeats()
    for number in range(3 * MOST_KEYS):
        repeats.note(number)
    assert len(repeats._counts) <= MOST_KEYS
