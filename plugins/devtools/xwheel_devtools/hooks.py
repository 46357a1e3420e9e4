"""What this distribution registers: its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xwheel.plugin import hookimpl


@dataclass(frozen=True)
class DevelopersTool:
    """One command of :mod:`xwheel_devtools.commands`."""

    name: str
    help: str
    module: str = "xwheel_devtools.commands"
    is_one: bool = True


COMMANDS = (
    DevelopersTool(
        "new",
        "Write a project to start from: jobs, settings, one command that runs it, and a test on a running node.",
    ),
    DevelopersTool(
        "quickstart", "Run one node and one executor with demonstration jobs, and count honestly what ran."
    ),
    DevelopersTool(
        "verify",
        "Let jobs fire on a test cluster while you break it, and say what was lost, ran twice, came late or is stuck.",
    ),
    DevelopersTool(
        "plugins/check",
        "Load a plugin of one file and try what it registers as xwheel would; say what is wrong.",
        "xwheel_devtools.plugin_commands",
    ),
    DevelopersTool(
        "plugins/new",
        "Write a complete, tested plugin project into a new folder.",
        "xwheel_devtools.plugin_commands",
    ),
)


@hookimpl
def xwheel_register_commands() -> Iterable[DevelopersTool]:
    """Return the commands."""
    return COMMANDS
