"""Reports and the overview."""

from __future__ import annotations

from typing import Any

import pytest
from xwheel_reports import storage as reports
from xwheel_reports.storage import HOUR_MS, Counts, JobHour

from tests.component.api.conftest import Api
from tests.component.api.http.test_bad_input import check
from tests.product.api import product_api
from tests.support.rows import NOW, make_executor
from xwheel.storage.database.engine import Database
from xwheel.storage.retention import DAY_MS


@pytest.fixture
def api(db: Database) -> Api:
    return product_api(db, {})


def fill(api: Api) -> None:
    """Two hours today, one two days ago; job 1 of group 1, and job 2 of group 2."""

    def work(conn: Any) -> None:
        for hour_ms, job_id, counts in (
            (NOW - HOUR_MS, 1, Counts(succeeded=3, duration_sum_ms=30, duration_max_ms=20)),
            (NOW - HOUR_MS, 2, Counts(failed=1, duration_max_ms=50)),
            (NOW - 2 * HOUR_MS, 1, Counts(succeeded=1, skipped=4)),
            (NOW - 2 * DAY_MS, 1, Counts(lost=7)),
        ):
            reports.replace_hour(conn, hour_ms, [], [JobHour(job_id, job_id, counts)])

    api.db.transaction(work)


def test_a_report_tells_hours_and_their_totals(api: Api) -> None:
    fill(api)
    report = api.call("GET", "reports").json
    assert (report["from_ms"], report["to_ms"]) == (NOW - DAY_MS, NOW)
    assert [item["from_ms"] for item in report["items"]] == [NOW - 2 * HOUR_MS, NOW - HOUR_MS]
    assert [item["counts"]["succeeded"] for item in report["items"]] == [1, 3]
    totals = report["totals"]
    assert (totals["succeeded"], totals["failed"], totals["skipped"], totals["lost"]) == (4, 1, 4, 0)
    assert (totals["duration_sum_ms"], totals["duration_max_ms"]) == (30, 50)


def test_a_report_is_narrowed(api: Api) -> None:
    fill(api)

    def totals(**params: Any) -> Any:
        return api.call("GET", "reports", params=params).json["totals"]

    assert totals(job_id=2)["failed"] == 1
    assert totals(group_id=1)["failed"] == 0
    assert totals(from_ms=NOW - HOUR_MS)["succeeded"] == 3
    assert totals(to_ms=NOW - HOUR_MS)["succeeded"] == 1
    days = api.call("GET", "reports", params={"by": "day"}).json["items"]
    assert [item["from_ms"] % DAY_MS for item in days] == [0, 0]
    first = api.call("GET", "reports", params={"by": "day", "limit": 1}).json["items"]
    assert first == days[:1]
    later = api.call("GET", "reports", params={"from_ms": NOW + DAY_MS}).json
    assert (later["items"], later["to_ms"]) == ([], NOW + 2 * DAY_MS)


def test_the_overview_tells_how_much_there_is(api: Api) -> None:
    fill(api)
    job = api.job(schedule_type="FIX_RATE", schedule_conf="5s", enabled=True)
    api.parts.registry.register("group-job", make_executor(), NOW)
    api.call("POST", f"jobs/{job['id']}/run")
    found = api.call("GET", "overview").json
    last_day = found.pop("last_day")
    assert found == {
        "groups": 1,
        "executors": 1,
        "jobs": 1,
        "scheduled_jobs": 1,
        "planned_runs": 1,
        "open_runs": 0,
        "declaration_conflicts": 0,
        "paused_since_ms": None,
    }
    assert (last_day["succeeded"], last_day["lost"]) == (4, 0)


@pytest.mark.parametrize(
    ("query", "field"), [("by=week", "by"), ("from_ms=2&to_ms=2", "to_ms"), ("from_ms=1&to_ms=34560000002", "from_ms")]
)
def test_a_bad_query_is_refused(api: Api, query: str, field: str) -> None:
    check(api, "GET", "reports", None, 422, field, query_string=query)
