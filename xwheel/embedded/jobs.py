"""The declared jobs as rows: created, changed where code says something else now, stopped where code is silent."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from xwheel.api.http.body import fields_in
from xwheel.api.schema.messages import JobCreate
from xwheel.embedded.folder import APP_NAME, LeaderState
from xwheel.errors import ConfigError, NotFoundError, ScheduleError, XwheelError
from xwheel.executor.declarations import Declaration
from xwheel.model import Job
from xwheel.model.shorthand import NO_SCHEDULE
from xwheel.node.node import Node
from xwheel.storage import executors
from xwheel.storage.database.engine import Connection
from xwheel.storage.database.startup import PASSING
from xwheel.storage.jobs import JobFilter, page_jobs

logger = logging.getLogger(__name__)

WAIT_FOR_EXECUTOR_S: Final = 60
PAGE: Final = 1000


class DeclaredJobs:
    """Makes the jobs of the group of embedded jobs what code declares, in a node that need not have started."""

    def __init__(self, node: Node) -> None:
        core = node.scheduler.core
        self._db = core.db
        self._clock = core.clock
        self._manager = node.scheduler.management.jobs

    def group_id(self) -> int:
        """Return the group's id; the first call makes it."""
        now_ms = self._clock.now_ms()

        def work(conn: Connection) -> int:
            found = executors.find_group(conn, APP_NAME)
            if found is None:
                found = executors.insert_group(conn, app_name=APP_NAME, title="Embedded", now_ms=now_ms)
            return found.id

        return self._db.transaction(work)

    def apply(self, declarations: Sequence[Declaration], state: LeaderState) -> LeaderState:
        """Write what differs; return the state with the names of the jobs.

        Raises ConfigError if a job cannot be as it is declared; the message names it.
        """
        group_id = self.group_id()
        known = self._known(group_id)
        names = [one.name for one in declarations]
        for one in declarations:
            try:
                self._apply_one(one, known.get(one.name), group_id, one.name in state.retired)
            except ScheduleError as error:
                conf = one.fields["schedule_conf"]
                where = "" if error.field == "schedule_conf" else f"{error.field}: "
                raise ConfigError(f"job {one.name!r}, schedule {conf!r}: {where}{error.reason}") from None
            except PASSING:
                raise  # nothing is wrong with the job
            except XwheelError as error:
                raise ConfigError(f"job {one.name!r}: {error}") from error
        before = {*state.declared, *state.retired}
        retired = [name for name in known if name in before and name not in names]
        for name in retired:
            self._retire(known[name], is_new=name in state.declared)
        return replace(state, group_id=group_id, declared=tuple(names), retired=tuple(retired))

    def _apply_one(self, wanted: Declaration, job: Job | None, group_id: int, was_retired: bool) -> None:
        has_schedule = wanted.fields["schedule_type"] != NO_SCHEDULE
        if job is None:
            said = {"wait_for_executor_s": WAIT_FOR_EXECUTOR_S, **wanted.fields}
            values = fields_in(JobCreate(group_id=group_id, name=wanted.name, **said))
            del values["enabled"], values["glue_source"]
            try:
                self._manager.create(values, enabled=has_schedule)
            except ScheduleError:
                if wanted.fields["schedule_type"] != "ONCE":
                    raise
                job = self._manager.create(values)  # what is wrong with the time itself is refused here, too
                logger.warning("job %s: its time is over, so it does not fire", job.name)
            return
        changes = {name: value for name, value in wanted.fields.items() if getattr(job, name) != value}
        if job.enabled and not has_schedule:
            self._manager.stop(job.id)
        if changes:
            self._manager.edit(job.id, changes)
        # what a person stopped stays stopped
        if has_schedule and not job.enabled and (was_retired or job.schedule_type == NO_SCHEDULE):
            self._manager.start(job.id)

    def _retire(self, job: Job, *, is_new: bool) -> None:
        if is_new:
            text = "job %s is not declared any more: it is stopped, and stays with its runs"
            logger.warning(text, job.name)
        try:
            if job.enabled:
                self._manager.stop(job.id)
        except NotFoundError:
            logger.debug("job %s was deleted meanwhile", job.name)

    def _known(self, group_id: int) -> dict[str, Job]:
        found: dict[str, Job] = {}
        after: int | None = 0
        with self._db.read() as conn:
            while after is not None:
                page = page_jobs(conn, JobFilter(group_id=group_id), after_id=after, limit=PAGE)
                for job in page.jobs:
                    if job.name in found:
                        both = f"jobs {found[job.name].id} and {job.id}"
                        raise ConfigError(f"{both} are both called {job.name!r}: rename or delete one")
                    found[job.name] = job
                after = page.next
        return found
