"""What this distribution registers: its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xwheel.plugin import hookimpl

from xwheel_commands import GROUPS


@dataclass(frozen=True)
class NodeCommand:
    """A command of this package, or a group of them."""

    name: str
    help: str
    module: str
    is_one: bool = False


LOGIN = "xwheel_commands.login"
HEALTH = "xwheel_commands.health"
COMMANDS = (
    *(NodeCommand(name, words, f"xwheel_commands.{name}") for name, words in GROUPS.items()),
    NodeCommand(
        "login",
        "Let this user's commands talk to a node: by default to that of the settings, with a new token from its "
        "database.",
        LOGIN,
        is_one=True,
    ),
    NodeCommand(
        "logout",
        "Forget a login; its token goes on working until 'xwheel token delete' ends it.",
        LOGIN,
        is_one=True,
    ),
    NodeCommand("health", "Say how the node fares; exit with 1 if anything fails.", HEALTH, is_one=True),
    NodeCommand(
        "pause",
        "Pause all schedules: nothing fires by itself any more, runs by hand do; 'xwheel resume' ends it.",
        HEALTH,
        is_one=True,
    ),
    NodeCommand("resume", "Let schedules fire again.", HEALTH, is_one=True),
)


@hookimpl
def xwheel_register_commands() -> Iterable[NodeCommand]:
    """Return the commands."""
    return COMMANDS
