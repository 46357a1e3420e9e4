"""What the scheduler tells alarms inside its own transactions; :mod:`xwheel.alarms` is behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from xwheel.model import Job, Run
from xwheel.scheduler.records import Outcome
from xwheel.storage.alarms.alarms import NewAlarm
from xwheel.storage.database.engine import Connection


class AlarmObserver:
    """Writes alarms in the transactions that close runs, skip fires and stop jobs; this one has no rules, so none."""

    def record(
        self,
        conn: Connection,
        now_ms: int,
        *,
        ended: Iterable[tuple[Run, Outcome]] = (),
        retried: Collection[int] = (),
        inserted: Iterable[Run] = (),
        stopped: Iterable[tuple[Job, str]] = (),
    ) -> Sequence[NewAlarm]:
        """Write the alarms that rules ask for, and return them.

        Args:
            conn: The caller's transaction.
            now_ms: The shared time.
            ended: Runs that end now, as they stood before, and how they end.
            retried: Ids of those of them that get another attempt.
            inserted: Rows that are inserted now; only the skipped ones count.
            stopped: Jobs that are stopped because their schedule fails, with the error.
        """
        del conn, now_ms, ended, retried, inserted, stopped
        return ()

    def committed(self, alarms: Sequence[NewAlarm]) -> None:
        """Note that what :meth:`record` returned is in the database."""


NO_ALARMS: Final = AlarmObserver()
