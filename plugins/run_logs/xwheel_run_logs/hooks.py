"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import Observer, Resources, Tables, hookimpl

from xwheel_run_logs.settings import RunLogsSection

if TYPE_CHECKING:
    from xwheel import Config


@hookimpl
def xwheel_register_tables() -> Iterable[Tables]:
    """Return the table."""
    from xwheel_run_logs.tables import RunLogTables

    return [RunLogTables()]


@hookimpl
def xwheel_register_observers(config: Config) -> Iterable[Observer]:
    """Return what notes which runs have a log that must be fetched; nothing where none is."""
    from xwheel_run_logs.dispatched import DispatchedLogs

    settings = config.section("run_logs", RunLogsSection)
    return [DispatchedLogs(settings)] if settings.store and settings.fetch else []


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return what answers calls and fetches, and what deletes."""
    from xwheel_run_logs.service import ExpiringLogs, KeptLogs

    kept = KeptLogs(config)
    return [kept, ExpiringLogs(kept, config)]
