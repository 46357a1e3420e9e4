"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xwheel.plugin import Resources, Tables, has_node_libraries, hookimpl

if TYPE_CHECKING:
    from xwheel import Config


@dataclass(frozen=True)
class AlarmCommands:
    """The commands."""

    name: str = "alarm"
    help: str = "Alarms, on a running node."
    module: str = "xwheel_alarms.command"
    is_one: bool = False


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
def xwheel_register_commands() -> Iterable[AlarmCommands]:
    """Return the commands."""
    return [AlarmCommands()]
