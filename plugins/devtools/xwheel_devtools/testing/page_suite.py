"""The suite for pages of plugins; it raises ``AssertionError`` with the line that does not hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

from xwheel.errors import PluginError
from xwheel.plugin.hookspecs import check_object
from xwheel.plugin.pages import Pages, find_files

TEXTS: Final = (".css", ".html", ".js", ".json", ".svg", ".txt")
ELSEWHERE: Final = re.compile(
    r"""(?:\bfrom|\bimport)\s*\(?\s*["'](?:[a-z]+:)?//|url\(\s*["']?(?:[a-z]+:)?//""", re.IGNORECASE
)
"""A module, a style or a picture of another server; addresses in words and in names of formats are none."""


def check_pages(pages: Pages) -> None:
    """Check a set of pages: the files are there and can be read, and browsers will take them under a node's policy.

    A node lets pages run scripts of its own files only: none that stand in HTML, none of other servers.
    """
    try:
        check_object(Pages, pages)
        files = find_files(pages)
    except PluginError as error:
        raise AssertionError(str(error)) from None
    _require(bool(pages.module or pages.at_root), "nothing shows these files: name a module")
    for path, file in files.items():
        text = file.read_text(encoding="utf-8") if file.suffix in TEXTS else ""
        if file.suffix in {".js", ".css"} and (found := ELSEWHERE.search(text)):
            raise AssertionError(f"{path} asks another server: {found.group()}")
        if file.suffix == ".html":
            _Reader(path).feed(text)
    if pages.module:
        _require(pages.module.endswith(".js"), f"{pages.module} is no ES module: its name ends in .js")
        module = files[pages.module].read_text(encoding="utf-8")
        _require(
            re.search(r"\bexport\s+default\b|\bas\s+default\b", module) is not None,
            f"{pages.module} has no default export, which says what is added to the console",
        )


class _Reader(HTMLParser):
    """Refuses what the policy of nodes forbids in HTML."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at an element."""
        given = dict(attrs)
        if tag == "script":
            _require(bool(given.get("src")), f"{self._path} has a script without src, which is not run")
        for name, value in given.items():
            _require(not name.startswith("on"), f"{self._path} has {name}=, which is not run: add a listener")
            is_link = name in {"src", "href"} and tag != "a"
            is_elsewhere = is_link and re.match(r"([a-z]+:)?//", value or "", re.IGNORECASE) is not None
            _require(not is_elsewhere, f"{self._path} asks another server: {value}")


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise AssertionError(words)
