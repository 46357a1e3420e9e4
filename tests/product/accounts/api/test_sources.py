"""What stands in the audit of a script: its length and its digest."""

from __future__ import annotations

import json

from tests.product.accounts.conftest import PeopleApi


def test_sources_stand_in_the_audit_by_digest(api: PeopleApi) -> None:
    made = api.job(glue_type="SCRIPT", glue_source="echo first", handler="")
    answer = api.call("POST", f"jobs/{made['id']}/glue", {"source": "echo secret", "remark": "say more"})
    assert answer.status_code == 201, answer.text
    rows = api.call("GET", "audit", params={"action": "script.save"}).json["items"]
    said = rows[0]["detail"]["after"]
    assert said["source"].startswith("11 characters, sha256 ")
    assert "secret" not in json.dumps(rows)
