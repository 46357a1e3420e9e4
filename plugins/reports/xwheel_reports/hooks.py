"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xwheel.plugin import Resources, Tables, has_node_libraries, hookimpl

if TYPE_CHECKING:
    from xwheel import Config


@dataclass(frozen=True)
class ReportCommand:
    """A command."""

    name: str
    help: str
    module: str = "xwheel_reports.commands"
    is_one: bool = True


COMMANDS: Final = (
    ReportCommand(
        "overview",
        "Count groups, executors, jobs and open runs, and what became of the runs of the last 24 hours.",
    ),
    ReportCommand(
        "report", "Count runs by what became of them, for each hour or day (of UTC) in which they were due."
    ),
)


@hookimpl
def xwheel_register_tables() -> Iterable[Tables]:
    """Return the table."""
    if not has_node_libraries():
        return []
    from xwheel_reports.tables import ReportTables

    return [ReportTables()]


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return what answers calls, and counts and deletes between them."""
    if not has_node_libraries():
        return []
    from xwheel_reports.service import Reports

    return [Reports(config)]


@hookimpl
def xwheel_register_commands() -> Iterable[ReportCommand]:
    """Return the commands."""
    return COMMANDS
