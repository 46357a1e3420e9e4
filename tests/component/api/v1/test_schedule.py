"""Previews of schedules and the pause, over the management API."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.component.api.http.test_bad_input import check
from tests.component.api.v1.test_last_and_next import of
from tests.support.callers import Callers
from tests.support.rows import NOW
from xwheel.api.schema.fields import MAX_MS

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
NOON = "0 0 12 * * ?"


def preview(api: Api, **params: Any) -> dict[str, Any]:
    """Ask for a preview, which changes nothing."""
    before = api.rows()
    answer = api.call("GET", "schedule/preview", params=params)
    assert answer.status_code == 200, answer.text
    assert api.rows() == before
    found: dict[str, Any] = answer.json
    return found


def locals_of(api: Api, **params: Any) -> list[str]:
    return [item["local"] for item in preview(api, **params)["items"]]


def test_a_preview_gives_times_of_the_zone_and_words(api: Api) -> None:
    assert preview(
        api, schedule_type="CRON", schedule_conf="0 30 9 ? * MON-FRI", timezone="Asia/Shanghai", count=3
    ) == {
        "items": [
            {"due_ms": NOW + 90 * 60_000, "local": "2026-01-01T09:30:00+08:00"},
            {"due_ms": NOW + DAY_MS + 90 * 60_000, "local": "2026-01-02T09:30:00+08:00"},
            {"due_ms": NOW + 4 * DAY_MS + 90 * 60_000, "local": "2026-01-05T09:30:00+08:00"},
        ],
        "description": {"en": "At 09:30, Monday through Friday", "zh": "在 09:30, 星期一 到 星期五"},
    }


def test_the_unix_dialect_has_words_and_other_types_have_none(api: Api) -> None:
    found = preview(api, schedule_type="UNIX_CRON", schedule_conf="*/5 * * * *", count=1)
    assert found["description"]["en"] == "Every 5 minutes"
    assert found["description"]["zh"]
    assert preview(api, schedule_type="FIX_RATE", schedule_conf="30")["description"] is None


def test_without_a_number_there_are_five_from_now_on(api: Api) -> None:
    api.clock.advance(1)
    assert locals_of(api, schedule_type="CRON", schedule_conf="0 0 0 1 1 ?") == [
        f"{year}-01-01T00:00:00+00:00" for year in range(2027, 2032)
    ]


@pytest.mark.parametrize("count", [1, 100])
def test_the_number_may_be_chosen(api: Api, count: int) -> None:
    found = preview(api, schedule_type="FIX_RATE", schedule_conf="30", count=count)["items"]
    assert len(found) == count
    assert all(after["due_ms"] - before["due_ms"] == 30_000 for before, after in pairwise(found))


def test_from_start_end_and_anchor_are_kept(api: Api) -> None:
    rate = {"schedule_type": "FIX_RATE", "schedule_conf": "1h"}
    # without an anchor the rate counts from now, as a job created now would
    api.clock.advance(7)
    assert preview(api, **rate, from_ms=NOW + 5, count=1)["items"][0]["due_ms"] == NOW + 7
    found = preview(api, **rate, anchor_ms=NOW + 250, start_ms=NOW + 2 * HOUR_MS + 250, end_ms=NOW + 4 * HOUR_MS + 250)
    assert [item["due_ms"] for item in found["items"]] == [NOW + hours * HOUR_MS + 250 for hours in (2, 3, 4)]
    assert found["items"][0]["local"] == "2026-01-01T02:00:00.250+00:00"


def test_an_hour_that_comes_twice_is_told_apart_by_its_offset(api: Api) -> None:
    from_ms = int(datetime.fromisoformat("2026-10-25T00:30:00+02:00").timestamp() * 1000)
    rate = {"schedule_type": "FIX_RATE", "schedule_conf": "1h", "anchor_ms": from_ms}
    assert locals_of(api, **rate, timezone="Europe/Berlin", from_ms=from_ms, count=4) == [
        "2026-10-25T01:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
        "2026-10-25T03:30:00+01:00",
    ]


def test_a_schedule_without_a_further_fire_is_an_empty_list(api: Api) -> None:
    assert preview(api, schedule_type="NONE")["items"] == []
    assert preview(api, schedule_type="ONCE", schedule_conf="2025-12-31T00:00:00")["items"] == []
    assert locals_of(api, schedule_type="ONCE", schedule_conf="2026-06-01T08:00") == ["2026-06-01T08:00:00+00:00"]
    assert preview(api, schedule_type="CRON", schedule_conf="0 0 0 30 2 ?")["items"] == []


def test_calendars_count(api: Api) -> None:
    api.calendar("cn", workdays="CN")
    api.calendar("half", dates=["2026-01-05"])
    noon = {"schedule_type": "CRON", "schedule_conf": NOON, "timezone": "Asia/Shanghai", "count": 3}
    # New Year's holidays last until the 3rd; Sunday the 4th is worked to make up for them
    assert [text[:10] for text in locals_of(api, **noon, calendar_require="cn")] == [
        "2026-01-04",
        "2026-01-05",
        "2026-01-06",
    ]
    both = locals_of(api, **noon, calendar_require="cn", calendar_exclude="half")
    assert [text[:10] for text in both] == ["2026-01-04", "2026-01-06", "2026-01-07"]
    none = locals_of(api, **noon, calendar_exclude="")
    assert none[0].startswith("2026-01-01")


def test_a_calendar_that_ends_gives_what_is_left(api: Api) -> None:
    api.calendar("sale", dates=["2026-11-11", "2027-11-11"])
    noon = {"schedule_type": "CRON", "schedule_conf": NOON}
    found = locals_of(api, **noon, calendar_require="sale")
    assert [text[:10] for text in found] == ["2026-11-11", "2027-11-11"]


def test_with_calendars_the_search_ends_after_ten_years(api: Api) -> None:
    api.calendar("sundays", weekdays="SUN")
    new_year = {"schedule_type": "CRON", "schedule_conf": "0 0 12 1 1 ?", "count": 100}
    without = locals_of(api, **new_year)
    assert (len(without), without[-1][:4]) == (100, "2125")
    # of the years until 2036 New Year is a Sunday in 2034 only
    found = locals_of(api, **new_year, calendar_exclude="sundays")
    assert [text[:4] for text in found] == [str(year) for year in range(2026, 2036) if year != 2034] + ["2036"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"schedule_type": ""}, "schedule_type"),
        ({"schedule_type": "MOON"}, "schedule_type"),
        ({"schedule_type": ["CRON", "CRON"]}, "schedule_type"),
        ({"schedule_conf": ""}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "0 0 25 * * ?"}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "x" * 513}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "0 0 0 * * ?\x00"}, "schedule_conf"),
        ({"schedule_type": "UNIX_CRON", "schedule_conf": NOON}, "schedule_conf"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "0"}, "schedule_conf"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "-5"}, "schedule_conf"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "9" * 30}, "schedule_conf"),
        ({"schedule_type": "NONE", "schedule_conf": "5"}, "schedule_conf"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"count": 0}, "count"),
        ({"count": 101}, "count"),
        ({"count": "five"}, "count"),
        ({"from_ms": 0}, "from_ms"),
        ({"from_ms": MAX_MS + 1}, "from_ms"),
        ({"start_ms": NOW, "end_ms": NOW}, "end_ms"),
        ({"start_ms": NOW, "end_ms": NOW - 1}, "end_ms"),
        ({"anchor_ms": -1}, "anchor_ms"),
        ({"calendar_exclude": "nowhere"}, "calendar_exclude"),
        ({"calendar_require": "nowhere"}, "calendar_require"),
        ({"calendar_require": "daily,nowhere"}, "calendar_require"),
        ({"calendar_require": ",".join(["daily"] * 17)}, "calendar_require"),
        ({"calendar_exclude": "daily,,daily"}, "calendar_exclude"),
        ({"calendar_exclude": "daily"}, "calendar_exclude"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "90d", "calendar_exclude": "daily"}, "calendar_exclude"),
        ({"misfire_policy": "skip"}, "misfire_policy"),
    ],
)
def test_a_preview_of_what_cannot_work_names_the_field(api: Api, params: dict[str, Any], field: str) -> None:
    api.calendar("daily", weekdays="MON-SUN")
    # an empty one leaves the parameter out
    given = {"schedule_type": "CRON", "schedule_conf": NOON, **params}
    given = {name: value for name, value in given.items() if value != ""}
    check(api, "GET", "schedule/preview", None, 422, field, params=given)


@pytest.mark.parametrize("timezone", ["UTC", "Asia/Shanghai", "America/New_York"])
@pytest.mark.parametrize(
    ("schedule_type", "schedule_conf"),
    [
        ("CRON", "* * * * * ?"),
        ("UNIX_CRON", "* * * * *"),
        ("FIX_RATE", "100d"),
        ("FIX_DELAY", "36000d"),
        ("ONCE", "9999-12-31T23:59:59"),
        ("DAILY_INTERVAL", "from=00:00 to=23:59 every=1m"),
    ],
)
@pytest.mark.parametrize("field", ["from_ms", "start_ms", "anchor_ms"])
@pytest.mark.parametrize("calendar", ["", "some"])
def test_the_end_of_time_is_no_fault(
    api: Api, timezone: str, schedule_type: str, schedule_conf: str, field: str, calendar: str
) -> None:
    api.calendar("some", weekdays="SUN")
    params = {"schedule_type": schedule_type, "schedule_conf": schedule_conf, "timezone": timezone}
    for instant in (1, MAX_MS - 2 * DAY_MS, MAX_MS):
        answer = api.call("GET", "schedule/preview", params={**params, field: instant, "calendar_exclude": calendar})
        assert answer.status_code in {200, 422}, answer.text
        if answer.status_code == 422:
            assert answer.json["field"] in {"schedule_conf", "calendar_exclude"}


# the pause


def test_a_pause_is_told_since_when(api: Api) -> None:
    assert api.call("GET", "schedule/pause").json == {"paused_since_ms": None}
    first = api.call("PUT", "schedule/pause")
    assert (first.status_code, first.json) == (200, {"paused_since_ms": NOW})
    api.clock.advance(1000)
    assert api.call("PUT", "schedule/pause", {}).json == {"paused_since_ms": NOW}
    assert api.call("GET", "schedule/pause").json == {"paused_since_ms": NOW}
    assert api.call("DELETE", "schedule/pause").status_code == 204
    assert api.call("GET", "schedule/pause").json == {"paused_since_ms": None}
    assert api.call("DELETE", "schedule/pause").status_code == 204
    assert api.call("PUT", "schedule/pause").json == {"paused_since_ms": NOW + 1000}


def test_a_pause_takes_no_field(api: Api) -> None:
    check(api, "PUT", "schedule/pause", {"until_ms": NOW}, 422, "until_ms")
    assert api.call("GET", "schedule/pause").json == {"paused_since_ms": None}


def test_jobs_are_changed_and_run_by_hand_during_a_pause(api: Api) -> None:
    api.call("PUT", "schedule/pause")
    made = api.job(schedule_type="CRON", schedule_conf=NOON, enabled=True)
    assert made["next_fire_ms"] == NOW + DAY_MS // 2
    run = api.call("POST", f"jobs/{made['id']}/run")
    assert (run.status_code, run.json["state"]) == (201, "planned")
    assert preview(api, schedule_type="CRON", schedule_conf=NOON, count=1)["items"]


def test_c10_schedules_of_many_jobs_are_told_in_words_at_once(api: Api) -> None:
    kinds = {"CRON": "0 30 9 ? * MON-FRI", "UNIX_CRON": "*/5 * * * *", "FIX_RATE": "60s", "NONE": ""}
    ids = [api.job(name=kind, schedule_type=kind, schedule_conf=conf)["id"] for kind, conf in kinds.items()]
    asked = ",".join(map(str, [999, *reversed(ids), ids[0]]))
    found = api.call("GET", "schedule/words", params={"job_id": asked}).json["items"]
    assert [(item["job_id"], item["schedule_type"], item["schedule_conf"]) for item in found] == [
        (job_id, *kind) for job_id, kind in reversed([*zip(ids, kinds.items(), strict=True)])
    ]
    told = {
        item["schedule_type"]: preview(
            api, schedule_type=item["schedule_type"], schedule_conf=item["schedule_conf"], count=1
        )["description"]
        for item in found
        if item["schedule_type"] != "NONE"
    }
    assert {item["schedule_type"]: item["description"] for item in found} == {**told, "NONE": None}
    assert told["CRON"]["en"] != told["UNIX_CRON"]["en"]


def test_c10_schedules_are_told_to_those_who_may_read_their_jobs(api: Api) -> None:
    mine, theirs = api.job(name="mine"), api.job(name="theirs")
    asked = {"job_id": f"{mine['id']},{theirs['id']}"}
    answer = Callers(api).call(of("viewer", mine["group_id"]), "GET", "/api/v1/schedule/words", params=asked)
    assert [item["job_id"] for item in answer.json["items"]] == [mine["id"]]


@pytest.mark.parametrize("ids", ["", "0", "x", ",".join(map(str, range(1, 102)))])
def test_c10_words_of_nothing_or_too_many_jobs_are_refused(api: Api, ids: str) -> None:
    answer = api.call("GET", "schedule/words", params={"job_id": ids})
    assert (answer.status_code, answer.json["field"]) == (422, "job_id")
