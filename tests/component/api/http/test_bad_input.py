"""Whatever a client sends: a stated status, a problem that names the field, no row changed, the process unharmed."""

from __future__ import annotations

from typing import Any, NoReturn

import falcon.testing
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.component.api.conftest import LIMIT, TOKEN, Api
from xwheel.api.v1.calendars import MAX_CALENDAR_BYTES
from xwheel.errors import DatabaseReadOnlyError, DatabaseRefusedError, DatabaseUnreachableError, LockError, StorageError
from xwheel.scheduler.jobs.jobs import JobManager
from xwheel.storage.database.engine import Database
from xwheel.wire.contract import TOKEN_HEADER

JOB = {"name": "job", "handler": "demo"}
BIG = b'{"name": "' + b"x" * LIMIT + b'"}'
CRON = {"schedule_type": "CRON", "schedule_conf": "0 0 12 * * ?"}


@pytest.fixture
def job(api: Api) -> dict[str, Any]:
    return api.job(**CRON, enabled=True)


def check(api: Api, method: str, path: str, body: object, status: int, field: str | None, **options: Any) -> Any:
    """Make a call that must be refused without a trace, and return its problem."""
    before = api.rows()
    answer = api.call(method, path, body, **options)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["status"] == status
    assert answer.json["title"]
    assert answer.json["detail"]
    assert answer.json.get("field") == field
    assert TOKEN not in answer.text
    assert "Traceback" not in answer.text
    assert api.rows() == before
    assert api.call("GET", "groups").status_code == 200
    return answer.json


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"nmae": "x"}, "nmae"),
        ({"id": 5}, "id"),
        ({"next_fire_ms": 5}, "next_fire_ms"),
        ({"name": 5}, "name"),
        ({"name": None}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 129}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"param": "x" * 65_536}, "param"),
        ({"timeout_s": "5"}, "timeout_s"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"timeout_s": 2**31}, "timeout_s"),
        ({"timeout_s": 10**400}, "timeout_s"),
        ({"timeout_s": 1.5}, "timeout_s"),
        ({"timeout_s": True}, "timeout_s"),
        ({"enabled": 1}, "enabled"),
        ({"misfire_policy": "explode"}, "misfire_policy"),
        ({"block_strategy": "QUEUE"}, "block_strategy"),
        ({"route_strategy": "NEAREST"}, "route_strategy"),
        ({"route_options": "zone=a"}, "route_options"),
        ({"route_options": "x" * 513}, "route_options"),
        ({"schedule_type": "MOON"}, "schedule_type"),
        ({"glue_type": "GLUE_COBOL"}, "glue_type"),
        ({"handler": ""}, "handler"),
        ({"handler": "  "}, "handler"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"schedule_type": "CRON", "schedule_conf": ""}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "0 0 25 * * ?"}, "schedule_conf"),
        ({"schedule_type": "CRON", "schedule_conf": "x" * 513}, "schedule_conf"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "0"}, "schedule_conf"),
        ({"schedule_type": "FIX_RATE", "schedule_conf": "soon"}, "schedule_conf"),
        ({"schedule_type": "NONE", "schedule_conf": "5"}, "schedule_conf"),
        ({"schedule_type": "NONE", "schedule_conf": "", "enabled": True}, "schedule_conf"),
        ({"start_ms": 5, "end_ms": 5}, "end_ms"),
        ({"jitter_ms": -1}, "jitter_ms"),
        ({"jitter_ms": 86_400_001}, "jitter_ms"),
        ({"calendar_exclude": "holidays"}, "calendar_exclude"),
        ({"calendar_exclude": ["nowhere"]}, "calendar_exclude"),
        ({"calendar_require": ["../etc/passwd"]}, "calendar_require"),
        ({"calendar_require": ["x"] * 17}, "calendar_require"),
        ({"group_id": 99}, "group_id"),
        ({"group_id": 0}, "group_id"),
        ({"group_id": "1"}, "group_id"),
        ({"group_id": 2**53}, "group_id"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_job_with_a_bad_field_is_not_written(
    api: Api, job: dict[str, Any], method: str, fields: dict[str, Any], field: str
) -> None:
    if method == "POST":
        body = {**JOB, **CRON, "name": "new", "group_id": job["group_id"], **fields}
        check(api, "POST", "jobs", body, 422, field)
    else:
        # what an edit does not know is refused by name, too
        first = next((name for name in fields if name in {"group_id", "enabled"}), field)
        check(api, "PATCH", f"jobs/{job['id']}", fields, 422, first)


def test_a_limit_is_told_as_data(api: Api, job: dict[str, Any]) -> None:
    problem = check(api, "PATCH", f"jobs/{job['id']}", {"name": "x" * 129}, 422, "name")
    assert problem["limit"] == {"min_length": 1, "max_length": 128}
    problem = check(api, "PATCH", f"jobs/{job['id']}", {"block_strategy": "QUEUE"}, 422, "block_strategy")
    assert problem["limit"] == {"one_of": ["COVER_EARLY", "DISCARD_LATER", "SERIAL_EXECUTION"]}
    problem = check(api, "PATCH", f"jobs/{job['id']}", {"route_strategy": "NEAREST"}, 422, "route_strategy")
    assert "FIRST" in problem["detail"]


BODIES = [
    ("POST", "groups"),
    ("PATCH", "groups/1"),
    ("POST", "jobs"),
    ("PATCH", "jobs/1"),
    ("POST", "jobs/1/start"),
    ("POST", "jobs/1/stop"),
    ("POST", "jobs/1/run"),
    ("PUT", "schedule/pause"),
    ("PUT", "calendars/1"),
]


@pytest.mark.parametrize(("method", "path"), BODIES)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"name": "\\ud800"}', 400),
        (b'{"name": "\xff"}', 400),
        (b'{"name": NaN}', 400),
        (b"{'name': 1}", 400),
        (b'{"name": 1e999}', 400),
        (b"[" * 50_000, 400),
        (b"[]", 422),
        (b'"text"', 422),
        (b"null", 422),
        (b"5", 422),
        (BIG, 413),
    ],
)
def test_a_body_that_is_no_object_is_refused(
    api: Api, job: dict[str, Any], method: str, path: str, body: bytes, status: int
) -> None:
    problem = check(api, method, path, body, status, "body")
    limit = MAX_CALENDAR_BYTES if path.startswith("calendars/") else LIMIT
    assert problem.get("limit") == ({"max_bytes": limit} if status == 413 else None)


