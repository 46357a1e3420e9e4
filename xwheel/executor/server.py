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


class ExecutorApp(falcon.App[falcon.Request, falcon.Response]):
    """The executor as a WSGI application, for its own port or inside another web application.

    Args:
        endpoints: Answer the calls.
        max_body_bytes: Larger bodies are refused.
    """

    def __init__(self, endpoints: Endpoints, *, max_body_bytes: int) -> None:
        super().__init__()
        self._endpoints = endpoints
        self.add_sink(_Sink(endpoints, max_body_bytes))

    def admits(self, environ: dict[str, Any]) -> bool:
        """Return whether the head of a call says that our scheduler calls; before a large body is read."""
        req = falcon.Request(environ)
        return self._endpoints.admits(req.method, req.path, req.get_header)
