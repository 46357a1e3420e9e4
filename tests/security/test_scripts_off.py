"""T3: an executor whose settings allow nothing runs no script, whatever its plugins can do, and says so."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN
from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.executor.handlers import Handler
from xwheel.executor.intake.endpoints import Endpoints
from xwheel.plugin import Command, GlueRequest, HandlerLookup
from xwheel.wire import codec
from xwheel.wire.contract import TOKEN_HEADER
from xwheel.wire.messages import TriggerRequest

SCRIPTS = ("GLUE_SHELL", "GLUE_PYTHON", "GLUE_PYTHON2", "GLUE_NODEJS", "GLUE_PHP", "GLUE_POWERSHELL")
INSTANCE = "instance-1"


class AnyScript:
    """A glue type that would run what it gets."""

    takes_source = True

    def __init__(self, name: str) -> None:
        self.name = name

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Command:
        raise AssertionError(f"{self.name} is built")


class Nothing:
    """Workers and journal of an executor that must not be asked to run anything."""

    instance = INSTANCE
    boot = "boot-1"

    clock = ManualClock()

    def accept(self, items: list[Any], _received_ms: int | None = None) -> list[Any]:
        assert not any(isinstance(found, Handler) for _, found in items)
        return [problem for _, problem in items]


def endpoints() -> Endpoints:
    nothing: Any = Nothing()
    settings = build_config({}).executor
    assert list(settings.allowed_glue_types) == []
    return Endpoints(
        token=EXECUTOR_TOKEN,
        app_name="demo",
        workers=nothing,
        journal=nothing,
        logs=nothing,
        handlers=nothing,
        glue_types={name: AnyScript(name) for name in SCRIPTS},
        allowed=settings.allowed_glue_types,
    )


def request_of(glue_type: str) -> TriggerRequest:
    return TriggerRequest(
        job_id=7,
        run_id=70,
        created_ms=1,
        handler="",
        param="",
        glue_type=glue_type,
        glue_source="echo pwned",
        glue_updated_ms=1,
        shard_index=0,
        shard_total=1,
    )


@pytest.mark.parametrize("path", ["/run", "/trigger", "/runBatch"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_default_executor_refuses_every_script(path: str, name: str, caplog: pytest.LogCaptureFixture) -> None:
    request = request_of(name)
    body = codec.encode_trigger(request)
    if path == "/runBatch":
        body = codec.encode_batch(INSTANCE, [request])
    with caplog.at_level(logging.WARNING):
        answer = endpoints().answer("POST", path, {TOKEN_HEADER: EXECUTOR_TOKEN}.get, lambda: body)
    message = answer.message
    if path == "/runBatch":
        (item,) = codec.read_batch_reply(answer.data).answers
        assert not item.ok
        message = item.message
    else:
        assert answer.code == 500
    assert message == (
        f"glue type {name} is not allowed on this executor: its setting executor.allowed_glue_types must name it"
    )
    # the scheduler keeps this message in the refused run's row; here the log tells
    assert f"run 70 of job 7 refused: glue type {name}" in caplog.text


@pytest.mark.parametrize("name", ["GLUE_GROOVY", "glue_shell", "GLUE_SHELL ", "", "BEAN\0", "../GLUE_SHELL"])
def test_no_other_spelling_gets_through(name: str) -> None:
    body = codec.encode_trigger(request_of(name))
    answer = endpoints().answer("POST", "/run", {TOKEN_HEADER: EXECUTOR_TOKEN}.get, lambda: body)
    assert answer.code == 500
    assert "is not valid" in str(answer.message) or "glueType" in str(answer.message)
