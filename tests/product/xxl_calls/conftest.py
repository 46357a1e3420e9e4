"""Both applications with XXL-JOB's job calls, and two groups that have a token each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.component.api.conftest import LIMIT, Api
from tests.product.api import product_api
from tests.support.job_calls import Tenant
from xwheel.storage.database.engine import Database


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> Api:
    """Both applications; ``API_SETTINGS`` of a test's module is the section ``[api]``."""
    return product_api(db, getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT}))


@pytest.fixture
def api_with(db: Database) -> Callable[..., Api]:
    """Both applications, with settings of the section ``[api]`` that the test names."""
    return lambda **settings: product_api(db, settings)


@pytest.fixture
def orders(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "orders")


@pytest.fixture
def billing(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "billing")
