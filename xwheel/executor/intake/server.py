"""The executor's HTTP side: a WSGI application that hands every call to :class:`Endpoints`."""

from __future__ import annotations

from typing import Any

import falcon

from xwheel.clock import Clock
from xwheel.executor.intake.endpoints import Endpoints
from xwheel.runtime.http_limits import Refusals, route_of
from xwheel.wire.codec import encode_response
from xwheel.wire.contract import TEXT_TOKEN, TOKEN_HEADER


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
        return self._endpoints.admits(req.method, req.path, req.get_header)

    def _answer(self, req: falcon.Request, resp: falcon.Response, **_: Any) -> None:
        if (req.content_length or 0) > self._max_body_bytes:
            resp.status = falcon.HTTP_413
            return
        # a call without a length has no body: some schedulers send /beat like that
        read = req.bounded_stream.read
        answer = self._endpoints.answer(req.method, req.path, req.get_header, read)
        now_ms = self._clock.monotonic_ms()
        if answer.message == TEXT_TOKEN:
            token = req.get_header(TOKEN_HEADER) or ""
            self._refusals.note(req.remote_addr, token, route_of(req.method, req.path), now_ms)
        else:
            self._refusals.sum_up(now_ms)
        resp.content_type = falcon.MEDIA_JSON
        resp.data = encode_response(answer)
