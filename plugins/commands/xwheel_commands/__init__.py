"""The commands that talk to a node over its management API, those of logins, tokens and secrets of executors, and cron.

Each word after ``xwheel`` is a module; ``hooks`` names them. ``connection`` gives them a node's API or the configured
database, ``output``, ``table`` and ``printer`` print what they found; other distributions of commands use these, too.
A command imports what it needs when it runs, so that ``--help`` is quick.
"""

from dataclasses import dataclass
from typing import Final

GROUPS: Final = {
    "token": "Tokens of programs for the management API, and for the jobs of one executor group.",
    "secret": "Secrets of executors: what those of a group show, and are called with.",
    "group": "Groups of executors, on a running node.",
    "job": "Jobs, on a running node.",
    "run": "Runs of jobs, on a running node.",
    "glue": "Versions of the sources of script jobs, on a running node.",
    "calendar": "Calendars, on a running node.",
    "cron": "Cron expressions: when they fire, and what they say.",
}
"""What the help says of groups of commands, each in the module of its name."""


@dataclass(frozen=True)
class Command:
    """A command, or with ``is_one`` false a group of them, as a distribution registers it."""

    name: str
    help: str
    module: str
    is_one: bool = True
