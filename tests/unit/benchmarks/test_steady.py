"""The judgement of ``benchmarks.steady`` notices what grows, and leaves alone what only jumps."""

from __future__ import annotations

import random
from dataclasses import fields, replace

from benchmarks.steady import Sample, judge, slope

ZERO = Sample(**{one.name: 0 for one in fields(Sample)})


def _samples(minutes: int, mb_an_hour: float) -> list[Sample]:
    chance = random.Random(1)
    return [
        replace(ZERO, second=second, node_mb=100 + mb_an_hour * second / 3600 + chance.uniform(-2, 2))
        for second in range(0, minutes * 60, 10)
    ]


def _verdict(samples: list[Sample], settle_s: int = 600) -> str:
    (line,) = (line for line in judge(samples, settle_s) if line.startswith("node_mb "))
    return line.split("  ")[-1]


def test_a_slope_is_found_under_noise() -> None:
    rise, error = slope(_samples(60, 12), "node_mb")
    assert abs(rise - 12) < error < 2


def test_what_grows_is_not_flat_and_what_jumps_is() -> None:
    assert _verdict(_samples(120, 5)) == "NOT FLAT"
    assert _verdict(_samples(120, 0)) == "flat"


def test_what_grew_before_it_settled_does_not_count() -> None:
    early = [replace(ZERO, second=second, node_mb=second) for second in range(0, 600, 10)]
    late = [replace(one, second=one.second + 600) for one in _samples(60, 0)]
    assert _verdict([*early, *late]) == "flat"
    assert _verdict([*early, *late], settle_s=0) == "NOT FLAT"


def test_too_little_is_not_judged() -> None:
    assert _verdict(_samples(12, 0)) == "too short to judge"
    assert list(judge(_samples(9, 0), 600)) == ["fewer than three samples after 600 s: nothing to judge"]
