"""A service that is away, slow, refuses or knows less: an error in bounded time that names the reason and no secret."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import SECRET, Make, Server, read_log
from meddling import Meddling, Request, error
from xwheel.plugin import ConfigError, read_options
from xwheel_devtools.testing import sample_log_chunk, sample_log_key
from xwheel_run_logs import LogKey

from xwheel_log_s3.options import Options
from xwheel_log_s3.store import LogS3Error, S3Logs

PARALLEL = 4
PATIENCE_S = 60
"""Ends a test whose call never comes back; the calls' own limit is a second."""


def failure_of(call: Callable[[], object]) -> str:
    """Return how a call fails; it must come back, and say no secret."""
    found: list[object] = []

    def go() -> None:
        try:
            found.append(call())
        except LogS3Error as error:
            found.append(error)

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the call waits for ever"
    (failure,) = found
    assert isinstance(failure, LogS3Error), failure
    assert SECRET not in str(failure)
    return str(failure)


def waiting_in(listener: socket.socket) -> int:
    """Return how many connections came, and close them."""
    listener.settimeout(0)
    count = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            listener.accept()[0].close()
            count += 1
    return count


def test_nothing_listens(bucket: str, make: Make) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    store = make(bucket, endpoint_url=f"http://127.0.0.1:{port}", attempts=1)
    said = failure_of(lambda: store.append([sample_log_chunk(sample_log_key(), 1, ["a line"])]))
    assert f"127.0.0.1:{port}" in said
    assert "Could not connect" in said


def test_a_service_that_never_answers(bucket: str, make: Make) -> None:
    """Five hundred logs wait no longer than one: after the first that failed no further one is asked for."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        store = make(bucket, endpoint_url=url, attempts=1, read_timeout_s=0.5, parallel=PARALLEL)
        keys = [sample_log_key(number) for number in range(500)]
        for call, most in (
            (lambda: store.append([sample_log_chunk(key, 1, ["a line"]) for key in keys]), PARALLEL),
            (lambda: store.read(keys[0], 1, 100), 1),
            (lambda: store.find(keys[0]), 1),
            (lambda: store.delete(keys), PARALLEL),
        ):
            assert "Read timeout" in failure_of(call)
            assert 1 <= waiting_in(listener) <= most


def test_a_service_that_is_slow(bucket: str, make: Make, meddling: Meddling, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer comes in time, but not all of them: the call ends, and goes on where it was when it is repeated."""
    taken_s = 0.0

    def rule(request: Request) -> None:
        nonlocal taken_s
        taken_s += 0.25

    meddling.rule = rule
    store = make(bucket, endpoint_url=meddling.url, timeout_s=1, parallel=1)
    keys = [sample_log_key(number) for number in range(1, 101)]
    chunks = [sample_log_chunk(key, 1, ["a line"]) for key in keys]
    with monkeypatch.context() as patched:
        patched.setattr("xwheel_log_s3.parallel.time", SimpleNamespace(monotonic=lambda: taken_s))
        assert "not done within 1 s" in failure_of(lambda: store.append(chunks))
    assert len(meddling.seen) == 4  # none was begun once the second was over
    assert make(bucket).append(chunks) == [2] * 100


def test_a_failure_that_passes_is_not_seen(bucket: str, make: Make, meddling: Meddling) -> None:
    failed = threading.Event()

    def rule(request: Request) -> tuple[int, bytes] | None:
        if failed.is_set():
            return None
        failed.set()
        return error(503, "SlowDown", "Please reduce your request rate.")

    meddling.rule = rule
    assert make(bucket, endpoint_url=meddling.url).append([sample_log_chunk(sample_log_key(), 1, ["x"])]) == [2]
    assert len(meddling.seen) == 2


def test_a_service_that_fails_for_some_logs(bucket: str, make: Make, meddling: Meddling) -> None:
    """The call fails; repeated, it finds what was kept."""
    keys = [sample_log_key(number) for number in range(1, 21)]
    meddling.rule = lambda request: (
        error(500, "InternalError") if f"/13-{keys[12].created_ms}/" in request.path else None
    )
    store = make(bucket, endpoint_url=meddling.url, attempts=1)
    chunks = [sample_log_chunk(key, 1, ["first"]) for key in keys]
    with pytest.raises(LogS3Error, match="InternalError"):
        store.append(chunks)
    meddling.rule = lambda request: None
    assert store.append(chunks) == [2] * 20
    assert store.append([sample_log_chunk(key, 2, ["second"]) for key in keys]) == [3] * 20
    assert [read_log(store, key) for key in keys] == ["first\nsecond\n"] * 20


def test_wrong_credentials_are_told_without_the_secret(
    bucket: str, make: Make, meddling: Meddling, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    words = f"The signature of testing with {SECRET} does not match"
    meddling.rule = lambda request: error(403, "SignatureDoesNotMatch", words)
    store = make(bucket, endpoint_url=meddling.url)
    for call in (
        lambda: store.append([sample_log_chunk(sample_log_key(), 1, ["x"])]),
        lambda: store.read(sample_log_key(), 1, 100),
        lambda: store.find(sample_log_key()),
        lambda: store.delete([sample_log_key()]),
    ):
        with pytest.raises(LogS3Error, match="SignatureDoesNotMatch: The signature") as caught:
            call()
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value.__cause__)
    assert SECRET not in caplog.text


