"""Both applications with accounts and the audit, and databases at the schema that these need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from xwheel_accounts.audit.book import book_of
from xwheel_accounts.audit.refusals import RefusalLog
from xwheel_accounts.parts import AccountParts, parts_of

from tests.component.api.conftest import LIMIT, Api, billing, orders
from tests.product.api import product_api
from xwheel.config import Config, build_config
from xwheel.storage.database.engine import Database

__all__ = ["billing", "orders"]


@dataclasses.dataclass
class PeopleApi(Api):
    """The two applications, and what the plugin works with."""

    people: AccountParts

    @property
    def refusals(self) -> RefusalLog:
        """Where refused calls are counted."""
        return book_of(self.db, Config()).refusals


def make_people_api(db: Database, settings: dict[str, Any]) -> PeopleApi:
    """Return both applications over a database."""
    made = product_api(db, settings)
    known = {item.name: getattr(made, item.name) for item in dataclasses.fields(made)}
    return PeopleApi(**known, people=parts_of(made.site, build_config({"api": settings})))


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> PeopleApi:
    """Both applications; ``API_SETTINGS`` of a test's class or module is the section ``[api]``."""
    ours = getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT})
    return make_people_api(db, getattr(request.cls, "API_SETTINGS", ours))


@pytest.fixture
def api_with(db: Database) -> Callable[..., PeopleApi]:
    """Both applications, with settings of the section ``[api]`` that the test names."""
    return lambda **settings: make_people_api(db, settings)
