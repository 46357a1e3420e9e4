"""Sources of script jobs: saved in versions, taken back, and given to the stages that send runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from functools import partial
from typing import Final, NamedTuple

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import (
    ExecutorError,
    FieldError,
    NotFoundError,
    PluginError,
    RevisionError,
    UnknownNameError,
)
from xwheel.model import GlueVersion, Job, NewSource
from xwheel.model.access import Permission, current_actor
from xwheel.model.reasons import RunReason
from xwheel.model.versions import JobAction, JobVersion
from xwheel.plugin.contracts import ChecksSavedSource, ChecksSource, GlueType, SavedSource
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.registries import where_it_comes_from
from xwheel.plugin.validation import guarded
from xwheel.scheduler.manage.validate import DEFAULT_LIMITS, TextLimits
from xwheel.scheduler.manage.versions import JobHistory, JobStep
from xwheel.storage import executors, jobs, scripts
from xwheel.storage.database.engine import Connection, Database

CACHED_CHARS: Final = 32 * 1024 * 1024
"""Characters of sources that are remembered, and that are read at once."""

LISTED_MS: Final = 1000
MAX_AUTHOR: Final = 64


class FoundSources(NamedTuple):
    """Sources by job id.

    Attributes:
        left_out: Jobs whose source is there and was too much for one go; it is read in another.
    """

    sources: dict[int, GlueVersion]
    left_out: set[int]


class Scripts:
    """Saves sources and finds them again.

    Thread-safety: every method may be called by any thread; one lock guards the remembered sources.

    Args:
        db: The database.
        clock: Where time comes from.
        glue_types: What jobs may name.
        questions: Asks glue types about sources, outside of the transactions that save them.
        history: Keeps versions of jobs.
        trusted: Names of the glue types that are asked at once.
        keep: Versions of a job that stay.
        limits: How long sources may be.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        glue_types: Mapping[str, GlueType],
        questions: PluginQuestions,
        history: JobHistory,
        *,
        trusted: Collection[str] = (),
        keep: int,
        limits: TextLimits = DEFAULT_LIMITS,
    ) -> None:
        self._db = db
        self._clock = clock
        self._questions = questions
        self._history = history
        self._trusted = trusted
        self._glue_types = glue_types
        self._takes_source = {name for name, kind in glue_types.items() if kind.takes_source}
        self._checks = {name: kind for name, kind in glue_types.items() if isinstance(kind, ChecksSource)}
        self._saved_checks = {
            name: kind for name, kind in glue_types.items() if isinstance(kind, ChecksSavedSource)
        }
        self._keep = keep
        self._limits = limits
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int], GlueVersion] = OrderedDict()
        # by group, with when it was read
        self._listed: Mapping[int, tuple[frozenset[str], int]] = {}
        self._chars = 0

    def lacks(self, job: Job) -> bool:
        """Return whether a job cannot run because it has no source."""
        return not job.glue_version and self._has_source(job.glue_type)

    def _has_source(self, glue_type: str) -> bool:
        """Return whether jobs of a glue type have a source: those of types that only executors know have one."""
        return glue_type in self._takes_source or glue_type not in self._glue_types

    def refusal(self, job: Job, source: GlueVersion | None) -> tuple[RunReason, str] | None:
        """Return why a script job cannot run, as a reason and a message, or None if it can.

        Args:
            job: The job.
            source: What :meth:`find` found for it.
        """
        if job.glue_type not in self._glue_types and not self._is_listed(job):
            known = tuple(sorted(self._glue_types))
            hint = where_it_comes_from("glue type", job.glue_type)
            return RunReason.NO_GLUE_TYPE, str(UnknownNameError("glue type", job.glue_type, known, hint))
        if self.lacks(job) or (job.glue_version and source is None):
            return RunReason.NO_SOURCE, f"job {job.id} has no {job.glue_type} source: save one"
        return None

    def check(self, job: Job) -> None:
        """Refuse to start or run a job that lacks its source.

        Raises:
            FieldError: It does.
        """
        if self.lacks(job):
            where = f"POST /api/v1/jobs/{job.id}/glue" if job.id else "glue_source"
            raise FieldError(
                "glue_source",
                f"a {job.glue_type} job needs a source before it can run: save one with {where}",
            )

    def save(self, job_id: int, new: NewSource, *, revision: int | None = None) -> GlueVersion:
        """Save a new source of a job; runs that are sent from now on carry it.

        Args:
            job_id: The job.
            new: The source.
            revision: The revision that the caller has seen; None for whatever is there.

        Raises:
            NotFoundError: The job does not exist.
            RevisionError: It is at another revision.
            FieldError: Its glue type takes no source.
        """

        def work(conn: Connection) -> GlueVersion:
            return self._save(conn, self._locked(conn, job_id, revision), new)

        return self._questions.around(lambda: self._db.transaction(work))

    def restore(
        self, job_id: int, number: int, *, author: str, remark: str = "", revision: int | None = None
    ) -> GlueVersion:
        """Save the source of an old version as the newest one.

        Args:
            job_id: The job.
            number: The version whose source is wanted again.
            author: Who wants it.
            remark: Empty for a sentence that names the version.
            revision: The revision that the caller has seen; None for whatever is there.

        Raises:
            NotFoundError: The job or the version does not exist.
            RevisionError: The job is at another revision.
            FieldError: The version was written for another glue type.
        """

        def work(conn: Connection) -> GlueVersion:
            job = self._locked(conn, job_id, revision)
            old = scripts.get_version(conn, job_id, number)
            if old.glue_type != job.glue_type:
                raise FieldError(
                    "number", f"version {number} is {old.glue_type}, and job {job_id} is {job.glue_type} now"
                )
            words = remark or f"version {number} again"
            return self._save(conn, job, NewSource(source=old.source, author=author, remark=words))

        return self._questions.around(lambda: self._db.transaction(work))

    def save_locked(self, conn: Connection, job: Job, new: NewSource, now_ms: int) -> GlueVersion:
        """Save a source of a job whose row is locked; the job's row must get the version's number.

        The glue type is asked about the source between the attempts of the transaction: see ``PluginQuestions``.

        Raises:
            FieldError: The glue type takes no source, or not this one.
        """
        self.check_source(job.glue_type, new, job.group_id)
        return scripts.insert_version(conn, job.id, job.glue_type, new, now_ms, keep=self._keep)

    def source_back(self, conn: Connection, job: Job, glue_type: str, wanted: JobVersion) -> NewSource | None:
        """Return the source that a job had at an earlier revision, to be saved anew; None if it had none, or has it.

        Args:
            conn: Connection; the job's row is locked.
            job: The job as it is.
            glue_type: What it will be.
            wanted: How it was.

        Raises:
            FieldError: That source is not kept any more.
        """
        number = wanted.glue_version
        if not number or (number == job.glue_version and glue_type == job.glue_type):
            return None
        try:
            old = scripts.get_version(conn, job.id, number)
        except NotFoundError:
            raise FieldError(
                "revision",
                f"{wanted.revision} of job {job.id} had version {number} of the source, which is not kept any more: "
                "upkeep.glue_versions says how many are",
            ) from None
        remark = f"revision {wanted.revision} again"
        return NewSource(source=old.source, author=current_actor().name[:MAX_AUTHOR], remark=remark)

    def edit_locked(self, conn: Connection, job: Job, merged: Job, new: NewSource | None, now_ms: int) -> int:
        """Save the source that comes with an edit, if it is another one; return the version that counts then.

        Args:
            conn: Connection.
            job: As it is; its row is locked.
            merged: As it is to be. With another glue type the old source counts no more.
            new: The source, or None to keep what counts.
            now_ms: The present.

        Raises:
            FieldError: The glue type takes no source, or a started job would lack its own.
        """
        version = job.glue_version if merged.glue_type == job.glue_type else 0
        if new is not None:
            known = scripts.get_version(conn, job.id, version).source if version else None
            if known != new.source:
                version = self.save_locked(conn, merged, new, now_ms).number
        elif version and merged.group_id != job.group_id and merged.glue_type in self._saved_checks:
            kept = scripts.get_version(conn, job.id, version)
            self._check_saved(merged.glue_type, kept.source, merged.group_id)
        if job.enabled:
            self.check(replace(merged, glue_version=version))
        return version

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
            with self._db.read() as conn:
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
        others = [job for job in wanted if job.glue_type not in self._glue_types]
        if not others:
            return
        now_ms = self._clock.monotonic_ms()
        old = {
            job.group_id
            for job in others
            if not self._is_listed(job) or now_ms - self._listed[job.group_id][1] >= LISTED_MS
        }
        if old:
            with self._db.read() as conn:
                groups = executors.get_groups(conn, old)
            nothing: frozenset[str] = frozenset()
            self._listed = {
                **self._listed,
                **{
                    key: (frozenset(groups[key].glue_types) if key in groups else nothing, now_ms)
                    for key in old
                },
            }

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

    def check_source(self, name: str, new: NewSource, group_id: int) -> None:
        """Refuse a source that a glue type does not take; asked ahead of a transaction it costs that no second attempt.

        Args:
            name: The glue type.
            new: The source.
            group_id: Group of the job that gets it.

        Raises:
            FieldError: It is too long, or the glue type takes no source, or not this one.
        """
        if not self._has_source(name):
            raise FieldError("glue_source", f"a {name} job has no source")
        self._limits.check_source(new.source)
        if name in self._checks:
            glue_type = self._checks[name]
            self._ask(name, ("glue_source", name, new.source), lambda: glue_type.check_source(new.source))
        if name in self._saved_checks:
            self._check_saved(name, new.source, group_id)

    def _check_saved(self, name: str, source: str, group_id: int) -> None:
        """Let a glue type compare a source with what the scheduler has; raises like :meth:`check_source`."""
        glue_type = self._saved_checks[name]
        saved = SavedSource(source=source, group_id=group_id, database=self._db)
        self._ask(name, ("saved_source", name, group_id, source), lambda: glue_type.check_saved_source(saved))

    def _ask(self, name: str, key: Hashable, check: Callable[[], None]) -> None:
        title = f"glue type {name}"
        call = partial(guarded, title, check, allowed=ExecutorError)
        try:
            self._questions.ask(key, PluginQuestion(title, name in self._trusted, call))
        except ExecutorError as error:
            raise FieldError("glue_source", str(error)) from error
        except PluginError as error:
            raise FieldError("glue_source", f"cannot be read: {error}"[:500]) from error

    def _locked(self, conn: Connection, job_id: int, revision: int | None) -> Job:
        job = jobs.get_job(conn, job_id, lock=True)
        current_actor().need(Permission.SCRIPT, job.group_id, "job", job_id)
        if revision is not None and job.revision != revision:
            raise RevisionError("job", job_id, job.revision, revision)
        return job

    def _save(self, conn: Connection, job: Job, new: NewSource) -> GlueVersion:
        now_ms = self._clock.now_ms()
        made = self.save_locked(conn, job, new, now_ms)
        values = {"glue_version": made.number, "revision": job.revision + 1, "updated_ms": now_ms}
        saved = jobs.update_job(conn, job.id, values)
        self._history.record(conn, JobAction.SCRIPT, [JobStep(job, saved, new)], now_ms)
        return made
