"""The applications of the tests of the API, with the events that the console brings."""

from __future__ import annotations

import dataclasses

import pytest
from xwheel_console.live.resources import LiveNews

from tests.component.api.conftest import LIMIT, Api, DeclaredAnswers, billing, make_api, orders
from xwheel.api.app import build_management_app
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

__all__ = ["api", "billing", "orders"]


@pytest.fixture
def api(db: Database) -> Api:
    made = make_api(db, {"max_body_bytes": LIMIT})
    registry = Registry("set of resources", {"live": LiveNews()}, {"live": "xwheel-console"})
    plugins = dataclasses.replace(made.parts.plugins, resources=registry)
    parts = dataclasses.replace(made.parts, plugins=plugins)
    return dataclasses.replace(made, parts=parts, management=DeclaredAnswers(build_management_app(parts)))
