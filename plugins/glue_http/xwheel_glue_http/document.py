"""The source of a job: a JSON document that describes one HTTP call; no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from xwheel.plugin import PlainUrl

from xwheel_glue_http.options import SecretOptions
from xwheel_glue_http.template import Template, TemplateError

NAMES: Final = frozenset({"param", "run_id", "job_id", "shard_index", "shard_total"})
SECRET: Final = "secret."  # noqa: S105 -- how names begin
MAX_SOURCE: Final = 4 * 1024 * 1024
"""Characters; the node's own limit, ``api.max_source_bytes``, comes first."""

_STATUS: Final = re.compile(r"([1-5][0-9]{2})(?:-([1-5][0-9]{2}))?")
_ORIGIN: Final = re.compile(r"[^/?#]*//[^/?#]*|[^/?#]*")


class DocumentError(Exception):
    """The source is no description of a call; the message says where."""


class Document(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What a source may say.

    Attributes:
        url: Where to; placeholders may stand after the host, and are escaped for a URL.
        method: Without one it is POST if there is a body, else GET.
        headers: Headers of the request; values may hold placeholders.
        body: Text of the body; may hold placeholders.
        json: In place of ``body``: any JSON, whose texts may hold placeholders.
        timeout_s: Limit of the whole call, in seconds.
        redirects: How many redirects are followed; each is checked again.
        expect_status: Which statuses are success: numbers and ranges such as ``"200-299"``.
        expect_body: What the answer's body must hold, where the executor's secrets are taken out of it.
        refuse_body: What it must not hold, likewise.
        result: What the run's result is: ``HTTP`` and the status, or the beginning of the body.
    """

    url: Annotated[str, Meta(min_length=1, max_length=8192)]
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] | None = None
    headers: Annotated[dict[str, str], Meta(max_length=64)] = {}
    body: str | None = None
    json: Any = msgspec.UNSET
    timeout_s: Annotated[float, Meta(gt=0, le=3600)] = 30
    redirects: Annotated[int, Meta(ge=0, le=5)] = 0
    expect_status: Annotated[tuple[int | str, ...], Meta(min_length=1, max_length=32)] = ("200-299",)
    expect_body: Annotated[str, Meta(max_length=1000)] = ""
    refuse_body: Annotated[str, Meta(max_length=1000)] = ""
    result: Literal["status", "body"] = "status"


class Call:
    """A checked document, with its templates.

    Args:
        document: What the source says.
        secrets: Names of the secrets that there are; None if that is not known here.

    Attributes:
        secrets: Names of the secrets in it, as placeholders have them.
    """

    def __init__(self, document: Document, secrets: Collection[str] | None) -> None:
        self.document = document
        self.statuses = tuple(_statuses(item) for item in document.expect_status)
        origin = _ORIGIN.match(document.url)
        if origin is None or "$" in origin[0]:
            raise DocumentError("url: scheme, host and port must hold no placeholder")
        if document.body is not None and document.json is not msgspec.UNSET:
            raise DocumentError("body and json exclude each other")
        self._names = NAMES | {SECRET + name for name in secrets or ()}
        self._prefix = SECRET if secrets is None else ""
        found: set[str] = set()

        def template(where: str, text: str, *, url: bool = False) -> Template:
            made = Template(where, text, self._names, prefix=self._prefix, url=url)
            found.update(made.names)
            return made

        self._url = template("url", document.url, url=True)
        self._headers = {name: template(f"headers.{name[:64]}", value) for name, value in document.headers.items()}
        self._body = None if document.body is None else template("body", document.body)
        self._json = _map(document.json, lambda text: template("json", text))
        self.secrets = frozenset(found - NAMES)
        try:
            # with a value for each placeholder; whether it may be called is for the executor to decide
            PlainUrl.parse(self.url(dict.fromkeys(found, "1")))
        except ValueError as error:
            raise DocumentError(f"url: {error}") from None

    @property
    def method(self) -> str:
        """The method."""
        has_body = self._body is not None or self.document.json is not msgspec.UNSET
        return self.document.method or ("POST" if has_body else "GET")

    def url(self, values: Mapping[str, str]) -> str:
        """Return the URL with the values of placeholders; raises :class:`TemplateError`."""
        return self._url.fill(values)

    def headers(self, values: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with the values of placeholders."""
        filled = {name: template.fill(values) for name, template in self._headers.items()}
        if self.document.json is not msgspec.UNSET and "content-type" not in {name.lower() for name in filled}:
            filled["Content-Type"] = "application/json"
        return filled

    def body(self, values: Mapping[str, str]) -> bytes | None:
        """Return the body with the values of placeholders, or None."""
        if self.document.json is not msgspec.UNSET:
            return json.dumps(_fill(self._json, values), ensure_ascii=False).encode("utf-8", "replace")
        return None if self._body is None else self._body.fill(values).encode("utf-8", "replace")

    def takes(self, status: int) -> bool:
        """Return whether a status is success."""
        return any(status in statuses for statuses in self.statuses)


def read_document(source: str, secrets: Mapping[str, SecretOptions] | None = None) -> Call:
    """Read a source.

    Args:
        source: The job's source.
        secrets: The secrets that there are; None if that is not known here, as in a scheduler.

    Raises:
        DocumentError: It is no description of a call.
    """
    if not source.strip():
        raise DocumentError("there is no source")
    if len(source) > MAX_SOURCE:
        raise DocumentError(f"the source has {len(source)} characters, {MAX_SOURCE} are allowed")
    try:
        document = msgspec.json.decode(source, type=Document)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError) as error:
        raise DocumentError(f"the source is no description of a call: {error}") from None
    try:
        return Call(document, secrets)
    except (TemplateError, RecursionError) as error:
        raise DocumentError(str(error)) from None


def _map(value: Any, change: Callable[[str], Any]) -> Any:
    """Return JSON with every text in it changed, but for keys."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map(item, change) for item in value]
    return value


def _fill(value: Any, values: Mapping[str, str]) -> Any:
    """Return JSON with every template in it filled."""
    if isinstance(value, Template):
        return value.fill(values)
    if isinstance(value, dict):
        return {key: _fill(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_fill(item, values) for item in value]
    return value


def _statuses(item: int | str) -> range:
    match = _STATUS.fullmatch(str(item))
    if match is None or (match[2] and match[2] < match[1]):
        raise DocumentError(f"expect_status: {item!r:.40} is no status such as 200 and no range such as '200-299'")
    return range(int(match[1]), int(match[2] or match[1]) + 1)
