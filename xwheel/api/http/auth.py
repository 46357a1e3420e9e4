"""Who may call: what every route needs is checked before its resource is entered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import falcon
from falcon.routing import map_http_methods

from xwheel.access.tokens import actor_of, whole_group
from xwheel.api.http import errors
from xwheel.api.http.client import TrustedProxies
from xwheel.api.http.errors import ThrottledError
from xwheel.api.http.gates import SAFE, PluginGates
from xwheel.api.http.headers import reason_of
from xwheel.api.http.packing import Packing
from xwheel.api.parts import ApiParts
from xwheel.errors import (
    AuthError,
    ConfigError,
    ForbiddenError,
    HiddenError,
    NotFoundError,
    UnconfirmedError,
    WireError,
)
from xwheel.model import NO_SECRET, SHARED_SECRET
from xwheel.model.access import NODE, UNKNOWN_ACTOR, Actor, ActorKind, Permission, current_actor, set_actor
from xwheel.model.deeds import Deed
from xwheel.plugin.gates import NamesCaller
from xwheel.plugin.resources import CALLER, PUBLIC, Methods, Need, Of, OfObject, ResourceRoute
from xwheel.runtime.http_limits import Refusals, route_of
from xwheel.scheduler.audit_trail import CHANGE, OPEN_CALL
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Connection
from xwheel.wire import contract

MAX_TOKEN: Final = 512
SCHEME: Final = "bearer"


class _CountingGate:
    _listener: str

    def __init__(self, parts: ApiParts) -> None:
        self._clock, self._audit, self._tokens = parts.clock, parts.audit, parts.tokens
        self._refusals = Refusals()

    def note_refused(self, req: falcon.Request, actor: Actor, why: Exception) -> None:
        """Record a refused call."""
        route = f"{req.method} {req.uri_template or req.path[:80]}"
        self._audit.note_refused(self._listener, actor, self._address_of(req), route, req.path, str(why))

    def _address_of(self, req: falcon.Request) -> str:
        return req.remote_addr or ""

    def _wait_ms(self, req: falcon.Request, header: str) -> int:
        """Count a refused call, and return how long the caller must wait after too many of them; else 0."""
        shown, route = req.get_header(header) or "", route_of(req.method, req.path)
        return self._refusals.note(req.remote_addr, shown, route, self._clock.monotonic_ms())


class ApiGate(_CountingGate):
    """Middleware that lets a request through to its resource only if the caller may do what the route needs.

    The gates of plugins are asked who calls, then the tokens. ``before`` is called before the resource of each call
    whose caller is known: public calls must not wait for it.
    """

    _listener = "api"

    def __init__(
        self, parts: ApiParts, gates: PluginGates, proxies: TrustedProxies, before: Callable[[], None]
    ) -> None:
        super().__init__(parts)
        self._db, self._gates, self._proxies, self._before = parts.db, gates, proxies, before
        self.needs: dict[str, Methods] = {}

    def require(self, req: falcon.Request, need: Need, params: Mapping[str, Any]) -> None:
        """Let the caller pass, or not, and say on this thread who acts.

        Raises what :meth:`identify` does, or ThrottledError if that is so too often; ForbiddenError for what the caller
        may not do, or a page of elsewhere asks for; NotFoundError for an object that is not there, or that the caller
        may not know of; UnconfirmedError for a person who must show first that they are there; InputError for a reason
        that cannot be read.
        """
        self._refusals.sum_up(self._clock.monotonic_ms())
        if need.of is Of.ANYONE:
            set_actor(replace(UNKNOWN_ACTOR, address=self._proxies.address_of(req)))
            return
        try:
            actor = self.identify(req, may_be_groups=need.group_token)
        except AuthError as error:
            if wait_ms := self._wait_ms(req, "Authorization"):
                raise ThrottledError(str(error), wait_ms) from None
            raise
        set_actor(actor)
        if req.method not in SAFE and (reason := reason_of(req)):
            actor = replace(actor, reason=reason)
            set_actor(actor)
        if need.permission is not None and actor.kind is not ActorKind.GROUP:
            self._check(actor, need.permission, need.of, params)
        if need.makes_credential:
            _check_presence(actor, need.permission or Permission.READ)

    def _check(self, actor: Actor, permission: Permission, of: Of | OfObject, params: Mapping[str, Any]) -> None:
        grants = actor.grants
        if grants.allows(permission):
            return
        if of is Of.ALL or (of is Of.SOME and not grants.groups_with(permission)):
            raise ForbiddenError(permission, f"this takes the permission {permission} in {of}")
        if of is Of.SOME:
            return
        with self._db.read() as conn:
            find = of.find if isinstance(of, OfObject) else _GROUPS[of]
            kind, key, group_id = find(conn, params)
        actor.need(permission, group_id, kind, key)

    def identify(self, req: falcon.Request, *, may_be_groups: bool = False) -> Actor:
        """Return who calls, as a plugin says that looks at what the call shows, or by token; count nothing.

        Raises AuthError if what the call shows is missing or wrong, or the token is that of a group, and ForbiddenError
        if a plugin knows the caller, and refuses the call as it is.
        """
        address = self._proxies.address_of(req)
        found, failed = self._gates.identify(req, address)
        if found is not None:
            return found
        scheme, _, token = (req.get_header("Authorization") or "").partition(" ")
        token = token.strip()
        if scheme.lower() != SCHEME or not 0 < len(token) <= MAX_TOKEN:
            raise AuthError(failed or "Authorization: send 'Bearer' and a management token, or sign in")
        known = self._tokens.find(token, address)
        if known is None:
            raise AuthError("Authorization: this token is not known here, or is not good any more or from this address")
        if known.group_id is not None and not may_be_groups:
            raise AuthError(
                f"Authorization: this token opens only the jobs of group {known.app_name or known.group_id}, over "
                "XXL-JOB's calls and for what code declares; the management API needs one without a group"
            )
        return actor_of(known, address)

    def _address_of(self, req: falcon.Request) -> str:
        return self._proxies.address_of(req)

    def on_error(self, req: falcon.Request, resp: falcon.Response, error: Exception, params: dict[str, Any]) -> None:
        """Answer with the problem that an error is, and record it if it is a refusal."""
        if isinstance(error, AuthError | ForbiddenError | HiddenError | NamesCaller):
            self.note_refused(req, self._refused(req, error), error)
        errors.on_error(req, resp, error, params)

    def _refused(self, req: falcon.Request, error: Exception) -> Actor:
        """Return who was refused, as far as that is known: of a wrong password, say, whose it should have been."""
        caller = error.caller if isinstance(error, NamesCaller) else None
        if not isinstance(caller, Actor):
            return current_actor()
        return replace(caller, address=self._proxies.address_of(req))

    def process_resource(
        self, req: falcon.Request, _resp: falcon.Response, _resource: object, params: dict[str, Any]
    ) -> None:
        """Check what a matched route needs; a method that it does not have is refused like a path there is not."""
        methods = self.needs[str(req.uri_template)]
        other = PUBLIC if all(need.of is Of.ANYONE for need in methods.values()) else CALLER
        need = methods.get(req.method, other)
        self.require(req, need, params)
        if need.permission is not None and req.method not in SAFE:
            group_id = params.get("group_id") if need.of is Of.GROUP else None
            called = f"{req.method} {req.path}"[:200]
            self._audit.open_call(Deed(action=CHANGE, kind="call", object_id=called, group_id=group_id))
        if current_actor().kind is not ActorKind.UNKNOWN:
            self._before()

    def process_response(
        self, _req: falcon.Request, resp: falcon.Response, _resource: object, _req_succeeded: bool
    ) -> None:
        """Keep answers out of caches and out of content sniffers; this thread serves the next caller.

        Files that are the same for everybody say themselves how long they may be kept.
        """
        set_actor(NODE)
        OPEN_CALL.set(None)
        if resp.get_header("Cache-Control") is None:
            resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Content-Type-Options", "nosniff")


def _check_presence(actor: Actor, permission: Permission) -> None:
    """Refuse a person who may be away from their session, and each personal token: who found it would stay in."""
    if actor.kind is not ActorKind.ACCOUNT or actor.confirmed:
        return
    raise UnconfirmedError(
        permission,
        "this makes or widens what lets somebody in: it takes a session whose password was typed once more within the "
        "last minutes; a personal token cannot do it, the token of a service can",
    )


def actor_of_caller(caller: Caller, address: str) -> Actor:
    """Return who acts with one of XXL-JOB's calls.

    Only a group's token acts for its group. What executors report is no deed of theirs: what follows from it, the node
    does by itself.
    """
    if caller.is_executor or caller.group_id is None:
        return NODE
    return Actor(
        kind=ActorKind.GROUP,
        name=caller.name,
        grants=whole_group(caller.group_id),
        credential=f"token {caller.name}",
        address=address,
    )


def _of_job(conn: Connection, params: Mapping[str, Any]) -> tuple[str, object, int | None]:
    job_id = params["job_id"]
    known = jobs.get_jobs(conn, {job_id}).get(job_id)  # a deleted one too: its versions are there
    if known is None:
        raise NotFoundError("job", job_id)
    return "job", job_id, known.group_id


def _of_run(conn: Connection, params: Mapping[str, Any]) -> tuple[str, object, int | None]:
    return "run", params["run_id"], runs.get_run(conn, params["run_id"]).group_id


_GROUPS: Final = {
    Of.GROUP: lambda _, params: ("group", params["group_id"], params["group_id"]),
    Of.JOB: _of_job,
    Of.RUN: _of_run,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes one of XXL-JOB's calls."""

    name: str = ""  # name of the group's token or secret; empty for the token that all executors share
    group_id: int | None = None  # the only group that the caller may touch; None for the shared token
    app_name: str = ""  # that group's app name, or empty
    # the executor secret that the caller showed, ``SHARED_SECRET``, or ``NO_SECRET`` for a group's token
    secret_id: int = SHARED_SECRET

    @property
    def is_executor(self) -> bool:
        """Whether the caller showed what executors have, which opens no job calls."""
        return self.secret_id != NO_SECRET


