"""Who may call: a policy on every route, checked before its resource is entered."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

import falcon

from xwheel.api.http.errors import ThrottledError
from xwheel.clock import Clock
from xwheel.errors import AuthError, ConfigError, WireError
from xwheel.model import NO_SECRET, SHARED_SECRET
from xwheel.runtime.http_limits import Refusals, route_of
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.storage import tokens
from xwheel.storage.database.engine import Database
from xwheel.wire import contract

MAX_TOKEN: Final = 512
CACHE_MS: Final = 1000
SCHEME: Final = "bearer"


class Policy(StrEnum):
    """Who may use a route."""

    PUBLIC = "public"
    TOKEN = "token"  # noqa: S105 -- a policy's name


class TokenStore:
    """The tokens in the database, by digest; a change there counts within a second.

    Thread-safety: any thread may ask; one lock guards the copy, and one thread at a time reads the database.

    Args:
        db: The database.
        clock: Where time comes from.
    """

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: Sequence[tokens.KnownToken] = ()
        self._read_ms: int | None = None

    def find(self, token: str) -> tokens.KnownToken | None:
        """Return what is known of a token, or None; every digest is compared, in constant time."""
        digest = tokens.digest_token(token)
        matches = [known for known in self._known() if hmac.compare_digest(known.digest, digest)]
        return matches[0] if matches else None

    def _known(self) -> Sequence[tokens.KnownToken]:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._read_ms is None or now_ms - self._read_ms >= CACHE_MS:
                with self._db.read() as conn:
                    self._tokens = tokens.list_tokens(conn)
                self._read_ms = now_ms
            return self._tokens


class _CountingGate:
    """Counts the calls that it refuses."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refusals = Refusals()

    def _wait_ms(self, req: falcon.Request, header: str) -> int:
        """Count a refused call, and return how long the caller must wait after too many of them; else 0."""
        shown, route = req.get_header(header) or "", route_of(req.method, req.path)
        return self._refusals.note(req.remote_addr, shown, route, self._clock.monotonic_ms())


class Gate(_CountingGate):
    """Middleware that lets a request through to its resource only as the resource's policy says.

    Args:
        known: The tokens.
        clock: Where time comes from.
    """

    def __init__(self, known: TokenStore, clock: Clock) -> None:
        super().__init__(clock)
        self._known = known

    def require(self, req: falcon.Request, policy: Policy) -> None:
        """Let the caller pass, or not; cookies are ignored.

        Raises:
            AuthError: The token is missing or wrong, or that of a group.
            ThrottledError: The same, too often.
        """
        self._refusals.sum_up(self._clock.monotonic_ms())
        if policy is Policy.PUBLIC:
            return
        try:
            self.identify(req)
        except AuthError as error:
            if wait_ms := self._wait_ms(req, "Authorization"):
                raise ThrottledError(str(error), wait_ms) from None
            raise

    def identify(self, req: falcon.Request) -> None:
        """Note in the request who calls, and count nothing.

        Raises:
            AuthError: The token is missing or wrong, or that of a group.
        """
        scheme, _, token = (req.get_header("Authorization") or "").partition(" ")
        token = token.strip()
        if scheme.lower() != SCHEME or not 0 < len(token) <= MAX_TOKEN:
            raise AuthError("Authorization: send 'Bearer' and a management token")
        known = self._known.find(token)
        if known is None:
            raise AuthError("Authorization: this token is not known here")
        if known.group_id is not None:
            raise AuthError(
                f"Authorization: this token opens only the jobs of group {known.app_name or known.group_id}, over "
                "XXL-JOB's calls; the management API needs one without a group"
            )
        req.context.caller = known.name

    def process_resource(
        self, req: falcon.Request, resp: falcon.Response, resource: object, params: dict[str, Any]
    ) -> None:
        """Check the policy of a matched route."""
        del resp, params
        self.require(req, policy_of(resource))

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Keep answers out of caches and out of content sniffers."""
        del req, resource, req_succeeded
        resp.set_header("Cache-Control", "no-store")
        resp.set_header("X-Content-Type-Options", "nosniff")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who makes one of XXL-JOB's calls.

    Attributes:
        name: Name of the group's token or secret; empty for the token that all executors share.
        group_id: The only group that the caller may touch; None for the shared token.
        app_name: That group's app name, or empty.
        secret_id: The executor secret that the caller showed, ``SHARED_SECRET``, or ``NO_SECRET`` for a group's token.
    """

    name: str = ""
    group_id: int | None = None
    app_name: str = ""
    secret_id: int = SHARED_SECRET

    @property
    def is_executor(self) -> bool:
        """Whether the caller showed what executors have, which opens no job calls."""
        return self.secret_id != NO_SECRET


