"""The applications of the unit tests, with two groups that have a token each."""

from __future__ import annotations

import pytest

from tests.support.job_calls import Tenant
from tests.unit.api.conftest import Api, api

__all__ = ["api"]  # the fixture of the unit tests


@pytest.fixture
def orders(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "orders")


@pytest.fixture
def billing(api: Api) -> Tenant:
    return Tenant(api.db, api.executor.app, "billing")
