"""What the scheduler may ask an executor: one function per path, from bytes to an envelope, and the application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import falcon
import msgspec

from xwheel.clock import Clock
from xwheel.errors import AuthError, ExecutorError, HandlerNotFoundError, PluginError, WireError, XwheelError
from xwheel.executor.handlers import Handler, HandlerRegistry, handler_of
from xwheel.executor.journal import Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.execution import describe_error
from xwheel.executor.running.worker import Workers
from xwheel.plugin.contracts import GlueRequest, GlueType
from xwheel.plugin.validation import guarded
from xwheel.runtime.http_limits import Refusals, route_of
from xwheel.runtime.repeats import Repeats
from xwheel.wire import codec, contract
from xwheel.wire.contract import OK, check_token, error_response
from xwheel.wire.messages import BatchAnswer, LogData, Response, TriggerRequest

logger = logging.getLogger(__name__)

BEAN: Final = "BEAN"
SUCCESS: Final = Response(code=OK)
SHARED_CHARS: Final = 8 * 1024 * 1024  # characters of sources that are remembered to be shared


class SharedSources:
    """Gives runs of a job one copy of its source: a thousand may wait, each with a megabyte. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[int, str] = {}
        self._chars = 0

    def share(self, request: TriggerRequest) -> TriggerRequest:
        """Return the request, with the copy that the last one of its job has, if they are the same."""
        source = request.glue_source
        if not source:
            return request
        with self._lock:
            known = self._known.pop(request.job_id, "")
            self._chars += len(source) - len(known)
            if known == source:
                request = msgspec.structs.replace(request, glue_source=known)
            self._known[request.job_id] = request.glue_source
            while self._chars > SHARED_CHARS:
                self._chars -= len(self._known.pop(next(iter(self._known))))
        return request


