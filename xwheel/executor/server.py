"""The executor's HTTP side: a WSGI application that hands every call to :class:`Endpoints`."""

from __future__ import annotations

from typing import Any

import falcon

from xwheel.executor.endpoints import Endpoints
from xwheel.wire.codec import encode_response


class _Sink:
    def __init__(self, endpoints: Endpoints, max_body_bytes: int) -> None:
        self._endpoints = endpoints
        self._max_body_bytes = max_body_bytes

    def __call__(self, req: falcon.Request, resp: falcon.Response, **_: Any) -> None:
        if (req.content_length or 0) > self._max_body_bytes:
            resp.status = falcon.HTTP_413
            return
        answer = self._endpoints.answer(
            req.method,
            req.path,
            req.get_header,
            # a call without a length has no body: some schedulers send /beat like that
            req.bounded_stream.read,
        )
        resp.content_type = falcon.MEDIA_JSON
        resp.data = encode_response(answer)


def make_app(endpoints: Endpoints, *, max_body_bytes: int) -> falcon.App[falcon.Request, falcon.Response]:
    """Return the executor as a WSGI application, for its own port or inside another web application."""
    app = falcon.App()
    app.add_sink(_Sink(endpoints, max_body_bytes))
    return app
