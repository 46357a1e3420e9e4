"""All commands that ``xwheel[server]`` has: those of the core, and those of the plugins that it brings."""

from __future__ import annotations

from functools import cache
from typing import Any

import typer.main
import xwheel_accounts.hooks
import xwheel_alarms.hooks
import xwheel_commands.hooks
import xwheel_devtools.hooks
import xwheel_job_versions.hooks
import xwheel_jobs_as_code.hooks
import xwheel_reports.hooks
import xwheel_why.hooks

from xwheel.cli import main
from xwheel.cli.lazy import LazyCommands
from xwheel.cli.plugin_commands import CommandPlace


@cache
def every_command() -> Any:
    """Return ``xwheel`` with all commands in its groups."""
    root = typer.main.get_command(main.app)
    for item in (
        *xwheel_commands.hooks.COMMANDS,
        *xwheel_accounts.hooks.COMMANDS,
        xwheel_alarms.hooks.COMMAND,
        *xwheel_devtools.hooks.COMMANDS,
        *xwheel_job_versions.hooks.COMMANDS,
        *xwheel_jobs_as_code.hooks.COMMANDS,
        *xwheel_reports.hooks.COMMANDS,
        *xwheel_why.hooks.COMMANDS,
    ):
        *before, name = item.name.split("/")
        group: Any = root
        for word in before:
            group = group.commands[word]
            group = getattr(group, "loaded", group)
        group.commands[name] = LazyCommands(name, CommandPlace(item.module, item.help, getattr(item, "is_one", False)))
    return root