@pytest.mark.parametrize(("method", "path"), BODIES)
def test_a_large_body_without_a_length_is_refused(api: Api, job: dict[str, Any], method: str, path: str) -> None:
    extras = {"wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    check(api, method, path, BIG, 413, "body", extras=extras)


@pytest.mark.parametrize(("method", "path"), BODIES[:4])
def test_a_missing_body_is_malformed(api: Api, job: dict[str, Any], method: str, path: str) -> None:
    check(api, method, path, None, 400, "body")


@pytest.mark.parametrize("length", ["-1", "many", "1e3"])
def test_a_wrong_length_is_refused(api: Api, length: str) -> None:
    environ = falcon.testing.create_environ(
        "/api/v1/groups", method="POST", body="{}", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    environ["CONTENT_LENGTH"] = length
    start = falcon.testing.StartResponseMock()
    (content,) = api.management.app(environ, start)
    assert start.status == "400 Bad Request"
    assert b"urn:xwheel:problem:bad-request" in content


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("groups", "limit=0", "limit"),
        ("groups", "limit=1001", "limit"),
        ("groups", "limit=many", "limit"),
        ("groups", "limit=1&limit=2", "limit"),
        ("groups", "after=-1", "after"),
        ("groups", "after=9007199254740992", "after"),
        ("groups", "sort=title", "sort"),
        ("jobs", "group_id=x", "group_id"),
        ("jobs", "group_id=", "group_id"),
        ("jobs", "name=%00", "name"),
        ("jobs", "name=" + "x" * 129, "name"),
        ("jobs", "enabled=1", "enabled"),
        ("jobs", "enabled=null", "enabled"),
        ("jobs", "group_id=null", "group_id"),
        ("jobs", "group_id=1e2", "group_id"),
        ("jobs", "colour=red", "colour"),
        ("runs", "origin=null", "origin"),
        ("runs", "state=failed,nobody", "state"),
        ("runs", "state=failed&state=lost", "state"),
        ("runs", "address=a%20b", "address"),
        ("runs", "state=exploded", "state"),
        ("runs", "state=PLANNED", "state"),
        ("runs", "job_id=0", "job_id"),
        ("runs", "after=5", "after"),
        ("runs", "after=1-2;drop", "after"),
        ("runs/1/log", "from_line=0", "from_line"),
        ("runs/1/log", "from_line=2147483648", "from_line"),
        ("runs/1/log", "address=http://evil", "address"),
        ("calendars", "after=", "after"),
        ("calendars", "after=a/b", "after"),
        ("calendars", "limit=0", "limit"),
        ("calendars/-x", "", "name"),
        ("calendars/" + "x" * 65, "", "name"),
        ("calendars/%00", "", "name"),
        ("calendars/a%20b", "", "name"),
    ],
)
def test_a_bad_query_is_refused(api: Api, path: str, query: str, field: str) -> None:
    api.running(1)
    check(api, "GET", path, None, 422, field, query_string=query)


