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
from xwheel.api.http.resource import Resource
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.routes import PREFIX, PluginResources, PluginRoutes
from xwheel.api.v1.access.secrets import Secret, Secrets
from xwheel.api.v1.access.tokens import Token, Tokens
from xwheel.api.v1.calendars import CalendarResource, Calendars
from xwheel.api.v1.groups import Executors, Group, Groups
from xwheel.api.v1.health import Health
from xwheel.api.v1.jobs import BulkJobs, Children, JobResource, Jobs
from xwheel.api.v1.nodes import Nodes
from xwheel.api.v1.pages import Manifest, page_sinks
from xwheel.api.v1.plugins import PluginsResource
from xwheel.api.v1.runs import RunLogResource, RunResource, Runs
from xwheel.api.v1.schedule import Pause, Preview, Upcoming
from xwheel.api.v1.versions import GlueVersionResource, GlueVersions
from xwheel.api.xxl import executor_calls
from xwheel.errors import WireError
from xwheel.model import MAX_ID
from xwheel.model.access import Permission
from xwheel.plugin.resources import CALLER, PUBLIC, Methods, Need, Of

_READ_SOME: Final = Need(Permission.READ, Of.SOME)
_RUN_SOME: Final = Need(Permission.RUN, Of.SOME)
_EDIT_SOME: Final = Need(Permission.EDIT, Of.SOME)
_ADMIN_SOME: Final = Need(Permission.ADMIN, Of.SOME)
_READ_JOB: Final = Need(Permission.READ, Of.JOB)
_RUN_JOB: Final = Need(Permission.RUN, Of.JOB)
_EDIT_JOB: Final = Need(Permission.EDIT, Of.JOB)
_SCRIPT_JOB: Final = Need(Permission.SCRIPT, Of.JOB)
_READ_RUN: Final = Need(Permission.READ, Of.RUN)
_RUN_RUN: Final = Need(Permission.RUN, Of.RUN)
_READ_GROUP: Final = Need(Permission.READ, Of.GROUP)
_ADMIN_GROUP: Final = Need(Permission.ADMIN, Of.GROUP)
_EDIT_ALL: Final = Need(Permission.EDIT, Of.ALL)
_ADMIN_ALL: Final = Need(Permission.ADMIN, Of.ALL)
_RUN_ALL: Final = Need(Permission.RUN, Of.ALL)

ROUTES: Final[dict[str, tuple[type[Resource], Methods]]] = {
    "/health": (Health, {"GET": _READ_SOME}),
    "/groups": (Groups, {"GET": _READ_SOME, "POST": _ADMIN_ALL}),
    "/groups/{group_id:id}": (Group, {"GET": _READ_GROUP, "PATCH": _ADMIN_GROUP, "DELETE": _ADMIN_GROUP}),
    "/groups/{group_id:id}/executors": (Group, {"GET": _READ_GROUP}),
    "/executors": (Executors, {"GET": _READ_SOME}),
    "/jobs": (Jobs, {"GET": _READ_SOME, "POST": _EDIT_SOME}),
    "/jobs/recent": (Jobs, {"GET": _READ_SOME}),
    "/jobs/csv": (Jobs, {"GET": _READ_SOME}),
    "/jobs/{job_id:id}": (JobResource, {"GET": _READ_JOB, "PATCH": _EDIT_JOB, "DELETE": _EDIT_JOB}),
    "/jobs/{job_id:id}/start": (JobResource, {"POST": _RUN_JOB}),
    "/jobs/{job_id:id}/stop": (JobResource, {"POST": _RUN_JOB}),
    "/jobs/{job_id:id}/copy": (JobResource, {"POST": _EDIT_JOB}),
    "/jobs/{job_id:id}/run": (JobResource, {"POST": _RUN_JOB}),
    "/jobs/{job_id:id}/children": (Children, {"GET": _READ_JOB, "PUT": _EDIT_JOB}),
    "/jobs/{job_id:id}/glue": (GlueVersions, {"GET": _READ_JOB, "POST": _SCRIPT_JOB}),
    "/jobs/{job_id:id}/glue/{number:id}": (GlueVersionResource, {"GET": _READ_JOB}),
    "/jobs/{job_id:id}/glue/{number:id}/restore": (GlueVersionResource, {"POST": _SCRIPT_JOB}),
    "/jobs/bulk/start": (BulkJobs, {"POST": _RUN_SOME}),
    "/jobs/bulk/stop": (BulkJobs, {"POST": _RUN_SOME}),
    "/jobs/bulk/run": (BulkJobs, {"POST": _RUN_SOME}),
    "/jobs/bulk/delete": (BulkJobs, {"POST": _EDIT_SOME}),
    "/runs": (Runs, {"GET": _READ_SOME}),
    "/runs/csv": (Runs, {"GET": _READ_SOME}),
    "/runs/{run_id:id}": (RunResource, {"GET": _READ_RUN}),
    "/runs/{run_id:id}/kill": (RunResource, {"POST": _RUN_RUN}),
    "/runs/{run_id:id}/rerun": (RunResource, {"POST": _RUN_RUN}),
    "/runs/{run_id:id}/log": (RunLogResource, {"GET": _READ_RUN}),
    "/schedule/preview": (Preview, {"GET": _READ_SOME}),
    "/schedule/upcoming": (Upcoming, {"GET": _READ_SOME}),
    "/schedule/pause": (Pause, {"GET": _READ_SOME, "PUT": _RUN_ALL, "DELETE": _RUN_ALL}),
    "/nodes": (Nodes, {"GET": _READ_SOME}),
    "/tokens": (Tokens, {"GET": _ADMIN_SOME, "POST": _ADMIN_SOME}),
    "/tokens/{name}": (Token, {"GET": _ADMIN_SOME, "DELETE": _ADMIN_SOME}),
    "/secrets": (Secrets, {"GET": _ADMIN_SOME, "POST": _ADMIN_SOME}),
    "/secrets/{name}": (Secret, {"GET": _ADMIN_SOME, "PATCH": _ADMIN_SOME, "DELETE": _ADMIN_SOME}),
    "/secrets/{name}/rotate": (Secret, {"POST": _ADMIN_SOME}),
    "/calendars": (Calendars, {"GET": _READ_SOME}),
    "/calendars/{name}": (CalendarResource, {"GET": _READ_SOME, "PUT": _EDIT_ALL, "DELETE": _EDIT_ALL}),
    "/plugins": (PluginsResource, {"GET": _READ_SOME}),
    "/console/manifest": (Manifest, {"GET": CALLER}),
}
"""Path below the prefix, to what answers there and what each of its methods needs.

What can be done with an object, or asked about it, ends in the suffix of the responder. The check of calls, the pages
and the tests read this table alone.
"""


