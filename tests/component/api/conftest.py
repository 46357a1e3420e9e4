"""Both applications over a real database, with the collaborators that a node gives them."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import falcon.testing
import pytest
from sqlalchemy import inspect, select, table, text

from tests.support.job_calls import Tenant
from tests.support.lines import Line
from tests.support.parts import with_parts
from tests.support.rows import NOW, make_run
from xwheel.api.app import build_management_app, executor_app, plugin_routes
from xwheel.api.parts import ApiParts
from xwheel.api.schema.health import HealthReport
from xwheel.builtin import daily_interval, routers, schedule_types
from xwheel.builtin.glue_bean import BeanGlue
from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.model import Run, RunState
from xwheel.node.loops import Scheduler
from xwheel.node.node import api_parts
from xwheel.node.pipeline import Core
from xwheel.plugin import GlueRequest, GlueType, HandlerLookup, PluginSite, Router, ScheduleType
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.plugin.resources import ResourceRoute
from xwheel.scheduler.listeners import ListenerHealth
from xwheel.scheduler.runs.logs import ExecutorLogs
from xwheel.storage import executors, runs
from xwheel.storage.access import tokens
from xwheel.storage.database.engine import Database
from xwheel.wire.contract import TOKEN_HEADER
from xwheel.wire.messages import LogData, LogRequest

try:
    from xwheel_openapi.document import build_document
except ModuleNotFoundError:  # the core by itself has no description to compare with
    build_document = None  # type: ignore[assignment]

EXECUTOR_TOKEN = "executor-token-of-the-tests"
TOKEN = "management-token-of-the-tests"
LIMIT = 128 * 1024


class Asked:
    """What the applications ask the node for, with answers that tests choose."""

    def __init__(self) -> None:
        self.report = HealthReport()
        self.logs: Callable[[Run, int], LogData] | None = None
        self.listeners: list[ListenerHealth] = []

    def health(self) -> HealthReport:
        return self.report

    def log(self, run: Run, from_line: int) -> LogData:
        assert self.logs is not None, f"the log of {run.id} should not be read"
        return self.logs(run, from_line)


class ScriptGlue:
    """A glue type whose jobs have a source; schedulers only ask for its name."""

    name = "SCRIPT"
    takes_source = True

    def build(self, request: GlueRequest, handlers: HandlerLookup) -> Callable[..., object]:
        raise NotImplementedError


def shipped_plugins() -> Plugins:
    """What the core ships, without a look at what is installed."""
    types = [item for module in (schedule_types, daily_interval) for item in module.xwheel_register_schedule_types()]
    ways = routers.xwheel_register_routers()
    return Plugins(
        schedule_types=Registry[ScheduleType]("schedule type", {item.name: item for item in types}, {}),
        routers=Registry[Router]("router", {item.name: item for item in ways}, {}),
        glue_types=Registry[GlueType]("glue type", {"BEAN": BeanGlue(), "SCRIPT": ScriptGlue()}, {}),
    )


class DeclaredAnswers(falcon.testing.TestClient):
    """The management API; fails where it answers what its OpenAPI document does not say."""

    def simulate_request(self, method: str = "GET", path: str = "/", **options: Any) -> Any:
        answer = super().simulate_request(method, path, **options)
        self._check(method, path.partition("?")[0], answer.status_code)
        return answer

    def _check(self, method: str, path: str, status: int) -> None:
        app: Any = self.app
        found = app._router.find(unquote(path))
        if found is None or build_document is None:
            return  # the document says nothing of unknown paths and of files
        key = (method, re.sub(r"\{(\w+):[^}]*\}", r"{\1}", found[3]))
        declared = _declared(app.routes)
        if key in declared:
            assert {str(status), "default"} & declared[key], (
                f"{method} {found[3]} answered {status}, which the OpenAPI document does not say: name the kind of "
                "failure in the responder's Operation(problems=…), and the status in docs/reference/api.md"
            )


_DECLARED: dict[object, dict[tuple[str, str], set[str]]] = {}


def _declared(routes: Sequence[ResourceRoute]) -> dict[tuple[str, str], set[str]]:
    """Return the statuses that the document of these routes declares, by method and path."""
    key = tuple((route.path, type(route.resource), route.suffix) for route in routes)
    if key not in _DECLARED:
        _DECLARED[key] = {
            (method.upper(), path): set(operation["responses"])
            for path, methods in build_document(routes)["paths"].items()
            for method, operation in methods.items()
        }
    return _DECLARED[key]


@dataclass
class Api:
    """The two applications and what stands behind them."""

    db: Database
    clock: ManualClock
    parts: ApiParts
    asked: Asked
    management: falcon.testing.TestClient
    executor: falcon.testing.TestClient
    site: PluginSite

    def call(self, method: str, path: str, body: object = None, **options: Any) -> falcon.testing.Result:
        """Call the management API with the right token."""
        headers = {"Authorization": f"Bearer {TOKEN}", **options.pop("headers", {})}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        path = path if path.startswith("/") else f"/api/v1/{path}"
        return self.management.simulate_request(method, path, body=data, headers=headers, **options)

    def report_in(self, path: str, body: object, **options: Any) -> falcon.testing.Result:
        """Call the executor API with the right token."""
        headers = {TOKEN_HEADER: EXECUTOR_TOKEN, **options.pop("headers", {})}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.executor.simulate_post(path, body=data, headers=headers, **options)

    def group(self, app_name: str = "demo") -> int:
        return self.db.transaction(
            lambda conn: executors.insert_group(conn, app_name=app_name, title="", now_ms=NOW).id
        )

    def job(self, **fields: Any) -> dict[str, Any]:
        """Create a job over the API, in a group of its own unless told otherwise."""
        group_id = fields.pop("group_id", None) or self.group(f"group-{fields.get('name', 'job')}"[:64])
        answer = self.call("POST", "jobs", {"group_id": group_id, "name": "job", "handler": "demo", **fields})
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json
        return made

    def calendar(self, name: str, **definition: Any) -> None:
        """Write a calendar over the API."""
        answer = self.call("PUT", f"calendars/{name}", definition)
        assert answer.status_code in {200, 201}, answer.text

    def runs(self, *made: Run) -> None:
        self.db.transaction(lambda conn: runs.insert_runs(conn, made))

    def running(self, *ids: int, **changes: Any) -> None:
        """Insert runs that an executor has taken."""
        self.runs(*(make_run(run_id, state=RunState.RUNNING, **changes) for run_id in ids))

    def run(self, run_id: int) -> Run:
        with self.db.read() as conn:
            return runs.get_run(conn, run_id)

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that is in the database; run id blocks aside, since taking ids writes nothing a user sees."""
        with self.db.read() as conn:
            return {
                name: [tuple(row) for row in conn.execute(select(text("*")).select_from(table(name)))]
                for name in sorted(inspect(conn).get_table_names())
                if name not in {"run_id_block", "alembic_version"}
            }


