"""What this distribution registers: its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xwheel.plugin import hookimpl


@dataclass(frozen=True)
class JobsTool:
    """One command of this package."""

    name: str
    help: str
    module: str
    is_one: bool = True


COMMANDS = (
    JobsTool(
        "job/apply",
        "Make the jobs of a node what files say; what a file leaves out gets its default.",
        "xwheel_jobs_as_code.apply",
    ),
    JobsTool(
        "job/export",
        "Write groups, jobs and calendars as YAML that apply reads back to the same.",
        "xwheel_jobs_as_code.apply",
    ),
    JobsTool(
        "sync",
        "Make the jobs of a group what code declares; what it declares no more is stopped, and stays.",
        "xwheel_jobs_as_code.sync",
    ),
)


@hookimpl
def xwheel_register_commands() -> Iterable[JobsTool]:
    """Return the commands."""
    return COMMANDS