class IdConverter(falcon.routing.BaseConverter):
    """Ids in paths: digits and nothing else, where :class:`int` would take signs, underscores and other scripts."""

    def convert(self, value: str) -> int | None:
        """Return the id, or None for anything else."""
        return int(value) if re.fullmatch("[1-9][0-9]{0,15}", value) and int(value) <= MAX_ID else None


class ExecutorApp(falcon.App[falcon.Request, falcon.Response]):
    """XXL-JOB's executor API as a WSGI application, with the routes of plugins for executors."""

    def __init__(self, calls: executor_calls.ExecutorCalls, routes: PluginRoutes) -> None:
        super().__init__()
        self._gate = calls.gate
        self.router_options.converters["id"] = IdConverter
        routes.add_to_executors(self, calls.gate)
        self.add_sink(calls)
        self.add_error_handler(Exception, executor_calls.on_error)
        self.add_error_handler(falcon.HTTPError, executor_calls.on_error)

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether a known caller POSTs, as the head says; for listeners, before they read a large body."""
        req = falcon.Request(environ)
        try:
            return req.method == "POST" and self._gate.identify(req) is not None
        except WireError:
            return False


def plugin_routes(parts: ApiParts) -> PluginRoutes:
    """Return the routes of plugins, for both applications.

    Raises:
        PluginError: Some cannot be served; the message names the plugin.
    """
    own = {path.split("/")[1] for path in ROUTES}
    return PluginRoutes(parts, frozenset(own))


def executor_app(parts: ApiParts, routes: PluginRoutes | None = None) -> ExecutorApp:
    """Return XXL-JOB's executor API, for a listener of its own."""
    return ExecutorApp(executor_calls.ExecutorCalls(parts), routes or plugin_routes(parts))


def build_management_app(
    parts: ApiParts, routes: PluginRoutes | None = None, *, before: Callable[[], None] = lambda: None
) -> GuardedApp:
    """Return the management API with its health checks.

    More routes and sinks may be added; each must say what it needs, or adding it fails. ``before`` is called before
    each call with a token; for a process without loops, which must read what others changed.
    """
    proxies = TrustedProxies(parts.config.api.trusted_proxies)
    further = routes or plugin_routes(parts)
    gates = PluginGates(parts.plugins.gates, further.site, proxies)
    gate = ApiGate(parts.db, parts.access.tokens, gates, parts.clock, proxies, parts.audit, before)
    app = GuardedApp(gate, further.refuses_body)
    app.router_options.converters["id"] = IdConverter
    app.add_error_handler(Exception, gate.on_error)
    app.add_error_handler(falcon.HTTPError, errors.on_http_error)
    resources = {kind: kind(parts) for kind, _ in ROUTES.values()}
    for name in ("healthz", "readyz"):
        app.add_route(f"/{name}", resources[Health], suffix=name, needs={"GET": PUBLIC})
    for path, (kind, needs) in ROUTES.items():
        action = path.rpartition("/")[2]
        is_own = any(hasattr(kind, f"on_{method}_{action}") for method in ("get", "post"))
        app.add_route(PREFIX + path, resources[kind], suffix=action if is_own else None, needs=needs)
    PluginResources(parts, further.site).add_to(app)
    further.add_to_management(app)
    further.site.served = app.routes
    for prefix, sink in page_sinks(parts.plugins.pages).items():
        app.add_sink(sink, prefix, need=PUBLIC)
    # a group's token is told, too, that what it is for is not there without a plugin
    app.add_sink(refuse_unknown, r"/api(/|\Z)", need=Need(None, Of.CALLER, group_token=True))
    return app


def refuse_unknown(_req: falcon.Request, _resp: falcon.Response, **_params: str) -> None:
    """Answer calls of known callers below ``/api`` that no route takes."""
    raise falcon.HTTPRouteNotFound
