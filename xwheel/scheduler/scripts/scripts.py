"""Sources of script jobs: saved in versions, and taken back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from xwheel.clock import Clock
from xwheel.errors import ExecutorError, FieldError, NotFoundError, PluginError
from xwheel.model import GlueVersion, Job, NewSource
from xwheel.model.access import Permission, current_actor
from xwheel.model.versions import JobAction, JobVersion
from xwheel.plugin.contracts import ChecksSavedSource, ChecksSource, GlueType, SavedSource
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.validation import guarded
from xwheel.scheduler.jobs.rights import lock_job
from xwheel.scheduler.jobs.validate import DEFAULT_LIMITS, TextLimits
from xwheel.scheduler.jobs.versions import JobHistory, JobStep
from xwheel.scheduler.sources import Sources
from xwheel.storage import jobs, scripts
from xwheel.storage.database.engine import Connection, Database

MAX_AUTHOR: Final = 64


@dataclass(eq=False, repr=False)
class Scripts:
    """Saves sources and takes old ones back. Thread-safety: every method may be called by any thread."""

    db: Database
    clock: Clock
    sources: Sources
    glue_types: Mapping[str, GlueType]
    questions: PluginQuestions
    history: JobHistory
    _: KW_ONLY
    trusted: Collection[str] = ()  # names of the glue types that are asked at once
    keep: int  # versions of a job that stay
    limits: TextLimits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        # settled here: to ask what a plugin can do may run its code
        kinds = self.glue_types.items()
        self._checks = {name: kind for name, kind in kinds if isinstance(kind, ChecksSource)}
        self._saved_checks = {name: kind for name, kind in kinds if isinstance(kind, ChecksSavedSource)}

    def check(self, job: Job) -> None:
        """Refuse to start or run a job that lacks its source; raises FieldError."""
        if self.sources.lacks(job):
            way = f"save one with POST /api/v1/jobs/{job.id}/glue" if job.id else "send one with the job"
            text = f"a {job.glue_type} job needs a source before it can run: {way}"
            raise FieldError("glue_source", text)

    def save(self, job_id: int, new: NewSource, *, revision: int | None = None) -> GlueVersion:
        """Save a new source of a job; runs that are sent from now on carry it.

        Raises NotFoundError without the job, RevisionError if it is at another revision, FieldError if its glue type
        takes no source.
        """

        def work(conn: Connection) -> GlueVersion:
            return self._save(conn, lock_job(conn, job_id, revision, Permission.SCRIPT), new)

        return self.questions.around(lambda: self.db.transaction(work))

    def restore(
        self, job_id: int, number: int, *, author: str, remark: str = "", revision: int | None = None
    ) -> GlueVersion:
        """Save the source of an old version as the newest one.

        Without a remark it gets a sentence that names the version. Raises like :meth:`save`, NotFoundError without the
        version too, and FieldError if it was written for another glue type.
        """

        def work(conn: Connection) -> GlueVersion:
            job = lock_job(conn, job_id, revision, Permission.SCRIPT)
            old = scripts.get_version(conn, job_id, number)
            if old.glue_type != job.glue_type:
                text = f"version {number} is {old.glue_type}, and job {job_id} is {job.glue_type} now"
                raise FieldError("number", text)
            words = remark or f"version {number} again"
            return self._save(conn, job, NewSource(source=old.source, author=author, remark=words))

        return self.questions.around(lambda: self.db.transaction(work))

    def save_locked(self, conn: Connection, job: Job, new: NewSource, now_ms: int) -> GlueVersion:
        """Save a source of a job whose row is locked; the job's row must get the version's number.

        The glue type is asked about the source between the attempts of the transaction: see ``PluginQuestions``. Raises
        FieldError if the glue type takes no source, or not this one.
        """
        self.check_source(job.glue_type, new, job.group_id)
        return scripts.insert_version(conn, job.id, job.glue_type, new, now_ms, keep=self.keep)

    def source_back(self, conn: Connection, job: Job, glue_type: str, wanted: JobVersion) -> NewSource | None:
        """Return the source that a job had at an earlier revision, to be saved again; None if it had none, or has it.

        The job's row is locked; ``glue_type`` is what it will be. Raises FieldError if that source is not kept any
        more.
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

        ``job`` is as it is, its row locked, ``merged`` as it is to be: with another glue type the old source counts no
        more. Raises FieldError if the glue type takes no source, or a started job would lack its own.
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

    def check_source(self, name: str, new: NewSource, group_id: int) -> None:
        """Refuse a source that a glue type does not take; asked ahead of a transaction it costs that no second attempt.

        ``group_id`` is that of the job that gets it. Raises FieldError if it is too long, or the glue type takes no
        source, or not this one.
        """
        if not self.sources.has_source(name):
            raise FieldError("glue_source", f"a {name} job has no source")
        self.limits.check_source(new.source)
        if (asked := self._checks.get(name)) is not None:
            self._ask(name, ("glue_source", name, new.source), lambda: asked.check_source(new.source))
        self._check_saved(name, new.source, group_id)

    def _check_saved(self, name: str, source: str, group_id: int) -> None:
        """Let a glue type compare a source with what the scheduler has; raises like :meth:`check_source`."""
        if (asked := self._saved_checks.get(name)) is not None:
            saved = SavedSource(source=source, group_id=group_id, database=self.db)
            key = ("saved_source", name, group_id, source)
            self._ask(name, key, lambda: asked.check_saved_source(saved))

    def _ask(self, name: str, key: Hashable, check: Callable[[], None]) -> None:
        title = f"glue type {name}"
        call = partial(guarded, title, check, allowed=ExecutorError)
        try:
            self.questions.ask(key, PluginQuestion(title, name in self.trusted, call))
        except ExecutorError as error:
            raise FieldError("glue_source", str(error)) from error
        except PluginError as error:
            raise FieldError("glue_source", f"cannot be read: {error}"[:500]) from error

    def _save(self, conn: Connection, job: Job, new: NewSource) -> GlueVersion:
        now_ms = self.clock.now_ms()
        made = self.save_locked(conn, job, new, now_ms)
        values = {"glue_version": made.number, "revision": job.revision + 1, "updated_ms": now_ms}
        saved = jobs.update_job(conn, job.id, values)
        self.history.record(conn, JobAction.SCRIPT, [JobStep(job, saved, new)], now_ms)
        return made
