"""A scheduler whose loops are stepped by hand, with log stores and what uses them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from xwheel_run_logs import LogStore
from xwheel_run_logs.hooks import xwheel_register_observers, xwheel_register_resources
from xwheel_run_logs.service import ExpiringLogs, KeptLogs

from tests.support.node import HandNode
from xwheel.api.plugins.site import RouteSite
from xwheel.api.schema.health import HealthReport
from xwheel.clock import ManualClock
from xwheel.node.node import api_parts
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.registries import Registry
from xwheel.storage.database.engine import Database


class LogNode(HandNode):
    """A node by hand.

    Attributes:
        kept: Reads, takes and fetches logs.
        expiring: Deletes them.
    """

    def __init__(
        self, db: Database, clock: ManualClock, *, stores: Sequence[LogStore] = (), **settings: dict[str, Any]
    ) -> None:
        self.stores = Registry("log store", {item.name: item for item in stores}, {})
        super().__init__(db, clock, **settings)

    def installed(self, known: Plugins) -> Plugins:
        made: Any = xwheel_register_resources(self.config)
        self.kept, self.expiring = cast(tuple[KeptLogs, ExpiringLogs], made)
        observers = {item.name: item for item in xwheel_register_observers(self.config)}
        return dataclasses.replace(
            known,
            resources=Registry("set of resources", {item.name: item for item in made}, {}),
            observers=Registry("observer", observers, {}),
            others={**known.others, "xwheel_register_log_stores": self.stores},
        )

    def begin(self) -> None:
        site = RouteSite(api_parts(self.scheduler, HealthReport))
        for item in (self.expiring, self.kept):
            item.resources(site)
        super().begin()
