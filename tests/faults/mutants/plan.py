"""Mutants of planning: rows that are written too late, or that nobody looks for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from tests.faults.mutants.patches import Patches, swapped
from xwheel.model import Job, Run
from xwheel.scheduler.plan.adopt import AdoptLoop
from xwheel.scheduler.plan.claim import ClaimLoop
from xwheel.storage import runs
from xwheel.storage.database.engine import Database
from xwheel.storage.runs import QueuedRun


def plan_outside_transaction(patches: Patches) -> None:
    """A claim commits the next fires of its jobs first, and their run rows in a transaction of its own after that.

    What ends the process, its connection or the database between the two commits loses these fires. The other order
    would lose nothing: the key of the rows would refuse the second plan.
    """
    local = threading.local()  # runs by hand, retries and children are inserted by other threads, as ever

    def insert_runs(
        original: Callable[[Connection, Sequence[Run]], None],
    ) -> Callable[[Connection, Sequence[Run]], None]:
        def insert_runs(conn: Connection, runs: Sequence[Run]) -> None:
            held: list[Run] | None = getattr(local, "held", None)
            if held is None:
                original(conn, runs)
            else:
                held.extend(runs)

        return insert_runs

    class InTwo:
        """A database whose transactions keep run rows back for a second one."""

        def __init__(self, db: Database) -> None:
            self._db = db

        def transaction(self, work: Callable[[Connection], Any]) -> Any:
            held: list[Run] = []

            def first(conn: Connection) -> Any:
                held.clear()
                local.held = held
                try:
                    return work(conn)
                finally:
                    local.held = None

            result = self._db.transaction(first)
            if held:
                self._db.transaction(lambda conn: runs.insert_runs(conn, held))
            return result

    def claim(original: Callable[..., bool]) -> Callable[..., bool]:
        def _claim(
            self: ClaimLoop, found: Sequence[Job], epochs: Mapping[int, int], now_ms: int, share: object
        ) -> bool:
            with swapped(self, "_db", InTwo(self._db)):
                return original(self, found, epochs, now_ms, share)

        return _claim

    patches.replace(runs, "insert_runs", insert_runs)
    patches.replace(ClaimLoop, "_claim", claim)


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
    """Whoever gets a partition does not look for what its former holder had planned and not yet sent.

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
