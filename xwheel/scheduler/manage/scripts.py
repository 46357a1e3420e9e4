"""Sources of script jobs: saved in versions, taken back, and given to the stages that send runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Final

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import ExecutorError, FieldError, PluginError, RevisionError, UnknownNameError
from xwheel.model import GlueVersion, Job, NewSource
from xwheel.plugin.contracts import ChecksSource, GlueType
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.registries import where_it_comes_from
from xwheel.plugin.validation import guarded
from xwheel.storage import jobs, scripts
from xwheel.storage.database.engine import Connection, Database

CACHED_CHARS: Final = 32 * 1024 * 1024
"""Characters of sources that are remembered; a source is at most 100,000 of them."""


class Scripts:
    """Saves sources and finds them again.

    Thread-safety: every method may be called by any thread; one lock guards the remembered sources.

    Args:
        db: The database.
        clock: Where time comes from.
        glue_types: What jobs may name.
        questions: Asks glue types about sources, outside of the transactions that save them.
        trusted: Names of the glue types that are asked at once.
        keep: Versions of a job that stay.
    """

    def __init__(
        self,
        db: Database,
        clock: Clock,
        glue_types: Mapping[str, GlueType],
        questions: PluginQuestions,
        *,
        trusted: Collection[str] = (),
        keep: int,
    ) -> None:
        self._db = db
        self._clock = clock
        self._questions = questions
        self._trusted = trusted
        self._glue_types = glue_types
        self._takes_source = {name for name, kind in glue_types.items() if kind.takes_source}
        self._checks = {name: kind for name, kind in glue_types.items() if isinstance(kind, ChecksSource)}
        self._keep = keep
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[int, int], GlueVersion] = OrderedDict()
        self._chars = 0

    def lacks(self, job: Job) -> bool:
        """Return whether a job cannot run because it has no source."""
        return not job.glue_version and job.glue_type in self._takes_source

    def refusal(self, job: Job, source: GlueVersion | None) -> tuple[str, str] | None:
        """Return why a script job cannot run, as a reason and a message, or None if it can.

        Args:
            job: The job.
            source: What :meth:`find` found for it.
        """
        if job.glue_type not in self._glue_types:
            known = tuple(sorted(self._glue_types))
            hint = where_it_comes_from("glue type", job.glue_type)
            return "no_glue_type", str(UnknownNameError("glue type", job.glue_type, known, hint))
        if self.lacks(job) or (job.glue_version and source is None):
            return "no_source", f"job {job.id} has no {job.glue_type} source: save one"
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
        self.check_source(job.glue_type, new)
        return scripts.insert_version(conn, job.id, job.glue_type, new, now_ms, keep=self._keep)

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
        if job.enabled:
            self.check(replace(merged, glue_version=version))
        return version

    def find(self, wanted: Collection[Job]) -> dict[int, GlueVersion]:
        """Return the current sources of jobs by job id; those that are not remembered are read in one go.

        A job in memory may be so far behind that its version is not kept any more; then the newest one is returned, and
        the fence finds the job changed.
        """
        found: dict[int, GlueVersion] = {}
        missing: list[tuple[int, int]] = []
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
                read = scripts.load_versions(conn, missing)
                gone = {job_id for job_id, _ in missing} - {item.job_id for item in read}
                newest = jobs.get_jobs(conn, gone).values()
                read += scripts.load_versions(conn, [(job.id, job.glue_version) for job in newest])
            self._remember(read)
            found.update((item.job_id, item) for item in read)
        return found

    def _remember(self, versions: Collection[GlueVersion]) -> None:
        with self._lock:
            for item in versions:
                if (item.job_id, item.number) not in self._known:
                    self._known[item.job_id, item.number] = item
                    self._chars += len(item.source)
            while self._chars > CACHED_CHARS:
                _, oldest = self._known.popitem(last=False)
                self._chars -= len(oldest.source)

    def check_source(self, name: str, new: NewSource) -> None:
        """Refuse a source that a glue type does not take; asked ahead of a transaction it costs that no second attempt.

        Raises:
            FieldError: The glue type takes no source, or not this one.
        """
        if name not in self._takes_source:
            raise FieldError("glue_source", f"a {name} job has no source")
        if name not in self._checks:
            return
        glue_type, title = self._checks[name], f"glue type {name}"
        question = PluginQuestion(
            title,
            name in self._trusted,
            lambda: guarded(title, lambda: glue_type.check_source(new.source), allowed=ExecutorError),
        )
        try:
            self._questions.ask(("glue_source", name, new.source), question)
        except ExecutorError as error:
            raise FieldError("glue_source", str(error)) from error
        except PluginError as error:
            raise FieldError("glue_source", f"cannot be read: {error}"[:500]) from error

    def _locked(self, conn: Connection, job_id: int, revision: int | None) -> Job:
        job = jobs.get_job(conn, job_id, lock=True)
        if revision is not None and job.revision != revision:
            raise RevisionError("job", job_id, job.revision, revision)
        return job

    def _save(self, conn: Connection, job: Job, new: NewSource) -> GlueVersion:
        now_ms = self._clock.now_ms()
        made = self.save_locked(conn, job, new, now_ms)
        values = {"glue_version": made.number, "revision": job.revision + 1, "updated_ms": now_ms}
        jobs.update_job(conn, job.id, values)
        return made
