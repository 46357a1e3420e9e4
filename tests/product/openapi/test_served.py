"""The document and the page of the API, as a node serves them."""

from __future__ import annotations

import html
import json
from html.parser import HTMLParser
from typing import Any

from xwheel_openapi.document import build_document, operations
from xwheel_openapi.pages import CSP

from tests.component.api.conftest import Api
from tests.component.api.http.test_auth import public_routes
from tests.support.routes import PUBLIC, SIGN_IN
from xwheel.plugin import ResourceRoute


def routes_of(api: Api) -> list[ResourceRoute]:
    app: Any = api.management.app
    return list(app.routes)


def test_the_page_says_what_each_route_needs(api: Api) -> None:
    page = api.management.simulate_get("/docs").text
    for item in operations(routes_of(api)):
        _, _, shown = page.partition(f'<details id="{item.id}">')
        shown = shown.partition("</details>")[0]
        public = item.need.permission is None and "Needs no token." in shown
        assert public or f"<p>Needs: {html.escape(str(item.need))}.</p>" in shown, item.id


def test_only_health_and_documents_are_public(api: Api) -> None:
    assert public_routes(api.management.app) == PUBLIC - SIGN_IN


def test_the_document_is_served_to_everybody(api: Api) -> None:
    answer = api.management.simulate_get("/api/v1/openapi.json")
    assert (answer.status_code, answer.json) == (200, json.loads(json.dumps(build_document(routes_of(api)))))


class Page(HTMLParser):
    """Collects what a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in {"meta", "link"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_shows_every_operation_and_needs_no_other_server(api: Api) -> None:
    answer = api.management.simulate_get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"] == CSP
    page = Page()
    page.feed(answer.text)
    assert not page.open
    assert page.tags.isdisjoint({"script", "style", "iframe", "img", "form", "object", "base"})
    ids = {value for _, name, value in page.attributes if name == "id"}
    assert {item.id for item in operations(routes_of(api))} <= ids
    assert {f"schema-{name}" for name in build_document(routes_of(api))["components"]["schemas"]} <= ids
    for _, name, value in page.attributes:
        assert not name.startswith("on")
        assert name != "style"
        if name in {"href", "src"}:
            assert value in {"/docs/reference.css", "/api/v1/openapi.json"} or value[1:] in ids, value
    style = api.management.simulate_get("/docs/reference.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "http" not in style.text
    assert "@import" not in style.text