class UnknownCallerError(WireError):
    """The caller of one of XXL-JOB's calls is not known; counted, and logged together with others."""


class ExecutorGate(_CountingGate):
    """Lets executors in, and callers with a group's token that name that group."""

    _listener = "executor-api"

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._secrets = parts.secrets

    def require(self, req: falcon.Request) -> Caller:
        """Return who calls; count calls that are refused.

        Raises UnknownCallerError if the token is missing or wrong, or its group is not the one that the call names; the
        answer does not say which.
        """
        self._refusals.sum_up(self._clock.monotonic_ms())
        try:
            return self.identify(req)
        except UnknownCallerError as error:
            self.note_refused(req, UNKNOWN_ACTOR, error)
            if wait_ms := self._wait_ms(req, contract.TOKEN_HEADER):
                raise UnknownCallerError(str(ThrottledError(str(error), wait_ms))) from None
            raise

    def identify(self, req: falcon.Request) -> Caller:
        """Return who calls, and count nothing; raises what :meth:`require` does."""
        token = req.get_header(contract.TOKEN_HEADER) or ""
        app_name = (req.get_header(contract.APP_NAME_HEADER) or "").strip()
        caller = self._identify(token, app_name, req.remote_addr) if 0 < len(token) <= MAX_TOKEN else None
        if caller is None:
            raise UnknownCallerError(
                f"{contract.TOKEN_HEADER}: missing or wrong; it must be the scheduler's executor token, a secret of "
                f"the executor's group, or a group's token while {contract.APP_NAME_HEADER} names that group"
            )
        return caller

    def _identify(self, token: str, app_name: str, address: str) -> Caller | None:
        shown = self._secrets.find(token)
        if shown is not None:
            secret_id, secret = shown
            if secret is None:
                return Caller()
            # earlier generations of executors do not name their group here
            if secret.app_name is None or app_name not in ("", secret.app_name):
                return None
            return Caller(name=secret.name, group_id=secret.group_id, app_name=secret.app_name, secret_id=secret_id)
        known = self._tokens.find(token, address)
        if known is None or known.group_id is None or known.app_name != app_name:
            return None
        return Caller(name=known.name, group_id=known.group_id, app_name=app_name, secret_id=NO_SECRET)


