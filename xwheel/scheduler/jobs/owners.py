"""What plugins own of jobs: asked between the attempts of a change and never inside it, and shown with jobs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TypeVar

from xwheel.errors import OutageError, OwnedByCodeError, PluginError
from xwheel.model import Job
from xwheel.plugin.discovery import Plugins
from xwheel.plugin.job_owners import DeclaredView, OwnsJobs, check_owned
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.validation import guarded
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.plugin_rows import read_rows_of

logger = logging.getLogger(__name__)

T = TypeVar("T")


class JobOwners:
    """Asks the plugins that own fields of jobs. Any thread may call it."""

    def __init__(self, db: Database, plugins: Plugins, questions: PluginQuestions) -> None:
        self._db = db
        self._questions = questions
        self._owners = {name: item for name, item in sorted(plugins.resources.items()) if isinstance(item, OwnsJobs)}
        self._trusted = plugins.resources.trusted

    def refuse_change(self, conn: Connection, job: Job, changes: Mapping[str, object]) -> None:
        """Refuse to change what a plugin owns of a job whose row is locked; what stays as it is may be said again.

        Raises OwnedByCodeError for a field that would change, PluginError if the plugin cannot say.
        """
        for name in self._owners:
            said = self._said(conn, name, [job.id]).get(job.id)
            for field, value in changes.items():
                if said is not None and field in said.owned and getattr(job, field) != value:
                    raise OwnedByCodeError(field, self._refusal(name, job.id, said, field))

    def undeletable(self, conn: Connection, found: Collection[Job]) -> dict[int, OwnedByCodeError]:
        """Return why jobs whose rows are locked cannot be deleted, by id; those that can be are missing."""
        return {
            job_id: OwnedByCodeError("name", self._refusal(name, job_id, said, ""))
            for name in self._owners
            for job_id, said in self._said(conn, name, [job.id for job in found]).items()
            if said.owned
        }

    def shown(self, job_ids: Collection[int]) -> dict[int, DeclaredView]:
        """Return what plugins say of jobs, by id, for people; one that fails says nothing."""
        shown: dict[int, DeclaredView] = {}
        for name in self._owners if job_ids else ():
            try:
                shown |= self._questions.ask(None, self._owned(name, job_ids))
            except PluginError as error:
                logger.error("jobs are shown without what it says of them: %s", error)
        return shown

    def _said(self, conn: Connection, name: str, job_ids: Collection[int]) -> Mapping[int, DeclaredView]:
        """Return what a plugin said of its rows as they stand in this transaction; it was asked before."""
        rows = read_rows_of(conn, self._owners[name].owner_table, job_ids)
        return self._questions.ask(("owned", name, rows), self._owned(name, job_ids)) if rows else {}

    def _refusal(self, name: str, job_id: int, said: DeclaredView, field: str) -> str:
        def words(_: Connection) -> str:
            found = self._owners[name].refusal(job_id, said, field)
            if not isinstance(found, str):
                raise PluginError(f"refusal() must return a text, not {type(found).__name__}")
            return found

        return self._questions.ask(("refusal", name, job_id, repr(said), field), self._question(name, words))

    def _owned(self, name: str, job_ids: Collection[int]) -> PluginQuestion[Mapping[int, DeclaredView]]:
        item = self._owners[name]
        return self._question(name, lambda conn: check_owned(name, item.owned(conn, job_ids), job_ids))

    def _question(self, name: str, work: Callable[[Connection], T]) -> PluginQuestion[T]:
        def read() -> T:
            with self._db.read() as conn:
                return work(conn)

        what = f"resources {name}"
        call = partial(guarded, what, read, allowed=(OutageError, PluginError))
        return PluginQuestion(what, name in self._trusted, call)
