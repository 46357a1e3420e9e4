"""The OpenAPI document covers every route and says what the types say; the page shows it and nothing from elsewhere."""

from __future__ import annotations

import json
import re
from typing import Any

import falcon.inspect
import msgspec
import pytest
from xwheel_openapi.document import NUL_FREE, build_document
from xwheel_openapi.words import EXAMPLES

from tests.support.bare_app import APP, DOCUMENT, OPERATIONS
from tests.support.paths import DOCS
from tests.support.routes import PUBLIC, SIGN_IN
from xwheel.api.http.body import rules_of
from xwheel.api.http.errors import TABLE
from xwheel.api.schema import messages
from xwheel.plugin.resources import CALLER, ResourceRoute

PAGE = DOCS / "reference" / "api.md"
ANY_ROUTE = {"401", "403", "405", "413", "429", "500", "503"}
METHODS = {"get", "post", "put", "patch", "delete"}


SCHEMAS = DOCUMENT["components"]["schemas"]


def test_the_document_has_every_route_and_no_other() -> None:
    routes = {
        (re.sub(r"\{(\w+):\w+\}", r"{\1}", route.path), method.method.lower())
        for route in falcon.inspect.inspect_routes(APP)
        for method in route.methods
        if not method.internal
    }
    told = {(path, method) for path, item in DOCUMENT["paths"].items() for method in set(item) & METHODS}
    assert told == routes
    assert len({item.id for item in OPERATIONS}) == len(OPERATIONS) == len(routes)


def test_a_responder_that_says_nothing_stops_the_document() -> None:
    class Silent:
        def on_get(self, req: object, resp: object) -> None:
            """Do something."""

    with pytest.raises(TypeError, match="does not say"):
        build_document([ResourceRoute("/silent", Silent(), {"GET": CALLER})])


def limits_of(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema's limits as our problems name them."""
    if "anyOf" in schema:
        schema = next(choice for choice in schema["anyOf"] if choice.get("type") != "null")
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return {"one_of": sorted(schema["enum"])}
    match schema.get("type"):
        case "integer":
            return {"min": schema["minimum"], "max": schema["maximum"]}
        case "string":
            return {"min_length": schema.get("minLength", 0), "max_length": schema["maxLength"]}
        case "array":
            least = {"min_items": schema["minItems"]} if "minItems" in schema else {}
            return {**least, "max_items": schema["maxItems"]}
    return {}


@pytest.mark.parametrize("item", OPERATIONS, ids=lambda item: item.id)
def test_the_limits_of_the_document_are_those_that_are_checked(item: Any) -> None:
    told = DOCUMENT["paths"][item.path][item.method.lower()]
    checked: list[tuple[Any, dict[str, Any], set[str]]] = []
    body = item.operation.body
    if body is not None and body is not dict:
        schema = SCHEMAS[body.__name__]
        assert schema["additionalProperties"] is False
        checked.append((body, schema["properties"], set(schema.get("required", ()))))
    if item.operation.query is not None:
        query = {part["name"]: part for part in told["parameters"] if part["in"] == "query"}
        found = {name: part["schema"] for name, part in query.items()}
        checked.append((item.operation.query, found, {name for name in query if query[name]["required"]}))
        assert "null" not in json.dumps(found)
    else:
        assert not any(part["in"] == "query" for part in told["parameters"])
    unsaid = {"max_characters", "max_bytes", "max_depth"}  # which JSON Schema has no word for
    for kind, fields, required in checked:
        rules = rules_of(kind)
        assert list(fields) == list(rules)
        assert required == {name for name, rule in rules.items() if rule.required}
        for name, rule in rules.items():
            limit = {key: value for key, value in rule.limit.items() if key not in unsaid}
            assert limits_of(fields[name]) == limit, name


def test_every_failure_of_an_operation_is_one_of_the_table() -> None:
    slugs = {slug for _, _, slug, _ in TABLE}
    for item in OPERATIONS:
        assert set(item.operation.problems) <= slugs, item.id
        answers = DOCUMENT["paths"][item.path][item.method.lower()]["responses"]
        is_public = (item.method, item.path) in PUBLIC - SIGN_IN
        assert ("401" in answers) == (not is_public)
        assert "500" in answers


def told_on_the_page() -> dict[tuple[str, str], set[str]]:
    """Return the statuses that the table of routes in ``docs/reference/api.md`` names, by method and path."""
    rows = re.findall(rf"^\| `({'|'.join(METHODS).upper()}) (/\S*)` \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == len({row[:2] for row in rows}), "a route is there twice"
    return {(method, path): set(re.findall(r"\b[2-5]\d\d\b", words)) for method, path, words in rows}


def test_u15_the_page_of_the_api_has_each_route_with_the_answers_of_the_document() -> None:
    page = told_on_the_page()
    document = {
        (method.upper(), path.removeprefix("/api/v1")): set(operation["responses"])
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if path not in {"/healthz", "/readyz"}  # which have a table of their own
    }
    assert set(page) - {("GET", "/healthz"), ("GET", "/readyz")} == set(document)
    for route, statuses in document.items():
        # the page names what any route may answer once, above the table
        assert page[route] - ANY_ROUTE == statuses - ANY_ROUTE, route
        assert page[route] <= statuses, route
    shared = re.search(r"^Any route may also answer (.*?)\n\n", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert shared is not None
    assert set(re.findall(r"\b[45]\d\d\b", shared[1])) == ANY_ROUTE


def test_texts_hold_no_nul_and_patterns_are_those_of_json_schema() -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                assert "\\A" not in node["pattern"]
                assert "\\Z" not in node["pattern"]
                assert not re.search(node["pattern"], "a\x00b"), node
            elif node.get("type") == "string":
                assert "maxLength" not in node
            for value in node.values():
                walk(value)
        if isinstance(node, list):
            for value in node:
                walk(value)

    walk(DOCUMENT)
    assert NUL_FREE in json.dumps(DOCUMENT).replace("\\\\", "\\")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_acceptable(name: str) -> None:
    kind: Any = getattr(messages, name, None)
    if kind is not None:
        msgspec.convert(EXAMPLES[name], kind)
    assert SCHEMAS[name]["examples"] == [EXAMPLES[name]]
