"""The OpenAPI document and a reference page made of it, which needs no script and no other server."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from functools import cached_property
from html import escape
from importlib import resources
from typing import Any, Final

import falcon
import msgspec
from xwheel.plugin import Operation, PluginSite

from xwheel_openapi.document import Json, build_document
from xwheel_openapi.words import TAGS

HTML: Final = "text/html; charset=utf-8"
CSS: Final = "text/css; charset=utf-8"
CSP: Final = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


class Documents:
    """The document, its page and the page's style, made at the first request.

    Args:
        site: Has all resources, also those that are added later.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    @cached_property
    def document(self) -> Json:
        """The OpenAPI document."""
        plugins = sorted(self._site.registered("xwheel_register_resources").items())
        chapters = {first: words for _, item in plugins for first, words in item.chapters.items()}
        # those of the core come first, and say what they say
        return build_document(self._site.resources(), {**TAGS, **chapters, **TAGS})

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
        return resources.files("xwheel_openapi").joinpath("reference.css").read_bytes()


class _Public:
    """A page without a token: it is the same for every node of this version."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents


class OpenApiDocument(_Public):
    """``/api/v1/openapi.json``."""

    @Operation({200: None})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return this document."""
        del req
        resp.data = self._documents.json


class ReferencePage(_Public):
    """``/docs``."""

    @Operation({200: None}, media=HTML)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show this document as a page."""
        del req
        resp.content_type = HTML
        resp.set_header("Content-Security-Policy", CSP)
        resp.set_header("Referrer-Policy", "no-referrer")
        resp.data = self._documents.page


class ReferenceStyle(_Public):
    """``/docs/reference.css``."""

    @Operation({200: None}, media=CSS)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return the style sheet of the page."""
        del req
        resp.content_type = CSS
        resp.data = self._documents.style


REF: Final = "#/components/schemas/"
METHODS: Final = ("get", "post", "put", "patch", "delete")
LIMITS: Final = (
    ("minimum", "from {}"),
    ("maximum", "to {}"),
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("pattern", "matches {}"),
)


def render_page(document: Json) -> str:
    """Return the page of a document."""
    return "\n".join(_page(document))


def _page(document: Json) -> Iterator[str]:
    info = document["info"]
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(info['title'])}</title>"
    yield '<link rel="stylesheet" href="/docs/reference.css"></head><body>'
    chapters = {tag["name"]: tag["description"] for tag in document["tags"]}
    yield "<nav><h1>xwheel</h1><ul>"
    for name in chapters:
        yield f'<li><a href="#tag-{escape(name)}">{escape(name)}</a></li>'
    yield '<li><a href="#schemas">schemas</a></li>'
    yield '<li><a href="/api/v1/openapi.json">openapi.json</a></li></ul></nav><main>'
    yield f"<h1>{escape(info['title'])} v{escape(info['version'])}</h1><p>{_words(info['description'])}</p>"
    for name, words in chapters.items():
        yield f'<section><h2 id="tag-{escape(name)}">{escape(name)}</h2><p>{_words(words)}</p>'
        for path, methods in document["paths"].items():
            for method in METHODS:
                if method in methods and name in methods[method]["tags"]:
                    yield from _operation(document, path, method, methods[method])
        yield "</section>"
    yield '<section><h2 id="schemas">schemas</h2>'
    for name, schema in document["components"]["schemas"].items():
        yield from _schema(name, schema)
    yield "</section></main></body></html>"


