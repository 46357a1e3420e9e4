"""Logs that a plugin has: read through it, shipped to it, and what it says is checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import falcon
import falcon.testing
import pytest

from tests.component.api.conftest import EXECUTOR_TOKEN, TOKEN, Api
from tests.support.parts import with_parts
from tests.support.rows import NOW, make_executor, make_run
from xwheel.api.app import build_management_app, executor_app
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.site import RouteSite
from xwheel.api.schema.health import HealthReport
from xwheel.config import build_config
from xwheel.errors import ConfigError, LogStoreError, NotFoundError
from xwheel.model import Reporter, Run, RunState
from xwheel.plugin import (
    CALLER,
    LogAnswer,
    LogPart,
    LogReceipt,
    LogText,
    Operation,
    PluginSite,
    RegisteredExecutor,
    ResourceRoute,
)
from xwheel.plugin.registries import Registry
from xwheel.scheduler.executors.calls import Answered
from xwheel.wire import codec, contract
from xwheel.wire.codec import encode_log_parts
from xwheel.wire.contract import TOKEN_HEADER
from xwheel.wire.messages import LogData, RegistryRequest, Response

ADDRESS = "http://10.0.0.1:9999"


class Quiet:
    @Operation({204: None})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer nothing."""


class Keeper:
    """Has logs; ``read`` and ``take`` say what it answers."""

    name = "keeper"
    chapters: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.read: Callable[[Run, int], Any] = lambda run, line: LogText(line, line + 1, "kept\n", False, "store")
        self.take: Callable[[Sequence[LogPart]], Any] = lambda parts: [
            LogReceipt(run_id=part.run_id, next_line=7) for part in parts
        ]
        self.wants: Any = True
        self.taken: list[tuple[str, Reporter]] = []

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        self.site = site
        return [ResourceRoute("/keeper", Quiet(), {"GET": CALLER})]

    def read_log(self, run: Run, from_line: int) -> LogText:
        return self.read(run, from_line)  # type: ignore[no-any-return]

    def tail_log(self, run: Run, lines: int) -> LogText:
        return self.read(run, -lines)  # type: ignore[no-any-return]

    def wants_logs(self) -> bool:
        if isinstance(self.wants, BaseException):
            raise self.wants
        return self.wants  # type: ignore[no-any-return]

    def take_logs(self, instance: str, parts: Sequence[LogPart], reporter: Reporter) -> Sequence[LogReceipt]:
        self.taken.append((instance, reporter))
        return self.take(parts)  # type: ignore[no-any-return]


class Site:
    """Both applications with a plugin that has logs, and a run at an executor."""

    def __init__(self, api: Api) -> None:
        self.api, self.keeper = api, Keeper()
        registry = Registry("set of resources", {"keeper": self.keeper}, {"keeper": "the keeper"})
        plugins = dataclasses.replace(api.parts.plugins, resources=registry)
        self.parts = with_parts(api.parts, plugins=plugins)
        self.management = falcon.testing.TestClient(build_management_app(self.parts))
        self.executor = falcon.testing.TestClient(executor_app(self.parts))
        self.group_id = group = api.group()
        api.parts.registry.register("demo", make_executor(ADDRESS), NOW)
        api.runs(make_run(1, group_id=group, state=RunState.RUNNING, address=ADDRESS))

    def log(self, query: str = "") -> Any:
        return self.management.simulate_get(f"/api/v1/runs/1/log{query}", headers={"Authorization": f"Bearer {TOKEN}"})

    def call(self, name: str, body: bytes) -> Any:
        return self.executor.simulate_post(
            f"/xxl-job-admin/api/{name}", body=body, headers={TOKEN_HEADER: EXECUTOR_TOKEN}
        )

    def ship(self) -> Any:
        part = LogPart(run_id=1, created_ms=NOW, from_line=1, content="a\n")
        return self.call("shipLogs", encode_log_parts("instance-1", [part]))

    def beat(self) -> Any:
        request = RegistryRequest(
            group="EXECUTOR", app_name="demo", address=ADDRESS, instance="instance-1", boot="boot-1"
        )
        return self.call("registry", codec.encode_registry(request)).json


@pytest.fixture
def site(api: Api) -> Site:
    return Site(api)


def test_a_plugin_that_has_logs_is_read_first(site: Site) -> None:
    assert site.log("?from_line=3").json == {
        "run_id": 1,
        "from_line": 3,
        "next_line": 4,
        "content": "kept\n",
        "is_end": False,
        "place": "store",
        "note": "",
    }
    assert site.log("?tail=3").json["from_line"] == -3


