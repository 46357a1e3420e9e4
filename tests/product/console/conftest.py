"""The applications of the tests of the API, with the events that the console brings."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import LIMIT, Api, billing, orders
from tests.product.api import product_api
from xwheel.storage.database.engine import Database

__all__ = ["api", "billing", "orders"]


@pytest.fixture
def api(db: Database) -> Api:
    return product_api(db, {"max_body_bytes": LIMIT})
