"""Both applications with accounts and the audit, and databases at the schema that these need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import xwheel_accounts
from xwheel_accounts.audit.book import book_of
from xwheel_accounts.audit.refusals import RefusalLog
from xwheel_accounts.parts import AccountParts, parts_of
from xwheel_accounts.tables import metadata

from tests.component.api.conftest import LIMIT, Api, billing, make_api, orders, shipped_plugins
from xwheel.config import Config, build_config
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
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

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        with self.db.read() as conn:
            mine = {
                table.name: [tuple(row) for row in conn.execute(table.select())]
                for table in metadata.sorted_tables
            }
        return {**super().rows(), **mine}


def with_accounts(plugins: Plugins, config: Config) -> Plugins:
    """Return plugins with what this one registers."""

    def of(kind: str, found: Any) -> Any:
        return Registry(
            kind, {item.name: item for item in found}, {item.name: "xwheel-accounts" for item in found}
        )

    return dataclasses.replace(
        plugins,
        identity_providers=of("identity provider", xwheel_accounts.xwheel_register_identity_providers()),
        tables=of("set of tables", xwheel_accounts.xwheel_register_tables()),
        gates=of("gate", xwheel_accounts.xwheel_register_gates(config)),
        recorders=of("recorder", xwheel_accounts.xwheel_register_recorders(config)),
        resources=of("set of resources", xwheel_accounts.xwheel_register_resources(config)),
    )


def make_people_api(db: Database, settings: dict[str, Any]) -> PeopleApi:
    """Return both applications over a database."""
    config = build_config({"api": settings})
    made = make_api(db, settings, with_accounts(shipped_plugins(), config))
    fields = {item.name: getattr(made, item.name) for item in dataclasses.fields(made)}
    api = PeopleApi(**fields, people=parts_of(made.site, config))
    api.refusals.step(made.clock.now_ms())  # as a node's loop does
    return api


@pytest.fixture
def api(db: Database, request: pytest.FixtureRequest) -> PeopleApi:
    """Both applications; ``API_SETTINGS`` of a test's class or module is the section ``[api]``."""
    ours = getattr(request.module, "API_SETTINGS", {"max_body_bytes": LIMIT})
    return make_people_api(db, getattr(request.cls, "API_SETTINGS", ours))


@pytest.fixture
def api_with(db: Database) -> Callable[..., PeopleApi]:
    """Both applications, with settings of the section ``[api]`` that the test names."""
    return lambda **settings: make_people_api(db, settings)
