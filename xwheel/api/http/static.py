"""Files of plugins for browsers: all that is served is known beforehand, and nothing else can be asked for."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import falcon

from xwheel.plugin.pages import INDEX, MEDIA_TYPES

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
"""Scripts are ours alone. Styles may stand in attributes: charts and editors write them."""

SMALLEST_BYTES: Final = 1000


class _Body(NamedTuple):
    """A file as it is sent; asked for again when it has changed."""

    stamp: tuple[int, int]
    data: bytes
    packed: bytes | None
    etag: str


class StaticFiles:
    """Answers with files, by their path."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self._files = dict(files)
        self._bodies: dict[str, _Body] = {}

    def answer(self, req: falcon.Request, resp: falcon.Response, path: str) -> None:
        """Answer with a file; with nothing new if the browser has it.

        A file is asked for again each time, which costs next to nothing.

        Raises:
            falcon.HTTPError: There is no such file, or the method is another than GET and HEAD.
        """
        name = path or INDEX
        file = self._files.get(name)
        if file is None:
            raise falcon.HTTPRouteNotFound
        if req.method not in {"GET", "HEAD"}:
            raise falcon.HTTPMethodNotAllowed(["GET", "HEAD"])
        try:
            body = self._body(name, file)
        except OSError:
            raise falcon.HTTPRouteNotFound from None
        resp.set_header("Cache-Control", "no-cache")
        resp.set_header("Content-Security-Policy", CSP)
        resp.set_header("Referrer-Policy", "no-referrer")
        resp.set_header("Vary", "Accept-Encoding")
        resp.set_header("ETag", body.etag)
        if body.etag in [item.strip() for item in (req.get_header("If-None-Match") or "").split(",")]:
            resp.status = falcon.HTTP_304
            return
        resp.content_type = MEDIA_TYPES[file.suffix]
        if body.packed is not None and "gzip" in (req.get_header("Accept-Encoding") or ""):
            resp.set_header("Content-Encoding", "gzip")
            resp.data = body.packed
        else:
            resp.data = body.data

    def _body(self, name: str, file: Path) -> _Body:
        facts = file.stat()
        stamp = (facts.st_mtime_ns, facts.st_size)
        body = self._bodies.get(name)
        if body is None or body.stamp != stamp:
            data = file.read_bytes()
            packed = gzip.compress(data, 9, mtime=0) if len(data) >= SMALLEST_BYTES else None
            digest = hashlib.sha256(data).hexdigest()[:32]
            body = self._bodies[name] = _Body(stamp, data, packed, f'W/"{digest}"')
        return body
