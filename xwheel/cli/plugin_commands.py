"""Commands that plugins bring: found where ``xwheel`` knows no such command, and what they work with."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from xwheel.cli.connection import node_client
from xwheel.cli.lazy import CommandPlace, LazyCommands
from xwheel.cli.output import visible
from xwheel.config import Config, load_config
from xwheel.errors import ConfigError, PluginError
from xwheel.plugin.discovery import survey_plugins

if TYPE_CHECKING:
    from typer._click import Command, Context

    from xwheel.wire.http.rest import RestClient

HOOK = "xwheel_register_commands"


class CommandParts:
    """What commands of plugins work with: the object of their context, a :class:`~xwheel.plugin.CommandSite`."""

    def config(self, path: Path | None = None) -> Config:
        """Return the settings of a file, or of the one that ``XWHEEL_CONFIG`` names."""
        return load_config(path)

    def node(self, url: str | None = None, token_file: Path | None = None) -> RestClient:
        """Return the management API of a node: of the login that this user has, unless told otherwise."""
        return node_client(url, token_file)


def find_command(ctx: Context, name: str, ours: Collection[str]) -> Command | None:
    """Return the command of a plugin; None if none brings it. What is wrong with plugins is said on standard error.

    Args:
        ctx: The context in which it is wanted; gets what the command works with.
        name: The word behind ``xwheel``.
        ours: The words that are xwheel's own.

    Raises:
        PluginError: The plugin's commands have a name that is xwheel's own.
    """
    try:
        survey = survey_plugins(load_config(), hooks=(HOOK,))
    except ConfigError as error:
        typer.echo(f"xwheel: warning: commands of plugins are not there: {visible(str(error))}", err=True)
        return None
    registry = survey.plugins.commands
    for known in registry.values():
        if known.name in ours:
            owner = registry.owners[known.name]
            raise PluginError(f"{owner}: commands {known.name}: xwheel itself has 'xwheel {known.name}'")
    if name not in registry:
        for broken in survey.errors:
            typer.echo(f"xwheel: warning: {visible(str(broken))}", err=True)
        return None
    item = registry[name]
    ctx.obj = CommandParts()
    return LazyCommands(name, CommandPlace(item.module, item.help, item.is_one, registry.owners[name]))
