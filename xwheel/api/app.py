"""The two WSGI applications of a node; they are served by :mod:`xwheel.node.loops`."""

from __future__ import annotations

import re
from typing import Any, Final

import falcon
import falcon.routing

from xwheel.api.http import errors
from xwheel.api.http.auth import Gate, GuardedApp, Policy, TokenStore
from xwheel.api.http.resource import ApiParts, Resource
from xwheel.api.openapi.document import Route
from xwheel.api.openapi.pages import Documents, OpenApiDocument, ReferencePage, ReferenceStyle
from xwheel.api.v1.alarms import AlarmResource, AlarmRuleResource, AlarmRules, Alarms, AlarmTests, Attempts
from xwheel.api.v1.calendars import CalendarResource, Calendars
from xwheel.api.v1.groups import Executors, Group, GroupExecutors, Groups
from xwheel.api.v1.health import Healthz, NodeHealth, Readyz
from xwheel.api.v1.jobs import BulkJobs, Children, JobResource, Jobs
from xwheel.api.v1.plugins import PluginsResource
from xwheel.api.v1.reports import OverviewResource, Reports
from xwheel.api.v1.runs import RunLogResource, RunResource, Runs
from xwheel.api.v1.schedule import Pause, Preview
from xwheel.api.v1.scripts import GlueVersionResource, GlueVersions
from xwheel.api.v1.secrets import Secret, Secrets
from xwheel.api.v1.tokens import Token, Tokens
from xwheel.api.xxl import executor_calls
from xwheel.model import MAX_ID
from xwheel.scheduler.manage.jobs import BulkAction

PREFIX: Final = "/api/v1"

ROUTES: Final[dict[str, type[Resource]]] = {
    "/groups": Groups,
    "/groups/{group_id:id}": Group,
    "/groups/{group_id:id}/executors": GroupExecutors,
    "/executors": Executors,
    "/jobs": Jobs,
    "/jobs/{job_id:id}": JobResource,
    "/jobs/{job_id:id}/start": JobResource,
    "/jobs/{job_id:id}/stop": JobResource,
    "/jobs/{job_id:id}/copy": JobResource,
    "/jobs/{job_id:id}/run": JobResource,
    "/jobs/{job_id:id}/children": Children,
    "/jobs/{job_id:id}/glue": GlueVersions,
    "/jobs/{job_id:id}/glue/{number:id}": GlueVersionResource,
    "/jobs/{job_id:id}/glue/{number:id}/restore": GlueVersionResource,
    **{f"/jobs/bulk/{action}": BulkJobs for action in BulkAction},
    "/runs": Runs,
    "/runs/{run_id:id}": RunResource,
    "/runs/{run_id:id}/kill": RunResource,
    "/runs/{run_id:id}/rerun": RunResource,
    "/runs/{run_id:id}/log": RunLogResource,
    "/reports": Reports,
    "/overview": OverviewResource,
    "/schedule/preview": Preview,
    "/schedule/pause": Pause,
    "/tokens": Tokens,
    "/tokens/{name}": Token,
    "/secrets": Secrets,
    "/secrets/{name}": Secret,
    "/secrets/{name}/rotate": Secret,
    "/calendars": Calendars,
    "/calendars/{name}": CalendarResource,
    "/alarms": Alarms,
    "/alarms/{alarm_id:id}": AlarmResource,
    "/alarms/attempts": Attempts,
    "/alarms/rules": AlarmRules,
    "/alarms/rules/{rule_id:id}": AlarmRuleResource,
    "/alarms/test": AlarmTests,
    "/plugins": PluginsResource,
}
"""Paths below the prefix; what can be done with an object by POST ends in the suffix of the responder."""


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
    ready = Readyz(parts.health, parts.db, parts.clock)
    app.add_route("/healthz", Healthz(parts.health))
    app.add_route("/readyz", ready)
    app.add_route(f"{PREFIX}/health", NodeHealth(parts.health, ready))
    resources = {kind: kind(parts) for kind in ROUTES.values()}
    for path, kind in ROUTES.items():
        action = path.rpartition("/")[2]
        suffix = action if hasattr(kind, f"on_post_{action}") else None
        app.add_route(PREFIX + path, resources[kind], suffix=suffix)
    documents = Documents(lambda: [Route(*route) for route in app.routes])
    app.add_route(f"{PREFIX}/openapi.json", OpenApiDocument(documents))
    app.add_route("/docs", ReferencePage(documents))
    app.add_route("/docs/reference.css", ReferenceStyle(documents))
    app.add_sink(UnknownRoute(), r"/api(/|\Z)")
    return app


class UnknownRoute:
    """Answers calls with a token below ``/api`` that no route takes."""

    policy = Policy.TOKEN

    def __call__(self, req: falcon.Request, resp: falcon.Response, **params: str) -> None:
        """Refuse."""
        del req, resp, params
        raise falcon.HTTPRouteNotFound