class AskedLogs(ExecutorLogs):
    """Logs of live executors, which a test makes up."""

    def __init__(self, core: Core, asked: Asked) -> None:
        super().__init__(core.registry, core.clock.now_ms, timeout_s=1, networks=core.networks)
        self._asked = asked

    def _ask(self, run: Run, address: str, request: LogRequest) -> LogData:
        return self._asked.log(run, request.from_line)


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> Api:
    """Both applications; ``API_SETTINGS`` of a test's class or module is the section ``[api]``."""
    ours = getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT})
    return make_api(db, getattr(request.cls, "API_SETTINGS", ours))


@pytest.fixture
def api_with(db: Database) -> Callable[..., Api]:
    """Both applications, with settings of the section ``[api]`` that the test names."""
    return lambda **settings: make_api(db, settings)


def make_api(db: Database, settings: dict[str, Any], **more: Registry[Any]) -> Api:
    """Return both applications over a database, with what else plugins registered."""
    clock = ManualClock(NOW)
    db.transaction(lambda conn: tokens.insert_token(conn, "tests", TOKEN, NOW))
    asked = Asked()
    config = build_config({"api": settings})
    scheduler = Scheduler(
        Core(
            config,
            db,
            dataclasses.replace(shipped_plugins(), **more),
            EXECUTOR_TOKEN,
            clock,
            transport=lambda *_: Line(),
        )
    )
    parts = with_parts(
        api_parts(scheduler, asked.health),
        logs=AskedLogs(scheduler.core, asked),
        listeners=SimpleNamespace(health=lambda: asked.listeners),
    )
    routes = plugin_routes(parts)
    return Api(
        db,
        clock,
        parts,
        asked,
        DeclaredAnswers(build_management_app(parts, routes)),
        falcon.testing.TestClient(executor_app(parts, routes)),
        routes.site,
    )


@pytest.fixture
def orders(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "orders")


@pytest.fixture
def billing(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "billing")
