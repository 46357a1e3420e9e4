"""Alarms: rules ask for events, and channels send them.

``matching`` answers, as an observer, with a row for each rule that asks for what the scheduler writes; ``watch`` writes
one for what did not happen. ``grouping`` decides which rows are sent, held back, counted or dropped; ``delivery``
writes an attempt for each channel, ``channels`` makes it on the channel's thread, ``delivery`` writes what came of it.
``rules`` is for the management API (``resources``, ``messages``), ``mails`` for XXL-JOB's job calls. ``service`` makes
the parts, ``sweep`` deletes what is old. The rows are in ``tables`` and ``storage``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xwheel.plugin import Resources, Tables, hookimpl

if TYPE_CHECKING:
    from xwheel import Config


@dataclass(frozen=True)
class AlarmCommands:
    """The commands."""

    name: str = "alarm"
    help: str = "Alarms, on a running node."
    module: str = "xwheel_alarms.command"
    is_one: bool = False


@hookimpl
def xwheel_register_tables() -> Iterable[Tables]:
    """Return the tables."""
    from xwheel_alarms.tables import AlarmTables

    return [AlarmTables()]


@hookimpl
def xwheel_register_resources(config: Config) -> Iterable[Resources]:
    """Return the resources; what answers calls observes runs, too, and sends alarms."""
    from xwheel_alarms.service import Alarms

    return [Alarms(config)]


@hookimpl
def xwheel_register_commands() -> Iterable[AlarmCommands]:
    """Return the commands."""
    return [AlarmCommands()]
