"""The Quartz dialect against 472 answers of the real engine (Quartz 2.5 as in XXL-JOB 3.4, Java 17)."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.support.paths import DATA
from xwheel.cron import parse
from xwheel.errors import ScheduleError

VECTORS = json.loads((DATA / "quartz-cron-vectors.json").read_text())
FIELDS = {"expression", "second", "minute", "hour", "day_of_month", "month", "day_of_week", "year"}


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp()) * 1000


def name(vector: dict[str, Any]) -> str:
    return f"{vector['expr']} {vector.get('tz', '')} {vector.get('from', '')}"


def test_all_vectors_are_here() -> None:
    assert len(VECTORS) == 472


def test_times() -> None:
    timed = [vector for vector in VECTORS if "tz" in vector]
    assert len(timed) == 365
    found = {name(vector): times(vector) for vector in timed}
    wanted = {name(vector): [ms(text) for text in vector["next"]] for vector in timed}
    between = [vector for vector in timed if is_shown_again(vector)]
    assert len(between) == 9
    wanted |= {name(vector): told_before(vector) for vector in between}
    assert {which: value for which, value in found.items() if value != wanted[which]} == {}


def is_shown_again(vector: dict[str, Any]) -> bool:
    """Return whether clocks show the instant, from which Quartz was asked, once more, and it lost what fires then."""
    local = datetime.fromisoformat(vector["from"]).astimezone(ZoneInfo(vector["tz"]))
    return local.utcoffset() != local.replace(fold=1).utcoffset() and told_before(vector) != [
        ms(text) for text in vector["next"]
    ]


def told_before(vector: dict[str, Any]) -> list[int]:
    """Return what is due after an instant when the schedule is asked hours before it."""
    schedule, from_ms = parse(vector["expr"], timezone=vector["tz"]), ms(vector["from"])
    found, after = [], from_ms - 3 * 3_600_000
    while len(found) < 3 and (at := schedule.next_ms(after)) is not None:
        found += [at] if at > from_ms else []
        after = at
    return found


def times(vector: dict[str, Any]) -> list[int] | str:
    """Return the next three times, or why there are none."""
    found = []
    try:
        schedule = parse(vector["expr"], timezone=vector["tz"])
        after = schedule.next_ms(ms(vector["from"]))
        while after is not None and len(found) < 3:
            found.append(after)
            after = schedule.next_ms(after)
    except ScheduleError as error:
        return str(error)
    return found


def test_accepted() -> None:
    accepted = [vector["expr"] for vector in VECTORS if vector["valid"]]
    assert len(accepted) == 409
    assert [(text, found) for text in accepted for found in [outcome(text)] if found != text] == []


def test_refused() -> None:
    refused = [vector["expr"] for vector in VECTORS if not vector["valid"]]
    assert len(refused) == 63
    wrong = []
    for text in refused:
        found = outcome(text)
        if not isinstance(found, ScheduleError) or found.field not in FIELDS or not found.reason:
            wrong.append((text, found))
    assert wrong == []


def outcome(text: str) -> str | ScheduleError:
    """Return the expression as it is read, or its refusal."""
    try:
        return parse(text).expression
    except ScheduleError as error:
        return error
