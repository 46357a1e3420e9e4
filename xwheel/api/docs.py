"""The OpenAPI document and a reference page made of it, which needs no script and no other server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import resources
from typing import Final

import falcon
import msgspec

from xwheel.api.auth import Policy
from xwheel.api.openapi import Json, Route, build_document
from xwheel.api.operation import operation
from xwheel.api.reference import render_page

HTML: Final = "text/html; charset=utf-8"
CSS: Final = "text/css; charset=utf-8"
CSP: Final = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Documents:
    """The document, its page and the page's style, made when somebody asks first.

    Args:
        routes: All routes of the application, also those that are added later.
    """

    def __init__(self, routes: Callable[[], Sequence[Route]]) -> None:
        self._routes = routes

    @cached_property
    def document(self) -> Json:
        """The OpenAPI document."""
        return build_document(self._routes())

    @cached_property
    def json(self) -> bytes:
        """The document as it is sent."""
        return msgspec.json.encode(self.document)

    @cached_property
    def page(self) -> bytes:
        """The reference page."""
        return render_page(self.document).encode()

    @cached_property
    def style(self) -> bytes:
        """The page's style sheet."""
        return resources.files("xwheel.api").joinpath("reference.css").read_bytes()


class _Public:
    """What everybody may read: it is the same for every xwheel of this version and tells nothing of this one."""

    policy = Policy.PUBLIC

    def __init__(self, documents: Documents) -> None:
        self._documents = documents


class OpenApiDocument(_Public):
    """``/api/v1/openapi.json``."""

    @operation({200: None})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return this document."""
        del req
        resp.data = self._documents.json


class ReferencePage(_Public):
    """``/docs``."""

    @operation({200: None}, media=HTML)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show this document as a page."""
        del req
        resp.content_type = HTML
        resp.set_header("Content-Security-Policy", CSP)
        resp.set_header("Referrer-Policy", "no-referrer")
        resp.data = self._documents.page


class ReferenceStyle(_Public):
    """``/docs/reference.css``."""

    @operation({200: None}, media=CSS)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return the style sheet of the page."""
        del req
        resp.content_type = CSS
        resp.data = self._documents.style
