"""The record of mutations: who did what to which object, written by at most one plugin, with what was done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from xwheel.model.access import Actor
from xwheel.model.deeds import Deed
from xwheel.plugin.contracts import PluginDatabase
from xwheel.plugin.observers import Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCall:
    """A call that was refused."""

    listener: str  #: who refused it: ``api`` or ``executor-api``
    actor: Actor  #: who called, as far as that is known
    address: str  #: where the call came from
    route: str  #: what it wanted, the same for all objects
    path: str  #: what it wanted, this one
    told: str  #: what it was told
    at_ms: int  #: when


@runtime_checkable
class Book(Protocol):
    """The record in one database, as one process writes it."""

    def rows(self, deeds: Sequence[Deed], now_ms: int) -> Rows:
        """Return rows of the plugin's own tables that record what the transaction does, each with its actor.

        It is asked while rows of jobs are locked, on several threads at once: it answers from memory, and calls
        nothing. If it raises, returns what are no such rows, or the database refuses them, nothing is done: the
        transaction is given up, and the caller is told that it could not be recorded. There is at least one deed;
        ``now_ms`` is the time of those that name none.
        """


@runtime_checkable
class NotesRefusals(Protocol):
    """A book that also takes calls that were refused."""

    def note_refused(self, call: RefusedCall) -> None:
        """Note a refused call: in memory, since strangers may make many. If it raises, the log says so."""


@runtime_checkable
class Recorder(Protocol):
    """Records what people, programs and nodes change: of all plugins at most one does.

    Without one nothing is recorded. What it writes are rows of its tables (see :class:`Tables`), which the core inserts
    in the transaction of what they record, one statement a table.
    """

    name: str  #: the plugin's own name

    def open(self, database: PluginDatabase) -> Book:
        """Return the record in a database, once it is known what rows need; called when a process starts.

        It may read and write the database, and raises what that raises.
        """
