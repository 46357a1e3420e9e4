"""Commands whose modules are loaded when they are used, so that help, completion and other commands need not wait."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from typer import Typer
from typer.core import TyperGroup
from typer.main import get_group

from xwheel.errors import PluginError

if TYPE_CHECKING:
    from typer._click import Command, Context, HelpFormatter


SENTENCE: Final = 500
"""Where the first sentence of a command's help is cut, in characters."""


def command_group(words: str | None = None, *, alone: bool = False) -> Typer:
    """Return a Typer whose help is plain text: Rich would take twice the time of all the rest.

    Args:
        words: What the help says of it; None where a callback or :class:`CommandPlace` says it.
        alone: Whether it does something without a command too.
    """
    made = Typer(
        cls=PlainGroup, invoke_without_command=alone, no_args_is_help=not alone, rich_markup_mode=None
    )
    if words is not None:
        made.info.help = words
    return made


class PlainGroup(TyperGroup):
    """A group whose help has the whole first sentence of each command."""

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        """Write the commands."""
        found = [(name, self.commands[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [
                    (name, command.get_short_help_str(SENTENCE))
                    for name, command in found
                    if not command.hidden
                ]
            )


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


class LazyCommands(PlainGroup):
    """Commands of a module that is not loaded yet."""

    def __init__(self, name: str, place: CommandPlace) -> None:
        super().__init__(name=name, help=place.help, rich_markup_mode=None)
        self._place = place

    @cached_property
    def loaded(self) -> TyperGroup | Command:
        """The commands themselves.

        Raises:
            PluginError: A plugin's module cannot be loaded, or has no such commands.
        """
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
    """Return all commands of a module.

    Raises:
        PluginError: A plugin's module cannot be loaded, or has none.
    """
    return get_group(_app_of(place))


def _app_of(place: CommandPlace) -> Typer:
    """Return the Typer of a module; what a plugin's module raises is told as one line that names the plugin."""
    if not place.owner:
        found: Typer = import_module(place.module).app
        return found
    from xwheel.plugin.validation import error_words  # not for our own commands, which must begin quickly

    try:
        app = getattr(import_module(place.module), "app", None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        words = " ".join(error_words(error).split())
        raise PluginError(f"{place.owner}: commands of {place.module} cannot be loaded: {words}") from error
    if not isinstance(app, Typer):
        raise PluginError(f"{place.owner}: {place.module}.app must be a typer.Typer")
    return app


class LazyGroup(PlainGroup):
    """A group that has commands of its own, and those of modules."""

    places: ClassVar[Mapping[str, CommandPlace]]
    """By name, for subclasses to say."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            **self.commands,
            **{name: LazyCommands(name, place) for name, place in self.places.items()},
        }
