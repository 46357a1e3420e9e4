"""What the plugin registers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from xwheel.plugin import Resources, has_node_libraries, hookimpl
from xwheel_commands import Command

if TYPE_CHECKING:
    from xwheel import Config


COMMANDS: Final = (
    Command("why", "Explain a due time of a job: why it did not run, or why it was late.", "xwheel_why.commands"),
)


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return the resources."""
    if not has_node_libraries():
        return []
    from xwheel_why.resources import WhyRoutes

    return [WhyRoutes(config)]


@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the command."""
    return COMMANDS
