"""Reads the tables again and again while things happen, for what the rows at the end no longer say."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection
from typing import Final

from xwheel.cli.verify.records import Observed, Span
from xwheel.clock import wall_ms
from xwheel.errors import XwheelError
from xwheel.model import RunState
from xwheel.storage import jobs, leases, runs
from xwheel.storage.database.engine import Connection, Database

logger = logging.getLogger(__name__)

EVERY_S: Final = 0.5
RECENT: Final = 2500
"""Runs that are looked at, those due last."""

LAST_MS: Final = 3000
"""Longer than a fixed delay and its run."""


class Watcher:
    """A thread that looks at runs, leases and fixed delays twice a second, inside ``with``.

    Args:
        url: The database.
        job_ids: The jobs.
        delays: Ids of those with a fixed delay.
        span: From when until when they fire.
    """

    def __init__(self, url: str, job_ids: Collection[int], delays: Collection[int], span: Span) -> None:
        self.seen = Observed()
        self.looks = 0
        self._db = Database(url, pool_size=1)
        self._job_ids, self._delays = frozenset(job_ids), list(delays)
        self._span = span
        self._epochs: dict[int, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self._db.close()

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                with self._db.read() as conn:
                    self._look(conn)
                self.looks += 1
            except XwheelError as error:  # the database is away on purpose
                logger.debug("the watcher cannot read: %s", error)

    def _look(self, conn: Connection) -> None:
        now_ms = wall_ms()
        # what is older was seen to be final, and the rows at the end say whether it stayed so
        for run in runs.list_runs(conn, limit=RECENT):
            if run.job_id not in self._job_ids:
                continue
            states = self.seen.states.setdefault(run.id, [])
            if not states or states[-1] != run.state:
                states.append(run.state)
            if run.state is RunState.PLANNED and run.due_ms < now_ms:
                known = self.seen.overdue.get(run.id, 0)
                self.seen.overdue[run.id] = max(known, now_ms - run.due_ms)
        for lease in leases.list_leases(conn):
            known = self._epochs.get(lease.partition, 0)
            if lease.epoch < known:
                text = f"the epoch of partition {lease.partition} fell from {known} to {lease.epoch}"
                self.seen.fell.append(text)
            self._epochs[lease.partition] = lease.epoch
        if not self._span[0] <= now_ms < self._span[1] - LAST_MS:
            return  # before its first fire, and after its last one, a job awaits nothing
        for job in jobs.get_jobs(conn, self._delays).values():
            if (job.next_fire_ms is None) == (job.awaits_root is None):
                text = f"job {job.id} has next fire {job.next_fire_ms} and awaits root {job.awaits_root} at {now_ms}"
                self.seen.delays.append(text)
