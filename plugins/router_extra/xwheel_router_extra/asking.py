"""Routers that ask executors before they choose."""

from __future__ import annotations

from collections.abc import Sequence

from xwheel.plugin import NoExecutorYetError, RegisteredExecutor, RouteContext


class Failover:
    """The first executor by address that answers a beat, suspects last."""

    name = "FAILOVER"
    asks = True

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the first that answers."""
        for executor in context.executors:
            if context.beat(executor.address):
                return [executor]
        raise NoExecutorYetError(f"none of {len(context.executors)} executors answers a beat")


class Busyover:
    """The first executor by address that has nothing of this job, suspects last."""

    name = "BUSYOVER"
    asks = True

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return the first where the job is idle."""
        for executor in context.executors:
            if context.idle_beat(executor.address):
                return [executor]
        raise NoExecutorYetError(f"all of {len(context.executors)} executors are busy with this job or do not answer")
