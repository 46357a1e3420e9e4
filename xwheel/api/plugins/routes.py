"""Calls of plugins' routes: handed over a bounded number at a time, and what comes back made the response."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeVar

import falcon
import msgspec

from xwheel.api.http.auth import Caller, ExecutorGate, GuardedApp, UnknownCallerError, actor_of_caller
from xwheel.api.http.body import PIECE, BodyTooLargeError
from xwheel.api.http.errors import TYPE_PREFIX, Problem, on_error, on_http_error, problem_of, write_problem
from xwheel.api.http.places import Places
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.files import send_file
from xwheel.api.plugins.site import RouteSite
from xwheel.errors import ConfigError, PluginError, XwheelError
from xwheel.model.access import Actor, acting, current_actor
from xwheel.model.deeds import Deed
from xwheel.plugin.group_calls import GroupReply
from xwheel.plugin.registries import Registry
from xwheel.plugin.resources import Need, Of, Operation, ResourceRoute, read_resources
from xwheel.plugin.routes import READS, Route, RouteCall, RouteRefusedError, RouteReply, read_routes
from xwheel.plugin.validation import guarded

logger = logging.getLogger(__name__)

T = TypeVar("T")
K = TypeVar("K")
R = TypeVar("R", RouteReply, GroupReply)

PREFIX: Final = "/api/v1"
MAX_HEADER: Final = 4096


class LimitedBody:
    """The body of a call, read piece by piece; one that has or announces more bytes than the limit is refused."""

    def __init__(self, req: falcon.Request, limit: int) -> None:
        self.length = req.content_length
        if self.length is not None and self.length > limit:
            raise BodyTooLargeError(limit)
        is_open = self.length is not None or req.env.get("wsgi.input_terminated")
        self._stream = (req.bounded_stream if self.length is not None else req.stream) if is_open else None
        self._limit = limit
        self._taken = 0

    def read(self, size: int = PIECE) -> bytes:
        """Return up to this many bytes more; nothing at the end."""
        if self._stream is None or size == 0:
            return b""
        data: bytes = self._stream.read(size if 0 < size < PIECE else PIECE)
        self._taken += len(data)
        if self._taken > self._limit:
            raise BodyTooLargeError(self._limit)
        if not data and self.length is not None and self._taken < self.length:
            raise RouteRefusedError(
                400, "body_cut", f"the body ended after {self._taken} of {self.length} bytes", field="body"
            )
        return data


@dataclass(frozen=True, slots=True)
class _Known:
    owner: str
    prefix: str
    route: Route
    limit: int

    @property
    def path(self) -> str:
        return f"/{self.prefix}{self.route.path}"

    @property
    def pattern(self) -> re.Pattern[str]:
        """What the paths of its calls look like."""
        parts = re.split(r"(\{[^}]*\})", PREFIX + self.path)
        return re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in parts))


class PluginRoutes:
    """The routes of all plugins, for both applications; ``taken`` are first parts of paths that are xwheel's own."""

    def __init__(self, parts: ApiParts, taken: frozenset[str]) -> None:
        self._parts = parts
        self.site = RouteSite(parts)  # what all plugins of this process work with
        config = parts.config.api
        self._places = {
            for_executors: Places(max(1, threads // 4), "calls of plugins' routes are under way")
            for for_executors, threads in ((False, config.threads), (True, config.executor_threads))
        }
        self._known: list[_Known] = []
        read = partial(read_routes, site=self.site)
        for owner, item, found in read_all("routes", parts.plugins.routes, read, allowed=PluginError):
            if item.name in taken:
                raise PluginError(
                    f"{owner}: routes {item.name}: xwheel itself has /api/v1/{item.name}: choose another name"
                )
            for route in found:
                most = config.max_body_bytes if route.max_body_bytes is None else route.max_body_bytes
                self._known.append(_Known(owner, item.name, route, 0 if route.method in READS else most))
        self._large = [(known, known.pattern) for known in self._known if known.limit > config.max_body_bytes]

    def limit_of(self, method: str, path: str) -> int:
        """Return how long a body may be where that is more than the setting says; otherwise 0."""
        found = self._find_large(method, path)
        return 0 if found is None else found.limit

    def refuses_body(self, actor: Actor, method: str, path: str) -> bool:
        """Return whether a large body is not even read, since the caller may not do what it is for."""
        known = self._find_large(method, path)
        if known is None or known.route.permission is None:
            return False
        return actor.grants.groups_with(known.route.permission) == frozenset()

    def _find_large(self, method: str, path: str) -> _Known | None:
        large = (known for known, pattern in self._large if pattern.fullmatch(path))
        return next((known for known in large if known.route.method == method), None)

    def add_to_management(self, app: GuardedApp) -> None:
        """Add the routes of people and programs, as resources."""
        for path, known in self._by_path(for_executors=False).items():
            needs = {one.route.method: Need(one.route.permission, Of(one.route.scope.value)) for one in known}
            responders = {f"on_{one.route.method.lower()}": self._responder(one) for one in known}
            add_resource(app, known[0].owner, ResourceRoute(path, SimpleNamespace(**responders), needs))

    def add_to_executors(self, app: falcon.App[Any, Any], gate: ExecutorGate) -> None:
        """Add the routes of executors."""
        for path, known in self._by_path(for_executors=True).items():
            responders = {f"on_{one.route.method.lower()}": self._executor_responder(one, gate) for one in known}
            with _blaming(known[0].owner, PREFIX + path):
                app.add_route(PREFIX + path, SimpleNamespace(**responders))

    def _by_path(self, *, for_executors: bool) -> dict[str, list[_Known]]:
        found: dict[str, list[_Known]] = {}
        for one in self._known:
            if one.route.for_executors is for_executors:
                found.setdefault(one.path, []).append(one)
        return found

    def _responder(self, known: _Known) -> Callable[..., None]:
        def respond(req: falcon.Request, resp: falcon.Response, **path: Any) -> None:
            self._answer(known, req, resp, path, None)

        respond.__doc__ = known.route.summary
        return Operation({200: None}, problems=("not-found", "conflict", "busy"), is_open=True)(respond)

    def _executor_responder(self, known: _Known, gate: ExecutorGate) -> Callable[..., None]:
        def respond(req: falcon.Request, resp: falcon.Response, **path: Any) -> None:
            resp.set_header("Cache-Control", "no-store")
            try:
                caller = gate.require(req)
                with acting(actor_of_caller(caller, req.remote_addr)):
                    self._answer(known, req, resp, path, caller)
            except UnknownCallerError as error:
                kind, title = TYPE_PREFIX + "unauthorized", "A valid token is needed"
                field = "XXL-JOB-ACCESS-TOKEN"
                write_problem(resp, Problem(type=kind, title=title, status=401, detail=str(error), field=field))
            except falcon.HTTPError as error:
                on_http_error(req, resp, error, None)
            except Exception as error:  # as the management API answers it
                on_error(req, resp, error, None)

        return respond

    def _answer(
        self, known: _Known, req: falcon.Request, resp: falcon.Response, path: Mapping[str, Any], caller: Caller | None
    ) -> None:
        route = known.route
        if caller is not None and not caller.is_executor:
            raise UnknownCallerError("XXL-JOB-ACCESS-TOKEN: this takes the secret of an executor, not a group's token")
        group_id = None if caller is None else caller.group_id
        with self._places[route.for_executors].hold(group_id):
            query = {name: [found] if isinstance(found, str) else found for name, found in req.params.items()}
            call = RouteCall(
                path=dict(path),
                query={name: found[-1] for name, found in query.items()},
                headers={name.lower(): value[:MAX_HEADER] for name, value in req.headers.items()},
                body=LimitedBody(req, known.limit),
                actor=current_actor(),
                group_id=group_id,
            )
            if route.method in READS or route.for_executors:
                reply = self._ask(known, req, resp, call)
            else:
                reply = self._change(known, req, resp, call)
            if reply is not None:
                self._send(known, req, resp, reply)

    def _ask(self, known: _Known, req: falcon.Request, resp: falcon.Response, call: RouteCall) -> RouteReply | None:
        try:
            return answered(known.route.answer, call, RouteReply)
        except falcon.HTTPError:
            raise
        except BaseException as error:  # whatever it is, it ends this call and nothing else
            if isinstance(error, XwheelError) and problem_of(error) is not None:
                raise
            write_problem(resp, _failure(known, req, error))
            return None

    def _change(self, known: _Known, req: falcon.Request, resp: falcon.Response, call: RouteCall) -> RouteReply | None:
        """Ask a plugin that may change something: if it records nothing itself, its method and path are recorded."""
        deed = Deed(
            action=f"{known.prefix}.{req.method.lower()}",
            kind="plugin route",
            object_id="/".join(map(str, call.path.values())) or known.prefix,
            group_id=call.path.get("group_id"),
            after={"path": req.path[:200]},
        )
        opened = self._parts.audit.open_call(deed)
        reply = self._ask(known, req, resp, call)
        if reply is not None:
            self._parts.audit.close_call(opened)
        return reply

    def _send(self, known: _Known, req: falcon.Request, resp: falcon.Response, reply: RouteReply) -> None:
        resp.status = reply.status
        for name, value in reply.headers.items():
            resp.set_header(name, value)
        if reply.file is not None:
            try:
                etag = reply.headers.get("ETag", "")
                send_file(req, resp, reply.file, media_type=reply.media_type, name=reply.file_name, etag=etag)
            except OSError as error:
                write_problem(resp, _failure(known, req, error))
            return
        if reply.data is not None:
            resp.content_type = reply.media_type
            resp.data = reply.data
            return
        if reply.value is None:
            resp.status = reply.status if reply.status != 200 else 204  # noqa: PLR2004 - there is nothing to read
            return
        try:
            resp.data = msgspec.json.encode(reply.value)
        except (TypeError, ValueError, RecursionError) as error:
            write_problem(resp, _failure(known, req, error))


def add_resources(app: GuardedApp, parts: ApiParts, site: RouteSite) -> None:
    """Add the resources of all plugins; raises PluginError, which names the plugin, if a path is there already."""
    known = list(read_all("resources", parts.plugins.resources, lambda item: read_resources(item, site)))
    for owner, _, routes in known:
        for route in routes:
            add_resource(app, owner, route)


def answered(answer: Callable[[K], object], call: K, kind: type[R]) -> R:
    """Return what a plugin answers, once it can be sent; raises TypeError or ValueError, and what the plugin does."""
    reply = answer(call)
    if not isinstance(reply, kind):
        raise TypeError(f"answered with an object of {type(reply).__qualname__} instead of a {kind.__name__}")
    reply.check()
    return reply


def read_all(
    what: str,
    registry: Registry[K],
    read: Callable[[K], T],
    allowed: tuple[type[XwheelError], ...] | type[XwheelError] = (ConfigError, PluginError),
) -> Iterator[tuple[str, K, T]]:
    """Yield what is read of each object of plugins, with its owner and itself; an error names the owner."""
    for name, item in sorted(registry.items()):
        owner = registry.owners[name]
        try:
            found = guarded(f"{what} {name}", partial(read, item), allowed=allowed)
        except PluginError as error:
            raise PluginError(f"{owner}: {error}") from error
        yield owner, item, found


def add_resource(app: GuardedApp, owner: str, route: ResourceRoute) -> None:
    """Add a resource of a plugin, and name the plugin if its path is there already, or cannot be added."""
    template = route.path if route.at_root else PREFIX + route.path
    if any(template == known.path for known in app.routes):
        raise PluginError(f"{owner}: {template} cannot be added: it is there already")
    with _blaming(owner, template):
        app.add_route(template, route.resource, suffix=route.suffix, needs=route.needs)


@contextmanager
def _blaming(owner: str, template: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, ConfigError) as error:
        raise PluginError(f"{owner}: {template} cannot be added: {error}") from error


def _failure(known: _Known, req: falcon.Request, error: BaseException) -> Problem:
    """Log what a plugin did, and return what its caller is told: whose fault it is, and where to read more."""
    incident = secrets.token_hex(8)
    logger.error("incident %s: %s: %s %r failed", incident, known.owner, req.method, req.path[:200], exc_info=error)
    return Problem(
        type=TYPE_PREFIX + "plugin-failed",
        title="A plugin failed",
        status=500,
        detail=f"{known.owner.partition(' (')[0]} failed; the log of the node has the details under this incident",
        incident=incident,
    )
