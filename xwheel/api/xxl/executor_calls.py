"""XXL-JOB's executor API: registrations, outcomes, logs and calls of plugins, answered in its envelope."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import falcon

from xwheel import errors
from xwheel.api.http.auth import Caller, ExecutorGate, UnknownCallerError, actor_of_caller
from xwheel.api.http.body import BodyTooLargeError, read_body
from xwheel.api.http.errors import RETRY_AFTER_S, log_outage, new_incident, problem_of
from xwheel.api.http.places import Places
from xwheel.api.parts import ApiParts
from xwheel.api.plugins.group_calls import PluginCalls
from xwheel.model import RegisteredExecutor, Reporter, RunReason, RunState
from xwheel.model.access import acting
from xwheel.plugin.run_logs import TakesLogs
from xwheel.plugin.validation import log_receipts, wants_logs
from xwheel.runtime.http_limits import Refusals, route_of
from xwheel.scheduler.finish.finish import OutcomeStatus
from xwheel.scheduler.records import Outcome, reported
from xwheel.wire import codec, contract
from xwheel.wire.codec import decode_log_parts, encode, receipts_payload, refusals_payload, wishes_payload
from xwheel.wire.messages import BadItem, CallbackItem, LogReceipt, RegistryRequest, Response

logger = logging.getLogger(__name__)

CONTEXT_PATH: Final = "xxl-job-admin"
EXECUTORS: Final = "EXECUTOR"
MAX_APP_NAME: Final = 64
ARRAY_GENERATION: Final = 3
REPORTED: Final = 5  # items that the message of an answer names; the data names all


class NotPostError(errors.WireError):
    """A call that is no POST, as no executor makes one: strangers, scanners, probes; counted, and logged together."""


class ExecutorCalls:
    """A Falcon sink for everything executors call, once its ``gate`` lets them in; see the protocol's section 2."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self.gate = ExecutorGate(parts)
        self._odd = Refusals("method other than POST")
        self._calls: dict[str, Callable[[falcon.Request, Caller, bytes], Response]] = {
            contract.REGISTRY: self._register,
            contract.REGISTRY_REMOVE: self._remove,
            contract.CALLBACK: self._take_outcomes,
            contract.SHIP_LOGS: self._take_logs,
        }
        takers = parts.plugins.offering(TakesLogs)
        self._logs = takers[0] if takers else None
        self._of_plugins = PluginCalls(parts, self._calls)
        # shipping waits for a store, callbacks and beats wait for nothing
        self._log_places = Places(max(1, parts.config.api.executor_threads // 4), "logs are being kept")

    def __call__(self, req: falcon.Request, resp: falcon.Response, **_params: str) -> None:
        """Answer one call; failures go to :func:`on_error`."""
        now_ms = self._parts.clock.monotonic_ms()
        self._odd.sum_up(now_ms)
        if req.method != "POST":
            self._odd.count(req.remote_addr, route_of(req.method, req.path), now_ms)
            raise NotPostError(f"{req.method}: every call must be a POST")
        caller = self.gate.require(req)
        with acting(actor_of_caller(caller, req.remote_addr)) as actor:
            try:
                write_envelope(resp, self._answer(req, caller))
            except (errors.ForbiddenError, errors.HiddenError) as error:
                self.gate.note_refused(req, actor, error)
                raise

    def _answer(self, req: falcon.Request, caller: Caller) -> Response:
        name = _uri_of(req.path)
        if name in self._of_plugins.names:
            return self._of_plugins.answer(name, caller, lambda: self._read(req))
        call = self._calls.get(name)
        if call is None:
            known = ", ".join(sorted({*self._calls, *self._of_plugins.names}))
            raise errors.WireError(f"{req.path[:100]}: no such call; known: {known}")
        return call(req, caller, self._read(req))

    def _read(self, req: falcon.Request) -> bytes:
        return read_body(req, self._parts.config.api.max_body_bytes)

    def _register(self, req: falcon.Request, caller: Caller, body: bytes) -> Response:
        request = codec.decode_registry(body)
        address = contract.normalise_address(request.address)
        if request.group != EXECUTORS:
            return Response(code=contract.OK)  # upstream stores such rows and never reads them
        _check_words(request, caller)
        is_newest = req.get_header(contract.APP_NAME_HEADER) is not None
        facts = RegisteredExecutor(
            id=0,
            group_id=0,
            address=address,
            registered_as=request.address.strip(),
            kind="xwheel" if request.instance else "foreign",
            generation=_generation(request, is_newest=is_newest),
            instance=request.instance,
            boot=request.boot,
            seen_ms=0,
            suspect_until_ms=0,
            labels=request.labels,
            secret_id=caller.secret_id,
            release=request.release or None,
            declared=request.declared or None,
        )
        with _known_group(request) as app_name:
            self._parts.registry.register(app_name, facts, self._parts.clock.now_ms())
        if not request.instance:
            return Response(code=contract.OK)
        wants = self._logs is not None and wants_logs(self._logs)
        return Response(code=contract.OK, data=wishes_payload(ship_logs=wants))

    def _remove(self, _req: falcon.Request, caller: Caller, body: bytes) -> Response:
        request = codec.decode_registry(body)
        address = contract.normalise_address(request.address)
        if request.group == EXECUTORS:
            _check_words(request, caller)
            with _known_group(request) as app_name:
                self._parts.registry.remove(app_name, address, secret_id=caller.secret_id)
        return Response(code=contract.OK)

    def _take_outcomes(self, _req: falcon.Request, caller: Caller, body: bytes) -> Response:
        items, bad = codec.decode_callbacks(body)
        # committed before the reply: what raises here becomes code 500, and the executor keeps its spool
        reporter = Reporter(caller.group_id)
        statuses = self._parts.finisher.finish([reported_outcome(item, reporter) for item in items])
        if not bad and len(statuses) == len(items) and set(statuses.values()) <= {OutcomeStatus.FINISHED}:
            return Response(code=contract.OK)
        unknown, settled = _judge(items, bad, statuses)
        return _partly([*bad, *unknown], settled, len(items) + len(bad), is_xwheel=any(item.job_id for item in items))

    def _take_logs(self, _req: falcon.Request, caller: Caller, body: bytes) -> Response:
        if self._logs is None:
            raise errors.WireError("shipLogs: no plugin that is installed here takes logs")
        # before the lines are read, and by one group never all
        with self._log_places.hold(caller.group_id):
            instance, parts, bad = decode_log_parts(body)
            try:
                receipts = log_receipts(self._logs, instance, parts, Reporter(caller.group_id))
            except errors.LogStoreError:  # said already, to the operator
                raise errors.BusyError("the log store takes no lines now: send them again later") from None
        receipts += [LogReceipt(run_id=item.run_id, settled=True, message=item.error) for item in bad]
        return Response(code=contract.OK, data=receipts_payload(receipts))


def on_error(req: falcon.Request, resp: falcon.Response, error: Exception, _params: object) -> None:
    """Answer a failure in the envelope, with HTTP status 200, or 413 for a body that is too large.

    It is 503 where the call may be right and cannot be done now, as in an outage of the database: no item is to blame.
    """
    problem = problem_of(error)
    if isinstance(error, BodyTooLargeError):
        resp.status = 413
        response = Response(code=contract.FAIL, message=f"body: {error}")
    elif problem is not None and problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
        resp.status = problem.status
        resp.set_header("Retry-After", RETRY_AFTER_S)
        log_outage(req, error)
        response = Response(code=contract.FAIL, message=problem.detail)
    elif isinstance(error, errors.XwheelError):
        response = contract.error_response(error)
        if not isinstance(error, UnknownCallerError | NotPostError):
            logger.info("%s %r of %s refused: %s", req.method, req.path[:100], req.remote_addr, error)
    elif isinstance(error, falcon.HTTPError):
        response = Response(code=contract.FAIL, message=error.description or error.title)
    else:
        incident = new_incident(req, error)
        response = Response(code=contract.FAIL, message=f"internal error; the scheduler's log has incident {incident}")
    write_envelope(resp, response)


def write_envelope(resp: falcon.Response, response: Response) -> None:
    """Make an envelope the response; Python executors insist on the content type."""
    resp.content_type = falcon.MEDIA_JSON
    resp.data = codec.encode_response(response)


def _uri_of(path: str) -> str:
    """Return the call that a path names, or nothing; slashes may be doubled and trailing."""
    parts = [part for part in path.split("/") if part]
    if parts[:1] == [CONTEXT_PATH]:
        del parts[0]
    return parts[1] if len(parts) == 2 and parts[0] == "api" else ""  # noqa: PLR2004


def _generation(request: RegistryRequest, *, is_newest: bool) -> int:
    if request.instance and request.early:
        return codec.EARLY_GENERATION
    # xwheel executors send the header too, for schedulers of the fourth generation; they know both paths
    return codec.OBJECT_GENERATION if is_newest else ARRAY_GENERATION


def _check_words(request: RegistryRequest, caller: Caller) -> None:
    words = {"registryKey": request.app_name, "instance": request.instance, "boot": request.boot}
    for name, value in words.items():
        if not value.isprintable():
            raise errors.WireError(f"{name}: must not contain control characters")
    if len(request.app_name.strip()) > MAX_APP_NAME:
        raise errors.WireError(f"registryKey: must be text of at most {MAX_APP_NAME} characters")
    if caller.group_id is not None and request.app_name.strip() != caller.app_name:
        raise _unknown_group(request.app_name.strip())


@contextmanager
def _known_group(request: RegistryRequest) -> Iterator[str]:
    """Give the app name that a registration names; name its field if there is no such group."""
    app_name = request.app_name.strip()
    try:
        yield app_name
    except errors.NotFoundError as error:
        raise _unknown_group(app_name) from error


def _unknown_group(app_name: str) -> errors.WireError:
    return errors.WireError(
        f"registryKey: there is no executor group {app_name!r}; 'xwheel group create {app_name}' "
        "(POST /api/v1/groups) makes it, and the executor's next beat then succeeds"
    )


def reported_outcome(item: CallbackItem, reporter: Reporter) -> Outcome:
    """Return what an executor reported as the outcome of a run, with who says so."""
    reason, message = reported(item.reason, item.message)
    is_given_back = reason is RunReason.FAILED_OVER and bool(item.job_id and item.instance)
    if reason is RunReason.FAILED_OVER and not is_given_back:
        reason = RunReason.PLAIN  # it would get a further attempt
    return Outcome(
        run_id=item.run_id,
        state=RunState.REFUSED if is_given_back else item.state,
        reason=reason,
        code=item.code,
        message=message,
        # foreign executors send their own start time here; ours repeat what the trigger said
        created_ms=item.created_ms if item.job_id else 0,
        instance=item.instance,
        reporter=reporter,
        recalled=is_given_back,
        started_ms=item.started_ms if item.job_id else None,
        took_ms=item.finished_ms - item.started_ms,
    )


def _judge(
    items: Sequence[CallbackItem], bad: Sequence[BadItem], statuses: Mapping[int, OutcomeStatus]
) -> tuple[list[BadItem], list[BadItem]]:
    """Return which readable items name no run, and which came too late, at their places in the request."""
    unreadable = {entry.index for entry in bad}
    places = (index for index in range(len(items) + len(bad)) if index not in unreadable)
    unknown: list[BadItem] = []
    settled: list[BadItem] = []
    seen: set[int] = set()
    for index, item in zip(places, items, strict=False):
        status, found, error = statuses[item.run_id], settled, ""
        if item.run_id in seen:
            error = "logId: occurs before in this request"
        elif status is OutcomeStatus.UNKNOWN:
            found, error = unknown, "logId: no run has this id"
        elif status is OutcomeStatus.REPEATED:
            error = "logId: this run awaits no outcome, what is recorded stands"
        if error:
            found.append(BadItem(index=index, run_id=item.run_id, error=error))
        seen.add(item.run_id)
    return unknown, settled


def _partly(refused: Sequence[BadItem], settled: Sequence[BadItem], total: int, *, is_xwheel: bool) -> Response:
    """Accept a request and say which of its items changed nothing; the executor must not send them again."""
    report = sorted([*refused, *settled], key=lambda entry: entry.index)
    named = "; ".join(f"item {entry.index} (logId {entry.run_id}): {entry.error}" for entry in report[:REPORTED])
    more = f"; and {len(report) - REPORTED} more" if len(report) > REPORTED else ""
    message = f"{len(report)} of {total} outcomes changed nothing: {named}{more}"
    logger.log(logging.WARNING if refused else logging.INFO, "callback: %s", message)
    if is_xwheel:
        # a repeated outcome is no news to an executor whose first reply was lost: only refusals are data
        return Response(code=contract.OK, message=message, data=refusals_payload(list(refused)))
    # Java executors cannot parse an answer whose data is anything but text
    rows = [{"logId": entry.run_id, "code": contract.FAIL, "msg": entry.error} for entry in report]
    return Response(code=contract.OK, message=message, data=encode(rows).decode())
