"""What both applications are made of, taken from the parts of management."""

from __future__ import annotations

from collections.abc import Callable

from xwheel.access.parts import AccessParts
from xwheel.alarms.rules import AlarmManager
from xwheel.api.http.resource import ApiParts
from xwheel.api.schema.health import HealthReport
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.live.reader import LiveReader
from xwheel.scheduler.parts import ManagementParts, SharedParts


def parts_of(
    shared: SharedParts,
    management: ManagementParts,
    finisher: Finisher,
    alarms: AlarmManager,
    live: LiveReader,
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
        alarms: Changes alarm rules and shows alarms.
        live: Knows what changed lately.
        health: The state of the process; must not wait for anything.
        node_id: The node that this is; None for a process that is none.
        lease: Its partitions, likewise.
    """
    return ApiParts(
        db=shared.db,
        clock=shared.clock,
        config=shared.config.api,
        access=AccessParts(shared.db, shared.clock, shared.plugins, shared.audit),
        jobs=management.jobs,
        declarations=management.declarations,
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
        alarms=alarms,
        plugins=shared.plugins,
        listener_health=shared.listeners.health,
        logs=management.logs,
        log_stores=shared.log_stores,
        shipped_logs=management.shipped_logs,
        kill=management.killer.kill,
        audit=shared.audit,
        live=live,
        node_id=node_id,
        lease=lease,
        lease_ms=shared.config.schedule.lease_s * 1000,
    )
