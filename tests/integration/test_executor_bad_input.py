"""What must not harm an executor: each call has a stated answer, and the next good one works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.admins import APP_NAME, TOKEN, FakeAdmin, raw_call, trigger
from tests.support.executors import executor_of, make_executor
from xwheel.errors import ConfigError, LockError
from xwheel.executor import Executor, JobContext, job

PATHS = ["/beat", "/idleBeat", "/run", "/trigger", "/kill", "/log", "/runBatch", "/runState"]


@job("size")
def size(ctx: JobContext) -> int:
    return len(ctx.param)


@pytest.fixture(scope="module")
def admin() -> Iterator[FakeAdmin]:
    with FakeAdmin() as admin:
        yield admin


@pytest.fixture(scope="module")
def executor(admin: FakeAdmin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Executor]:
    with executor_of(admin, tmp_path_factory.mktemp("data"), [size], max_body_bytes=2_000_000) as executor:
        yield executor


@pytest.fixture(autouse=True)
def _still_alive(admin: FakeAdmin, executor: Executor) -> Iterator[None]:
    yield
    log_id = 1_000_000 + len(admin.bodies)
    assert admin.run(executor.address, "size", log_id, executorParams="abc")["code"] == 200
    assert admin.outcome(log_id)["handleMsg"] == "3"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", [None, "", "wrong", TOKEN[:-1], TOKEN + "x", "default_token"])
def test_without_the_token_nothing_is_answered(executor: Executor, path: str, token: str | None) -> None:
    body = json.dumps(trigger("size", 1)).encode()
    status, reply = raw_call(executor.address, path, body, token=token)
    answer = json.loads(reply)
    assert (status, answer["code"], answer["msg"]) == (200, 500, "The access token is wrong.")
    assert TOKEN not in reply.decode()


def test_a_call_for_another_app_is_refused(executor: Executor) -> None:
    for app_name, code in ((APP_NAME, 200), ("another-app", 500)):
        _, reply = raw_call(executor.address, "/beat", None, app_name=app_name)
        assert json.loads(reply)["code"] == code


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_other_methods_are_refused(executor: Executor, method: str) -> None:
    status, reply = raw_call(executor.address, "/run", None, method=method)
    assert status == 200
    if method != "HEAD":
        assert json.loads(reply)["msg"] == "invalid request, HttpMethod not support."


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/", "invalid request, uri-mapping empty."),
        ("/run/", "invalid request, uri-mapping(/run/) not found."),
        ("/nothing", "invalid request, uri-mapping(/nothing) not found."),
    ],
)
def test_paths_match_exactly(executor: Executor, path: str, text: str) -> None:
    _, reply = raw_call(executor.address, path, b"{}")
    assert json.loads(reply)["msg"] == text


@pytest.mark.parametrize("path", [path for path in PATHS if path != "/beat"])
@pytest.mark.parametrize("body", [None, b"", b"   ", b"{", b"[]", b"3", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_bodies_that_are_no_object(executor: Executor, path: str, body: bytes | None) -> None:
    status, reply = raw_call(executor.address, path, body)
    assert (status, json.loads(reply)["code"]) == (200, 500)


@pytest.mark.parametrize("body", [None, b"", b'""', b"{}"])
def test_beat_needs_no_body(executor: Executor, body: bytes | None) -> None:
    _, reply = raw_call(executor.address, "/beat", body)
    assert json.loads(reply)["code"] == 200


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"jobId": None}, "jobId: "),
        ({"jobId": "x"}, "jobId: "),
        ({"jobId": 0}, "jobId: "),
        ({"logId": -1}, "logId: "),
        ({"logId": 2**53}, "logId: "),
        ({"logId": True}, "logId: "),
        ({"logId": [1]}, "logId: "),
        ({"logDateTime": "yesterday"}, "logDateTime: "),
        ({"executorTimeout": 1.5}, "executorTimeout: "),
        ({"executorParams": {"a": 1}}, "executorParams: "),
        ({"executorHandler": "x" * 300}, "executorHandler: "),
        ({"executorHandler": "unknown"}, "job handler [unknown] not found."),
        ({"executorHandler": ""}, "job handler [] not found."),
        ({"glueType": "GLUE_SHELL", "glueSource": "touch /tmp/owned"}, "glueType[GLUE_SHELL] is not valid."),
        ({"glueType": "PERL"}, "glueType[PERL] is not valid."),
        ({"broadcastIndex": 3, "broadcastTotal": 3}, "broadcastIndex: "),
    ],
)
def test_triggers_that_cannot_be_run(admin: FakeAdmin, executor: Executor, fields: dict[str, Any], text: str) -> None:
    answer = admin.call(executor.address, "/run", {**trigger("size", 77), **fields})
    assert answer["code"] == 500
    assert answer["msg"].startswith(text)
    batch = {"instance": executor.instance, "runs": [{**trigger("size", 77), **fields}]}
    (found,) = admin.call(executor.address, "/runBatch", batch)["data"]["runs"] or [{"code": 500, "msg": text}]
    assert found["code"] == 500
    assert found["msg"].startswith(text)
    assert admin.outcomes_of(77) == []


def test_numbers_in_quotes_and_missing_fields_are_fine(admin: FakeAdmin, executor: Executor) -> None:
    message = {"jobId": "5", "logId": "78", "logDateTime": "1790000000000", "executorHandler": "size", "new": {"a": 1}}
    assert admin.call(executor.address, "/run", message)["code"] == 200
    assert admin.outcome(78)["handleMsg"] == "0"


def test_a_parameter_of_a_megabyte(admin: FakeAdmin, executor: Executor) -> None:
    assert admin.run(executor.address, "size", 79, executorParams="x" * 1_000_000)["code"] == 200
    assert admin.outcome(79)["handleMsg"] == "1000000"


def test_a_body_that_is_too_large(executor: Executor) -> None:
    body = json.dumps(trigger("size", 80, executorParams="x" * 2_000_000)).encode()
    try:
        status, _ = raw_call(executor.address, "/run", body)
    except (BrokenPipeError, ConnectionResetError):
        return  # the server said 413 and hung up while we were still sending
    assert status == 413


def test_one_bad_run_of_a_batch_fails_alone(admin: FakeAdmin, executor: Executor) -> None:
    runs = [
        trigger("size", 90),
        {"logId": 91},
        "rubbish",
        trigger("unknown", 92),
        trigger("size", 93),
        trigger("size", 90),
    ]
    reply = admin.call(executor.address, "/runBatch", {"instance": executor.instance, "runs": runs})
    assert reply["code"] == 200
    codes: dict[int, int] = {item["id"]: item["code"] for item in reply["data"]["runs"]}
    assert codes == {90: 200, 91: 500, 92: 500, 93: 200}
    admin.outcome(90)
    admin.outcome(93)
    assert len(admin.outcomes_of(90)) == 1


def test_logs_of_unknown_runs(admin: FakeAdmin, executor: Executor) -> None:
    for log_id in (424242, 1):
        request = {"logId": log_id, "logDateTim": 0, "fromLineNum": 1}
        data = admin.call(executor.address, "/log", request)["data"]
        assert data["logContent"] == "readLog fail, logFile not exists"
        assert (data["toLineNum"], data["isEnd"]) == (0, True)
    far = {"logId": 424242, "logDateTim": 253_402_300_799_999, "fromLineNum": -5}
    assert admin.call(executor.address, "/log", far)["data"]["isEnd"]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"access_token": ""}, "access_token"),
        ({"access_token": "default_token"}, "access_token"),
        ({"access_token": "short"}, "access_token"),
        ({"app_name": " "}, "app_name"),
        ({"admin_addresses": []}, "admin_addresses"),
        ({"prot": 1}, "did you mean port"),
        ({"port": 99999}, "port"),
    ],
)
def test_an_executor_that_cannot_be_safe_does_not_start(
    admin: FakeAdmin, tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text) as refused:
        make_executor(admin, tmp_path, [size], **settings).start()
    assert "short" not in str(refused.value)


def test_one_process_per_journal(admin: FakeAdmin, executor: Executor, tmp_path: Path) -> None:
    with executor_of(admin, tmp_path, [size]), pytest.raises(LockError):
        make_executor(admin, tmp_path, [size]).start()


# waitress leaves the socket to the garbage collector when it cannot bind
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_taken_port_leaves_nothing_open(admin: FakeAdmin, executor: Executor, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot listen"):
        make_executor(admin, tmp_path, [size], port=executor.port).start()
    with executor_of(admin, tmp_path, [size]):
        pass
