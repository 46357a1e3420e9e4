"""Commands whose modules are loaded when they are used, so that help, completion and other commands need not wait."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import typer
from typer import Typer
from typer.core import TyperGroup
from typer.main import get_group

from xwheel.cli.plugin_commands import (
    CommandParts,
    CommandPlace,
    indexed_names,
    place_in_index,
    places_of_plugins,
    words_of,
)
from xwheel.errors import PluginError

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


NO_OTHERS: Final = (
    "xwheel: no distribution with further commands is installed: pip install 'xwheel[cli]' brings those that talk to a "
    "node, and those of logins, tokens and secrets; pip install 'xwheel[server]' brings quickstart, too"
)
USAGE_ERROR: Final[Any] = typer.BadParameter.__bases__[0]  # typer has no name for it
SENTENCE: Final = 500  # where the first sentence of a command's help is cut, in characters


def command_group(words: str | None = None, *, alone: bool = False) -> Typer:
    """Return a Typer whose help is plain text: Rich would take twice the time of all the rest.

    Without ``words`` a callback or :class:`CommandPlace` has the help; ``alone``: it works without a command too.
    """
    made = Typer(cls=PlainGroup, invoke_without_command=alone, no_args_is_help=not alone, rich_markup_mode=None)
    if words is not None:
        made.info.help = words
    return made


class PlainGroup(TyperGroup):
    """A group of ours: plugins may add commands; its help has the whole first sentence of each."""

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """Return a command; plugins are loaded for one that is none of ours, unless a distribution says where it is."""
        found = super().get_command(ctx, cmd_name)
        if found is not None:
            return found
        words, quiet = words_of(ctx), ctx.resilient_parsing
        place = place_in_index(words, self.commands, cmd_name) or places_of_plugins(
            words, self.commands, quiet=quiet, wanted=cmd_name
        ).get(cmd_name)
        if place is None:
            if not words and not quiet and not indexed_names():
                typer.echo(NO_OTHERS, err=True)
            return None
        ctx.obj = CommandParts()
        return LazyCommands(cmd_name, place)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Command | None, list[str]]:
        """Return the command that the arguments name. The error for an unknown name suggests names like it."""
        try:
            return super().resolve_command(ctx, args)
        except USAGE_ERROR as error:
            if "Did you mean" not in error.message and (near := get_close_matches(args[0], self.list_commands(ctx))):
                error.message = f"{error.message.rstrip('.')}. Did you mean {' or '.join(map(repr, near))}?"
            raise

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all commands, ours first: for help, and for a shell that completes them."""
        self._added = places_of_plugins(words_of(ctx), self.commands, quiet=ctx.resilient_parsing)
        return [*self.commands, *sorted(self._added)]

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands, those of plugins among them."""
        names = self.list_commands(ctx)
        found = [(name, self.commands.get(name) or LazyCommands(name, self._added[name])) for name in names]
        rows = [(name, command.get_short_help_str(SENTENCE)) for name, command in found if not command.hidden]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LazyCommands(PlainGroup):
    """Commands of a module that is not loaded yet."""

    def __init__(self, name: str, place: CommandPlace) -> None:
        super().__init__(name=name, help=place.help, rich_markup_mode=None)
        self._place = place

    @cached_property
    def loaded(self) -> TyperGroup | Command:
        """The commands themselves; raises PluginError if a plugin's module cannot be loaded, or lacks them."""
        group = load_group(self._place)
        if self._place.is_one:
            if str(self.name) not in group.commands:
                raise PluginError(f"{self._place.owner}: {self._place.module}.app has no command {self.name}")
            return group.commands[str(self.name)]
        group.name = self.name
        group.help = group.help or self.help
        return group

    def make_context(self, *args: Any, **kwargs: Any) -> Context:
        """Return the context of the commands themselves, which then takes over."""
        return self.loaded.make_context(*args, **kwargs)


def load_group(place: CommandPlace) -> TyperGroup:
    """Return all commands of a module; what a plugin's module raises is a PluginError of one line that names it."""
    if not place.owner:
        return get_group(import_module(place.module).app)
    try:
        app = getattr(import_module(place.module), "app", None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        from xwheel.plugin.validation import error_words  # no command that is well waits for it

        words = " ".join(error_words(error).split())
        raise PluginError(f"{place.owner}: commands of {place.module} cannot be loaded: {words}") from error
    if not isinstance(app, Typer):
        raise PluginError(f"{place.owner}: {place.module}.app must be a typer.Typer")
    return get_group(app)
