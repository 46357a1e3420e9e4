"""The applications of the tests of the API, with the description of it."""

from __future__ import annotations

import dataclasses

import pytest
from xwheel_openapi import ApiDescription

from tests.component.api.conftest import LIMIT, Api, make_api
from tests.support.parts import with_parts
from xwheel.api.parts import ApiParts
from xwheel.plugin import Resources
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

DESCRIPTION: dict[str, Resources] = {"openapi": ApiDescription()}


def described(parts: ApiParts) -> ApiParts:
    """Return parts of an API with its description among the resources of plugins."""
    resources = parts.plugins.resources.with_objects(DESCRIPTION, "tests", ())
    return with_parts(parts, plugins=dataclasses.replace(parts.plugins, resources=resources))


@pytest.fixture
def api(db: Database) -> Api:
    registry = Registry("set of resources", DESCRIPTION, dict.fromkeys(DESCRIPTION, "tests"))
    return make_api(db, {"max_body_bytes": LIMIT}, resources=registry)
