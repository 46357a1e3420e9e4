"""Current sources of script jobs, for the stages that send runs: read when they are needed, and remembered."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from xwheel.clock import Clock
from xwheel.errors import UnknownNameError
from xwheel.model import GlueVersion, Job, RunReason
from xwheel.plugin.contracts import GlueType
from xwheel.plugin.registries import where_it_comes_from
from xwheel.storage import executors, jobs, scripts
from xwheel.storage.database.engine import Database

CACHED_CHARS: Final = 32 * 1024 * 1024  # characters of sources that are remembered, and that are read at once
LISTED_MS: Final = 1000


class FoundSources(NamedTuple):
    """Sources by job id."""

    sources: dict[int, GlueVersion]
    left_out: set[int]  # jobs whose source is there and was too much for one go; it is read in another


@dataclass(eq=False, repr=False)
class Sources:
    """Finds the sources of jobs, and says which jobs cannot run without one.

    Thread-safety: every method may be called by any thread; one lock guards the remembered sources.
    """

    db: Database
    clock: Clock
    glue_types: Mapping[str, GlueType]

    def __post_init__(self) -> None:
        self._takes_source = {name for name, kind in self.glue_types.items() if kind.takes_source}
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int], GlueVersion] = OrderedDict()
        # by group, with when it was read
        self._listed: Mapping[int, tuple[frozenset[str], int]] = {}
        self._chars = 0

    def forget(self) -> None:
        """Remember nothing: the database may have lost commits, and give a number again."""
        with self._lock:
            self._known.clear()
            self._listed, self._chars = {}, 0

    def lacks(self, job: Job) -> bool:
        """Return whether a job cannot run because it has no source."""
        return not job.glue_version and self.has_source(job.glue_type)

    def has_source(self, glue_type: str) -> bool:
        """Return whether jobs of a glue type have a source: those of types that only executors know have one."""
        return glue_type in self._takes_source or glue_type not in self.glue_types

    def refusal(self, job: Job, source: GlueVersion | None) -> tuple[RunReason, str] | None:
        """Return why a script job cannot run, as a reason and a message, or None if it can.

        ``source`` is what :meth:`find` found for it.
        """
        if job.glue_type not in self.glue_types and not self._is_listed(job):
            known = tuple(sorted(self.glue_types))
            hint = where_it_comes_from("glue type", job.glue_type)
            return RunReason.NO_GLUE_TYPE, str(UnknownNameError("glue type", job.glue_type, known, hint))
        if self.lacks(job) or (job.glue_version and source is None):
            return RunReason.NO_SOURCE, f"job {job.id} has no {job.glue_type} source: save one"
        return None

    def find(self, wanted: Collection[Job]) -> FoundSources:
        """Return the current sources of jobs; those that are not remembered are read in one go, as many as it takes.

        What :meth:`refusal` must know of the jobs' groups is read besides, if there are glue types that no plugin has.

        A job in memory may be so far behind that its version is not kept any more; then the newest one is returned, and
        the fence finds the job changed.
        """
        self._learn(wanted)
        found: dict[int, GlueVersion] = {}
        missing: list[tuple[int, int]] = []
        left_out: set[int] = set()
        with self._lock:
            for job in wanted:
                key = (job.id, job.glue_version)
                known = self._known.get(key)
                if known is not None:
                    self._known.move_to_end(key)
                    found[job.id] = known
                elif job.glue_version:
                    missing.append(key)
        if missing:
            with self.db.read() as conn:
                read, left_out = scripts.load_versions(conn, missing, CACHED_CHARS)
                gone = {job_id for job_id, _ in missing} - {item.job_id for item in read} - left_out
                newest = jobs.get_jobs(conn, gone).values() if gone else ()
                pairs = [(job.id, job.glue_version) for job in newest]
                more, others = scripts.load_versions(conn, pairs, CACHED_CHARS)
            read += more
            left_out |= others
            self._remember(read)
            found.update((item.job_id, item) for item in read)
        return FoundSources(found, left_out)

    def _learn(self, wanted: Collection[Job]) -> None:
        """Read which glue types groups list, for jobs of such that no plugin has; what was read stands for a second."""
        others = [job for job in wanted if job.glue_type not in self.glue_types]
        if not others:
            return
        now_ms = self.clock.monotonic_ms()
        until_ms = now_ms - LISTED_MS
        stale = [job for job in others if not self._is_listed(job) or self._listed[job.group_id][1] <= until_ms]
        old = {job.group_id for job in stale}
        if old:
            with self.db.read() as conn:
                groups = executors.get_groups(conn, old)
            listed = {key: groups[key].glue_types if key in groups else () for key in old}
            self._listed = {**self._listed, **{key: (frozenset(listed[key]), now_ms) for key in old}}

    def _is_listed(self, job: Job) -> bool:
        """Return whether a job's group listed its glue type when :meth:`find` last asked, however long that is ago."""
        return job.group_id in self._listed and job.glue_type in self._listed[job.group_id][0]

    def _remember(self, versions: Collection[GlueVersion]) -> None:
        with self._lock:
            for item in versions:
                if (item.job_id, item.number) not in self._known:
                    self._known[item.job_id, item.number] = item
                    self._chars += len(item.source)
            while self._chars > CACHED_CHARS:
                _, oldest = self._known.popitem(last=False)
                self._chars -= len(oldest.source)