def _operation(document: Json, path: str, method: str, item: Json) -> Iterator[str]:
    yield f'<details id="{escape(item["operationId"])}"><summary><b class="{method}">{method.upper()}</b> '
    yield f"<code>{escape(path)}</code> <span>{escape(item['summary'])}</span></summary>"
    if item.get("description"):
        yield f"<p>{_words(item['description'])}</p>"
    if item.get("security") == []:
        yield "<p>Needs no token.</p>"
    else:
        yield f"<p>Needs: {escape(item['x-permission'])}.</p>"
    if item["parameters"]:
        yield "<h4>Parameters</h4><table><tr><th>name</th><th>in</th><th>may hold</th></tr>"
        for parameter in item["parameters"]:
            star = " <em>required</em>" if parameter["required"] else ""
            words = parameter.get("description") or ""
            yield (
                f"<tr><td><code>{escape(parameter['name'])}</code>{star}</td><td>{parameter['in']}</td>"
                f"<td>{_words(words)} {_type(parameter['schema'])}</td></tr>"
            )
        yield "</table>"
    example = None
    if "requestBody" in item:
        schema = item["requestBody"]["content"]["application/json"]["schema"]
        optional = "" if item["requestBody"]["required"] else ", may be empty"
        yield f"<h4>Body</h4><p>{_type(schema)}{optional}</p>"
        example = _example(document, schema)
    yield f"<h4>Call</h4><pre>{escape(_curl(path, method, item, example))}</pre>"
    yield "<h4>Answers</h4><table><tr><th>status</th><th>means</th><th>holds</th></tr>"
    for status, answer in item["responses"].items():
        kinds = " ".join(_type(part["schema"]) for part in answer.get("content", {}).values())
        yield f"<tr><td>{status}</td><td>{_words(answer['description'])}</td><td>{kinds}</td></tr>"
    yield "</table></details>"


def _example(document: Json, schema: Json) -> Any:
    known = document["components"]["schemas"].get(schema.get("$ref", "").removeprefix(REF), {})
    return known.get("examples", [{}])[0]


def _curl(path: str, method: str, item: Json, example: Any) -> str:
    query = [parameter["name"] for parameter in item["parameters"] if parameter["in"] == "query"]
    url = f"$XWHEEL{path}" + (f"?{query[0]}=..." if query else "")
    parts = ["curl"] if method == "get" else ["curl", "-X", method.upper()]
    lines = [" ".join([*parts, f'"{url}"'])]
    if item.get("security") != []:
        lines.append('  -H "Authorization: Bearer $TOKEN"')
    if example:
        lines.append(f"  -d {shlex.quote(json.dumps(example, indent=2))}")
    return " \\\n".join(lines)


def _schema(name: str, schema: Json) -> Iterator[str]:
    yield f'<details id="schema-{escape(name)}"><summary><code>{escape(name)}</code> '
    yield f"<span>{_words(schema.get('description', ''))}</span></summary>"
    if "enum" in schema:
        yield f"<p>{_type(schema)}</p>"
    if schema.get("properties"):
        required = schema.get("required", ())
        yield "<table><tr><th>field</th><th>holds</th></tr>"
        for field, rule in schema["properties"].items():
            star = " <em>required</em>" if field in required else ""
            words = _words(rule.get("description", ""))
            yield f"<tr><td><code>{escape(field)}</code>{star}</td><td>{words} {_type(rule)}</td></tr>"
        yield "</table>"
    for example in schema.get("examples", ()):
        yield f"<pre>{escape(json.dumps(example, indent=2, ensure_ascii=False))}</pre>"
    yield "</details>"


def _type(schema: Json) -> str:
    """Return a type in a few words, with links to the schemas that it names."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(REF))
        return f'<a href="#schema-{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    limits = [escape(words.format(schema[key])) for key, words in LIMITS if key in schema]
    kind = escape(str(schema.get("type", "anything")))
    default = f"; default <code>{escape(json.dumps(schema['default']))}</code>" if "default" in schema else ""
    return f"<small>{', '.join([kind, *limits])}{default}</small>"


def _words(text: str) -> str:
    """Return text with what stands between backticks as code."""
    parts = escape(text).split("`")
    return "".join(
        f"<code>{part}</code>" if place % 2 and place < len(parts) - 1 else part for place, part in enumerate(parts)
    )
