"""A scheduler whose loops are stepped by hand, with log stores and what uses them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xwheel_devtools.testing import ManualClock
from xwheel_run_logs import xwheel_register_observers, xwheel_register_resources
from xwheel_run_logs.service import ExpiringLogs, KeptLogs

from tests.support.node import HandNode
from xwheel.api.plugins.site import RouteSite
from xwheel.api.schema.health import HealthReport
from xwheel.config import build_config
from xwheel.node.node import api_parts
from xwheel.plugin import LogStore
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
        config = build_config(settings)
        observers = list(xwheel_register_observers(config))
        super().__init__(db, clock, stores=stores, observers=observers, **settings)
        made: Any = xwheel_register_resources(config)
        self.kept, self.expiring = cast(tuple[KeptLogs, ExpiringLogs], made)
        site = RouteSite(api_parts(self.scheduler, HealthReport))
        for item in (self.expiring, self.kept):
            item.resources(site)
