"""Both applications with XXL-JOB's job calls, and two groups that have a token each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xwheel_xxl_calls import xwheel_register_group_calls

from tests.component.api.conftest import LIMIT, Api, make_api
from tests.support.job_calls import Tenant
from xwheel.config import build_config
from xwheel.plugin import GroupCalls
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database


def make_job_api(db: Database, settings: dict[str, Any]) -> Api:
    """Return both applications with the job calls."""
    found = {item.name: item for item in xwheel_register_group_calls(build_config({"api": settings}))}
    owners = dict.fromkeys(found, "xwheel-xxl-calls")
    return make_api(db, settings, group_calls=Registry[GroupCalls]("set of group calls", found, owners))


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> Api:
    """Both applications; ``API_SETTINGS`` of a test's module is the section ``[api]``."""
    return make_job_api(db, getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT}))


@pytest.fixture
def api_with(db: Database) -> Callable[..., Api]:
    """Both applications, with settings of the section ``[api]`` that the test names."""
    return lambda **settings: make_job_api(db, settings)


@pytest.fixture
def orders(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "orders")


@pytest.fixture
def billing(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "billing")
