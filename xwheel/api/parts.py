"""What both applications are made of, taken from the parts of management."""

from __future__ import annotations

from collections.abc import Callable

from xwheel.access.parts import AccessParts
from xwheel.api.http.resource import ApiParts
from xwheel.api.schema.health import HealthReport
from xwheel.errors import ConfigError
from xwheel.plugin.run_logs import TakesLogs
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.parts import ManagementParts, SharedParts


def parts_of(
    shared: SharedParts,
    management: ManagementParts,
    finisher: Finisher,
    *,
    health: Callable[[], HealthReport],
    node_id: str | None = None,
    lease: Lease | None = None,
) -> ApiParts:
    """Return what the applications work with.

    Args:
        shared: What is known of executors, schedules and scripts.
        management: What changes jobs and runs.
        finisher: Takes outcomes.
        health: The state of the process; must not wait for anything.
        node_id: The node that this is; None for a process that is none.
        lease: Its partitions, likewise.

    Raises:
        ConfigError: The settings name a log store, and no plugin keeps logs.
    """
    if shared.config.run_logs.store and not shared.plugins.offering(TakesLogs):
        raise ConfigError(
            "run_logs.store: no plugin that is installed here keeps logs of runs: install one, or leave this empty"
        )
    return ApiParts(
        db=shared.db,
        clock=shared.clock,
        config=shared.config.api,
        access=AccessParts(shared.db, shared.clock, shared.plugins, shared.audit),
        jobs=management.jobs,
        job_owners=management.owners,
        job_writer=management.job_writer,
        run_now=management.run_now,
        scripts=shared.scripts,
        dependencies=management.dependencies,
        registry=shared.registry,
        finisher=finisher,
        timetable=shared.timetable,
        schedules=management.schedules,
        calendars=shared.calendars,
        secrets=shared.secrets,
        health=health,
        plugins=shared.plugins,
        listener_health=shared.listeners.health,
        logs=management.logs,
        calls=shared.calls,
        kill=management.killer.kill,
        audit=shared.audit,
        node_id=node_id,
        lease=lease,
        lease_ms=shared.config.schedule.lease_s * 1000,
    )
