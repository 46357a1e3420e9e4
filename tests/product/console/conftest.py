"""The applications of the tests of the API, with the events that the console brings."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import LIMIT, billing, orders
from tests.product.accounts.conftest import PeopleApi, make_people_api
from xwheel.storage.database.engine import Database

__all__ = ["api", "billing", "orders"]


@pytest.fixture
def api(db: Database) -> PeopleApi:
    return make_people_api(db, {"max_body_bytes": LIMIT})
