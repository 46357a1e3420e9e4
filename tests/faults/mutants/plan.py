"""Mutants of planning: rows that are written too late, or that no one looks for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from sqlalchemy import Connection

from tests.faults.mutants.patches import Patches, swapped
from xwheel.model import Job, Run
from xwheel.scheduler.plan.adopt import AdoptLoop
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.storage.runs import QueuedRun

T = TypeVar("T")


def plan_outside_transaction(patches: Patches) -> None:
    """A claim commits the next fires of its jobs; their run rows follow with its next step, in another transaction.

    What ends the process, or keeps it from the database, between the two loses these fires; what takes a partition away
    meanwhile leaves rows in it that no one looks for. The other order would lose nothing: the key of the rows would
    refuse the second plan. With both transactions in one step, a kill would have to fall into a few milliseconds.
    """
    late = _LateRows()

    def step(original: Callable[[ClaimLoop, int], int]) -> Callable[[ClaimLoop, int], int]:
        def step(self: ClaimLoop, now_ms: int) -> int:
            if rows := late.take():
                self.db.transaction(lambda conn: runs.insert_runs(conn, rows))
            return original(self, now_ms)

        return step

    def claim(original: Callable[..., bool]) -> Callable[..., bool]:
        def _claim(
            self: ClaimLoop, found: Sequence[Job], epochs: Mapping[int, int], now_ms: int, share: object
        ) -> bool:
            with swapped(self, "db", _WithoutRows(self.db, late)):
                return original(self, found, epochs, now_ms, share)

        return _claim

    patches.replace(runs, "insert_runs", late.keep_back)
    patches.replace(ClaimLoop, "step", step)
    patches.replace(ClaimLoop, "_claim", claim)


class _LateRows:
    """Run rows that a claim did not write yet; what other threads insert, such as retries, is inserted as ever."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._rows: list[Run] = []

    def take(self) -> list[Run]:
        rows, self._rows = self._rows, []
        return rows

    def hold(self, work: Callable[[Connection], T], conn: Connection, held: list[Run]) -> T:
        """Do the work of a transaction; what it would insert goes into a list."""
        held.clear()  # it may be done again
        self._local.held = held
        try:
            return work(conn)
        finally:
            self._local.held = None

    def add(self, rows: Sequence[Run]) -> None:
        self._rows += rows

    def keep_back(
        self, original: Callable[[Connection, Sequence[Run]], None]
    ) -> Callable[[Connection, Sequence[Run]], None]:
        def insert_runs(conn: Connection, runs: Sequence[Run]) -> None:
            held: list[Run] | None = getattr(self._local, "held", None)
            if held is None:
                original(conn, runs)
            else:
                held.extend(runs)

        return insert_runs


class _WithoutRows:
    """A database whose transactions insert no runs."""

    def __init__(self, db: Database, late: _LateRows) -> None:
        self._db = db
        self._late = late

    def transaction(self, work: Callable[[Connection], T]) -> T:
        held: list[Run] = []
        result = self._db.transaction(lambda conn: self._late.hold(work, conn, held))
        self._late.add(held)
        return result


def no_adopt(patches: Patches) -> None:
    """Planned rows that no memory holds stay where they are: after a restart or takeover, retries, children, by hand.

    Only what a claim of this process planned is fired. Sends without an answer are still asked again.
    """

    def adopt(_original: object) -> Callable[[AdoptLoop, Connection, Sequence[int]], list[QueuedRun]]:
        def _adopt(self: AdoptLoop, conn: Connection, ids: Sequence[int]) -> list[QueuedRun]:
            del self, conn, ids
            return []

        return _adopt

    def take_up(_original: object) -> Callable[[AdoptLoop, Sequence[QueuedRun]], None]:
        def _take_up(self: AdoptLoop, missing: Sequence[QueuedRun]) -> None:
            del self, missing

        return _take_up

    patches.replace(AdoptLoop, "_adopt", adopt)
    patches.replace(AdoptLoop, "_take_up", take_up, rare=True)


def forgetful_handover(patches: Patches) -> None:
    """Anyone who gets a partition does not look for what its former holder had planned and not yet sent.

    Such rows keep their older epoch, under which no fence sends them: after a hand-over, a takeover or a restart they
    stay planned for ever. Rows without any epoch, such as retries, are adopted as ever.
    """

    def find_left(
        _original: object,
    ) -> Callable[[Connection, Mapping[int, int], int], tuple[list[tuple[int, int]], Collection[int]]]:
        def find_left(
            conn: Connection, epochs: Mapping[int, int], limit: int
        ) -> tuple[list[tuple[int, int]], Collection[int]]:
            del conn, epochs, limit
            return [], set()

        return find_left

    patches.replace(runs, "find_left", find_left)
