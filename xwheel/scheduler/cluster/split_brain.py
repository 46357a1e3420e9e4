"""A database whose failover went wrong: two servers that take writes, and what was sent for commits that are lost."""

from __future__ import annotations

import logging
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.clock import Clock
from xwheel.model import Job, Run
from xwheel.scheduler.cluster.contract import Lease
from xwheel.storage import jobs, runs
from xwheel.storage.database.engine import Database
from xwheel.storage.database.rows import IN_LIMIT, chunks

logger = logging.getLogger(__name__)

SURVEY_MS: Final = 5000
PAGE: Final = 50_000  # runs; two pages are kept, and to look up more would hold up the next renewal of the lease
TOLD: Final = 200  # ranges of ids in one line


@dataclass(eq=False, repr=False)
class SplitWatch:
    """Looks again and again whether another server of the database takes writes, too."""

    survey: Callable[[], bool]
    lease: Lease
    wake: Callable[[], None]  # ends the lease's wait

    def step(self, now_ms: int) -> int:
        """Act no more until the lease is renewed, if ours is not the right one; return how long to wait."""
        del now_ms
        if self.survey():
            self.lease.halt()
            self.wake()
        return SURVEY_MS


class RecentSends:
    """Which runs left lately, so that those can be named which the database has lost since.

    Thread-safety: one lock guards the pages.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # runs, when each was fenced, and when it left by the monotonic clock
        self._pages = deque([_page()], maxlen=2)

    def note(self, sent: Sequence[Run]) -> None:
        """Take the fenced runs of a parcel."""
        left_ms = self._clock.monotonic_ms()
        rows = [run.id for run in sent], [run.dispatched_ms or 0 for run in sent], [left_ms] * len(sent)
        with self._lock:
            if len(self._pages[-1][0]) >= PAGE:
                self._pages.append(_page())
            for column, values in zip(self._pages[-1], rows, strict=True):
                column.extend(values)

    def tell(self, db: Database, since_ms: int) -> None:
        """Log which of the runs that left since an instant of the monotonic clock the database does not know as sent.

        Raises as a read does.
        """
        with self._lock:
            rows = [row for page in self._pages for row in zip(*page, strict=True) if row[2] >= since_ms]
        sent = list({run_id: fenced_ms for run_id, fenced_ms, _ in rows}.items())  # of one that left twice the last
        lost: list[int] = []
        with db.read() as conn:
            for part in chunks(sent, IN_LIMIT):
                known = runs.get_runs(conn, [run_id for run_id, _ in part])
                # another node may have given the id to another run, or sends this one itself
                lost += [key for key, at_ms in part if key not in known or known[key].dispatched_ms != at_ms]
        if lost:
            text = "of the runs that left in the last %d s the database does not know %d as sent; may run again: %s"
            age_s = -(-(self._clock.monotonic_ms() - since_ms) // 1000)
            logger.error(text, age_s, len(lost), in_ranges(lost))


def _page() -> tuple[array[int], array[int], array[int]]:
    return array("q"), array("q"), array("q")


def tell_jobs(db: Database, cached: Sequence[Job]) -> None:
    """Log which jobs the database knows at an older revision than memory does; raises as a read does."""
    older: list[int] = []
    with db.read() as conn:
        for part in chunks(cached, IN_LIMIT):
            known = jobs.get_jobs(conn, [job.id for job in part])
            older += [job.id for job in part if job.id in known and known[job.id].revision < job.revision]
    if older:
        text = "%d jobs are in the database as they were before their last change: %s"
        logger.error(text, len(older), in_ranges(older))


def in_ranges(ids: Sequence[int]) -> str:
    """Return ids in order, neighbours as ``7-9``, and of a long list how many ranges are left out."""
    ranges: list[list[int]] = []
    for number in sorted(ids):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    words = ["-".join(map(str, found)) for found in ranges[:TOLD]]
    more = len(ranges) - TOLD
    return ", ".join(words) + (f" and {more} more ranges" if more > 0 else "")
