"""Both applications with the resources of all plugins that are installed."""

from __future__ import annotations

from typing import Any

from xwheel_accounts.audit.book import book_of
from xwheel_alarms import Alarm

from tests.component.api.conftest import Api, make_api
from xwheel.config import Config, build_config
from xwheel.plugin import Resources
from xwheel.plugin.discovery import survey_plugins
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

BROUGHT = ("gates", "group_calls", "recorders", "resources", "tables")
PROVIDERS = "xwheel_register_identity_providers"
HOOKS = (*(f"xwheel_register_{name}" for name in BROUGHT), PROVIDERS)


class Channel:
    """An alarm channel that takes all."""

    name = "mail"

    def send(self, alarm: Alarm) -> str:
        return "250 queued"


def product_api(db: Database, settings: dict[str, Any], **instead: Resources) -> Api:
    """Return both applications over a database.

    Args:
        db: The database.
        settings: The section ``[api]``.
        instead: By name, resources in place of those that are installed.
    """
    # fresh ones: they keep what they know of one database
    found = survey_plugins(build_config({"api": settings}), hooks=HOOKS).plugins
    resources = found.resources.with_objects(instead, "tests", ())
    more = {name: getattr(found, name) for name in BROUGHT}
    channels = Registry("alarm channel", {"mail": Channel()}, {"mail": "tests"})
    others = {**found.others, "xwheel_register_alarms": channels}
    made = make_api(db, settings, **{**more, "resources": resources, "others": others})
    # as a node's loop does: what was refused waits in memory
    book_of(db, Config()).refusals.step(made.clock.now_ms())
    return made