def test_no_credentials_anywhere(bucket: str, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(LogS3Error, match="(?i)credentials"):
        make(bucket, access_key_id=None, secret_access_key=None).find(sample_log_key())


def test_credentials_of_the_environment_are_taken(
    bucket: str, make: Make, meddling: Meddling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "from-the-environment")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    make(bucket, endpoint_url=meddling.url, access_key_id=None, secret_access_key=None).find(sample_log_key())
    assert "Credential=from-the-environment/" in meddling.seen[0].headers["Authorization"]


def test_a_bucket_that_is_not_there(make: Make) -> None:
    store = make("no-such-bucket")
    with pytest.raises(LogS3Error, match="no-such-bucket at http.*NoSuchBucket"):
        store.append([sample_log_chunk(sample_log_key(), 1, ["x"])])
    with pytest.raises(LogS3Error, match="NoSuchBucket"):
        store.find(sample_log_key())


@pytest.mark.parametrize(("status", "code"), [(501, "NotImplemented"), (400, "InvalidArgument")])
def test_a_service_that_refuses_conditions(bucket: str, make: Make, meddling: Meddling, status: int, code: str) -> None:
    """It is asked once more without them, and never with them again."""
    meddling.rule = lambda request: error(status, code) if "If-None-Match" in request.headers else None
    store = make(bucket, endpoint_url=meddling.url, attempts=1)
    for number in range(1, 4):
        key = sample_log_key(number)
        assert store.append([sample_log_chunk(key, 1, ["first"])]) == [2]
        assert read_log(store, key) == "first\n"
    assert sum("If-None-Match" in request.headers for request in meddling.seen) == 1


def test_a_service_that_deletes_one_object_at_a_time(
    server: Server, bucket: str, make: Make, meddling: Meddling
) -> None:
    meddling.rule = lambda request: error(501, "NotImplemented") if request.method == "POST" else None
    store = make(bucket, endpoint_url=meddling.url, attempts=1)
    keys = [sample_log_key(number) for number in range(1, 31)]
    store.append([sample_log_chunk(key, 1, ["first"]) for key in keys])
    for _ in range(2):
        store.delete(keys)
    assert server.names(bucket) == []
    assert meddling.count("POST") == 1


def test_objects_that_may_not_be_deleted(bucket: str, make: Make, meddling: Meddling) -> None:
    told = b"<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>"
    meddling.rule = lambda request: (200, told) if request.method == "POST" else None
    store = make(bucket, endpoint_url=meddling.url)
    keys = [sample_log_key(1), sample_log_key(2)]
    store.append([sample_log_chunk(key, 1, ["first"]) for key in keys])
    with pytest.raises(LogS3Error, match="cannot delete a: AccessDenied: locked"):
        store.delete(keys)


def test_a_damaged_object(server: Server, bucket: str, make: Make) -> None:
    store, key = make(bucket), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["first"])])
    (name,) = server.names(bucket)
    server.client.put_object(Bucket=bucket, Key=name, Body=b"no gzip")
    with pytest.raises(LogS3Error, match=f"{name} cannot be decompressed"):
        store.read(key, 1, 100)


def _append_in_child(store: S3Logs, run_id: int, created_ms: int, said: Any) -> None:
    key = LogKey(run_id, created_ms)
    said.put(store.append([sample_log_chunk(key, 2, ["child"])]))


def test_a_forked_process_opens_connections_of_its_own(bucket: str, make: Make) -> None:
    store, key = make(bucket), sample_log_key()
    store.append([sample_log_chunk(key, 1, ["parent"])])
    context = get_context("fork")
    said = context.Queue()
    child = context.Process(target=_append_in_child, args=(store, key.run_id, key.created_ms, said))
    child.start()
    assert said.get(timeout=60) == [3]
    child.join(60)
    assert read_log(store, key) == "parent\nchild\n"


# -- options


def refusal(**options: Any) -> str:
    from xwheel import Config

    with pytest.raises(ConfigError) as caught:
        read_options(Config(plugins={"options": {"log_s3": options}}), "log_s3", Options)  # type: ignore[arg-type]
    return str(caught.value)


def test_options_that_are_refused() -> None:
    assert "log_s3.bucket" in refusal(bucket="no bucket")
    assert "log_s3.prefix" in refusal(prefix="/from/the/root")
    assert "log_s3.endpoint_url" in refusal(endpoint_url="minio:9000")
    assert "log_s3.endpoint_url" in refusal(endpoint_url="https://user:canary@minio:9000")
    assert "canary" not in refusal(endpoint_url="https://user:canary@minio:9000")
    assert "belong together" in refusal(access_key_id="x")
    assert "belong together" in refusal(secret_access_key="x")
    assert "parallel" in refusal(parallel=0)


def test_a_bucket_is_needed_where_the_store_is_chosen(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"plugins\.options\.log_s3\.bucket: is missing"):
        make("").check()
    make("logs").check()


def test_the_secret_is_never_shown(tmp_path: Any) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    options = Options(access_key_id="x", secret_access_key_file=file)
    assert options.secret_access_key is not None
    assert options.secret_access_key.get_secret_value() == SECRET
    assert SECRET not in repr(options) + options.model_dump_json()
