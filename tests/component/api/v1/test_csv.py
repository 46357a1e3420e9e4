"""Lists as CSV files: what they hold, and for which caller."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from tests.component.api.conftest import Api
from tests.support.callers import ROLES, Callers
from tests.support.rows import NOW, make_run
from xwheel.api.http import csv_file
from xwheel.api.schema.views import JobView, RunView
from xwheel.model import RunState
from xwheel.model.access import Grants


def table(answer: Any) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.content.startswith(b"\xef\xbb\xbf")
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))


def test_runs_are_those_of_the_list_with_its_filters(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "PAGE", 7)
    name = 'night "run", 夜\n'
    job = api.job(name=name)
    states = [RunState.FAILED, RunState.SUCCEEDED]
    made = [
        make_run(number, job_id=job["id"], state=states[number % 2], due_ms=NOW + number, message="a,b\r\nc")
        for number in range(1, 31)
    ]
    api.runs(*made)
    answer = api.call("GET", "runs/csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="runs.csv"'
    found = table(answer)
    assert list(found[0]) == list(RunView.__struct_fields__)
    assert [int(row["id"]) for row in found] == list(range(30, 0, -1))
    listed = api.call("GET", "runs", params={"limit": 1000}).json["items"]
    for row, item in zip(found, listed, strict=True):
        assert (row["job_name"], row["message"], row["state"]) == (name, "a,b\r\nc", item["state"])
        assert (row["address"], row["kill_requested"]) == (item["address"] or "", "false")
    failed = table(api.call("GET", "runs/csv", params={"state": "failed", "from_ms": NOW + 10}))
    assert [int(row["id"]) for row in failed] == list(range(30, 9, -2))
    assert api.call("GET", "runs/csv", params={"limit": 5}).status_code == 422


def test_jobs_and_the_audit(api: Api) -> None:
    made = api.job(name="=1+1", description="@x", calendar_exclude=[], retry_delays_ms=[5, 6])
    (row,) = table(api.call("GET", "jobs/csv"))
    assert list(row) == list(JobView.__struct_fields__)
    assert (row["name"], row["description"], row["retry_delays_ms"]) == ("'=1+1", "'@x", "[5,6]")
    assert (row["id"], row["declared"], row["enabled"]) == (str(made["id"]), "", "false")
    assert table(api.call("GET", "jobs/csv", params={"name": "other"})) == []


def test_a_file_holds_what_its_caller_may_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind its first page, which is read after the call."""
    monkeypatch.setattr(csv_file, "PAGE", 2)
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    jobs = [api.job(name=f"job {number}", group_id=groups[number % 2])["id"] for number in range(12)]
    api.runs(
        *(
            make_run(number, job_id=jobs[number % 2], group_id=groups[number // 2 % 2], due_ms=NOW + number)
            for number in range(1, 21)
        )
    )
    grants = Grants(groups={groups[1]: ROLES["admin"]})
    found = table(callers.call(grants, "GET", "/api/v1/jobs/csv"))
    assert [int(row["id"]) for row in found] == jobs[1::2]
    rows = table(callers.call(grants, "GET", "/api/v1/runs/csv"))
    assert {row["group_id"] for row in rows} == {str(groups[1])}
    assert len(rows) == 10
    # of a job in another group nothing is told but that it ran here
    assert {row["job_name"] for row in rows} == {"", "job 1"}
