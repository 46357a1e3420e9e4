"""What this distribution registers: its commands."""

from __future__ import annotations

from collections.abc import Iterable

from xwheel.plugin import hookimpl
from xwheel_commands import Command

COMMANDS = (
    Command(
        "new",
        "Write a project to start from: jobs, settings, one command that runs it, and a test on a running node.",
        "xwheel_devtools.commands",
    ),
    Command(
        "quickstart",
        "Run one node and one executor with demonstration jobs, and count honestly what ran.",
        "xwheel_devtools.commands",
    ),
    Command(
        "verify",
        "Let jobs fire on a test cluster while you break it, and say what was lost, ran twice, came late or is stuck.",
        "xwheel_devtools.commands",
    ),
    Command(
        "plugins/check",
        "Load a plugin of one file and try what it registers as xwheel would; say what is wrong.",
        "xwheel_devtools.plugin_commands",
    ),
    Command(
        "plugins/new", "Write a complete, tested plugin project into a new folder.", "xwheel_devtools.plugin_commands"
    ),
)


@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return COMMANDS
