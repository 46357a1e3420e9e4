"""What this distribution registers: its commands."""

from __future__ import annotations

from collections.abc import Iterable

from xwheel.plugin import hookimpl

from xwheel_commands import GROUPS, Command

LOGIN = "xwheel_commands.login"
HEALTH = "xwheel_commands.health"
COMMANDS = (
    *(Command(name, words, f"xwheel_commands.{name}", is_one=False) for name, words in GROUPS.items()),
    Command(
        "login",
        "Let this user's commands talk to a node: by default to that of the settings, with a new token from its "
        "database.",
        LOGIN,
    ),
    Command("logout", "Forget a login; its token goes on working until 'xwheel token delete' ends it.", LOGIN),
    Command("health", "Say how the node fares; exit with 1 if anything fails.", HEALTH),
    Command(
        "pause",
        "Pause all schedules: nothing fires by itself any more, runs by hand do; 'xwheel resume' ends it.",
        HEALTH,
    ),
    Command("resume", "Let schedules fire again.", HEALTH),
)


@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return COMMANDS
