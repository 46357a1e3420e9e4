"""Calendars over the management API."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.component.api.http.test_bad_input import check
from tests.support.rows import NOW
from xwheel.api.v1.calendars import MAX_CALENDAR_BYTES
from xwheel.calendars import MAX_ENTRIES, parse_calendar

DAY_MS = 86_400_000
NOON = {"schedule_type": "CRON", "schedule_conf": "0 0 12 * * ?"}
WORKS = {"workdays": "CN", "without": ["2026-10-08", "2026-12-24..2026-12-31"]}


def test_a_calendar_is_new_then_changed_then_gone(api: Api) -> None:
    made = api.call("PUT", "calendars/cn", WORKS)
    assert (made.status_code, made.headers["location"]) == (201, "/api/v1/calendars/cn")
    assert made.json == {"name": "cn", "definition": WORKS, "updated_ms": NOW}
    assert api.call("GET", made.headers["location"]).json == made.json

    api.clock.advance(5)
    changed = api.call("PUT", "calendars/cn", {"weekdays": "SUN"})
    assert (changed.status_code, "location" in changed.headers) == (200, False)
    assert changed.json == {"name": "cn", "definition": {"weekdays": "SUN"}, "updated_ms": NOW + 5}
    assert api.call("GET", "calendars/cn").json == changed.json

    assert api.call("DELETE", "calendars/cn").status_code == 204
    for method in ("GET", "DELETE"):
        answer = api.call(method, "calendars/cn")
        assert (answer.status_code, answer.json["detail"]) == (404, "calendar cn does not exist")


def test_lists_are_paged_by_name(api: Api) -> None:
    for name in ("b", "A", "a", "c.1"):
        api.clock.advance(1)
        api.calendar(name, weekdays="SUN")

    def listed(**params: Any) -> tuple[list[str], str | None]:
        page = api.call("GET", "calendars", params=params).json
        return [item["name"] for item in page["items"]], page["next"]

    assert listed() == (["A", "a", "b", "c.1"], None)
    assert listed(limit=2) == (["A", "a"], "a")
    assert listed(limit=2, after="a") == (["b", "c.1"], None)
    assert listed(after="c.1") == ([], None)
    assert api.call("GET", "calendars").json["items"][0] == {"name": "A", "updated_ms": NOW + 2}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "body"),
        ({"holiday": "CN"}, "calendar.holiday"),
        ({"holidays": "ATLANTIS"}, "calendar.holidays"),
        ({"holidays": "DE/ATLANTIS"}, "calendar.holidays"),
        ({"holidays": None}, "calendar.holidays"),
        ({"holidays": "CN\x00"}, "calendar.holidays"),
        ({"workdays": 5}, "calendar.workdays"),
        ({"weekdays": "SAT,FUNDAY"}, "calendar.weekdays"),
        ({"dates": "2026-01-01"}, "calendar.dates"),
        ({"dates": ["2026-02-30"]}, "calendar.dates"),
        ({"dates": ["2026-01-02..2026-01-01"]}, "calendar.dates"),
        ({"dates": ["0001-01-01..9999-12-31"]}, "calendar.dates"),
        ({"dates": ["2026-01-01"] * (MAX_ENTRIES + 1)}, "calendar.dates"),
        ({"times": ["2026-01-01"]}, "calendar.times"),
        ({"times": ["2026-01-01T10:00..2026-01-01T09:00"]}, "calendar.times"),
        ({"times": ["2026-01-01T10:00Z..2026-01-01T11:00Z"]}, "calendar.times"),
        ({"weekdays": "SUN", "without": [[]]}, "calendar.without"),
    ],
)
def test_a_definition_that_cannot_be_understood_is_not_written(api: Api, body: dict[str, Any], field: str) -> None:
    api.calendar("cn", weekdays="SUN")
    check(api, "PUT", "calendars/cn", body, 422, field)
    check(api, "PUT", "calendars/other", body, 422, field)
    assert list(api.parts.calendars.current()) == ["cn"]


def test_a_definition_has_a_limit_that_its_longest_useful_form_keeps(api: Api) -> None:
    # what a definition can hold, written without a blank; stored it may be longer by one for each entry
    stretches = [f"2026-{i // 60 % 12 + 1:02d}-01T00:{i % 60:02d}..2027-01-01T00:00" for i in range(MAX_ENTRIES)]
    body = json.dumps({"times": stretches}, separators=(",", ":"))
    padded = body.encode().ljust(MAX_CALENDAR_BYTES)
    assert api.call("PUT", "calendars/long", padded).status_code == 201
    stored = api.call("GET", "calendars/long").json["definition"]
    assert stored == {"times": stretches}
    assert len(json.dumps(stored)) < 65_536
    problem = check(api, "PUT", "calendars/longer", padded + b" ", 413, "body")
    assert problem["limit"] == {"max_bytes": MAX_CALENDAR_BYTES}


@pytest.mark.parametrize("name", ["-cn", ".cn", "_cn", "a:b", "名", "x" * 65, "a\nb"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_a_name_has_only_safe_characters(api: Api, name: str, method: str) -> None:
    problem = check(api, method, f"calendars/{name}", {"weekdays": "SUN"}, 422, "name")
    assert problem["limit"] == {"min_length": 1, "max_length": 64}


def test_the_longest_name_is_taken(api: Api) -> None:
    name = "9" + "._-Z" * 15 + "abc"
    assert api.call("PUT", f"calendars/{name}", {"weekdays": "SUN"}).status_code == 201
    assert api.call("GET", f"calendars/{name}").json["name"] == name


@pytest.mark.parametrize("field", ["calendar_exclude", "calendar_require"])
def test_a_calendar_in_use_stays(api: Api, field: str) -> None:
    api.calendar("open", weekdays="MON-FRI")
    made = api.job(**NOON, **{field: ["open"]})
    problem = check(api, "DELETE", "calendars/open", None, 409, None)
    assert problem["type"] == "urn:xwheel:problem:conflict"
    assert f"job {made['id']} uses calendar open" in problem["detail"]
    assert api.call("PATCH", f"jobs/{made['id']}", {field: []}).status_code == 200
    assert api.call("DELETE", "calendars/open").status_code == 204


def test_a_change_moves_the_next_fire_of_started_jobs_that_use_it(api: Api) -> None:
    api.calendar("closed", weekdays="SUN")
    uses = {"calendar_exclude": ["closed"]}
    started = api.job(name="started", **NOON, **uses, enabled=True)
    stopped = api.job(name="stopped", **NOON, **uses)
    other = api.job(name="other", **NOON, enabled=True)
    assert started["next_fire_ms"] == NOW + DAY_MS // 2

    api.clock.advance(1)
    api.calendar("closed", dates=["2026-01-01..2026-01-10"])

    after = {name: api.call("GET", f"jobs/{job['id']}").json for name, job in (("a", started), ("b", stopped))}
    assert after["a"]["next_fire_ms"] == NOW + 10 * DAY_MS + DAY_MS // 2
    assert after["a"]["revision"] == started["revision"] + 1
    assert after["b"] == stopped
    assert api.call("GET", f"jobs/{other['id']}").json == other


def test_a_change_that_would_end_a_started_job_is_not_written(api: Api) -> None:
    api.calendar("closed", weekdays="SUN")
    made = api.job(**NOON, calendar_exclude=["closed"], enabled=True)
    api.clock.advance(1)
    problem = check(api, "PUT", "calendars/closed", {"weekdays": "MON-SUN"}, 422, "body")
    assert "could not go on" in problem["detail"]
    assert api.call("GET", f"jobs/{made['id']}").json == made
    # memory forgot the refused change, too
    closed = api.parts.calendars.current()["closed"]
    assert [day for day in range(1, 8) if closed.covers(datetime(2026, 1, day))] == [4]


def test_every_form_of_the_page_is_taken(api: Api) -> None:
    forms: list[dict[str, Any]] = [
        {"holidays": "CN"},
        {"holidays": "DE/BY"},
        {"workdays": "CN"},
        {"weekdays": "SAT,SUN"},
        {"dates": ["2026-12-24", "2026-12-27..2026-12-31"]},
        {"times": ["2026-11-10T22:00..2026-11-11T06:00"]},
        {"holidays": "CN", "without": ["2026-10-08"]},
    ]
    for number, form in enumerate(forms):
        api.calendar(f"form-{number}", **form)
        assert parse_calendar(api.call("GET", f"calendars/form-{number}").json["definition"])
