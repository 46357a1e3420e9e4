"""The Quartz dialect against 472 answers of the real engine (Quartz 2.5 as in XXL-JOB 3.4, Java 17)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from tests.support.paths import DATA
from xwheel.cron import parse
from xwheel.errors import ScheduleError

VECTORS = json.loads((DATA / "quartz-cron-vectors.json").read_text())


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def name(vector: dict[str, Any]) -> str:
    return f"{vector['expr']} {vector.get('tz', '')} {vector.get('from', '')}"


def test_all_vectors_are_here():
    assert len(VECTORS) == 472


@pytest.mark.parametrize("vector", [v for v in VECTORS if "tz" in v], ids=name)
def test_times(vector):
    schedule = parse(vector["expr"], timezone=vector["tz"])
    after = ms(vector["from"])
    found = []
    for _ in range(3):
        after = schedule.next_ms(after)
        if after is None:
            break
        found.append(after)
    assert found == [ms(text) for text in vector["next"]]


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["valid"]], ids=name)
def test_accepted(vector):
    assert parse(vector["expr"]).expression == vector["expr"]


@pytest.mark.parametrize("vector", [v for v in VECTORS if not v["valid"]], ids=name)
def test_refused(vector):
    with pytest.raises(ScheduleError) as refused:
        parse(vector["expr"])
    assert refused.value.field in {
        "expression",
        "second",
        "minute",
        "hour",
        "day_of_month",
        "month",
        "day_of_week",
        "year",
    }
    assert refused.value.reason
