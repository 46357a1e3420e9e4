"""The OpenAPI 3.1 document of the management API, made of the routes and what their responders say of themselves.

The messages, their limits, the views and the table of failures stand in one place each; nothing is written twice here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import msgspec
from falcon.routing import map_http_methods
from xwheel.api.http.body import rules_of
from xwheel.api.http.errors import PROBLEM_TYPE, TABLE, Problem
from xwheel.api.http.headers import REASON_HEADER
from xwheel.api.schema import messages
from xwheel.api.schema.fields import VISIBLE
from xwheel.plugin import Need, Of, Operation, ResourceRoute
from xwheel.plugin.resources import OPERATION

from xwheel_openapi.words import CALENDAR, EXAMPLES, HEADERS, INTRODUCTION, LINKS, PATH_FIELDS, TAGS

Json = dict[str, Any]

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
REF: Final = "#/components/schemas/"
STATUSES: Final = {slug: (status, title) for _, status, slug, title in reversed(TABLE)}
FAULTS: Final = {
    **STATUSES,
    "bad-request": (400, "Bad Request"),
    "unknown-route": (404, "Not Found"),
    "internal": (500, "Internal error"),
    "busy": (503, "Too many calls of this kind"),
}
NUL_FREE: Final = r"^[^\u0000]*$"
NOT_BLANK: Final = rf"^[^\u0000]*{VISIBLE}[^\u0000]*$"
_CHANGES: Final = (messages.JobChange, messages.GroupChange)


class Described(NamedTuple):
    """A method of a route, and what its responder says of itself."""

    method: str
    path: str
    need: Need
    summary: str
    operation: Operation
    ids: frozenset[str]
    """Those fields of the path that are ids."""

    @property
    def id(self) -> str:
        """The name under which the document knows it."""
        words = re.findall(r"\w+", self.path.removeprefix("/api/v1"))
        return "_".join([self.method.lower(), *words])

    @property
    def first(self) -> str:
        """The first part of the path."""
        return self.path.removeprefix("/api/v1").split("/")[1]

    def tag(self, chapters: Mapping[str, str]) -> str:
        """Return the chapter to which it belongs."""
        return self.first if self.first in chapters else "service"


def operations(routes: Iterable[ResourceRoute]) -> Iterator[Described]:
    """Return every method of every route.

    Raises:
        TypeError: A responder does not say what it takes and answers.
    """
    for route in routes:
        found = map_http_methods(route.resource, suffix=route.suffix)
        for method in METHODS:
            if method not in found:
                continue
            responder = found[method]
            noted = getattr(responder, OPERATION, None)
            summary = inspect.getdoc(responder)
            if not isinstance(noted, Operation) or not summary:
                raise TypeError(f"{method} {route.path} does not say what it takes and answers")
            path = re.sub(r"\{(\w+):[^}]*\}", r"{\1}", route.path)
            ids = frozenset(re.findall(r"\{(\w+):id\}", route.path))
            yield Described(method, path, route.needs[method], summary, noted, ids)


def build_document(routes: Iterable[ResourceRoute], chapters: Mapping[str, str] = TAGS) -> Json:
    """Return the document of all routes.

    Args:
        routes: The routes.
        chapters: First part of a path to what is said of its operations together.
    """
    found = list(operations(routes))
    components = _components(found)
    paths: Json = {}
    for item in found:
        paths.setdefault(item.path, {})[item.method.lower()] = _operation(item, components, chapters)
    _link(found, paths)
    queries = {item.operation.query for item in found if item.operation.query is not None}
    for query in queries:
        components.pop(query.__name__)
    used = {item.tag(chapters) for item in found}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "xwheel management API",
            "version": "1",
            "description": INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": name, "description": words} for name, words in chapters.items() if name in used],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _components(found: Sequence[Described]) -> Json:
    kinds: dict[type[Any], None] = {Problem: None}
    for item in found:
        noted = item.operation
        for kind in (noted.body, noted.query, *noted.answers.values()):
            if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
                kinds[kind] = None
    _, made = msgspec.json.schema_components(list(kinds), ref_template=REF + "{name}", schema_hook=_any_value)
    components = {name: _clean(schema) for name, schema in made.items()}
    for kind in kinds:
        if issubclass(kind, messages.Input):
            _explain(kind, components[kind.__name__])
    components["Calendar"] = CALENDAR
    return components


def _any_value(kind: type[Any]) -> Json:
    if kind is not object:
        raise NotImplementedError
    return {"description": "Any value."}


def _explain(kind: type[messages.Input], schema: Json) -> None:
    """Add to a message's schema what its types do not say."""
    for name, rule in rules_of(kind).items():
        schema["properties"][name]["description"] = f"{rule.words[:1].upper()}{rule.words[1:]}."
    if kind in _CHANGES or getattr(kind, "IS_CHANGE", False):
        # a revision alone changes nothing
        schema["anyOf"] = [{"required": [name]} for name in rules_of(kind) if name != "revision"]
    either: Sequence[Sequence[str]] = getattr(kind, "EITHER", ())
    if either:
        schema["oneOf"] = [
            {
                "required": list(names),
                "not": {"anyOf": [{"required": [name]} for name in rules_of(kind) if name not in names]},
            }
            for names in either
        ]
    example = EXAMPLES.get(kind.__name__, getattr(kind, "EXAMPLE", None))
    if example is not None:
        schema["examples"] = [example]


