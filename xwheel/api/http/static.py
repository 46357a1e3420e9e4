"""Files of plugins for browsers: all that is served is known beforehand, and nothing else can be asked for."""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import falcon

from xwheel.errors import PluginError
from xwheel.plugin.pages import INDEX, MEDIA_TYPES, Pages, find_files

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
"""Scripts are ours alone. Styles may stand in attributes: charts and editors write them."""

SMALLEST_BYTES: Final = 1000
BELOW: Final = "plugins"
_BELOW: Final = re.compile(rf"/{BELOW}/(?P<name>[a-z][a-z0-9-]*)/(?P<path>.*)")

Sink = Callable[..., None]


class _Body(NamedTuple):
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

        It is asked for again each time, which costs next to nothing. Raises falcon.HTTPError for what is no file, and
        for methods other than GET and HEAD.
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


def page_sinks(pages: Mapping[str, Pages]) -> dict[str, Sink]:
    """Return what answers for files of plugins, by the prefix of its paths; of two prefixes the last counts.

    Raises PluginError if two plugins want to be the console.
    """
    roots = sorted(name for name, item in pages.items() if item.at_root)
    if len(roots) > 1:
        raise PluginError(
            f"the pages {roots[0]} and {roots[1]} both want to be served at /: disable one of the plugins"
        )
    files = {name: StaticFiles(find_files(item)) for name, item in pages.items()}

    def below(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
        found = _BELOW.fullmatch(req.path)
        if found is None or found["name"] not in files:
            raise falcon.HTTPRouteNotFound
        files[found["name"]].answer(req, resp, found["path"])

    def root(req: falcon.Request, resp: falcon.Response, **_: str) -> None:
        files[roots[0]].answer(req, resp, req.path.removeprefix("/"))

    sinks: dict[str, Sink] = {"/": root} if roots else {}
    if files:
        sinks[rf"/{BELOW}(/|\Z)"] = below
    return sinks
