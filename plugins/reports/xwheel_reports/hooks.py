"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from xwheel.plugin import Resources, Tables, has_node_libraries, hookimpl
from xwheel_commands import Command

if TYPE_CHECKING:
    from xwheel import Config


COMMANDS: Final = (
    Command(
        "overview",
        "Count groups, executors, jobs and open runs, and what became of the runs of the last 24 hours.",
        "xwheel_reports.commands",
    ),
    Command(
        "report",
        "Count runs by what became of them, for each hour or day (of UTC) in which they were due.",
        "xwheel_reports.commands",
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
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return COMMANDS
