"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import Resources, Tables, has_node_libraries, hookimpl
from xwheel_commands import Command

if TYPE_CHECKING:
    from xwheel import Config


COMMAND = Command("alarm", "Alarms, on a running node.", "xwheel_alarms.command", is_one=False)


@hookimpl
def xwheel_register_tables() -> Iterable[Tables]:
    """Return the tables."""
    if not has_node_libraries():
        return []
    from xwheel_alarms.tables import AlarmTables

    return [AlarmTables()]


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return the resources; what answers calls observes runs, too, and sends alarms."""
    if not has_node_libraries():
        return []
    from xwheel_alarms.service import Alarms

    return [Alarms(config)]


@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return [COMMAND]
