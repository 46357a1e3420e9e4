"""Where it is recorded who does what: in rows of a plugin, in the transaction of what is done."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from typing import Final, TypeVar

from xwheel.clock import Clock
from xwheel.errors import NotRecordedError, PluginError, XwheelError
from xwheel.model.access import Actor
from xwheel.model.deeds import Deed
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.observers import check_rows
from xwheel.plugin.recorders import Book, NotesRefusals, RefusedCall
from xwheel.plugin.routes import RecordsDeeds
from xwheel.plugin.tables import KnownTables
from xwheel.plugin.validation import guarded
from xwheel.runtime.foreign import PluginThreads
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.plugin_rows import write_rows

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_AT_ONCE: Final = 5000
CHANGE: Final = "call.change"
"""The action of a call that changed something, where what answered it recorded nothing of that."""


class OpenCall:
    """A call that leaves a row: that of its deed, if what answers the call records nothing itself.

    The row is written in the first transaction that is committed while the call is open, on the thread that answers it.
    ``record`` writes it.
    """

    def __init__(self, deed: Deed, record: Callable[[Connection], None]) -> None:
        self.deed = deed
        self._record = record
        self._recorded_in: Connection | None = None
        self.is_recorded = False

    def note(self, conn: Connection) -> None:
        """Note that something was recorded in a transaction, which is not committed yet."""
        self._recorded_in = conn

    def before_commit(self, conn: Connection) -> Callable[[], None] | None:
        """Record the deed in a transaction, unless something is recorded; return what to call once it is committed.

        Raises NotRecordedError.
        """
        if self.is_recorded:
            return None
        if self._recorded_in is not conn:
            self._record(conn)
        return self._note_commit

    def _note_commit(self) -> None:
        self.is_recorded = True


OPEN_CALL: Final = ContextVar[OpenCall | None]("xwheel_open_call", default=None)
"""The call that this thread answers."""


class AuditTrail(RecordsDeeds):
    """Hands what is done to the recorder of a plugin, and writes what it answers.

    Without a recorder nothing is recorded; one that fails undoes the deed. ``threads`` is where a recorder is asked
    that ``plugins.trusted`` does not name; None asks each at once, which is for commands.

    Thread-safety: any thread may record; nothing is kept between calls.

    Raises PluginError if the recorder cannot begin.
    """

    def __init__(self, plugins: Plugins, db: Database, clock: Clock, threads: PluginThreads | None = None) -> None:
        self._clock, self._db = clock, db
        self._name, self._what = next(iter(plugins.recorders), ""), ""
        self._threads = None if self._name in plugins.recorders.trusted else threads
        self._book: Book | None = None
        if self._name:
            self._what = f"recorder {self._name}"
            recorder = plugins.recorders[self._name]
            book = guarded(self._what, lambda: recorder.open(db), allowed=XwheelError)
            if not isinstance(book, Book):
                raise PluginError(f"{self._what}: open() must return a Book, not {type(book).__name__}")
            self._book = book
            db.before_commit = _record_open_call
        tables = plugins.tables.get(self._name)
        self._tables = frozenset(KnownTables(tables).tables if tables is not None else ())

    def record_many(self, conn: Connection, deeds: Sequence[Deed]) -> None:
        """Record what is done to many objects, in one statement, each by its actor.

        If that fails it raises NotRecordedError, and what is recorded must not be done.
        """
        book = self._book
        if book is None or not deeds:
            return
        now_ms = self._clock.now_ms()
        try:
            for first in range(0, len(deeds), MOST_AT_ONCE):
                part = deeds[first : first + MOST_AT_ONCE]
                checked = self._ask(
                    lambda: check_rows(self._name, book.rows(part, now_ms), self._tables)  # noqa: B023
                )
                if not any(checked.values()):
                    raise PluginError(f"{self._what}: returned no rows for {len(part)} deeds")
                write_rows(conn, self._name, checked)
            if (call := OPEN_CALL.get()) is not None:
                call.note(conn)
        except PluginError as error:
            logger.error("nothing is done, since it could not be recorded: %s", error)
            text = f"nothing was done, since {deeds[0].action} could not be recorded: {error}"
            raise NotRecordedError(text) from error

    def open_call(self, deed: Deed) -> OpenCall:
        """Return a call that leaves the row of a deed; this thread answers it until it answers another.

        A call that writes nothing here leaves no row: see :meth:`close_call`.
        """
        call = OpenCall(deed, lambda conn: self.record_many(conn, [deed]))
        OPEN_CALL.set(call)
        return call

    def close_call(self, call: OpenCall) -> None:
        """Record the deed of a call that ended well and wrote nothing here: what it did is elsewhere.

        Raises NotRecordedError, which says that it is done.
        """
        if call.is_recorded or self._book is None:
            return
        try:
            self._db.transaction(lambda conn: self.record_many(conn, [call.deed]))
        except NotRecordedError as error:
            words = f"{call.deed.action} is done, and could not be recorded: {error.__cause__}"
            raise NotRecordedError(words) from error

    def note_refused(self, listener: str, actor: Actor, address: str, route: str, path: str, why: str) -> None:
        """Note a refused call.

        ``route`` is what it wanted, the same for all objects, ``path`` this one, and ``why`` what the caller was told.
        """
        book = self._book
        if book is None or not isinstance(book, NotesRefusals):
            return
        at_ms = self._clock.now_ms()
        call = RefusedCall(
            listener=listener, actor=actor, address=address, route=route, path=path, told=why, at_ms=at_ms
        )
        try:
            self._ask(lambda: book.note_refused(call))
        except PluginError as error:
            logger.error("a refused call is not recorded: %s", error)

    def _ask(self, work: Callable[[], T]) -> T:
        """Return what the recorder answers; one that is not trusted has a time for it, since rows are locked.

        Raises PluginError if it fails or does not come back in that time.
        """
        if self._threads is None:
            return guarded(self._what, work, allowed=PluginError)
        mine = copy_context()  # who acts
        return self._threads.call(
            self._what, lambda _: mine.run(lambda: guarded(self._what, work, allowed=PluginError))
        )


def _record_open_call(conn: Connection) -> Callable[[], None] | None:
    call = OPEN_CALL.get()
    return None if call is None else call.before_commit(conn)
