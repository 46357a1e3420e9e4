"""Which node the commands talk to, as whom, and how they find what people name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote, urlsplit

import typer

from xwheel.errors import ConfigError, FieldError, NotFoundError

if TYPE_CHECKING:
    from xwheel.wire.http.rest import RestClient
    from xwheel.wire.http.tls import TlsFiles

PREFIX: Final = "/api/v1"
DEFAULT_URL: Final = "http://127.0.0.1:8080"
MAX_PAGE: Final = 1000
MAX_TOKEN_FILE: Final = 4096
MAX_ID_DIGITS: Final = 16
SHOWN_MATCHES: Final = 5
SHOWN_WARNING: Final = (
    "xwheel: warning: --database: every user of this machine sees the password in the list of processes: give the URL "
    "without it, and the password in XWHEEL_DATABASE__PASSWORD or in the file database.password_file"
)

NodeOption = Annotated[
    str | None,
    typer.Option(
        "--url", metavar="URL", help=f"Management API of a node; default: $XWHEEL_URL or {DEFAULT_URL}."
    ),
]
TokenOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help="File with a management token; default: $XWHEEL_TOKEN, or the file $XWHEEL_TOKEN_FILE.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
LimitOption = Annotated[int, typer.Option(min=1, max=1_000_000, help="How many at most.")]


def connect(url: str | None, token_file: Path | None) -> RestClient:
    """Return a client of the node that options or environment name.

    Raises:
        ConfigError: There is no token, or the URL is none.
    """
    from xwheel.wire.http.rest import RestClient

    base = url or os.environ.get("XWHEEL_URL") or DEFAULT_URL
    try:
        parts = urlsplit(base)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or parts.username is not None:
        raise ConfigError(
            "--url: must be an http:// or https:// address of a node, without query or password"
        )
    return RestClient(base, _token(token_file), tls=_tls())


def _tls() -> TlsFiles:
    """Return what the environment says of TLS; settings files are for nodes and executors."""
    from xwheel.config.sections import TlsSection
    from xwheel.wire.http.tls import NO_FILES, check_tls

    names = ("ca_file", "cert_file", "key_file")
    named = {name: path for name in names if (path := os.environ.get(f"XWHEEL_TLS__{name.upper()}"))}
    return check_tls(TlsSection.model_validate(named)) if named else NO_FILES


def warn_of_password(database: str | None) -> None:
    """Warn of a database's URL on the command line that holds a password: every user of the machine sees it there."""
    try:
        is_shown = database is not None and bool(urlsplit(database).password)
    except ValueError:
        is_shown = False
    if is_shown:
        typer.echo(SHOWN_WARNING, err=True)


def _token(path: Path | None) -> str:
    if path is None and os.environ.get("XWHEEL_TOKEN"):
        token = os.environ["XWHEEL_TOKEN"].strip()
        source = "XWHEEL_TOKEN"
    else:
        path = path or (Path(named) if (named := os.environ.get("XWHEEL_TOKEN_FILE")) else None)
        if path is None:
            raise ConfigError(
                "--token-file: a management token is needed: give a file with one, or set XWHEEL_TOKEN; "
                "'xwheel token create NAME' makes one"
            )
        source = "--token-file"
        try:
            with path.open("rb") as stream:
                token = stream.read(MAX_TOKEN_FILE).decode("utf-8", "replace").strip()
        except OSError as error:
            raise ConfigError(f"{source}: cannot read {path}: {error.strerror}") from error
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ConfigError(f"{source}: holds no token: one word of printable ASCII is wanted")
    return token


def pages(
    client: RestClient, path: str, params: Mapping[str, Any] | None = None, *, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Yield the items of a list, page by page, up to ``limit``."""
    return islice(_items(client, path, dict(params or {}), limit), limit)


def _items(
    client: RestClient, path: str, params: dict[str, Any], limit: int | None
) -> Iterator[dict[str, Any]]:
    params["limit"] = min(limit or MAX_PAGE, MAX_PAGE)
    while True:
        page = client.call("GET", f"{PREFIX}{path}", params=params)
        yield from page["items"]
        if page["next"] is None:
            return
        params["after"] = page["next"]


def is_id(text: str) -> bool:
    """Tell whether a text is an id rather than a name."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_ID_DIGITS and not text.startswith("0")


def find_group(client: RestClient, text: str) -> dict[str, Any]:
    """Return a group by app name or, if none has it, by id.

    Raises:
        NotFoundError: There is none.
    """
    if not text:
        raise FieldError("GROUP", "must be an app name or an id")
    for group in pages(client, "/groups", {"app_name": text}):
        if group["app_name"] == text:
            return group
    if is_id(text):
        found: dict[str, Any] = client.call("GET", f"{PREFIX}/groups/{text}")
        return found
    raise NotFoundError("group", text)


def find_job(client: RestClient, text: str) -> dict[str, Any]:
    """Return a job by id, by ``app_name/name``, or by a name that only one job has.

    Raises:
        NotFoundError: There is none.
        FieldError: Several have that name.
    """
    if is_id(text):
        found: dict[str, Any] = client.call("GET", f"{PREFIX}/jobs/{text}")
        return found
    app_name, slash, name = text.partition("/")
    params: dict[str, Any] = {"name": text}
    if slash:
        params = {"group_id": find_group(client, app_name)["id"], "name": name}
    matches = list(pages(client, "/jobs", params, limit=SHOWN_MATCHES + 1))
    if not matches:
        raise NotFoundError("job", text[:128])
    if len(matches) > 1:
        ids = ", ".join(str(job["id"]) for job in matches[:SHOWN_MATCHES])
        more = " and more" if len(matches) > SHOWN_MATCHES else ""
        raise FieldError("JOB", f"several jobs are called {text[:128]}: give an id, one of {ids}{more}")
    return matches[0]


def segment(text: str) -> str:
    """Return a name as one piece of a path."""
    return quote(text, safe="")
