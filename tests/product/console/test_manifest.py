"""The manifest names the modules of plugins that add to the console, and the reference page its fields."""

from __future__ import annotations

import msgspec
import pytest
from xwheel_console.manifest import ManifestView, PageModuleView

from tests.component.api.conftest import Api
from tests.product.api import product_api
from tests.unit.api.test_pages import API
from xwheel import __version__
from xwheel.storage.database.engine import Database


class Added:
    """Pages of a plugin."""

    folder = "/nowhere"

    def __init__(self, name: str, module: str, *, at_root: bool = False) -> None:
        self.name, self.module, self.at_root = name, module, at_root


@pytest.fixture
def api(db: Database, monkeypatch: pytest.MonkeyPatch) -> Api:
    made = product_api(db, {})
    added = (
        *(Added("toys", "toys.js"), Added("dolls", "in/it.js")),
        *(Added("plain", ""), Added("console", "a.js", at_root=True)),
    )
    pages = {item.name: item for item in added}
    monkeypatch.setattr(type(made.site), "registered", lambda _, hook: {"xwheel_register_pages": pages}[hook])
    return made


def test_it_names_the_modules_that_add_to_the_console(api: Api) -> None:
    assert api.call("GET", "console/manifest").json == {
        "version": __version__,
        "items": [
            {"name": "dolls", "module": "plugins/dolls/in/it.js"},
            {"name": "toys", "module": "plugins/toys/toys.js"},
        ],
    }


@pytest.mark.parametrize("view", [ManifestView, PageModuleView])
def test_every_answer_field_is_named(view: type[msgspec.Struct]) -> None:
    for name in view.__struct_fields__:
        assert f"`{name}`" in API, name
