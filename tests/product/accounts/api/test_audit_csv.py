"""The audit as a CSV file."""

from __future__ import annotations

import pytest

from tests.component.api.v1.test_csv import table
from tests.product.accounts.conftest import PeopleApi
from tests.support.callers import ROLES, Callers
from xwheel.api.http import csv_file
from xwheel.model.access import Grants


def test_rows_are_found_by_what_is_asked_for(api: PeopleApi) -> None:
    made = api.job(name="=1+1", description="@x")
    rows = table(api.call("GET", "audit/csv", params={"action": "job.create"}))
    assert [(item["action"], item["object_id"]) for item in rows] == [("job.create", str(made["id"]))]
    assert '"name":"=1+1"' in rows[0]["detail"]
    answer = api.call("GET", "audit/csv", params={"object_id": "5"})
    assert (answer.status_code, answer.json["field"]) == (422, "object_kind")


def test_a_file_holds_what_its_caller_may_read(api: PeopleApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also behind its first page, which is read after the call."""
    monkeypatch.setattr(csv_file, "PAGE", 2)
    callers = Callers(api)
    groups = [api.group("one"), api.group("two")]
    for number in range(12):
        api.job(name=f"job {number}", group_id=groups[number % 2])
    grants = Grants(groups={groups[1]: ROLES["admin"]})
    audited = table(callers.call(grants, "GET", "/api/v1/audit/csv"))
    assert {row["group_id"] for row in audited} == {str(groups[1])}
