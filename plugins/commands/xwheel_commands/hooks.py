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
OVERVIEW = "xwheel_commands.overview"
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
    NodeCommand(
        "overview",
        "Count groups, executors, jobs and open runs, and what became of the runs of the last 24 hours.",
        OVERVIEW,
        is_one=True,
    ),
    NodeCommand(
        "report",
        "Count runs by what became of them, for each hour or day (of UTC) in which they were due.",
        OVERVIEW,
        is_one=True,
    ),
    NodeCommand("health", "Say how the node fares; exit with 1 if anything fails.", OVERVIEW, is_one=True),
    NodeCommand(
        "pause",
        "Pause all schedules: nothing fires by itself any more, runs by hand do; 'xwheel resume' ends it.",
        OVERVIEW,
        is_one=True,
    ),
    NodeCommand("resume", "Let schedules fire again.", OVERVIEW, is_one=True),
)


@hookimpl
def xwheel_register_commands() -> Iterable[NodeCommand]:
    """Return the commands."""
    return COMMANDS
