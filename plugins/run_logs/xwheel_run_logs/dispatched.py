"""Notes, in the transaction after which runs are sent, which of them have a log that must be fetched."""

from __future__ import annotations

from typing import Final

from xwheel.plugin import Changes, PluginDatabase, Rows

from xwheel_run_logs.settings import RunLogsSection
from xwheel_run_logs.storage import RunLogRow, delete_ms
from xwheel_run_logs.tables import NAME

FIRST_MS: Final = 2000
"""From the send to the first question: most runs are over then, and one question is enough."""


class DispatchedLogs:
    """Has a row for each run that goes to an executor of another make, which ships nothing.

    Args:
        settings: Where logs go, and for how long.
    """

    name = NAME
    sees_dispatches = True

    def __init__(self, settings: RunLogsSection) -> None:
        self._store = settings.store
        self._days = settings.retention_days

    def refresh(self, database: PluginDatabase, now_ms: int) -> None:
        """Read nothing."""

    def rows(self, changes: Changes) -> Rows:
        """Return the rows."""
        return {
            NAME: [
                RunLogRow(
                    id=run.id,
                    job_id=run.job_id,
                    partition=run.partition,
                    created_ms=run.created_ms,
                    store=self._store,
                    ended=False,
                    fetch_ms=changes.now_ms + FIRST_MS,
                    delete_ms=delete_ms(run.created_ms, job.log_retention_days or self._days),
                )._asdict()
                for run, job in changes.dispatched
                if not run.instance
            ]
        }

    def committed(self, rows: Rows) -> None:
        """Need not know: the fetcher reads them when they are due."""
