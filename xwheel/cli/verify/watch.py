"""Reads the tables again and again while things happen, for what the rows at the end no longer say."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from typing import Final

from sqlalchemy import Connection, select

from xwheel.cli.verify.records import Span, Watched
from xwheel.errors import XwheelError
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import tables

logger = logging.getLogger(__name__)

EVERY_S: Final = 0.5
RECENT_MS: Final = 40_000
LAST_MS: Final = 3000
"""Longer than a fixed delay and its run."""


class Watcher:
    """A thread that looks at runs, leases and fixed delays twice a second, inside ``with``.

    Args:
        url: The database.
        jobs: Ids of the jobs.
        delays: Ids of those with a fixed delay.
        span: From when until when they fire.
    """

    def __init__(self, url: str, jobs: Collection[int], delays: Collection[int], span: Span) -> None:
        self.seen = Watched()
        self.looks = 0
        self._db = Database(url, pool_size=1)
        self._jobs, self._delays = list(jobs), list(delays)
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
        run, job, lease = tables.run.c, tables.job.c, tables.partition_lease.c
        now_ms = time.time_ns() // 1_000_000
        # what is older was seen to be final, and the rows at the end say whether it stayed so
        recent = select(run.id, run.state, run.due_ms).where(run.due_ms > now_ms - RECENT_MS)
        for run_id, state, due_ms in conn.execute(recent.where(run.job_id.in_(self._jobs))):
            states = self.seen.states.setdefault(run_id, [])
            if not states or states[-1] != state:
                states.append(state)
            if state == "planned" and due_ms < now_ms:
                known = self.seen.overdue.get(run_id, 0)
                self.seen.overdue[run_id] = max(known, now_ms - due_ms)
        for number, epoch in conn.execute(select(lease.partition, lease.epoch)):
            known = self._epochs.get(number, 0)
            if epoch < known:
                self.seen.fell.append(f"the epoch of partition {number} fell from {known} to {epoch}")
            self._epochs[number] = epoch
        if not self._span[0] <= now_ms < self._span[1] - LAST_MS:
            return  # before its first fire, and after its last one, a job awaits nothing
        delays = select(job.id, job.next_fire_ms, job.awaits_root).where(job.id.in_(self._delays))
        for number, next_ms, root in conn.execute(delays):
            if (next_ms is None) == (root is None):
                text = f"job {number} has next fire {next_ms} and awaits root {root} at {now_ms}"
                self.seen.delays.append(text)
