"""The two WSGI applications of a node; who serves them is :mod:`xwheel.server`'s business."""

from __future__ import annotations

from typing import Final

import falcon

from xwheel.api import errors, executor_calls
from xwheel.api.auth import Gate, GuardedApp, Policy, TokenStore
from xwheel.api.calendars import Calendar, Calendars
from xwheel.api.groups import Group, GroupExecutors, Groups
from xwheel.api.health import Healthz, Readyz
from xwheel.api.jobs import Job, Jobs
from xwheel.api.resource import ApiParts
from xwheel.api.runs import Run, RunLog, Runs
from xwheel.api.schedule import Pause, Preview
from xwheel.api.tokens import Token, Tokens
from xwheel.errors import ConfigError
from xwheel.model import MAX_ID

WsgiApp = falcon.App[falcon.Request, falcon.Response]

PREFIX: Final = "/api/v1"
_ID: Final = f"int(min=1, max={MAX_ID})"


def executor_app(parts: ApiParts) -> WsgiApp:
    """Return XXL-JOB's executor API, for a listener of its own.

    Raises:
        ConfigError: There is no executor token, so that nobody could ever call.
    """
    if not any(parts.executor_tokens):
        raise ConfigError("the executor API needs a token")
    app = falcon.App()
    app.add_sink(executor_calls.ExecutorCalls(parts))
    app.add_error_handler(Exception, executor_calls.on_error)
    app.add_error_handler(falcon.HTTPError, executor_calls.on_error)
    return app


def management_app(parts: ApiParts) -> GuardedApp:
    """Return the management API with its health checks.

    More routes and sinks may be added; each must declare a policy, or adding it fails.
    """
    app = GuardedApp(Gate(TokenStore(parts.db, parts.clock)))
    app.add_error_handler(Exception, errors.on_error)
    app.add_error_handler(falcon.HTTPError, errors.on_http_error)
    app.add_route("/healthz", Healthz(parts.health))
    app.add_route("/readyz", Readyz(parts.health, parts.db, parts.clock))
    app.add_route(f"{PREFIX}/groups", Groups(parts))
    app.add_route(f"{PREFIX}/groups/{{group_id:{_ID}}}", Group(parts))
    app.add_route(f"{PREFIX}/groups/{{group_id:{_ID}}}/executors", GroupExecutors(parts))
    app.add_route(f"{PREFIX}/jobs", Jobs(parts))
    job = Job(parts)
    app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}", job)
    for action in ("start", "stop", "run"):
        app.add_route(f"{PREFIX}/jobs/{{job_id:{_ID}}}/{action}", job, suffix=action)
    app.add_route(f"{PREFIX}/runs", Runs(parts))
    app.add_route(f"{PREFIX}/runs/{{run_id:{_ID}}}", Run(parts))
    app.add_route(f"{PREFIX}/runs/{{run_id:{_ID}}}/log", RunLog(parts))
    app.add_route(f"{PREFIX}/schedule/preview", Preview(parts))
    app.add_route(f"{PREFIX}/schedule/pause", Pause(parts))
    app.add_route(f"{PREFIX}/tokens", Tokens(parts))
    app.add_route(f"{PREFIX}/tokens/{{name}}", Token(parts))
    app.add_route(f"{PREFIX}/calendars", Calendars(parts))
    app.add_route(f"{PREFIX}/calendars/{{name}}", Calendar(parts))
    app.add_sink(UnknownRoute(), r"/api(/|\Z)")
    return app


class UnknownRoute:
    """Answers below ``/api`` that there is no such route, to those who have a token."""

    policy = Policy.TOKEN

    def __call__(self, req: falcon.Request, resp: falcon.Response, **params: str) -> None:
        """Refuse."""
        del req, resp, params
        raise falcon.HTTPRouteNotFound
