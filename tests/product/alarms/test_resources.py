"""Alarm rules, alarms and attempts over the management API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from xwheel_alarms.messages import MAX_RECEIVER_CHARACTERS, PassKind, RuleKind
from xwheel_alarms.records import RULE_KINDS, AlarmKind, AlarmState, AttemptState
from xwheel_alarms.tables import alarm, alarm_attempt

from tests.component.api.conftest import Api
from tests.support.rows import NOW
from xwheel.errors import ConflictError

RULE: dict[str, Any] = {
    "kinds": ["lost", "failed"],
    "name": "tell the team",
    "targets": [{"channel": "mail", "receivers": ["ops@example.com"]}, {"channel": "silent"}],
    "quiet_from": "22:00",
    "quiet_to": "07:00",
    "quiet_timezone": "Asia/Shanghai",
    "quiet_pass": ["lost"],
}


def test_the_kinds_of_messages_are_those_of_the_model() -> None:
    assert {kind.value for kind in RuleKind} == {kind.value for kind in RULE_KINDS}
    assert {kind.value for kind in PassKind} == {kind.value for kind in {*RULE_KINDS, AlarmKind.RECOVERED}}


def test_a_rule_lives_from_post_to_delete(api: Api) -> None:
    group_id = api.group()
    made = api.call("POST", "alarms/rules", {**RULE, "group_id": group_id})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/api/v1/alarms/rules/{made.json['id']}"
    assert made.json == {
        **RULE,
        "id": made.json["id"],
        "kinds": ["failed", "lost"],
        "targets": [{"channel": "mail", "receivers": ["ops@example.com"]}, {"channel": "silent", "receivers": []}],
        "job_id": None,
        "group_id": group_id,
        "when": "last",
        "window_s": 300,
        "recovery": True,
        "not_run_s": 0,
        "still_running_s": 0,
        "enabled": True,
        "revision": 1,
        "created_ms": NOW,
        "updated_ms": NOW,
    }
    path = f"alarms/rules/{made.json['id']}"
    shown = api.call("GET", path)
    assert (shown.json, shown.headers["etag"]) == (made.json, '"1"')
    api.clock.advance(5)
    changed = api.call("PATCH", path, {"window_s": 0, "group_id": None, "revision": 1})
    assert changed.json == {
        **made.json, "window_s": 0, "group_id": None, "revision": 2, "updated_ms": NOW + 5
    }  # fmt: skip
    gone = api.call("DELETE", path, headers={"If-Match": '"2"'})
    assert (gone.status_code, gone.content) == (204, b"")
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"name": "x"})):
        assert api.call(method, path, body).status_code == 404


def test_a_rule_that_somebody_else_changed_is_a_conflict(api: Api) -> None:
    path = f"alarms/rules/{api.call('POST', 'alarms/rules', RULE).json['id']}"
    assert api.call("PATCH", path, {"name": "mine", "revision": 1}).status_code == 200
    before = api.rows()
    answers = [
        api.call("PATCH", path, {"name": "yours", "revision": 1}),
        api.call("PATCH", path, {"name": "yours"}, headers={"If-Match": '"1"'}),
        api.call("DELETE", path, headers={"If-Match": '"1"'}),
    ]
    assert [(answer.status_code, answer.json["revision"]) for answer in answers] == [(409, 2)] * 3
    assert api.rows() == before


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"kinds": []}, "kinds", "a list of 1 to 7"),
        ({"kinds": ["recovered"]}, "kinds", "one of failed, lost"),
        ({"kinds": None}, "kinds", "a list of 1 to 7"),
        ({"job_id": 1, "group_id": 1}, "group_id", "not both"),
        ({"job_id": 9}, "job_id", "job 9 does not exist"),
        ({"group_id": 9}, "group_id", "group 9 does not exist"),
        ({"targets": [{"channel": "pager"}]}, "targets", "'pager' is not installed; installed: mail, silent"),
        ({"targets": [{"channel": "mail", "receivers": ["a" * 200] * 41}]}, "targets", "8000 characters together"),
        ({"targets": [{"channel": "mail", "to": "x"}]}, "targets", "a list of at most 20"),
        ({"quiet_from": "25:00"}, "quiet_from", "a time of day such as 22:00"),
        ({"quiet_to": ""}, "quiet_to", "give quiet_from and quiet_to, or neither"),
        ({"quiet_timezone": "Mars/Base"}, "quiet_timezone", "Mars/Base"),
        ({"not_run_s": 60}, "not_run_s", "only for rules whose kinds name not_run"),
        ({"window_s": 86_401}, "window_s", "a whole number from 0 to 86400"),
        ({"wen": "each"}, "wen", "did you mean when"),
        ({"when": "always"}, "when", "one of each, last"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_work_is_refused(api: Api, changes: dict[str, Any], field: str, words: str) -> None:
    known = api.call("POST", "alarms/rules", RULE).json["id"]
    before = api.rows()
    for method, path, body in (
        ("POST", "alarms/rules", {**RULE, **changes}),
        ("PATCH", f"alarms/rules/{known}", changes),
    ):
        answer = api.call(method, path, body)
        assert (answer.status_code, answer.json["field"]) == (422, field), answer.text
        assert words in answer.json["detail"]
    assert api.rows() == before


def test_a_change_without_a_field_is_refused(api: Api) -> None:
    path = f"alarms/rules/{api.call('POST', 'alarms/rules', RULE).json['id']}"
    for body in ({}, {"revision": 1}):
        answer = api.call("PATCH", path, body)
        assert (answer.status_code, answer.json["field"]) == (422, "body")


def test_the_longest_receivers_fit_every_database(api: Api) -> None:
    receivers = ['"' * 250] * (MAX_RECEIVER_CHARACTERS // 250)
    assert len(receivers) <= 50
    wide = ["\U0001f514" * 160] * 50
    for several in (receivers, wide):
        targets = [{"channel": "mail", "receivers": several}]
        body = json.dumps({**RULE, "targets": targets}, ensure_ascii=False).encode()
        made = api.call("POST", "alarms/rules", body)
        assert made.status_code == 201, made.text
        assert made.json["targets"] == targets


def test_rules_are_listed_in_pages_for_a_job_or_a_group(api: Api) -> None:
    job = api.job()
    owners: list[dict[str, int]] = [{"job_id": job["id"]}, {"group_id": job["group_id"]}, {}]
    ids = [api.call("POST", "alarms/rules", {**RULE, **owner}).json["id"] for owner in owners]
    first = api.call("GET", "alarms/rules", params={"limit": 2}).json
    assert ([rule["id"] for rule in first["items"]], first["next"]) == (ids[:2], ids[1])
    last = api.call("GET", "alarms/rules", params={"limit": 2, "after": first["next"]}).json
    assert ([rule["id"] for rule in last["items"]], last["next"]) == (ids[2:], None)
    of_job = api.call("GET", "alarms/rules", params={"job_id": job["id"]}).json
    of_group = api.call("GET", "alarms/rules", params={"group_id": job["group_id"]}).json
    assert [rule["id"] for rule in of_job["items"]] == ids[:1]
    assert [rule["id"] for rule in of_group["items"]] == ids[:2]


def put_alarms(api: Api, count: int) -> None:
    """Insert alarms of jobs 1 and 2 in turn, the even ones of run 50; each with two attempts."""
    rows = [
        {
            "id": number, "rule_id": 1, "job_id": 1 + number % 2, "group_id": 3,
            "run_id": 50 if number % 2 == 0 else None,
            "shard_index": 0, "partition": 1, "kind": AlarmKind.FAILED.value, "state": AlarmState.MERGED.value,
            "at_ms": NOW, "last_ms": NOW, "count": 1, "reason": "", "message": "disk full", "notice_id": 1, "note": "",
        }
        for number in range(1, count + 1)
    ]  # fmt: skip
    attempts = [
        {
            "alarm_id": row["id"], "job_id": row["job_id"], "group_id": 3, "partition": 1, "channel": "mail",
            "receivers": '["ops"]', "number": number, "state": AttemptState.FAILED.value, "answer": "HTTP 500",
        }
        for row in rows
        for number in (1, 2)
    ]  # fmt: skip

    def work(conn: Any) -> None:
        conn.execute(alarm.insert(), rows)
        conn.execute(alarm_attempt.insert(), attempts)

    api.db.transaction(work)


def test_alarms_are_listed_newest_first_in_pages(api: Api) -> None:
    put_alarms(api, 5)
    found: list[int] = []
    after = None
    for _ in range(3):
        params = {"limit": 2, **({} if after is None else {"after": after})}
        page = api.call("GET", "alarms", params=params).json
        found += [item["id"] for item in page["items"]]
        after = page["next"]
    assert (found, after) == ([5, 4, 3, 2, 1], None)
    for query, ids in (
        ({"job_id": 1}, [4, 2]),
        ({"group_id": 3}, [5, 4, 3, 2, 1]),
        ({"group_id": 4}, []),
        ({"run_id": 50}, [4, 2]),
        ({"notice_id": 1, "job_id": 2}, [5, 3, 1]),
    ):
        page = api.call("GET", "alarms", params=query).json
        assert ([item["id"] for item in page["items"]], page["next"]) == (ids, None)
    one = api.call("GET", "alarms/4").json
    assert (one["message"], one["kind"], one["state"], one["run_id"]) == ("disk full", "failed", "merged", 50)
    assert "partition" not in one
    assert api.call("GET", "alarms/9").status_code == 404


def test_attempts_are_listed_newest_first_in_pages(api: Api) -> None:
    put_alarms(api, 3)
    page = api.call("GET", "alarms/attempts", params={"limit": 4}).json
    assert [(item["alarm_id"], item["number"]) for item in page["items"]] == [(3, 2), (3, 1), (2, 2), (2, 1)]
    rest = api.call("GET", "alarms/attempts", params={"limit": 4, "after": page["next"]}).json
    assert ([item["alarm_id"] for item in rest["items"]], rest["next"]) == ([1, 1], None)
    mine = api.call("GET", "alarms/attempts", params={"alarm_id": 2}).json["items"]
    assert [(item["receivers"], item["answer"], item["state"]) for item in mine] == [
        (["ops"], "HTTP 500", "failed")
    ] * 2
    assert len(api.call("GET", "alarms/attempts", params={"job_id": 1}).json["items"]) == 2


def test_a_test_is_sent_and_answered(api: Api) -> None:
    answer = api.call("POST", "alarms/test", {"channel": "mail", "receivers": ["ops@example.com"]})
    assert answer.status_code == 200
    assert (answer.json["state"], answer.json["answer"], answer.json["took_ms"]) == ("sent", "250 queued", 12)
    failed = api.call("POST", "alarms/test", {"channel": "silent"})
    assert (failed.status_code, failed.json["state"]) == (200, "failed")
    assert failed.json["answer"] == "TimeoutError: no answer in 5 s"
    assert api.channels.sent == [("mail", ("ops@example.com",)), ("silent", ())]


def test_a_test_that_cannot_be_sent_says_why(api: Api) -> None:
    unknown = api.call("POST", "alarms/test", {"channel": "pager"})
    assert (unknown.status_code, unknown.json["field"]) == (422, "channel")
    assert "'pager' is not installed; installed: mail, silent" in unknown.json["detail"]
    long = api.call("POST", "alarms/test", {"channel": "mail", "receivers": ["a" * 250] * 33})
    assert (long.status_code, long.json["field"]) == (422, "receivers")
    api.channels.failure = ConflictError("another test of mail is under way")
    assert api.call("POST", "alarms/test", {"channel": "mail"}).status_code == 409
    # the place is free again
    api.channels.failure = None
    for _ in range(5):
        assert api.call("POST", "alarms/test", {"channel": "mail"}).status_code == 200


def test_few_tests_wait_for_channels_at_once(api: Api) -> None:
    inner: list[int] = []

    def ask_again(channel: str, receivers: Any) -> Any:
        inner.append(api.call("POST", "alarms/test", {"channel": "mail"}).status_code)
        raise ConflictError("done")

    api.channels.test = ask_again  # type: ignore[method-assign]
    places = max(1, api.parts.config.api.threads // 4)
    api.call("POST", "alarms/test", {"channel": "mail"})
    assert inner == [503, *[409] * (places - 1)]
