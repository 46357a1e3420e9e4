"""The judgement of ``benchmarks.steady`` notices what grows, and leaves alone what only jumps."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from sqlalchemy import text

from benchmarks._site import Site
from benchmarks.steady import Account, Sample, judge, remains, slope
from xwheel.storage.database.engine import Database

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


def test_a_fire_without_a_run_is_noticed_though_rows_are_taken_away(tmp_path: Path) -> None:
    start_ms = 1_000_000
    db = Database(f"sqlite:///{tmp_path / 'xwheel.db'}")
    with db.write() as conn:
        for table in ("open_run", "run_history"):
            conn.execute(text(f"CREATE TABLE {table} (due_ms INTEGER, state TEXT)"))
        rows = [{"due": start_ms + 500 * number} for number in range(1, 60)]  # the first one has no run
        conn.execute(text("INSERT INTO run_history VALUES (:due, 'succeeded')"), rows)
    account = Account(cast(Site, SimpleNamespace(db=db)), start_ms, rate=2)
    account.count(start_ms + 25_900)
    # what is due in the last twenty seconds may not have ended
    assert (account.due, account.states) == (10, {"succeeded": 9})
    with db.write() as conn:
        conn.execute(text("DELETE FROM run_history WHERE due_ms < :until"), {"until": start_ms + 5000})
    account.count(start_ms + 30_000)
    assert (account.due, account.states) == (20, {"succeeded": 19})
    db.close()


def test_memory_that_grows_by_more_than_a_twentieth_is_noticed() -> None:
    grown = [replace(ZERO, second=second, node_mb=100 + second / 60) for second in range(0, 6000, 10)]
    lines = list(remains(grown, 0))
    assert ["NOT within" in line for line in lines] == [True, False]
    assert "NOT within" not in "".join(remains(grown, 5600))
