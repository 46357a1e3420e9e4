"""The applications with what is installed next to the core, and two groups that have a token each."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import LIMIT, Api, billing, orders
from tests.product.api import product_api
from xwheel.storage.database.engine import Database

__all__ = ["api", "billing", "orders"]


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> Api:
    return product_api(db, getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT}))
