"""Reads the tables again and again while things happen, for what the rows at the end no longer say."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from xwheel.clock import wall_ms
from xwheel.errors import XwheelError
from xwheel.model import OPEN_STATES, RunState
from xwheel.storage import jobs, leases, runs
from xwheel.storage.database.engine import Connection, Database

from xwheel_devtools.verify.journals import AcknowledgedRuns
from xwheel_devtools.verify.records import Observed, Span

logger = logging.getLogger(__name__)

EVERY_S: Final = 0.5
GLANCE_S: Final = 0.1
"""Between two glances at what is about to be sent: who gets a partition adopts what is planned in it not much later."""

SOON_MS: Final = 2000
MOST: Final = 2000
"""Runs in one glance."""

RECENT: Final = 2500
"""Runs that are looked at, those due last."""

LAST_MS: Final = 3000
"""Longer than a fixed delay and its run."""


class Watcher:
    """A thread that looks at runs, journals and fixed delays twice a second, and at leases oftener, inside ``with``.

    Args:
        url: The database.
        job_ids: The jobs.
        delays: Ids of those with a fixed delay.
        span: From when until when they fire.
        journals: The data folders of executors, where it stands what the scheduler acknowledged.
    """

    def __init__(
        self, url: str, job_ids: Collection[int], delays: Collection[int], span: Span, journals: Sequence[Path] = ()
    ) -> None:
        self.seen = Observed()
        self.looks = 0
        self._db = Database(url, pool_size=1)
        self._job_ids, self._delays = frozenset(job_ids), list(delays)
        self._span = span
        self._journals = [AcknowledgedRuns(folder) for folder in journals]
        self._acknowledged: dict[int, str] = {}
        self._epochs: dict[int, int] = {}
        self._behind: dict[int, tuple[int, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watcher", daemon=True)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    def _run(self) -> None:
        look_s = 0.0
        while not self._stop.wait(GLANCE_S):
            is_time = time.monotonic() >= look_s
            if is_time:
                look_s = time.monotonic() + EVERY_S
            try:
                self.look(only_glance=not is_time)
            except XwheelError as error:  # the database is away on purpose
                logger.debug("the watcher cannot read: %s", error)

    def look(self, *, only_glance: bool = False) -> None:
        """Read what there is, or only what goes by quickly.

        Raises:
            XwheelError: The database is away; what journals said is kept until it is there again.
        """
        if not only_glance:
            for journal in self._journals:
                self._acknowledged.update(journal.read())
        with self._db.read() as conn:
            self._glance(conn)
            if not only_glance:
                self._compare_outcomes(conn)
                self._note(conn)
                self.looks += 1

    def _glance(self, conn: Connection) -> None:
        """Find epochs that fell, and runs that were sent under an epoch that was over while they were still planned.

        Epochs are read first, and rise only: a run that is planned afterwards under a lower one must be adopted before
        it is sent.
        """
        for lease in leases.list_leases(conn):
            known = self._epochs.get(lease.partition, 0)
            if lease.epoch < known:
                text = f"the epoch of partition {lease.partition} fell from {known} to {lease.epoch}"
                self.seen.epochs.append(text)
            self._epochs[lease.partition] = lease.epoch
        for queued in runs.find_overdue(conn, self._epochs, wall_ms() + SOON_MS, MOST):
            if queued.epoch < self._epochs[queued.partition]:
                self._behind[queued.id] = (queued.epoch, self._epochs[queued.partition])
        for run in runs.get_runs(conn, self._behind).values() if self._behind else ():
            if run.state is RunState.PLANNED:
                continue
            before, after = self._behind.pop(run.id)
            if run.dispatched_ms is not None and run.epoch == before:
                text = f"run {run.id} was sent under epoch {before} when its partition had epoch {after}"
                self.seen.epochs.append(text)

    def _compare_outcomes(self, conn: Connection) -> None:
        """Find outcomes that executors let go of, since they were acknowledged, and that are not in the database."""
        found = runs.get_runs(conn, self._acknowledged).values() if self._acknowledged else ()
        for run in found:
            if run.job_id in self._job_ids and run.state in OPEN_STATES:
                text = f"run {run.id} is {run.state}, and its outcome was acknowledged to {self._acknowledged[run.id]}"
                self.seen.unwritten.append(text)
        self._acknowledged.clear()

    def _note(self, conn: Connection) -> None:
        """Note the states of runs, what is overdue, and fixed delays that are at odds with themselves."""
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
        if not self._span[0] <= now_ms < self._span[1] - LAST_MS:
            return  # before its first fire, and after its last one, a job awaits nothing
        for job in jobs.get_jobs(conn, self._delays).values():
            if (job.next_fire_ms is None) == (job.awaits_root is None):
                text = f"job {job.id} has next fire {job.next_fire_ms} and awaits root {job.awaits_root} at {now_ms}"
                (self.seen.idle if job.awaits_root is None else self.seen.delays).append(text)
