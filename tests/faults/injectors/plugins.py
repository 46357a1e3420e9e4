"""Plugins that go wrong when they are told to: a router, a schedule type, an alarm channel and a run listener.

They are :mod:`tests.faults.injectors.faulty`, installed in a folder of its own for the nodes that have it on their
``PYTHONPATH``. Jobs name the router and the schedule type ``FAULTY``, alarm rules the channel ``faulty``; while nothing
is wrong the router is FIRST, the schedule type FIX_RATE, and the others note what they get.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Final

from tests.faults.injectors.fault import Fault
from tests.support.plugin_homes import lay_plugin

SOURCE: Final = Path(__file__).with_name("faulty.py")
NAME: Final = "faulty_plugin"
FAILING: Final = ("hang", "raise", "exit", "interrupt")
"""What each kind can do: not come back before the end, raise, and raise what usually ends a process."""

LYING: Final = {
    "router": ("none", "empty", "text", "number", "twice", "foreign", "unreadable"),
    "schedule_type": ("past", "same", "far", "text", "bool", "fraction"),
    "channel": ("number", "long", "object"),
    "listener": (),
}
"""What each kind can answer that it should not. ``past`` to ``fraction`` stop the jobs of the type."""


class FaultyPlugins:
    """The plugins, installed in a folder.

    Thread-safety: faults of different kinds may overlap; of one kind, the one that began last counts.

    Attributes:
        path: To be put on a node's ``PYTHONPATH``; several nodes may share it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._commands: dict[str, list[str]] = {}
        self._guard = threading.Lock()
        lay_plugin(folder, NAME, SOURCE.read_text())
        self._write()

    def going_wrong(self, kind: str, how: str) -> Fault:
        """Return a fault: a kind answers every call so.

        Args:
            kind: A key of :data:`LYING`.
            how: One of :data:`FAILING`, or one of :data:`LYING` for this kind.
        """
        if how not in (*FAILING, *LYING[kind]):
            raise ValueError(f"no {kind} can {how}")
        return Fault(f"{kind}: {how}", lambda: self._add(kind, how), lambda: self._remove(kind, how))

    def notes(self, kind: str) -> list[str]:
        """Return what the channel or the listener got while it worked: ids of alarms, or run ids with their state."""
        path = self.path / f"{kind}.notes"
        return path.read_text().splitlines() if path.exists() else []

    def _add(self, kind: str, how: str) -> None:
        with self._guard:
            self._commands.setdefault(kind, []).append(how)
            self._write()

    def _remove(self, kind: str, how: str) -> None:
        with self._guard:
            self._commands[kind].remove(how)
            self._write()

    def _write(self) -> None:
        half = self.path / "commands.half"
        half.write_text(json.dumps({kind: hows[-1] for kind, hows in self._commands.items() if hows}))
        half.replace(self.path / "commands.json")
