"""The executor's side of the sync of declared jobs: what it sends when, and what it says of the answers."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from xwheel_devtools.testing.web import WebRequest, WebServer, web_reply

from xwheel.config.sections import ExecutorSection
from xwheel.executor import job
from xwheel.executor.declarations import Declaration
from xwheel.executor.handlers import MARK
from xwheel.executor.reporting.job_sync import POLL_MS, RETRY_MS, JobSync

TOKEN = "the-token-of-the-group"


@job("report", cron="0 2 * * *")
def report() -> None: ...


@job("broken", cron="0 2 * * *", tymezone="UTC")
def broken() -> None: ...


def declarations() -> list[Declaration]:
    return [getattr(function, MARK).declaration for function in (report, broken)]


def answer(standing: str = "owns", **fields: Any) -> dict[str, Any]:
    return {
        "standing": standing, "other": None, "until_ms": None, "needs_jobs": False, "steps": [], "problems": [],
        "conflicts": [], **fields,
    }  # fmt: skip


class Node:
    """A node that answers what a test says, and keeps what it was sent."""

    def __init__(self) -> None:
        self.server = WebServer()
        self.says(answer())

    def says(self, document: object, status: int = 200) -> None:
        self.server.reply = web_reply(status, document)

    def take(self) -> list[dict[str, Any]]:
        found = [request.document for request in self.server.requests]
        self.server.requests.clear()
        return found

    def requests(self) -> list[WebRequest]:
        return self.server.requests


@pytest.fixture
def node() -> Any:
    made = Node()
    yield made
    made.server.close()


def syncing(*urls: str, is_registered: bool = True) -> JobSync:
    return JobSync(
        ExecutorSection(sync_addresses=list(urls), app_name="orders", release="1.4", sync_s=30),
        token=TOKEN,
        declarations=declarations(),
        instance="i-1",
        is_registered=lambda: is_registered,
    )


def said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    found = [record.getMessage() for record in caplog.records if record.levelno >= level]
    caplog.clear()
    return found


def test_everything_goes_once_and_then_signs_of_life(node: Node) -> None:
    sync = syncing(node.server.url)
    assert not sync.is_taken
    assert sync.step(0) == 30_000
    assert sync.is_taken
    assert node.requests()[0].headers["Authorization"] == f"Bearer {TOKEN}"
    (first,) = node.take()
    assert [item["name"] for item in first["jobs"]] == ["report"]
    assert [item["field"] for item in first["broken"]] == ["tymezone"]
    assert (first["release"], first["digest"], first["instance"]) == ("1.4", sync.digest, "i-1")
    sync.step(0)
    assert [document.keys() for document in node.take()] == [{"app_name", "release", "digest", "instance"}]


def test_a_node_that_wants_the_jobs_gets_them_at_once(node: Node) -> None:
    sync = syncing(node.server.url)
    node.says(answer("waits", other={"release": "2.0", "digest": "b" * 64}))
    sync.step(0)
    node.says(answer(needs_jobs=True))
    assert sync.step(0) == 0
    sync.step(0)
    assert ["jobs" in document for document in node.take()] == [True, False, True]


def test_nothing_is_sent_before_the_executor_is_registered(node: Node) -> None:
    assert syncing(node.server.url, is_registered=False).step(0) == POLL_MS
    assert node.take() == []


def test_another_node_is_asked_if_the_first_cannot_be_reached(node: Node) -> None:
    sync = syncing("http://127.0.0.1:9", node.server.url)
    assert sync.step(0) == 30_000
    assert len(node.take()) == 1


def test_what_cannot_be_sent_is_tried_again_and_said_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sync = syncing("http://127.0.0.1:9")
    for _ in range(3):
        assert sync.step(0) == RETRY_MS
    (line,) = said(caplog, logging.ERROR)
    assert "executor.sync_addresses: http://127.0.0.1:9 cannot be reached" in line
    assert "--url" not in line
    for document in ([], {"standing": "owns"}, {"standing": 5, "other": None, "conflicts": 7}):
        node.says(document)
        assert syncing(node.server.url).step(0) == RETRY_MS


def test_a_token_that_is_refused_is_named_and_never_shown(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    problem = {"detail": f"Authorization: this token is not of group orders {TOKEN}"}
    node.says(problem, 401)
    syncing(node.server.url).step(0)
    (line,) = said(caplog, logging.ERROR)
    assert "executor.sync_token is refused: this token is not of group orders" in line
    assert "xwheel token create NAME --group orders --to-file FILE" in line
    assert TOKEN not in line


def test_a_release_that_cannot_be_compared_is_named_by_its_setting(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.says({"field": "release", "detail": "release: must be a version"}, 422)
    syncing(node.server.url).step(0)
    assert said(caplog, logging.ERROR) == [
        "the jobs that code declares are not synced: executor.release: must be a version"
    ]


def test_conflicts_and_problems_are_loud_once_and_again_when_they_change(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sync = syncing(node.server.url)
    wrong = {"name": "report", "place": "x", "field": "schedule_conf", "reason": "hour: 25"}
    other = {"release": "1.4", "digest": "b" * 64}
    node.says(answer(problems=[wrong]))
    sync.step(0)
    (line,) = said(caplog, logging.ERROR)
    assert line.startswith("job 'report' (tests.unit.executor.reporting.test_job_sync:report): cron: hour: 25")
    node.says(answer("conflicts", other=other))
    for _ in range(2):
        sync.step(0)
    (line,) = said(caplog, logging.WARNING)
    assert "release 1.4 (bbbbbbbb) declares other jobs than this build" in line
    node.says(answer(conflicts=[other]))
    for _ in range(2):
        sync.step(0)
    (line,) = said(caplog, logging.WARNING)
    assert "live executors of the same release 1.4 declare other jobs" in line
    node.says(answer("waits", other=other, until_ms=5))
    sync.step(0)
    assert "is kept a while, though gone" in said(caplog, logging.INFO)[-1]
