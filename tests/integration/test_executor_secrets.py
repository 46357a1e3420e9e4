"""The token appears nowhere: not in logs, not in answers, not in errors, whatever the other side does."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.support.admins import FakeAdmin, raw_call
from tests.support.executor_app import HANDLERS
from tests.support.executors import executor_of, make_executor, wait_until
from xwheel.errors import ConfigError
from xwheel.executor import JobContext, job

CANARY = "canary-5f1d0c9e7b-never-to-be-seen"


@job("asks")
def asks(ctx: JobContext) -> None:
    raise ValueError(ctx.param)


def test_the_token_appears_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answers: list[bytes] = []
    data = tmp_path / "data"
    # this scheduler knows another token, so it refuses every beat, outcome and farewell
    with FakeAdmin() as admin, executor_of(admin, data, [asks, *HANDLERS], access_token=CANARY, beat_s=0.1) as executor:
        for path in ("/run", "/runBatch", "/runState", "/kill", "/log", "/idleBeat", "/nothing"):
            for token in (CANARY, CANARY[:-1], CANARY + "x", None):
                answers += [
                    raw_call(executor.address, path, body, token=token)[1]
                    for body in (b"{", b"[]", b'{"jobId": 1}', None)
                ]
        run = {"jobId": 1, "logId": 1, "logDateTime": 1, "executorHandler": "asks", "executorParams": "x"}
        answers.append(raw_call(executor.address, "/run", json.dumps(run).encode(), token=CANARY)[1])
        wait_until(lambda: "outcomes wait for a scheduler" in caplog.text)
        assert CANARY not in repr(executor) + str(vars(executor)["_settings"])
    assert "not registered" in caplog.text
    assert CANARY not in caplog.text
    assert all(CANARY.encode() not in answer for answer in answers)
    for path in data.rglob("*"):
        assert path.is_dir() or CANARY.encode() not in path.read_bytes(), path


def test_a_scheduler_that_repeats_the_token_does_not_get_it_into_our_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with FakeAdmin() as admin:
        admin._check_caller = lambda headers: f"token {headers['XXL-JOB-ACCESS-TOKEN']} is wrong"  # type: ignore[method-assign]
        with executor_of(admin, tmp_path, [asks], access_token=CANARY, beat_s=0.1):
            wait_until(lambda: "not registered" in caplog.text)
    assert CANARY not in caplog.text


def test_a_setting_that_is_refused_is_not_repeated(tmp_path: Path) -> None:
    with FakeAdmin() as admin, pytest.raises(ConfigError) as refused:
        make_executor(admin, tmp_path, [asks], access_token=CANARY, port="none").start()
    assert CANARY not in str(refused.value)