class UnknownCallerError(WireError):
    """The caller of one of XXL-JOB's calls is not known; counted, and logged together with others."""


class ExecutorGate(_CountingGate):
    """Lets executors in, and callers with a group's token that name that group.

    Args:
        secrets: What executors have.
        known: The tokens of groups.
        clock: Where time comes from.
    """

    def __init__(self, secrets: ExecutorSecrets, known: TokenStore, clock: Clock) -> None:
        super().__init__(clock)
        self._secrets = secrets
        self._known = known

    def require(self, req: falcon.Request) -> Caller:
        """Return who calls; count calls that are refused.

        Raises:
            UnknownCallerError: The token is missing or wrong, or its group is not the one that the call names; the
                answer does not say which.
        """
        self._refusals.sum_up(self._clock.monotonic_ms())
        try:
            return self.identify(req)
        except UnknownCallerError as error:
            if wait_ms := self._wait_ms(req, contract.TOKEN_HEADER):
                raise UnknownCallerError(str(ThrottledError(str(error), wait_ms))) from None
            raise

    def identify(self, req: falcon.Request) -> Caller:
        """Return who calls, and count nothing.

        Raises:
            UnknownCallerError: As :meth:`require` says.
        """
        token = req.get_header(contract.TOKEN_HEADER) or ""
        app_name = (req.get_header(contract.APP_NAME_HEADER) or "").strip()
        caller = self._identify(token, app_name) if 0 < len(token) <= MAX_TOKEN else None
        if caller is None:
            raise UnknownCallerError(
                f"{contract.TOKEN_HEADER}: missing or wrong; it must be the scheduler's executor token, a secret of "
                f"the executor's group, or a group's token while {contract.APP_NAME_HEADER} names that group"
            )
        return caller

    def _identify(self, token: str, app_name: str) -> Caller | None:
        shown = self._secrets.find(token)
        if shown is not None:
            secret_id, secret = shown
            if secret is None:
                return Caller()
            # earlier generations of executors do not name their group here
            if secret.app_name is None or app_name not in ("", secret.app_name):
                return None
            return Caller(
                name=secret.name,
                group_id=secret.group_id,
                app_name=secret.app_name,
                secret_id=secret_id,
            )
        known = self._known.find(token)
        if known is None or known.group_id is None or known.app_name != app_name:
            return None
        return Caller(name=known.name, group_id=known.group_id, app_name=app_name, secret_id=NO_SECRET)


def policy_of(target: object) -> Policy:
    """Return the policy that a resource or sink declares.

    Raises:
        ConfigError: It declares none.
    """
    policy = getattr(target, "policy", None)
    if not isinstance(policy, Policy):
        raise ConfigError(f"{target!r} declares no policy: a route is either public or needs a token")
    return policy


class GuardedApp(falcon.App[falcon.Request, falcon.Response]):
    """A Falcon application that refuses routes and sinks without a policy when they are added.

    Attributes:
        routes: Template, resource and suffix of every route.

    Args:
        gate: Checks the policies.
    """

    def __init__(self, gate: Gate) -> None:
        super().__init__(middleware=[gate])
        self._gate = gate
        self.routes: list[tuple[str, object, str | None]] = []

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether the head of a call has a management token; for listeners, before they read a large body."""
        try:
            self._gate.identify(falcon.Request(environ))
        except AuthError:
            return False
        return True

    def add_route(self, uri_template: str, resource: object, **kwargs: Any) -> None:
        """Add a route whose resource has the attribute ``policy``.

        Raises:
            ConfigError: It has none.
        """
        policy_of(resource)
        super().add_route(uri_template, resource, **kwargs)
        self.routes.append((uri_template, resource, kwargs.get("suffix")))

    def add_sink(self, sink: Callable[..., None], prefix: Any = r"/") -> None:
        """Add a sink that has the attribute ``policy``; Falcon's middleware skips sinks, so it is checked here.

        Raises:
            ConfigError: It has none.
        """
        policy = policy_of(sink)

        def guarded(req: falcon.Request, resp: falcon.Response, **params: str) -> None:
            self._gate.require(req, policy)
            sink(req, resp, **params)

        super().add_sink(guarded, prefix)