def test_it_reads_at_executors_as_the_core_does(site: Site) -> None:
    site.api.asked.logs = lambda _, line: LogData(from_line=line, to_line=line, content="there\n", is_end=False)
    site.keeper.read = site.keeper.site.executors.logs.read_log
    assert (site.log().json["content"], site.log().json["place"]) == ("there\n", "executor")


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        (LogStoreError("the store is full"), 502, "the store is full"),
        (NotFoundError("thing", 5), 404, "thing 5 does not exist"),
        (SystemExit(3), 502, "logs of keeper failed: SystemExit: 3"),
        (None, 502, "a LogText is due, not an object of NoneType"),
        (("a",), 502, "a LogText is due, not an object of tuple"),
        (LogText("1", 2, "", False), 502, "a LogText is due"),  # type: ignore[arg-type]
    ],
)
def test_what_it_raises_and_returns_is_checked(site: Site, answer: Any, status: int, words: str) -> None:
    def read(run: Run, from_line: int) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    site.keeper.read = read
    found = site.log()
    assert (found.status_code, words in found.json["detail"]) == (status, True), found.text


def test_what_executors_ship_goes_to_it(site: Site) -> None:
    answer = site.ship().json
    assert (answer["code"], answer["data"]["logs"][0]["next"]) == (200, 7)
    assert site.keeper.taken == [("instance-1", Reporter(None))]


@pytest.mark.parametrize(
    "answer",
    [LogStoreError("the store is full"), SystemExit(3), KeyError("x"), None, ["nothing"], [LogReceipt(run_id=99)]],
)
def test_what_it_cannot_take_is_sent_again_later(site: Site, answer: Any) -> None:
    def take(parts: Sequence[LogPart]) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    site.keeper.take = take
    found = site.ship()
    assert (found.status_code, found.json["code"]) == (503, 500)
    assert found.json["msg"] == "the log store takes no lines now: send them again later"


@pytest.mark.parametrize(("wants", "told"), [(True, True), (False, False), ("yes", False), (SystemExit(), False)])
def test_executors_are_told_whether_to_ship(site: Site, wants: Any, told: bool) -> None:
    site.keeper.wants = wants
    assert site.beat()["data"] == {"shipLogs": told}


def test_without_a_plugin_nothing_is_wanted_taken_or_searched(api: Api) -> None:
    site = Site(api)
    site.executor = api.executor
    assert site.beat()["data"] == {"shipLogs": False}
    answer = site.ship().json
    assert (answer["code"], "no plugin that is installed here takes logs" in answer["msg"]) == (500, True)
    assert api.call("GET", "runs/1/log/search?text=a").status_code == 404


def test_a_store_that_no_plugin_uses_stops_the_start(api: Api) -> None:
    class Shared:
        config = build_config({"run_logs": {"store": "file"}})
        plugins = api.parts.plugins

    nothing: Any = None
    with pytest.raises(ConfigError, match=r"run_logs\.store: no plugin that is installed here keeps logs"):
        ApiParts(Shared, nothing, nothing, health=HealthReport)  # type: ignore[arg-type]


class Calls:
    """Calls of executors, and what comes back."""

    def __init__(self, *answers: Answered) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[object, str, str]] = []

    def ask(self, key: object, executor: RegisteredExecutor, path: str, body: bytes) -> None:
        self.asked.append((key, executor.address, path))

    def poll(self, timeout_ms: int) -> list[Answered]:
        return self.answers


def test_questions_go_to_live_executors_alone_and_answers_are_read(site: Site) -> None:
    good = {"fromLineNum": 1, "toLineNum": 1, "logContent": "a\n", "isEnd": True}
    calls = Calls(
        Answered(1, Response(code=200, data=good), "", 200),
        Answered(2, Response(code=500, message="no"), "", 200),
        Answered(3, None, "timed out", 0),
        Answered(4, Response(code=200, data="text"), "", 200),
    )
    made: Any = lambda _: calls  # noqa: E731 - stands for a client
    questions = RouteSite(with_parts(site.parts, calls=made)).executors.log_questions()
    assert not questions.ask(1, "http://10.0.0.2:9999", 1, NOW, 1)
    assert not questions.ask(9, ADDRESS, 1, NOW, 1)
    assert questions.ask(site.group_id, ADDRESS, 1, NOW, 1)
    assert calls.asked == [(1, ADDRESS, contract.LOG)]
    first, *others = questions.poll(0)
    assert first == LogAnswer(1, LogData(from_line=1, to_line=1, content="a\n", is_end=True))
    assert [(item.run_id, item.data, bool(item.error)) for item in others] == [
        (2, None, True),
        (3, None, True),
        (4, None, True),
    ]
