"""Files with secrets that were just made, and where the node of this machine's settings is.

A node itself writes no token down: of management tokens it has digests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from xwheel.cli.connection import plain_url
from xwheel.errors import ConfigError

if TYPE_CHECKING:
    from xwheel.config import Config

T = TypeVar("T")


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
    return plain_url(config.api.url(port))


def login_link(url: str, secret: str) -> str:
    """Return the address of a page that signs in once; browsers keep what stands behind # to themselves."""
    return f"{url}/#/login?link={secret}"


def keep_secret(file: Path | None, make: Callable[[], tuple[T, str]], *, replaces: bool = False) -> tuple[T, str]:
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
            raise ConfigError(f"--to-file: {file} is there already, and nothing is overwritten: name a new file")
        write_text(draft, "")  # what cannot be kept is not made
        made, secret = make()
        write_text(draft, f"{secret}\n")
        draft.replace(file)
    except OSError as error:
        raise ConfigError(f"--to-file: cannot write {file}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return made, secret
