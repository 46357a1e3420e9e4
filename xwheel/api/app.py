"""The two WSGI applications, made of their parts; a node serves both, `xwheel.api.wsgi` one without a node."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import falcon
import falcon.routing

from xwheel.api.http import errors
from xwheel.api.http.auth import ApiGate, GuardedApp
from xwheel.api.http.client import TrustedProxies
from xwheel.api.http.gates import PluginGates
from xwheel.api.http.permissions import PERMISSIONS
from xwheel.api.http.resource import ApiParts, Resource
from xwheel.api.openapi.document import DescribedRoute
from xwheel.api.openapi.pages import Documents, OpenApiDocument, ReferencePage, ReferenceStyle
from xwheel.api.openapi.words import TAGS
from xwheel.api.plugins.routes import PREFIX, PluginResources, PluginRoutes
from xwheel.api.v1.access.secrets import Secret, Secrets
from xwheel.api.v1.access.tokens import Token, Tokens
from xwheel.api.v1.calendars import CalendarResource, Calendars
from xwheel.api.v1.groups import Executors, Group, GroupExecutors, Groups
from xwheel.api.v1.health import Healthz, NodeHealth, Readyz
from xwheel.api.v1.jobs import BulkJobs, Children, JobResource, Jobs
from xwheel.api.v1.nodes import Nodes
from xwheel.api.v1.pages import Manifest, page_sinks
from xwheel.api.v1.plugins import PluginsResource
from xwheel.api.v1.runs import RunLogResource, RunResource, Runs
from xwheel.api.v1.schedule import Pause, Preview, Upcoming
from xwheel.api.v1.versions import GlueVersionResource, GlueVersions
from xwheel.api.xxl import executor_calls
from xwheel.model import MAX_ID
from xwheel.plugin.resources import PUBLIC, Need, Of
from xwheel.scheduler.jobs.jobs import BulkAction

ROUTES: Final[dict[str, type[Resource]]] = {
    "/groups": Groups,
    "/groups/{group_id:id}": Group,
    "/groups/{group_id:id}/executors": GroupExecutors,
    "/executors": Executors,
    "/jobs": Jobs,
    "/jobs/recent": Jobs,
    "/jobs/csv": Jobs,
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
    "/runs/csv": Runs,
    "/runs/{run_id:id}": RunResource,
    "/runs/{run_id:id}/kill": RunResource,
    "/runs/{run_id:id}/rerun": RunResource,
    "/runs/{run_id:id}/log": RunLogResource,
    "/schedule/preview": Preview,
    "/schedule/upcoming": Upcoming,
    "/schedule/pause": Pause,
    "/nodes": Nodes,
    "/tokens": Tokens,
    "/tokens/{name}": Token,
    "/secrets": Secrets,
    "/secrets/{name}": Secret,
    "/secrets/{name}/rotate": Secret,
    "/calendars": Calendars,
    "/calendars/{name}": CalendarResource,
    "/plugins": PluginsResource,
    "/console/manifest": Manifest,
}
"""Paths below the prefix; what can be done with an object, or asked about it, ends in the suffix of the responder."""


class IdConverter(falcon.routing.BaseConverter):
    """Ids in paths: digits and nothing else, where :class:`int` would take signs, underscores and other scripts."""

    def convert(self, value: str) -> int | None:
        """Return the id, or None for anything else."""
        return int(value) if re.fullmatch("[1-9][0-9]{0,15}", value) and int(value) <= MAX_ID else None


class ExecutorApp(falcon.App[falcon.Request, falcon.Response]):
    """XXL-JOB's executor API as a WSGI application.

    Args:
        calls: Answers them.
        routes: Those of plugins, for executors.
    """

    def __init__(self, calls: executor_calls.ExecutorCalls, routes: PluginRoutes) -> None:
        super().__init__()
        self._calls = calls
        self.router_options.converters["id"] = IdConverter
        routes.add_to_executors(self, calls.gate)
        self.add_sink(calls)
        self.add_error_handler(Exception, executor_calls.on_error)
        self.add_error_handler(falcon.HTTPError, executor_calls.on_error)

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether the head of a call says who calls; for listeners, before they read a large body."""
        return self._calls.admits(falcon.Request(environ))


