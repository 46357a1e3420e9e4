"""Commands that plugins bring, to ``xwheel`` and to its groups: where they are, and what they work with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from xwheel.cli.output import visible
from xwheel.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from typer._click import Context

    from xwheel.config import Config
    from xwheel.wire.http.rest import RestClient

HOOK = "xwheel_register_commands"


class CommandPlace(NamedTuple):
    """Where commands are.

    Attributes:
        module: The module; its Typer is called ``app``.
        help: What the help says of them.
        is_one: Whether it is one command of the module and not a group of all.
        owner: The plugin that brought them; empty for ours.
    """

    module: str
    help: str
    is_one: bool = False
    owner: str = ""


class CommandParts:
    """What commands of plugins work with: the object of their context, a :class:`~xwheel.plugin.CommandSite`."""

    def config(self, path: Path | None = None) -> Config:
        """Return the settings of a file, or of the one that ``XWHEEL_CONFIG`` names."""
        from xwheel.config import load_config

        return load_config(path)

    def node(self, url: str | None = None, token_file: Path | None = None) -> RestClient:
        """Return the management API of a node: of the login that this user has, unless told otherwise."""
        from xwheel.cli.connection import node_client

        return node_client(url, token_file)


def words_of(ctx: Context) -> list[str]:
    """Return the words of a group behind ``xwheel``: ``plugins`` for ``xwheel plugins``."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, str(ctx.info_name))
        ctx = ctx.parent
    return words


def places_of_plugins(
    group: Sequence[str], ours: Collection[str], *, quiet: bool, wanted: str | None = None
) -> Mapping[str, CommandPlace]:
    """Return by their last words what plugins bring to a group; nothing where the settings cannot be read.

    Plugins are loaded. What is wrong with them is said on standard error, unless the command that is wanted is there.

    Args:
        group: The words of the group behind ``xwheel``; none for the commands of ``xwheel`` itself.
        ours: The words of the group that are xwheel's own.
        quiet: Whether nothing is to be said: a shell that completes words would show it among them.
        wanted: The word that somebody typed; None if all are wanted.

    Raises:
        PluginError: A command is wanted, and a plugin has one whose name is xwheel's own.
    """
    from xwheel.config import load_config
    from xwheel.plugin.discovery import survey_plugins

    try:
        survey = survey_plugins(load_config(), hooks=(HOOK,))
    except ConfigError as error:
        if not quiet:
            typer.echo(f"xwheel: warning: commands of plugins are not there: {visible(str(error))}", err=True)
        return {}
    registry = survey.plugins.commands
    found = {}
    for item in registry.values():
        *before, last = item.name.split("/")
        if before != list(group):
            continue
        owner = registry.owners[item.name]
        if last in ours and wanted is None:
            continue  # help is there all the same
        if last in ours:
            full = " ".join([*before, last])
            raise PluginError(f"{owner}: commands {item.name}: xwheel itself has 'xwheel {full}'")
        found[last] = CommandPlace(item.module, item.help, item.is_one, owner)
    if wanted is not None and wanted not in found and not quiet:
        for broken in survey.errors:
            typer.echo(f"xwheel: warning: {visible(str(broken))}", err=True)
    return found