def _clean(schema: Any) -> Any:
    """Return a schema with patterns as JSON Schema spells them, and texts that hold no NUL."""
    if isinstance(schema, list):
        return [_clean(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _clean(value) for key, value in schema.items()}
    if isinstance(made.get("description"), str):
        made["description"] = made["description"].replace("``", "`")
    if made.get("type") == "string" and "maxLength" in made:
        pattern = str(made.get("pattern", NUL_FREE))
        made["pattern"] = NOT_BLANK if pattern == VISIBLE else pattern.replace(r"\A", "^").replace(r"\Z", "$")
    return made


def _operation(item: Described, components: Json, chapters: Mapping[str, str]) -> Json:
    noted = item.operation
    first, _, rest = item.summary.partition("\n\n")
    made: Json = {
        "operationId": item.id,
        "summary": first.rstrip("."),
        "tags": [item.tag(chapters)],
        "parameters": _parameters(item, components),
        "responses": _responses(item),
    }
    if rest:
        made["description"] = rest
    if item.need.of is Of.ANYONE:
        made["security"] = []
    else:
        made["x-permission"] = str(item.need)
    if noted.body is not None:
        name = "Calendar" if noted.body is dict else noted.body.__name__
        made["requestBody"] = {
            "required": not noted.is_body_optional,
            "content": {"application/json": {"schema": {"$ref": REF + name}}},
        }
    return made


def _fields_of(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


def _parameters(item: Described, components: Json) -> list[Json]:
    made: list[Json] = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _clean(PATH_FIELDS["id" if name in item.ids else name if name in PATH_FIELDS else "name"]),
        }
        for name in _fields_of(item.path)
    ]
    query = item.operation.query
    if query is not None:
        schema = components[query.__name__]
        required = set(schema.get("required", ()))
        made += [_query_parameter(name, rule, name in required) for name, rule in schema["properties"].items()]
    named = [*item.operation.headers, *([REASON_HEADER] if _takes_reason(item) else ())]
    made += [{"name": name, "in": "header", **HEADERS[name]} for name in named]
    return made


def _takes_reason(item: Described) -> bool:
    """Return whether the caller may say why: whatever changes something takes it."""
    return item.method != "GET" and item.need.of is not Of.ANYONE


def _query_parameter(name: str, schema: Json, required: bool) -> Json:
    """Return a query parameter; there is no null in a query, a parameter is there or not."""
    schema = dict(schema)
    words = str(schema.pop("description", "")).replace(", or null.", ".")
    if "anyOf" in schema:
        (schema,) = [choice for choice in schema["anyOf"] if choice != {"type": "null"}]
        schema = dict(schema)
    if schema.get("default", 0) is None:
        del schema["default"]
    made: Json = {"name": name, "in": "query", "required": required, "description": words, "schema": schema}
    if schema.get("type") == "array":
        made |= {"style": "form", "explode": False}
    return made


def _responses(item: Described) -> Json:
    made: Json = {}
    for status, kind in item.operation.answers.items():
        answer: Json = {"description": HTTPStatus(status).phrase}
        if kind is not None:
            answer["content"] = {item.operation.media: {"schema": {"$ref": REF + kind.__name__}}}
        elif status != HTTPStatus.NO_CONTENT:
            plain = {"type": "object" if item.operation.media == "application/json" else "string"}
            answer["content"] = {item.operation.media: {"schema": plain}}
        if status == HTTPStatus.CREATED:
            answer["headers"] = {"Location": {"required": True, "schema": {"type": "string"}}}
        made[str(status)] = answer
    for status, slugs in sorted(_faults(item).items()):
        if str(status) in made:
            continue
        titles = "; ".join(f"`{slug}`: {FAULTS[slug][1]}" for slug in slugs)
        made[str(status)] = {"description": titles, "content": {PROBLEM_TYPE: {"schema": {"$ref": REF + "Problem"}}}}
        if status == HTTPStatus.UNAUTHORIZED:
            made[str(status)]["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            made[str(status)]["headers"] = {"Retry-After": {"schema": {"type": "string"}}}
    if item.operation.is_open:
        made["2XX"] = {"description": "What the plugin answers"}
        made["default"] = {
            "description": "Why the plugin refuses the call",
            "content": {PROBLEM_TYPE: {"schema": {"$ref": REF + "Problem"}}},
        }
    return made


def _faults(item: Described) -> dict[int, list[str]]:
    """Return the kinds of failure of an operation by status."""
    noted = item.operation
    slugs = ["internal", *noted.problems]
    if item.need.of is not Of.ANYONE:
        slugs += ["unauthorized", "throttled", "storage"]
    if item.need.permission is not None:
        slugs.append("forbidden")
    if noted.body is not None:
        slugs += ["bad-request", "malformed-body", "body-too-large"]
    if noted.body is not None or noted.query is not None or noted.headers or _takes_reason(item):
        slugs.append("invalid-field")
    if item.ids:
        slugs.append("unknown-route")  # what is no id is no route
    found: dict[int, list[str]] = {}
    for slug in dict.fromkeys(slugs):
        found.setdefault(FAULTS[slug][0], []).append(slug)
    if "executor-unreachable" in slugs:
        found[HTTPStatus.GATEWAY_TIMEOUT.value] = ["executor-unreachable"]
    return found


def _link(found: Sequence[Described], paths: Json) -> None:
    """Tell what can be done with an object that was just made or shown."""
    for item in found:
        for status, kind in item.operation.answers.items():
            link = LINKS.get(kind.__name__) or getattr(kind, "LINK", None) if kind is not None else None
            if link is None or status not in (200, 201):
                continue
            field, parameter = link
            if status == HTTPStatus.OK and item.method != "GET":
                continue
            links = {
                other.id: {"operationId": other.id, "parameters": {parameter: f"$response.body#/{field}"}}
                for other in found
                if f"{{{parameter}}}" in other.path
                and other.id != item.id
                and (parameter != "name" or other.first == item.first)
            }
            paths[item.path][item.method.lower()]["responses"][str(status)]["links"] = links
