"""The two WSGI applications of a node; who serves them is :mod:`xwheel.node.loops`'s business."""

from __future__ import annotations

import re
from typing import Any, Final

import falcon
import falcon.routing

from xwheel.api.http import errors
from xwheel.api.http.auth import Gate, GuardedApp, Policy, TokenStore
from xwheel.api.http.resource import ApiParts
from xwheel.api.openapi.document import Route
from xwheel.api.openapi.pages import Documents, OpenApiDocument, ReferencePage, ReferenceStyle
from xwheel.api.v1.alarms import Alarm, AlarmRule, AlarmRules, Alarms, AlarmTests, Attempts
from xwheel.api.v1.calendars import Calendar, Calendars
from xwheel.api.v1.groups import Executors, Group, GroupExecutors, Groups
from xwheel.api.v1.health import Healthz, NodeHealth, Readyz
from xwheel.api.v1.jobs import BulkJobs, Children, Job, Jobs
from xwheel.api.v1.plugins import Plugins
from xwheel.api.v1.reports import Overview, Reports
from xwheel.api.v1.runs import Run, RunLog, Runs
from xwheel.api.v1.schedule import Pause, Preview
from xwheel.api.v1.scripts import GlueVersion, GlueVersions
from xwheel.api.v1.secrets import Secret, Secrets
from xwheel.api.v1.tokens import Token, Tokens
from xwheel.api.xxl import executor_calls
from xwheel.model import MAX_ID
from xwheel.scheduler.manage.jobs import BulkAction

PREFIX: Final = "/api/v1"
_ID: Final = "id"


class IdConverter(falcon.routing.BaseConverter):
    """Ids in paths: digits and nothing else, where :class:`int` would take signs, underscores and other scripts."""

    def convert(self, value: str) -> int | None:
        """Return the id, or None for anything else."""
        return int(value) if re.fullmatch("[1-9][0-9]{0,15}", value) and int(value) <= MAX_ID else None


class ExecutorApp(falcon.App[falcon.Request, falcon.Response]):
    """XXL-JOB's executor API as a WSGI application.

    Args:
        calls: Answers them.
    """

    def __init__(self, calls: executor_calls.ExecutorCalls) -> None:
        super().__init__()
        self._calls = calls
        self.add_sink(calls)
        self.add_error_handler(Exception, executor_calls.on_error)
        self.add_error_handler(falcon.HTTPError, executor_calls.on_error)

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether the head of a call says who calls; for listeners, before they read a large body."""
        return self._calls.admits(falcon.Request(environ))


def executor_app(parts: ApiParts) -> ExecutorApp:
    """Return XXL-JOB's executor API, for a listener of its own."""
    return ExecutorApp(executor_calls.ExecutorCalls(parts))


def management_app(parts: ApiParts) -> GuardedApp:
    """Return the management API with its health checks.

    More routes and sinks may be added; each must declare a policy, or adding it fails.
    """
    app = GuardedApp(Gate(TokenStore(parts.db, parts.clock), parts.clock))
    app.router_options.converters["id"] = IdConverter
    app.add_error_handler(Exception, errors.on_error)
    app.add_error_handler(falcon.HTTPError, errors.on_http_error)
    app.add_route("/healthz", Healthz(parts.health))
    ready = Readyz(parts.health, parts.db, parts.clock)
    app.add_route("/readyz", ready)
    app.add_route(f"{PREFIX}/health", NodeHealth(parts.health, ready))
    app.add_route(f"{PREFIX}/groups", Groups(parts))
    app.add_route(f"{PREFIX}/groups/{{group_id:{_ID}}}", Group(parts))
    app.add_route(f"{PREFIX}/groups/{{group_id:{_ID}}}/executors", GroupExecutors(parts))
    app.add_route(f"{PREFIX}/executors", Executors(parts))
    app.add_route(f"{PREFIX}/jobs", Jobs(parts))
    job = Job(parts)
    app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}", job)
    for action in ("start", "stop", "copy", "run"):
        app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}/{action}", job, suffix=action)
    app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}/children", Children(parts))
    app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}/glue", GlueVersions(parts))
    version = GlueVersion(parts)
    app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}/glue/{{number:{_ID}}}", version)
    app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}/glue/{{number:{_ID}}}/restore", version, suffix="restore")
    bulk = BulkJobs(parts)
    for action in BulkAction:
        app.add_route(f"{PREFIX}/jobs/bulk/{action}", bulk, suffix=action)
    app.add_route(f"{PREFIX}/runs", Runs(parts))
    run = Run(parts)
    app.add_route(f"{PREFIX}/runs/{{run_id:{_ID}}}", run)
    for action in ("kill", "rerun"):
        app.add_route(f"{PREFIX}/runs/{{run_id:{_ID}}}/{action}", run, suffix=action)
    app.add_route(f"{PREFIX}/runs/{{run_id:{_ID}}}/log", RunLog(parts))
    app.add_route(f"{PREFIX}/reports", Reports(parts))
    app.add_route(f"{PREFIX}/overview", Overview(parts))
    app.add_route(f"{PREFIX}/schedule/preview", Preview(parts))
    app.add_route(f"{PREFIX}/schedule/pause", Pause(parts))
    _add_access(app, parts)
    app.add_route(f"{PREFIX}/calendars", Calendars(parts))
    app.add_route(f"{PREFIX}/calendars/{{name}}", Calendar(parts))
    app.add_route(f"{PREFIX}/alarms", Alarms(parts))
    app.add_route(f"{PREFIX}/alarms/{{alarm_id:{_ID}}}", Alarm(parts))
    app.add_route(f"{PREFIX}/alarms/attempts", Attempts(parts))
    app.add_route(f"{PREFIX}/alarms/rules", AlarmRules(parts))
    app.add_route(f"{PREFIX}/alarms/rules/{{rule_id:{_ID}}}", AlarmRule(parts))
    app.add_route(f"{PREFIX}/alarms/test", AlarmTests(parts))
    app.add_route(f"{PREFIX}/plugins", Plugins(parts))
    documents = Documents(lambda: [Route(*route) for route in app.routes])
    app.add_route(f"{PREFIX}/openapi.json", OpenApiDocument(documents))
    app.add_route("/docs", ReferencePage(documents))
    app.add_route("/docs/reference.css", ReferenceStyle(documents))
    app.add_sink(UnknownRoute(), r"/api(/|\Z)")
    return app


def _add_access(app: GuardedApp, parts: ApiParts) -> None:
    app.add_route(f"{PREFIX}/tokens", Tokens(parts))
    app.add_route(f"{PREFIX}/tokens/{{name}}", Token(parts))
    app.add_route(f"{PREFIX}/secrets", Secrets(parts))
    secret = Secret(parts)
    app.add_route(f"{PREFIX}/secrets/{{name}}", secret)
    app.add_route(f"{PREFIX}/secrets/{{name}}/rotate", secret, suffix="rotate")


class UnknownRoute:
    """Answers below ``/api`` that there is no such route, to those who have a token."""

    policy = Policy.TOKEN

    def __call__(self, req: falcon.Request, resp: falcon.Response, **params: str) -> None:
        """Refuse."""
        del req, resp, params
        raise falcon.HTTPRouteNotFound
