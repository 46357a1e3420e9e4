"""What both applications are made of: the parts of management, and what a process adds to them."""

from __future__ import annotations

from collections.abc import Callable

from xwheel.access.rights import Rights
from xwheel.access.tokens import TokenManager, TokenStore
from xwheel.api.schema.health import HealthReport
from xwheel.config.sections import Section
from xwheel.errors import ConfigError
from xwheel.plugin.run_logs import TakesLogs
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.parts import ManagementParts, SharedParts


class ApiParts(SharedParts, ManagementParts):
    """All parts of management, and what the process adds; a resource takes of them what it names.

    ``health`` must not wait for anything; ``lease`` is None for a process that is no node. Raises ConfigError if the
    settings name a log store, and no plugin keeps logs.
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
        store = getattr(shared.config.section("run_logs", Section), "store", "")
        if store and not shared.plugins.offering(TakesLogs):
            raise ConfigError(
                "run_logs.store: no plugin that is installed here keeps logs of runs: install one, or leave this empty"
            )
        # no second object is made of any of them
        vars(self).update(vars(shared) | vars(management))
        self.rights = Rights(self.plugins.gates)
        self.tokens = TokenStore(self.db, self.clock, self.rights)
        self.token_changes = TokenManager(self.db, self.clock, self.audit, self.rights, self.tokens.forget)
        self.finisher, self.health, self.lease = finisher, health, lease
