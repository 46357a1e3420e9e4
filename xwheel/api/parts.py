"""What both applications are made of: the parts of management, and what a process adds to them."""

from __future__ import annotations

from collections.abc import Callable

from xwheel.access.parts import AccessParts
from xwheel.api.schema.health import HealthReport
from xwheel.errors import ConfigError
from xwheel.plugin.run_logs import TakesLogs
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.parts import ManagementParts, SharedParts


class ApiParts(SharedParts, ManagementParts):
    """All parts of management, and what the process adds; a resource takes of them what it names.

    Attributes:
        access: Tokens.
        finisher: Takes outcomes.
        health: Returns the state of the process; must not wait for anything.
        lease: The partitions of the node that this is; None for a process that is none.

    Raises:
        ConfigError: The settings name a log store, and no plugin keeps logs.
    """

    def __init__(
        self,
        shared: SharedParts,
        management: ManagementParts,
        finisher: Finisher,
        *,
        health: Callable[[], HealthReport],
        lease: Lease | None = None,
    ) -> None:
        if shared.config.run_logs.store and not shared.plugins.offering(TakesLogs):
            raise ConfigError(
                "run_logs.store: no plugin that is installed here keeps logs of runs: install one, or leave this empty"
            )
        # no second object is made of any of them
        vars(self).update(vars(shared) | vars(management))
        self.access = AccessParts(self.db, self.clock, self.plugins, self.audit)
        self.finisher, self.health, self.lease = finisher, health, lease