class GuardedApp(falcon.App[falcon.Request, falcon.Response]):
    """A Falcon application that refuses routes and sinks that do not say what they need when they are added.

    ``routes`` has every route, with its whole path, ``needs`` what their methods need. ``refuses_body`` returns whether
    a known caller's large body is not read, by method and path.
    """

    def __init__(self, gate: ApiGate, refuses_body: Callable[[Actor, str, str], bool] = lambda *_: False) -> None:
        super().__init__(middleware=[gate, Packing()])
        self._gate, self.needs = gate, gate.needs
        self._refuses_body = refuses_body
        self.routes: list[ResourceRoute] = []

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether the head of a call shows who calls; for listeners, before they read a large body."""
        req = falcon.Request(environ)
        try:
            actor = self._gate.identify(req, may_be_groups=True)
        except AuthError:
            return False
        return not self._refuses_body(actor, req.method, req.path)

    def add_route(self, uri_template: str, resource: object, *, needs: Methods | None = None, **kwargs: Any) -> None:
        """Add a route; raises ConfigError unless it is said what each of its methods needs, and of no other."""
        found = map_http_methods(resource, suffix=kwargs.get("suffix")).keys() - {"OPTIONS"}
        if needs is None or needs.keys() != found:
            raise ConfigError(
                f"{uri_template} must say what each of {', '.join(sorted(found))} needs, and says it of "
                f"{', '.join(sorted(needs or ())) or 'none'}"
            )
        super().add_route(uri_template, resource, **kwargs)
        self._gate.needs[uri_template] = needs
        self.routes.append(ResourceRoute(uri_template, resource, needs, kwargs.get("suffix"), at_root=True))

    def add_sink(
        self, sink: Callable[..., None], prefix: Any = r"/", *, need: Need | None = None, **kwargs: Any
    ) -> None:
        """Add a sink; raises ConfigError unless it is said what it needs: Falcon's middleware skips sinks."""
        if need is None:
            raise ConfigError(f"the sink at {prefix} must say what it needs")
        wanted = need

        def guarded(req: falcon.Request, resp: falcon.Response, **params: str) -> None:
            self._gate.require(req, wanted, params)
            sink(req, resp, **params)

        super().add_sink(guarded, prefix, **kwargs)
