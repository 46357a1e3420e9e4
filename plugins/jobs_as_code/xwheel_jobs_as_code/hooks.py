"""What this distribution registers: its commands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xwheel.plugin import Resources, Tables, has_node_libraries, hookimpl
from xwheel_commands import Command

if TYPE_CHECKING:
    from xwheel.config import Config


COMMANDS = (
    Command(
        "job/apply",
        "Make the jobs of a node what files say; what a file leaves out gets its default.",
        "xwheel_jobs_as_code.apply",
    ),
    Command(
        "job/export",
        "Write groups, jobs and calendars as YAML that apply reads back to the same.",
        "xwheel_jobs_as_code.apply",
    ),
    Command(
        "sync",
        "Make the jobs of a group what code declares; what it declares no more is stopped, and stays.",
        "xwheel_jobs_as_code.sync",
    ),
    Command(
        "job/release",
        "Release a job, or fields of it, from the code that declares it, so that people may change it.",
        "xwheel_jobs_as_code.declared",
    ),
    Command(
        "group/declarations",
        "List what live executors declare in code, and which release decides the jobs of its group.",
        "xwheel_jobs_as_code.declared",
    ),
)


@hookimpl
def xwheel_register_commands() -> Iterable[Command]:
    """Return the commands."""
    return COMMANDS


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return the resources of declared jobs."""
    if not has_node_libraries():
        return []
    from xwheel_jobs_as_code.declarations.plugin import DeclarationResources

    return [DeclarationResources(config)]


@hookimpl
def xwheel_register_tables() -> Iterable[Tables]:
    """Return the tables of declared jobs."""
    if not has_node_libraries():
        return []
    from xwheel_jobs_as_code.declarations.tables import DeclarationTables

    return [DeclarationTables()]
