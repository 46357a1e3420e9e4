"""What the journals of executors say that the scheduler acknowledged."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

FILE: Final = "journal.db"
WAIT_S: Final = 0.5
ACKNOWLEDGED: Final = "SELECT run_id FROM run WHERE acked_ms IS NOT NULL"


class AcknowledgedRuns:
    """Reads a journal that another process writes, and changes nothing in it.

    Args:
        folder: The data folder of an executor.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._name = folder.name
        self._known: set[int] = set()

    def read(self) -> dict[int, str]:
        """Return the runs whose outcomes were acknowledged since the last call, each with the folder's name."""
        if not self._path.exists():
            return {}
        try:
            address = f"{self._path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=WAIT_S)) as db:
                fresh = {run_id for (run_id,) in db.execute(ACKNOWLEDGED)} - self._known
        except sqlite3.Error as error:  # its executor is about to make it, or its disk is full on purpose
            logger.debug("%s cannot be read: %s", self._path, error)
            return {}
        self._known |= fresh
        return dict.fromkeys(fresh, self._name)
