"""Pages that plugins bring: files that a node's management listener serves, and what they add to the console."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from xwheel.plugin.validation import require

MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".woff2": "font/woff2",
}
"""Kinds of files that are served; what the host's own table says would differ from machine to machine."""

INDEX: Final = "index.html"
MOST_FILES: Final = 2000
MOST_BYTES: Final = 8 * 1024 * 1024
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_PATH: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")


@runtime_checkable
class Pages(Protocol):
    """Files that browsers get from the management listener, without signing in: they hold nothing secret.

    Those of most plugins are below ``/plugins/NAME/`` and add to the console what the default export of their module
    says: menu entries with pages, tiles of the dashboard, actions on rows, and the words for them in each language.
    """

    name: str  #: unique among pages: small letters, digits and dashes
    #: path of the folder with the files; those in its folders too. Only known kinds of files are served, and none whose
    #: name begins with a dot
    folder: str
    #: whether the files are served at ``/``, which one plugin may do: it is the console
    at_root: bool = False
    #: path in the folder of the ES module that says what is added to the console; empty for none
    module: str = ""


def find_files(pages: Pages) -> dict[str, Path]:
    """Return what is served of a plugin, once that can be: path in its folder, with slashes, to the file."""
    what = f"pages {pages.name}"
    is_name = _NAME.fullmatch(pages.name) is not None
    require(is_name, f"{what}: a name of pages has small letters, digits and dashes only")
    folder = Path(pages.folder)
    is_there = folder.is_absolute() and folder.is_dir()
    require(is_there, f"{what}: folder must be the absolute path of a folder, not {folder}")
    root = folder.resolve()
    found: dict[str, Path] = {}
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder).as_posix()
        if file.suffix in MEDIA_TYPES and _PATH.fullmatch(path) and file.is_file():
            is_inside = file.resolve().is_relative_to(root)
            require(is_inside, f"{what}: {path} is a link to a file outside of {folder}")
            is_small = file.stat().st_size <= MOST_BYTES
            require(is_small, f"{what}: {path} is larger than {MOST_BYTES >> 20} MiB")
            found[path] = file
    require(len(found) <= MOST_FILES, f"{what}: {len(found)} files; {MOST_FILES} are the most")
    for path in (pages.module, INDEX if pages.at_root else ""):
        require(not path or path in found, f"{what}: there is no file {path[:80]} in {folder}")
    return found
