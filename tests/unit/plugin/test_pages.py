"""Pages of plugins: which files are served, and what is refused when the plugin is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from xwheel_devtools.testing import check_pages

from xwheel.errors import PluginError
from xwheel.plugin.pages import MOST_BYTES, find_files


@dataclass(frozen=True)
class Mine:
    folder: str
    name: str = "mine"
    at_root: bool = False
    module: str = "pages.js"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    (folder / "more").mkdir(parents=True)
    (folder / "pages.js").write_text("export default {};")
    (folder / "more" / "style.css").write_text("p { color: red }")
    return folder


def test_known_kinds_of_files_are_served_and_nothing_hidden(home: Path) -> None:
    for name in (".env.js", "secret.pem", "pages.py", "more/.git.js", "a b.js"):
        (home / name).write_text("x")
    assert set(find_files(Mine(str(home)))) == {"pages.js", "more/style.css"}


def test_a_link_to_elsewhere_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "key.js").write_text("secret")
    (home / "key.js").symlink_to(tmp_path / "key.js")
    with pytest.raises(PluginError, match="key.js is a link to a file outside"):
        find_files(Mine(str(home)))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "Mine"}, "small letters"),
        ({"name": "../x"}, "small letters"),
        ({"folder": "pages"}, "absolute path"),
        ({"module": "gone.js"}, "no file gone.js"),
        ({"at_root": True}, "no file index.html"),
    ],
)
def test_what_cannot_be_served_is_refused(home: Path, changes: dict[str, object], words: str) -> None:
    fields = {"folder": str(home), **changes}
    with pytest.raises(PluginError, match=words):
        find_files(Mine(**fields))  # type: ignore[arg-type]


def test_a_file_without_end_is_refused(home: Path) -> None:
    with (home / "large.js").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(PluginError, match="large.js is larger than 8 MiB"):
        find_files(Mine(str(home)))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("pages.js", "export const a = 1;", "no default export"),
        ("x.js", 'import {a} from "https://cdn.example.org/a.js";', "asks another server"),
        ("x.css", "@font-face { src: url(//cdn.example.org/a.woff2) }", "asks another server"),
        ("x.html", "<script>go()</script>", "without src"),
        ("x.html", '<p onclick="go()">', "onclick="),
        ("x.html", '<img src="//example.org/a.png">', "asks another server"),
    ],
)
def test_the_suite_finds_what_browsers_would_refuse(home: Path, name: str, text: str, words: str) -> None:
    check_pages(Mine(str(home)))
    (home / name).write_text(text)
    with pytest.raises(AssertionError, match=words):
        check_pages(Mine(str(home)))