@pytest.mark.parametrize(
    "path",
    [
        "jobs/0",
        "jobs/-1",
        "jobs/x",
        "jobs/1.5",
        "jobs/9007199254740992",
        "jobs/99999999999999999999999",
        "jobs/%00",
        "none",
        "",
    ],
)
def test_a_path_that_is_no_route_is_404(api: Api, job: dict[str, Any], path: str) -> None:
    problem = check(api, "GET", path or "/api/v1", None, 404, None)
    assert problem["type"] == "urn:xwheel:problem:unknown-route"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "groups", {"GET", "POST", "OPTIONS"}),
        ("PUT", "jobs/1", {"GET", "PATCH", "DELETE", "OPTIONS"}),
        ("GET", "jobs/1/start", {"POST", "OPTIONS"}),
        ("GET", "jobs/1/run", {"POST", "OPTIONS"}),
        ("POST", "runs", {"GET", "OPTIONS"}),
        ("DELETE", "runs/1/log", {"GET", "OPTIONS"}),
        ("POST", "schedule/pause", {"GET", "PUT", "DELETE", "OPTIONS"}),
        ("POST", "schedule/preview", {"GET", "OPTIONS"}),
        ("POST", "calendars", {"GET", "OPTIONS"}),
        ("POST", "calendars/cn", {"GET", "PUT", "DELETE", "OPTIONS"}),
    ],
)
def test_a_wrong_method_is_405_with_the_right_ones(
    api: Api, job: dict[str, Any], method: str, path: str, allowed: set[str]
) -> None:
    problem = check(api, method, path, None, 405, None)
    assert problem["type"] == "urn:xwheel:problem:method-not-allowed"
    assert set(api.call(method, path).headers["allow"].split(", ")) == allowed


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "multipart/form-data"])
def test_the_content_type_is_not_looked_at(api: Api, content_type: str) -> None:
    answer = api.call("POST", "groups", {"app_name": "demo"}, headers={"Content-Type": content_type})
    assert answer.status_code == 201


def test_an_unexpected_failure_tells_only_its_incident(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, job: dict[str, Any]
) -> None:
    def fail(self: object, job_id: int, *, revision: int | None) -> None:
        raise RuntimeError("postgresql://user:secret@host")

    monkeypatch.setattr(JobManager, "start", fail)
    problem = check(api, "POST", f"jobs/{job['id']}/start", None, 500, None)
    assert problem["type"] == "urn:xwheel:problem:internal"
    assert "secret" not in str(problem)
    assert problem["incident"] in caplog.text
    assert "postgresql://user:secret@host" in caplog.text


@pytest.mark.parametrize("error", [StorageError("lost the race"), LockError("held")])
def test_a_busy_database_is_503_and_may_be_tried_again(
    api: Api, monkeypatch: pytest.MonkeyPatch, job: dict[str, Any], error: Exception
) -> None:
    def fail(self: object, job_id: int, *, revision: int | None) -> None:
        raise error

    monkeypatch.setattr(JobManager, "start", fail)
    problem = check(api, "POST", f"jobs/{job['id']}/start", None, 503, None)
    assert problem["type"] == "urn:xwheel:problem:storage"
    assert api.call("POST", f"jobs/{job['id']}/start").headers["retry-after"] == "1"


PLACE = "db.internal:5432"


@pytest.mark.parametrize("token", ["wrong", "x" * 300, None])
@pytest.mark.parametrize("kind", [DatabaseUnreachableError, DatabaseRefusedError, DatabaseReadOnlyError])
def test_s28_nobody_hears_from_an_answer_where_the_database_is(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    kind: type[Exception],
    token: str | None,
) -> None:
    """S28: a wrong token was answered with host, port and user."""
    words = f"the database at {PLACE} does not know this user {kind.__name__} {token}"

    def fail(*_: object, **__: object) -> NoReturn:
        raise kind(words)

    for name in ("read", "transaction"):
        monkeypatch.setattr(Database, name, fail)
    headers = {} if token is None else {"Authorization": f"Bearer {token}", TOKEN_HEADER: token}
    asked = api.management.simulate_get("/api/v1/jobs", headers=headers)
    answers = [asked] + [
        api.executor.simulate_post(f"/api/{call}", body=b"{}", headers=headers)
        for call in ("registry", "registryRemove", "callback", "shipLogs", "nothing")
    ]
    if token is None:  # one that may call
        answers.append(api.call("GET", "jobs"))
    assert 503 in {answer.status_code for answer in answers}
    assert not [answer.text for answer in answers if PLACE in answer.text or "user" in answer.text]
    assert words in caplog.text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from(
    [
        *("name", "group_id", "schedule_type", "schedule_conf", "timezone", "start_ms", "handler", "enabled"),
        *("calendar_exclude", "jitter_ms", "holidays", "weekdays", "dates", "times", "without"),
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=JSON | st.dictionaries(KNOWN | st.text(max_size=5), JSON, max_size=5))
def test_no_json_makes_a_server_error(api: Api, body: Any) -> None:
    for method, path in BODIES:
        answer = api.call(method, path, body)
        assert answer.status_code < 500, (method, path, body, answer.text)
    assert api.report_in("/api/callback", body).status_code == 200
    assert api.report_in("/api/registry", body).json["code"] == 500
