"""Files of plugins on the management listener."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.component.api.conftest import Api
from xwheel.api.http.static import page_sinks
from xwheel.errors import PluginError


@dataclass(frozen=True)
class Mine:
    folder: str
    name: str
    at_root: bool = False
    module: str = ""


@pytest.fixture
def mine(tmp_path: Path) -> dict[str, Mine]:
    made = {}
    for name, at_root in (("console", True), ("extra", False)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "index.html").write_text(f"<p>{name}</p>")
        (folder / "pages.js").write_text(f"export default {{}}; // {name} {'x' * 2000}")
        made[name] = Mine(str(folder), name, at_root, "" if at_root else "pages.js")
    return made


@pytest.fixture
def get(api: Api, mine: dict[str, Mine]) -> Callable[..., Any]:
    """Add the pages to the application, as a node with those plugins does."""
    from xwheel.api.app import refuse_unknown
    from xwheel.plugin.resources import CALLER, PUBLIC

    app: Any = api.management.app
    for prefix, sink in page_sinks(mine).items():
        app.add_sink(sink, prefix, need=PUBLIC)
    app.add_sink(refuse_unknown, r"/api(/|\Z)", need=CALLER)
    return lambda path, method="GET", **headers: api.management.simulate_request(
        method, path, headers={key.replace("_", "-"): value for key, value in headers.items()}
    )


def test_files_come_with_a_policy_and_are_asked_for_again(get: Callable[..., Any]) -> None:
    first = get("/")
    assert (first.status_code, first.text) == (200, "<p>console</p>")
    assert first.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self';" in first.headers["content-security-policy"]
    assert first.headers["cache-control"] == "no-cache"
    assert first.headers["x-content-type-options"] == "nosniff"
    again = get("/index.html", If_None_Match=first.headers["etag"])
    assert (again.status_code, again.text) == (304, "")
    assert get("/pages.js", If_None_Match=first.headers["etag"]).status_code == 200


def test_large_files_are_packed_for_who_takes_that(get: Callable[..., Any]) -> None:
    packed, plain = get("/plugins/extra/pages.js", Accept_Encoding="gzip, br"), get("/plugins/extra/pages.js")
    assert packed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert "content-encoding" not in plain.headers
    assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    assert len(packed.content) < len(plain.content) / 10


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/../console/index.html",
        "/%2e%2e/extra/index.html",
        "/..%2fextra%2findex.html",
        "//etc/passwd",
        "/plugins/none/index.html",
        "/plugins/extra/../../index.html",
        "/plugins/extra",
        "/plugins/",
        "/pages.js/",
        "/pages.js%00",
    ],
)
def test_nothing_else_can_be_asked_for(get: Callable[..., Any], path: str) -> None:
    assert get(path).status_code == 404


def test_pages_open_nothing_of_the_api(get: Callable[..., Any], api: Api) -> None:
    assert get("/api/v1/jobs").status_code == 401
    assert get("/api/v1/nothing").status_code == 401
    assert get("/api").status_code == 401
    assert get("/", method="POST").status_code == 405
    assert get("/", method="HEAD").status_code == 200


def test_a_file_that_was_edited_is_sent_anew(mine: dict[str, Mine], get: Callable[..., Any]) -> None:
    first = get("/")
    (Path(mine["console"].folder) / "index.html").write_text("<p>another text</p>")
    second = get("/", If_None_Match=first.headers["etag"])
    assert (second.status_code, second.text) == (200, "<p>another text</p>")


def test_a_file_that_went_is_none(mine: dict[str, Mine], get: Callable[..., Any]) -> None:
    (Path(mine["console"].folder) / "pages.js").unlink()
    assert get("/pages.js").status_code == 404


def test_two_consoles_are_one_too_many(mine: dict[str, Mine]) -> None:
    twin = Mine(mine["extra"].folder, "twin", at_root=True)
    with pytest.raises(PluginError, match="console and twin both want to be served at /"):
        page_sinks({**mine, "twin": twin})
