"""Which node commands talk to, and with which token: as options or environment say, or of the logins of this user.

Logins are kept in a file by the URL of the management API, so that no token is ever sent to another one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from xwheel.errors import ConfigError

if TYPE_CHECKING:
    from xwheel.wire.http.rest import RestClient
    from xwheel.wire.http.tls import TlsFiles

DEFAULT_URL: Final = "http://127.0.0.1:8080"
MAX_TOKEN_FILE: Final = 4096
OTHERS: Final = 0o077
BEFORE_LOGINS: Final = ("XWHEEL_URL", "XWHEEL_TOKEN", "XWHEEL_TOKEN_FILE")
"""What of the environment counts before any login."""


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """How a node is called."""

    token: str = ""  # its management token; empty if a file has it
    token_file: str = ""  # that file, such as the one in the folder of an embedded scheduler
    name: str = ""  # what the node calls the token, if it was made by the login


class Logins(msgspec.Struct, frozen=True, kw_only=True):
    """All logins of a user."""

    latest: str = ""  # the URL that commands take where none is named; empty if there is none
    nodes: dict[str, Login] = {}  # by URL


def logins_file() -> Path:
    """Return where the logins of this user are kept, if there are any; raises ConfigError for a user without a home."""
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    try:
        home = Path(base) if base.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        raise ConfigError("this user has no home for logins: set XDG_CONFIG_HOME, or XWHEEL_TOKEN") from None
    return home / "xwheel" / "logins.json"


def read_logins() -> Logins:
    """Return the logins, none without a file; raises ConfigError if it cannot be used, or other users can read it."""
    path = logins_file()
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & OTHERS:
                raise ConfigError(f"{path}: other users can read or change it: chmod 600 {path}")
            return msgspec.json.decode(file.read(), type=Logins)
    except FileNotFoundError:
        return Logins()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise ConfigError(f"{path} is not what 'xwheel login' wrote: remove it, and log in again") from None


def plain_url(text: str) -> str:
    """Return the URL of a management API as logins are kept by; raises ConfigError if it is none."""
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or parts.username is not None:
        raise ConfigError("--url: must be an http:// or https:// address of a node, without query or password")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def node_client(url: str | None, token_file: Path | None) -> RestClient:
    """Return a client of the node that options or environment name; raises ConfigError without a token or a URL."""
    from xwheel.wire.http.rest import RestClient

    base = url or os.environ.get("XWHEEL_URL")
    token = _given_token(token_file)
    if token is None:
        logins = read_logins()
        base = plain_url(base or logins.latest or DEFAULT_URL)
        login = logins.nodes.get(base)
        if login is None:
            others = f"; there are logins for {', '.join(logins.nodes)}" if logins.nodes else ""
            raise ConfigError(
                f"a management token for {base} is needed: 'xwheel login' gets one on the node's machine, where its "
                f"settings are, and 'xwheel login --url URL' asks for one; 'xwheel login FOLDER' "
                f"takes that of an embedded scheduler; or name a file with --token-file{others}"
            )
        return client_of(base, login)
    return RestClient(plain_url(base or DEFAULT_URL), token, tls=_tls())


def client_of(url: str, login: Login) -> RestClient:
    """Return a client of a node with the token of a login."""
    from xwheel.wire.http.rest import RestClient

    token = login.token or token_in(Path(login.token_file), "the login's file")
    return RestClient(url, token, tls=_tls())


def _tls() -> TlsFiles:
    """Return what the environment says of TLS; settings files are for nodes and executors."""
    from xwheel.wire.http.tls import NO_FILES, check_tls

    names = ("ca_file", "cert_file", "key_file")
    named = {name: path for name in names if (path := os.environ.get(f"XWHEEL_TLS__{name.upper()}"))}
    if not named:
        return NO_FILES
    from xwheel.config.sections import TlsSection

    return check_tls(TlsSection.model_validate(named))


def _given_token(path: Path | None) -> str | None:
    if path is None and os.environ.get("XWHEEL_TOKEN"):
        return checked_token(os.environ["XWHEEL_TOKEN"].strip(), "XWHEEL_TOKEN")
    path = path or (Path(named) if (named := os.environ.get("XWHEEL_TOKEN_FILE")) else None)
    return None if path is None else token_in(path, "--token-file")


def token_in(path: Path, source: str) -> str:
    """Return the token that a file holds; raises ConfigError with its source if it holds none."""
    try:
        with path.open("rb") as stream:
            token = stream.read(MAX_TOKEN_FILE).decode("utf-8", "replace").strip()
    except OSError as error:
        raise ConfigError(f"{source}: cannot read {path}: {error.strerror}") from error
    return checked_token(token, source)


def checked_token(token: str, source: str) -> str:
    """Return a token that a header can carry; raises ConfigError with its source for any other."""
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise ConfigError(f"{source}: holds no token: one word of printable ASCII is wanted")
    return token
