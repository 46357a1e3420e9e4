"""Failures as RFC 9457 problem details: one table from error class to status, and the handlers that use it."""

from __future__ import annotations

import logging
import secrets
from http import HTTPStatus
from typing import Final, TypeVar

import falcon
import msgspec
from msgspec import UNSET, UnsetType

from xwheel import errors
from xwheel.api.http.body import BodyTooLargeError, MalformedBodyError
from xwheel.plugin.routes import RouteRefusedError
from xwheel.runtime.repeats import Repeats

logger = logging.getLogger(__name__)

T = TypeVar("T")

PROBLEM_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:xwheel:problem:"


class ThrottledError(errors.TooManyTriesError):
    """The caller's token is missing or wrong, as in many calls before."""

    def __init__(self, text: str, wait_ms: int) -> None:
        super().__init__(f"{text}; too many such calls: ask again in {seconds(wait_ms)} s", wait_ms)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The body of every failure of the management API."""

    type: str  # stable name of the kind of failure; ``docs/reference/errors.md`` lists them
    title: str
    status: int
    detail: str
    field: str | UnsetType = UNSET  # the field, parameter or header at fault; ``body`` for all of the body
    limit: dict[str, object] | UnsetType = UNSET  # what the field may hold, as data
    incident: str | UnsetType = UNSET  # number under which the log of the node has the details
    revision: int | UnsetType = UNSET  # the revision that the object is at
    reason: str | UnsetType = UNSET  # why a plugin refuses the call, as a word for programs
    facts: dict[str, object] | UnsetType = UNSET  # what else a plugin says of that, as data


# first match wins, so a subclass stands before its base
TABLE: Final[tuple[tuple[type[Exception], int, str, str], ...]] = (
    (errors.TooManyTriesError, 429, "throttled", errors.TooManyTriesError.title),
    (errors.AuthError, 401, "unauthorized", "A valid token is needed"),
    (errors.UnconfirmedError, 403, "unconfirmed", "Show once more that you are there"),
    (errors.ForbiddenError, 403, "forbidden", "The caller may not do this"),
    (BodyTooLargeError, 413, "body-too-large", "The body is too large"),
    (MalformedBodyError, 400, "malformed-body", "The body is not JSON"),
    (errors.FieldError, 422, "invalid-field", "A field is not acceptable"),
    (errors.NotFoundError, 404, "not-found", "The object does not exist"),
    (errors.NameTakenError, 409, "name-taken", "Another job of the group has this name"),
    (errors.OwnedByCodeError, 409, "owned-by-code", "Code declares this of the job"),
    (errors.ConflictError, 409, "conflict", "The object is not in the expected state"),
    (errors.BusyError, 503, "busy", "Too many calls of this kind"),
    (errors.NotRecordedError, 500, "not-recorded", "The change could not be recorded"),
    (errors.StorageError, 503, "storage", "The database cannot do this now"),
    (errors.ExecutorUnreachableError, 502, "executor-unreachable", "The executor cannot be asked"),
    (errors.WireError, 502, "executor-refused", "The executor gave no usable answer"),
    (errors.LogStoreError, 502, "log-store", "The log store gave no usable answer"),
    (errors.IdentityError, 502, "identity-provider", "The identity provider gave no usable answer"),
    (errors.PluginError, 422, "invalid-field", "A name that no plugin registered"),
)
RETRY_AFTER_S: Final = "1"
OUTAGE: Final = "the database does no work for this node now; the log of the node says why"
"""What callers hear of an outage, strangers among them: its error names the server and its user."""
_outages: Final = Repeats()


def problem_of(error: Exception) -> Problem | None:
    """Return the problem of an error that the table knows; None for an unexpected one."""
    if isinstance(error, RouteRefusedError):
        return Problem(
            type=TYPE_PREFIX + "plugin-refused",
            title="A plugin refuses this",
            status=error.status,
            detail=str(error),
            field=error.field or UNSET,
            reason=error.reason,
            facts=error.facts or UNSET,
        )
    for kind, status, slug, title in TABLE:
        if isinstance(error, kind):
            # sent: the question may have arrived, the answer did not
            late = isinstance(error, errors.ExecutorUnreachableError) and error.sent
            return Problem(
                type=TYPE_PREFIX + slug,
                title=error.title if isinstance(error, errors.TooManyTriesError) else title,
                status=HTTPStatus.GATEWAY_TIMEOUT.value if late else status,
                detail=OUTAGE if isinstance(error, errors.OutageError) else str(error),
                field=_said(error, "field", str),
                limit=_said(error, "limit", dict) or UNSET,
                revision=_said(error, "revision", int),
            )
    return None


def _said(error: Exception, name: str, kind: type[T]) -> T | UnsetType:
    """Return what an error says besides its words, if it is of this kind: those of plugins may hold anything."""
    said = getattr(error, name, UNSET)
    return said if isinstance(said, kind) else UNSET


def seconds(wait_ms: int) -> int:
    """Return a wait in whole seconds, rounded up."""
    return -(-wait_ms // 1000)


def new_incident(req: falcon.Request, error: BaseException) -> str:
    """Log an unexpected error, and return the number under which it was logged."""
    incident = secrets.token_hex(8)
    logger.error("incident %s: %s %r failed", incident, req.method, req.path, exc_info=error)
    return incident


def log_outage(req: falcon.Request, error: Exception) -> None:
    """Log why the database does no work, in a few lines however many callers there are."""
    if isinstance(error, errors.OutageError) and (count := _outages.note(str(error))):
        logger.warning("%s %r answered 503 (%d such calls): %s", req.method, req.path[:100], count, error)


def write_problem(resp: falcon.Response, problem: Problem) -> None:
    """Make a problem the response."""
    resp.status = problem.status
    resp.content_type = PROBLEM_TYPE
    resp.data = msgspec.json.encode(problem)


def on_error(req: falcon.Request, resp: falcon.Response, error: Exception, _params: object) -> None:
    """Answer with the problem that the table names; an unexpected error tells the client only its incident."""
    problem = problem_of(error)
    if problem is None:
        problem = Problem(
            type=TYPE_PREFIX + "internal",
            title="Internal error",
            status=500,
            detail="xwheel failed; its log has the details under this incident",
            incident=new_incident(req, error),
        )
    elif isinstance(error, errors.AuthError):
        resp.set_header("WWW-Authenticate", 'Bearer realm="xwheel"')
        if isinstance(error, errors.TooManyTriesError):
            resp.set_header("Retry-After", str(seconds(error.wait_ms)))
    elif problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        resp.set_header("Retry-After", RETRY_AFTER_S)
        log_outage(req, error)
    write_problem(resp, problem)


def on_http_error(req: falcon.Request, resp: falcon.Response, error: falcon.HTTPError, _params: object) -> None:
    """Give Falcon's own refusals, such as an unknown route or a wrong method, the same form."""
    status = HTTPStatus(error.status_code)
    slug = {404: "unknown-route", 405: "method-not-allowed"}.get(status.value, "bad-request")
    if error.headers:
        resp.set_headers(dict(error.headers))
    detail = error.description or f"{req.method} {req.path[:200]}: {status.phrase.lower()}"
    write_problem(resp, Problem(type=TYPE_PREFIX + slug, title=status.phrase, status=status.value, detail=detail))
