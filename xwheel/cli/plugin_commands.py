"""Commands that plugins bring, to ``xwheel`` and to its groups: where they are, and what they work with."""

from __future__ import annotations

import os
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
INDEX = "xwheel.commands"
"""Entry points that say where a command is: its name as the hook registers it, and the module, or ``MODULE:app`` if the
command is all of the module's Typer."""


class CommandPlace(NamedTuple):
    """Where commands are."""

    module: str  # its Typer is called ``app``
    help: str  # what the help says of them; empty if their module alone knows
    is_one: bool = False  # whether it is one command of the module and not a group of all
    owner: str = ""  # the plugin that brought them; empty for ours


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


def place_in_index(group: Sequence[str], ours: Collection[str], wanted: str) -> CommandPlace | None:
    """Return where a distribution says that a command is; no plugin is loaded for that.

    The command is the word ``wanted`` of a group of words, of which some are ``ours``. None if none says it, or if
    anything may be wrong: two say it, one has a name of ours, or the settings disable plugins. To load all plugins
    then says what.
    """
    from importlib.metadata import entry_points

    found = [entry for entry in entry_points(group=INDEX) if entry.name.split("/")[:-1] == list(group)]
    names = [entry.name.split("/")[-1] for entry in found]
    if names.count(wanted) != 1 or not set(ours).isdisjoint(names) or _may_disable_plugins():
        return None
    entry = found[names.index(wanted)]
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown distribution"
    return CommandPlace(entry.module, "", not entry.attr, f"{owner} (entry point {entry.name} = {entry.value})")


def indexed_names() -> set[str]:
    """Return the names of all commands that distributions say they have."""
    from importlib.metadata import entry_points

    return set(entry_points(group=INDEX).names)


def _may_disable_plugins() -> bool:
    """Return whether the settings may disable plugins; to read them all would take as long as the command itself."""
    import tomllib

    if {"XWHEEL_PLUGINS", "XWHEEL_PLUGINS__DISABLED"} & {name.upper() for name in os.environ}:
        return True
    try:
        path = os.environ.get("XWHEEL_CONFIG")
        return bool(path and tomllib.loads(Path(path).read_text("utf-8")).get("plugins", {}).get("disabled"))
    except (OSError, ValueError, AttributeError):
        return False  # commands that read them say what is wrong, others need none


def places_of_plugins(
    group: Sequence[str], ours: Collection[str], *, quiet: bool, wanted: str | None = None
) -> Mapping[str, CommandPlace]:
    """Return by their last words what plugins bring to a group; nothing where the settings cannot be read.

    Plugins are loaded. What is wrong with them is said on standard error, unless the command that is wanted is there,
    or it is to be ``quiet``: a shell that completes words would show it among them. Without ``wanted`` all are; with
    it, a plugin whose command has a name of ``ours`` is a PluginError.
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
        if last in ours:
            if wanted is None:
                continue  # help is there all the same
            full = " ".join([*before, last])
            raise PluginError(f"{owner}: commands {item.name}: xwheel itself has 'xwheel {full}'")
        found[last] = CommandPlace(item.module, item.help, item.is_one, owner)
    if wanted is not None and wanted not in found and not quiet:
        for broken in survey.errors:
            typer.echo(f"xwheel: warning: {visible(str(broken))}", err=True)
    return found
