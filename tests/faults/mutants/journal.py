"""A mutant of the executor's memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from tests.faults.mutants.patches import Patches
from xwheel.executor import journal

Recovered = tuple[str, dict[str, int]]


def no_journal(patches: Patches) -> None:
    """An executor that starts again forgets all runs of its previous life, as if it had kept them in memory only.

    Runs that it had accepted or begun are not reported, outcomes that no scheduler confirmed are gone, and a run that
    it is asked for again is run again. It stays the same instance, so it is asked again.
    """

    def recover(
        original: Callable[[sqlite3.Connection, int, str], Recovered],
    ) -> Callable[[sqlite3.Connection, int, str], Recovered]:
        def recover(db: sqlite3.Connection, now_ms: int, new_instance: str) -> Recovered:
            db.execute("DELETE FROM run")
            return original(db, now_ms, new_instance)

        return recover

    patches.replace(journal, "recover", recover)
