"""Both applications with the resources of all plugins that are installed."""

from __future__ import annotations

from typing import Any

from tests.component.api.conftest import Api, make_api
from xwheel.config import build_config
from xwheel.plugin import Alarm
from xwheel.plugin.discovery import survey_plugins
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database

BROUGHT = ("resources", "group_calls", "tables")
HOOKS = tuple(f"xwheel_register_{name}" for name in BROUGHT)


class Channel:
    """An alarm channel that takes all."""

    name = "mail"

    def send(self, alarm: Alarm) -> str:
        return "250 queued"


def product_api(db: Database, settings: dict[str, Any]) -> Api:
    """Return both applications over a database."""
    config = build_config({"api": settings})
    # fresh ones: they keep what they know of one database
    found = survey_plugins(config, hooks=HOOKS).plugins
    channels = Registry("alarm channel", {"mail": Channel()}, {"mail": "tests"})
    return make_api(db, settings, alarm_channels=channels, **{name: getattr(found, name) for name in BROUGHT})