@dataclass(kw_only=True, eq=False, repr=False)
class Endpoints:
    """Answers calls; one object serves all threads."""

    token: str  # what callers must show
    app_name: str
    workers: Workers
    journal: Journal
    logs: RunLogs
    handlers: HandlerRegistry
    glue_types: Mapping[str, GlueType]
    allowed: Collection[str] = ()  # glue types besides BEAN that may run here

    def __post_init__(self) -> None:
        self._allowed = frozenset({BEAN, *self.allowed})
        self._unknown = Repeats()
        self._sources = SharedSources()
        self._routes: Mapping[str, Callable[[bytes], Response]] = {
            contract.BEAT: lambda _body: SUCCESS,
            contract.IDLE_BEAT: self._idle_beat,
            contract.RUN: self._run,
            contract.TRIGGER: self._run,
            contract.KILL: self._kill,
            contract.LOG: self._log,
            contract.RUN_BATCH: self._run_batch,
            contract.RUN_STATE: self._run_state,
            contract.RECALL: self._recall,
        }

    def answer(
        self, method: str, path: str, header: Callable[[str], str | None], read: Callable[[], bytes]
    ) -> Response:
        """Answer one call; never raises. ``read`` reads the body, and is called only once the caller is known."""
        try:
            self.check(method, path, header)
            route = self._routes.get(path)
            if route is None:
                raise WireError(contract.TEXT_NOT_FOUND.format(path[: contract.MAX_URL]))
            if route == self._run:
                return self._run(read(), header(contract.TRACE_HEADER) or "")
            return route(read())
        except XwheelError as error:
            return error_response(error)
        except Exception as error:
            logger.exception("call to %s", path)
            return error_response(error)

    def check(self, method: str, path: str, header: Callable[[str], str | None]) -> None:
        """Raise WireError if it is no call, AuthError if it is not our scheduler's, or for another group."""
        if method != "POST":
            raise WireError(contract.TEXT_POST_ONLY)
        if path in ("", "/"):
            raise WireError(contract.TEXT_NO_URI)
        check_token(header(contract.TOKEN_HEADER), self.token)
        app_name = header(contract.APP_NAME_HEADER)
        if app_name and app_name != self.app_name:
            raise AuthError(f"the call is for {app_name!r}")

    def _idle_beat(self, body: bytes) -> Response:
        if self.workers.queues.has(codec.decode_idle_beat(body)):
            raise ExecutorError(contract.TEXT_BUSY)
        return SUCCESS

    def _run(self, body: bytes, trace_parent: str = "") -> Response:
        request = self._sources.share(codec.decode_trigger(body))
        if trace_parent:
            request = msgspec.structs.replace(request, trace_parent=trace_parent[: contract.MAX_URL])
        (problem,) = self.workers.accept([(request, self._prepare(request))])
        return SUCCESS if problem is None else error_response(problem)

    def _run_batch(self, body: bytes) -> Response:
        received_ms = self.workers.clock.monotonic_ms()
        instance, requests, bad = codec.decode_batch(body)
        self._check_instance(instance)
        requests = [self._sources.share(request) for request in requests]
        # an id that the journal knows is left out: it was readable before, so its run is here
        answers = [
            BatchAnswer(run_id=item.run_id, code=contract.FAIL, message=item.error)
            for item in bad
            if item.run_id and self.journal.is_open(item.run_id) is None
        ]
        try:
            runs = [(request, self._prepare(request)) for request in requests]
            problems = self.workers.accept(runs, received_ms)
        except Exception:
            # what was taken in before it failed may be on disk: nothing is said about any of them
            logger.exception("%d runs, of which some may be taken in", len(requests))
        else:
            for request, problem in zip(requests, problems, strict=True):
                said = SUCCESS if problem is None else error_response(problem)
                answers.append(
                    BatchAnswer(run_id=request.run_id, code=said.code, message=said.message, not_yet=said.not_yet)
                )
        return Response(code=OK, data=codec.batch_payload(self.journal.instance, answers))

    def _run_state(self, body: bytes) -> Response:
        instance, keys = codec.decode_states(body)
        self._check_instance(instance)
        return Response(code=OK, data=codec.state_payload(instance, self.journal.lookup(keys)))

    def _recall(self, body: bytes) -> Response:
        instance, keys = codec.decode_states(body)
        self._check_instance(instance)
        return Response(code=OK, data=codec.recalled_payload(self.workers.recall(keys)))

    def _kill(self, body: bytes) -> Response:
        request = codec.decode_kill(body)
        if self.workers.kill(request.job_id, request.run_id):
            return SUCCESS
        return Response(code=OK, data=contract.TEXT_NOTHING_TO_KILL)

    def _log(self, body: bytes) -> Response:
        request = codec.decode_log_request(body)
        # asked before reading: a run that ends in between has its last lines in the file, and is only asked again
        live = self.journal.is_open(request.run_id)
        data = self.logs.read(request.run_id, request.created_ms, request.from_line, live=bool(live), tail=request.tail)
        if data is None:
            text = contract.TEXT_NO_LOG if live is None else ""
            last = 0 if live is None else request.from_line - 1
            data = LogData(from_line=request.from_line, to_line=last, content=text, is_end=not live)
        return Response(code=OK, data=codec.log_payload(data))

    def _check_instance(self, instance: str) -> None:
        if instance != self.journal.instance:
            raise ExecutorError(
                f"this is executor instance {self.journal.instance}, the call is for {instance or 'none'}"
            )

    def _prepare(self, request: TriggerRequest) -> Handler | XwheelError:
        try:
            if request.instance:
                self._check_instance(request.instance)
            return self._build(request)
        except HandlerNotFoundError as error:
            if count := self._unknown.note(request.handler):
                text = "run %d of job %d refused, and %d with it by now: no handler is called %r; known: %s"
                known = ", ".join(self.handlers.names) or "none"
                logger.warning(text, request.run_id, request.job_id, count - 1, request.handler, known)
            return error
        except XwheelError as error:
            return error
        except BaseException as error:  # a glue type is a plugin: whatever it raises is about this run only
            logger.exception("run %d of job %d", request.run_id, request.job_id)
            return ExecutorError(f"glue type {request.glue_type} failed: {describe_error(error)}")

    def _build(self, request: TriggerRequest) -> Handler:
        """Find what to call; raises ExecutorError if the glue type is unknown, not allowed, or of no use here."""
        glue = self.glue_types.get(request.glue_type)
        if glue is None:
            raise ExecutorError(f"glueType[{request.glue_type}] is not valid.")
        if request.glue_type not in self._allowed:
            text = "run %d of job %d refused: glue type %s is not in executor.allowed_glue_types"
            logger.warning(text, request.run_id, request.job_id, request.glue_type)
            raise ExecutorError(
                f"glue type {request.glue_type} is not allowed on this executor: its setting "
                "executor.allowed_glue_types must name it"
            )
        wanted = GlueRequest(
            job_id=request.job_id,
            handler=request.handler,
            source=request.glue_source,
            updated_ms=request.glue_updated_ms,
        )
        try:
            name = f"glue type {request.glue_type}"
            function = guarded(name, lambda: glue.build(wanted, self.handlers), allowed=ExecutorError)
        except PluginError as error:
            raise ExecutorError(str(error)) from error
        return handler_of(function, request.handler)


class CallsApp(falcon.App[falcon.Request, falcon.Response]):
    """The executor as a WSGI application, for its own port or inside another one; refuses larger bodies than told."""

    def __init__(self, endpoints: Endpoints, *, max_body_bytes: int, clock: Clock) -> None:
        super().__init__()
        self._endpoints = endpoints
        self._max_body_bytes = max_body_bytes
        self._clock = clock
        self._refusals = Refusals()
        self.add_sink(self._answer)

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether the head of a call says that our scheduler calls; before a large body is read."""
        req = falcon.Request(environ)
        try:
            self._endpoints.check(req.method, req.path, req.get_header)
        except XwheelError:
            return False
        return True

    def _answer(self, req: falcon.Request, resp: falcon.Response, **_: Any) -> None:
        if (req.content_length or 0) > self._max_body_bytes:
            resp.status = falcon.HTTP_413
            return
        # a call without a length has no body: some schedulers send /beat like that
        read = req.bounded_stream.read
        answer = self._endpoints.answer(req.method, req.path, req.get_header, read)
        now_ms = self._clock.monotonic_ms()
        if answer.message == contract.TEXT_TOKEN:
            token = req.get_header(contract.TOKEN_HEADER) or ""
            self._refusals.note(req.remote_addr, token, route_of(req.method, req.path), now_ms)
        else:
            self._refusals.sum_up(now_ms)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = codec.encode_response(answer)
