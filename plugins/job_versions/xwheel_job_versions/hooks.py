"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from xwheel.plugin import Resources, has_node_libraries, hookimpl
from xwheel_commands import Command

if TYPE_CHECKING:
    from xwheel import Config


COMMANDS: Final = (
    Command(
        "job/versions",
        "List the versions of a job, newest first: who changed it, and why; or show one of them.",
        "xwheel_job_versions.commands",
    ),
    Command(
        "job/diff",
        "Print what a version of a job changed: its fields, and the source of its script.",
        "xwheel_job_versions.commands",
    ),
    Command(
        "job/rollback",
        "Edit a job to be as it was at a revision, its source included; it stays started or stopped as it is.",
        "xwheel_job_versions.commands",
    ),
)


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return the resources."""
    if not has_node_libraries():
        return []
    from xwheel_job_versions.resources import JobVersionRoutes

    return [JobVersionRoutes(config)]


@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return COMMANDS
