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
from xwheel.api.http.static import page_sinks
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.routes import PREFIX, PluginRoutes, add_resources
from xwheel.api.v1 import calendars, groups, health, jobs, nodes, plugins, runs, schedule, versions
from xwheel.api.v1.access import secrets, tokens
from xwheel.api.xxl import executor_calls
from xwheel.errors import WireError
from xwheel.model import MAX_ID
from xwheel.model.access import Permission
from xwheel.plugin.resources import PUBLIC, Methods, Need, Of

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
_MAKE_CREDENTIAL: Final = Need(Permission.ADMIN, Of.SOME, makes_credential=True)

ROUTES: Final[dict[str, tuple[type[Resource], Methods]]] = {
    "/health": (health.Health, {"GET": _READ_SOME}),
    "/groups": (groups.Groups, {"GET": _READ_SOME, "POST": _ADMIN_ALL}),
    "/groups/{group_id:id}": (groups.Group, {"GET": _READ_GROUP, "PATCH": _ADMIN_GROUP, "DELETE": _ADMIN_GROUP}),
    "/groups/{group_id:id}/executors": (groups.Group, {"GET": _READ_GROUP}),
    "/executors": (groups.Executors, {"GET": _READ_SOME}),
    "/jobs": (jobs.Jobs, {"GET": _READ_SOME, "POST": _EDIT_SOME}),
    "/jobs/csv": (jobs.Jobs, {"GET": _READ_SOME}),
    "/jobs/{job_id:id}": (jobs.JobResource, {"GET": _READ_JOB, "PATCH": _EDIT_JOB, "DELETE": _EDIT_JOB}),
    "/jobs/{job_id:id}/start": (jobs.JobResource, {"POST": _RUN_JOB}),
    "/jobs/{job_id:id}/stop": (jobs.JobResource, {"POST": _RUN_JOB}),
    "/jobs/{job_id:id}/copy": (jobs.JobResource, {"POST": _EDIT_JOB}),
    "/jobs/{job_id:id}/run": (jobs.JobResource, {"POST": _RUN_JOB}),
    "/jobs/{job_id:id}/children": (jobs.Children, {"GET": _READ_JOB, "PUT": _EDIT_JOB}),
    "/jobs/{job_id:id}/glue": (versions.GlueVersions, {"GET": _READ_JOB, "POST": _SCRIPT_JOB}),
    "/jobs/{job_id:id}/glue/{number:id}": (versions.GlueVersionResource, {"GET": _READ_JOB}),
    "/jobs/{job_id:id}/glue/{number:id}/restore": (versions.GlueVersionResource, {"POST": _SCRIPT_JOB}),
    "/jobs/bulk/start": (jobs.BulkJobs, {"POST": _RUN_SOME}),
    "/jobs/bulk/stop": (jobs.BulkJobs, {"POST": _RUN_SOME}),
    "/jobs/bulk/run": (jobs.BulkJobs, {"POST": _RUN_SOME}),
    "/jobs/bulk/delete": (jobs.BulkJobs, {"POST": _EDIT_SOME}),
    "/runs": (runs.Runs, {"GET": _READ_SOME}),
    "/runs/csv": (runs.Runs, {"GET": _READ_SOME}),
    "/runs/{run_id:id}": (runs.RunResource, {"GET": _READ_RUN}),
    "/runs/{run_id:id}/kill": (runs.RunResource, {"POST": _RUN_RUN}),
    "/runs/{run_id:id}/rerun": (runs.RunResource, {"POST": _RUN_RUN}),
    "/runs/{run_id:id}/log": (runs.RunLogResource, {"GET": _READ_RUN}),
    "/schedule/preview": (schedule.Preview, {"GET": _READ_SOME}),
    "/schedule/words": (schedule.Words, {"GET": _READ_SOME}),
    "/schedule/pause": (schedule.Pause, {"GET": _READ_SOME, "PUT": _RUN_ALL, "DELETE": _RUN_ALL}),
    "/nodes": (nodes.Nodes, {"GET": _READ_SOME}),
    "/tokens": (tokens.Tokens, {"GET": _ADMIN_SOME, "POST": _MAKE_CREDENTIAL}),
    "/tokens/{name}": (tokens.Token, {"GET": _ADMIN_SOME, "DELETE": _ADMIN_SOME}),
    "/secrets": (secrets.Secrets, {"GET": _ADMIN_SOME, "POST": _MAKE_CREDENTIAL}),
    "/secrets/{name}": (secrets.Secret, {"GET": _ADMIN_SOME, "PATCH": _MAKE_CREDENTIAL, "DELETE": _ADMIN_SOME}),
    "/secrets/{name}/rotate": (secrets.Secret, {"POST": _MAKE_CREDENTIAL}),
    "/calendars": (calendars.Calendars, {"GET": _READ_SOME}),
    "/calendars/{name}": (calendars.CalendarResource, {"GET": _READ_SOME, "PUT": _EDIT_ALL, "DELETE": _EDIT_ALL}),
    "/plugins": (plugins.PluginsResource, {"GET": _READ_SOME}),
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
    """Return the routes of plugins, for both applications; raises PluginError, which names it, if one cannot be."""
    return PluginRoutes(parts, taken=frozenset(path.split("/")[1] for path in ROUTES))


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
    gates = PluginGates(parts.plugins.gates, further.site, proxies, parts.foreign)
    gate = ApiGate(parts, gates, proxies, before)
    app = GuardedApp(gate, further.refuses_body)
    app.router_options.converters["id"] = IdConverter
    app.add_error_handler(Exception, gate.on_error)
    app.add_error_handler(falcon.HTTPError, errors.on_http_error)
    resources = {kind: kind(parts) for kind, _ in ROUTES.values()}
    for name in ("healthz", "readyz"):
        app.add_route(f"/{name}", resources[health.Health], suffix=name, needs={"GET": PUBLIC})
    for path, (kind, needs) in ROUTES.items():
        action = path.rpartition("/")[2]
        is_own = any(hasattr(kind, f"on_{method}_{action}") for method in ("get", "post"))
        app.add_route(PREFIX + path, resources[kind], suffix=action if is_own else None, needs=needs)
    add_resources(app, parts, further.site)
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