def plugin_routes(parts: ApiParts) -> PluginRoutes:
    """Return the routes of plugins, for both applications.

    Raises:
        PluginError: Some cannot be served; the message names the plugin.
    """
    own = {path.split("/")[1] for path in (*ROUTES, "/health", "/openapi.json")}
    return PluginRoutes(parts, frozenset(own))


def executor_app(parts: ApiParts, routes: PluginRoutes | None = None) -> ExecutorApp:
    """Return XXL-JOB's executor API, for a listener of its own."""
    return ExecutorApp(executor_calls.ExecutorCalls(parts), routes or plugin_routes(parts))


def build_management_app(
    parts: ApiParts, routes: PluginRoutes | None = None, *, before: Callable[[], None] | None = None
) -> GuardedApp:
    """Return the management API with its health checks.

    More routes and sinks may be added; each must say what it needs, or adding it fails.

    Args:
        parts: What the resources work with.
        routes: Those of plugins; None takes them from the parts.
        before: Called before each call with a token; for a process without loops, which must read what others changed.
    """
    proxies = TrustedProxies(parts.config.trusted_proxies)
    further = routes or plugin_routes(parts)
    gates = PluginGates(parts.plugins.gates, further.site, proxies)
    gate = ApiGate(parts.db, parts.access.tokens, gates, parts.clock, proxies, parts.audit)
    app = GuardedApp(gate, before, further.refuses_body)
    app.router_options.converters["id"] = IdConverter
    app.add_error_handler(Exception, gate.on_error)
    app.add_error_handler(falcon.HTTPError, errors.on_http_error)
    ready = Readyz(parts.health, parts.db, parts.clock)
    public = {"GET": PUBLIC}
    app.add_route("/healthz", Healthz(parts.health), needs=public)
    app.add_route("/readyz", ready, needs=public)
    app.add_route(f"{PREFIX}/health", NodeHealth(parts.health, ready), needs=PERMISSIONS["/health"])
    resources = {kind: kind(parts) for kind in ROUTES.values()}
    for path, kind in ROUTES.items():
        action = path.rpartition("/")[2]
        is_own = any(hasattr(kind, f"on_{method}_{action}") for method in ("get", "post"))
        suffix = action if is_own else None
        needs = PERMISSIONS.get(path.replace(":id}", "}"))
        app.add_route(PREFIX + path, resources[kind], suffix=suffix, needs=needs)
    of_plugins = PluginResources(parts, further.site)
    of_plugins.add_to(app)
    further.add_to_management(app)
    app.chapters = {
        **TAGS,
        **{name: words for name, words in of_plugins.chapters.items() if name not in TAGS},
    }
    documents = Documents(
        lambda: [DescribedRoute(*route, app.needs[route[0]]) for route in app.routes], app.chapters
    )
    app.add_route(f"{PREFIX}/openapi.json", OpenApiDocument(documents), needs=PERMISSIONS["/openapi.json"])
    app.add_route("/docs", ReferencePage(documents), needs=public)
    app.add_route("/docs/reference.css", ReferenceStyle(documents), needs=public)
    for prefix, sink in page_sinks(parts.plugins.pages).items():
        app.add_sink(sink, prefix, need=PUBLIC)
    # a group's token is told, too, that what it is for is not there without a plugin
    app.add_sink(refuse_unknown, r"/api(/|\Z)", need=Need(None, Of.CALLER, group_token=True))
    return app


def refuse_unknown(req: falcon.Request, resp: falcon.Response, **params: str) -> None:
    """Answer calls of known callers below ``/api`` that no route takes."""
    del req, resp, params
    raise falcon.HTTPRouteNotFound
