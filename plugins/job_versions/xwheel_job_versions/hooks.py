"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from xwheel.plugin import Resources, has_node_libraries, hookimpl

if TYPE_CHECKING:
    from xwheel import Config


@dataclass(frozen=True)
class VersionCommand:
    """A command."""

    name: str
    help: str
    module: str = "xwheel_job_versions.commands"
    is_one: bool = True


COMMANDS: Final = (
    VersionCommand(
        "job/versions",
        "List the versions of a job, newest first: who changed it, and why; or show one of them.",
    ),
    VersionCommand(
        "job/diff", "Print what a version of a job changed: its fields, and the source of its script."
    ),
    VersionCommand(
        "job/rollback",
        "Edit a job to be as it was at a revision, its source included; it stays started or stopped as it is.",
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
def xwheel_register_commands() -> Iterable[VersionCommand]:
    """Return the commands."""
    return COMMANDS
