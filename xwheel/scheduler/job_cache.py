"""Jobs in memory: what claiming has read need not be read again when its runs are due."""

from __future__ import annotations

from collections.abc import Sequence

from xwheel.model import Job

CACHED_JOBS = 20_000
CACHED_CHARS = 32 * 1024 * 1024  # characters of parameters that are remembered; one may have 65,535


class JobCache:
    """Jobs as they were last read, so that a fire need not read them again; the fence compares their revision.

    Thread-safety: the mapping is replaced or updated whole; readers take it once.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, Job] = {}
        # at most this many: those of a job that is read again count twice until the next cut
        self._chars = 0

    def forget(self) -> None:
        """Remember nothing: the database may have lost commits, and give a revision again."""
        self.jobs, self._chars = {}, 0

    def remember(self, read: Sequence[Job]) -> None:
        """Take jobs that were just read; from any thread."""
        chars = _chars(read)
        if len(self.jobs) + len(read) > CACHED_JOBS or self._chars + chars > CACHED_CHARS:
            self._cut()
            if self._chars + chars > CACHED_CHARS:  # the others are read once more when they are due
                read = [job for job in read if len(job.param) <= CACHED_CHARS // CACHED_JOBS]
                chars = _chars(read)
        self.jobs.update([(job.id, job) for job in read])
        self._chars += chars

    def _cut(self) -> None:
        kept: list[tuple[int, Job]] = []
        chars = 0
        for pair in reversed(list(self.jobs.items())):
            chars += len(pair[1].param)
            if chars > CACHED_CHARS // 2 or len(kept) == CACHED_JOBS // 2:
                chars -= len(pair[1].param)
                break
            kept.append(pair)
        self.jobs, self._chars = dict(reversed(kept)), chars


def _chars(read: Sequence[Job]) -> int:
    return sum([len(job.param) for job in read])
