"""What commands keep in files of this user alone: a secret that was just made, and the nodes that were logged in to.

Logins are kept by the URL of the management API, so that no token is ever sent to another one. A node itself writes no
token down: of management tokens it has digests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from xwheel.errors import ConfigError

if TYPE_CHECKING:
    from xwheel.config import Config

FOLDER: Final = "xwheel"
FILE: Final = "logins.json"
OTHERS: Final = 0o077
ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- where to call one that listens everywhere

T = TypeVar("T")


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """How a node is called.

    Attributes:
        token: Its management token; empty if a file has it.
        token_file: That file, such as the one in the folder of an embedded scheduler.
        name: What the node calls the token, if it was made by the login.
    """

    token: str = ""
    token_file: str = ""
    name: str = ""


class Logins(msgspec.Struct, frozen=True, kw_only=True):
    """All logins of a user.

    Attributes:
        latest: The URL that commands take where none is named; empty if there is none.
        nodes: Logins by URL.
    """

    latest: str = ""
    nodes: dict[str, Login] = {}

    def with_login(self, url: str, login: Login) -> Logins:
        """Return the logins with a further one, which is the latest."""
        return Logins(latest=url, nodes={**self.nodes, url: login})

    def without(self, url: str) -> Logins:
        """Return the logins without one; the latest of the rest counts then."""
        rest = {known: login for known, login in self.nodes.items() if known != url}
        return Logins(latest=self.latest if self.latest in rest else next(reversed(rest), ""), nodes=rest)


def logins_file() -> Path:
    """Return where the logins of this user are kept, whether there are any or not.

    Raises:
        ConfigError: The user has no home.
    """
    base = os.environ.get("XDG_CONFIG_HOME") or ""
    try:
        home = Path(base) if base.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        raise ConfigError("this user has no home for logins: set XDG_CONFIG_HOME, or XWHEEL_TOKEN") from None
    return home / FOLDER / FILE


def read_logins() -> Logins:
    """Return the logins; none where there is no file yet.

    Raises:
        ConfigError: The file cannot be used, or other users can read it.
    """
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


def write_logins(logins: Logins) -> None:
    """Keep the logins, all at once: a reader sees those or the ones before.

    Raises:
        ConfigError: They cannot be written.
    """
    from xwheel.private_files import make_folder_above, write_text

    path = logins_file()
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        make_folder_above(path)
        write_text(draft, msgspec.json.encode(logins).decode())
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; --token-file works without it") from None


def plain_url(text: str) -> str:
    """Return the URL of a management API as logins are kept by.

    Raises:
        ConfigError: It is none.
    """
    try:
        parts = urlsplit(text)
        is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or parts.query or parts.fragment or parts.username is not None:
        raise ConfigError(
            "--url: must be an http:// or https:// address of a node, without query or password"
        )
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def url_of(config: Config) -> str:
    """Return where a node with these settings has its management API, seen from its own machine.

    Raises:
        ConfigError: Its port is not known.
    """
    port = config.api.port
    if not port:
        try:
            port = int(json.loads((config.api.port_file or Path()).read_text(encoding="utf-8"))["api"])
        except (OSError, ValueError, KeyError, TypeError):
            raise ConfigError(
                "api.port is 0, and no api.port_file says which port the node took: name the node with --url URL"
            ) from None
    host = ANYWHERE.get(config.api.host, config.api.host)
    return plain_url(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")


def login_link(url: str, secret: str) -> str:
    """Return the address of a page that signs in once; browsers keep what stands behind # to themselves."""
    return f"{url}/#/login?link={secret}"


def keep_secret(
    file: Path | None, make: Callable[[], tuple[T, str]], *, replaces: bool = False
) -> tuple[T, str]:
    """Return something that was made with a secret, once the secret is in a file of this user alone, if one is named.

    Args:
        file: The file; None for none.
        make: Makes it; if that fails, no file is left behind.
        replaces: Whether a file that is there already is replaced, in one step.

    Raises:
        ConfigError: The file cannot be made.
    """
    if file is None:
        return make()
    from xwheel.private_files import write_text

    draft = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        if not replaces and file.exists():
            raise ConfigError(
                f"--to-file: {file} is there already, and nothing is overwritten: name a new file"
            )
        write_text(draft, "")  # what cannot be kept is not made
        made, secret = make()
        write_text(draft, f"{secret}\n")
        draft.replace(file)
    except OSError as error:
        raise ConfigError(f"--to-file: cannot write {file}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return made, secret
