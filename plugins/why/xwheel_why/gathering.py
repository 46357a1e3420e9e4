"""Gather what rows say about one due time of a job: few questions, each answered from an index.

Rows are read in two steps, and the schedule is asked between them, while no connection is held: a schedule type is a
plugin, and may take its time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Connection
from xwheel.api.http.resource import readable_groups
from xwheel.errors import NotFoundError, PluginError, ScheduleError, XwheelError
from xwheel.model import Job, Origin, Run, RunState
from xwheel.model.versions import JobAction, JobVersion, definition_of
from xwheel.plugin import PluginSite
from xwheel.plugin.validation import LAST_MS, NEAR_MS
from xwheel.scheduler.timetable import Timetable
from xwheel.storage import executors, jobs, leases, open_runs, runs, settings
from xwheel.storage.retention import DAY_MS, LEAST_DAYS

from xwheel_why import storage
from xwheel_why.audit import PAUSED, AuditAccess, AuditReader
from xwheel_why.due_times import Ask, calendars_against, job_at, last_due, schedule_of, unlimited
from xwheel_why.facts import AuditFacts, Facts, Holder, Naming, Waiting
from xwheel_why.without_run import is_reset
from xwheel_why.words import moment

SECOND_MS: Final = 1000
MOST_VERSIONS: Final = 1000
"""Versions that are looked at, without their definitions."""

MOST_DEFINITIONS: Final = 50
"""Definitions that are read on each side of a time, with parameters of up to 64 KiB."""

AWAITING: Final = "awaits_completion"
SCHEDULE_TYPES: Final = "xwheel_register_schedule_types"
JITTER: Final = Timetable({})
"""Asked for the jitter of fires alone."""


class Gatherer:
    """Gathers facts for the caller that is being answered.

    Args:
        site: What the plugin works with.
        run_days: How many days finished runs are kept, 0 for ever; jobs may say otherwise.
    """

    def __init__(self, site: PluginSite, run_days: int) -> None:
        self._site = site
        self._run_days = run_days
        self._audit = AuditReader(site)

    def gather(self, job_id: int, asked_ms: int | None) -> Facts:
        """Return what rows say about the due time of a job at an instant, or about its last one that has passed.

        Raises:
            NotFoundError: There is no such job, and none that was deleted and still has runs.
        """
        now_ms = self._site.now_ms()
        with self._site.database.read() as conn:
            known = _Known(conn, job_id, asked_ms, now_ms)
        due = _DueTime(known, self._ask_of, self._awaits)
        with self._site.database.read() as conn:
            return self._facts(conn, known, due)

    def _awaits(self, job: Job) -> bool:
        kind = self._site.registered(SCHEDULE_TYPES).get(job.schedule_type)
        return getattr(kind, AWAITING, False) is True

    def _ask_of(self, job: Job) -> Ask:
        return partial(self._site.job_writer.next_fire, job)

    def _facts(self, conn: Connection, known: _Known, due: _DueTime) -> Facts:
        job = known.job
        rows = _Rows(conn, known, due)
        about = rows.run or rows.skip or next(iter(rows.cancelled), None)
        awaited = previous = None
        if due.awaits and about is None:
            previous = known.newest if known.newest is not None and known.shows(known.newest) else None
            if job.awaits_root is not None:
                awaited = runs.get_runs(conn, [job.awaits_root]).get(job.awaits_root)
                awaited = awaited if awaited is not None and known.shows(awaited) else None
        root = rows.run or (awaited if awaited is not None and not due.later else previous)
        fire, has_more = ([], False) if root is None else _rest_of_fire(conn, root)
        fire = [run for run in fire if known.shows(run)]
        others = [run for run in known.at_time if run.origin is not Origin.SCHEDULE]
        return Facts(
            now_ms=known.now_ms, job=job, versions=known.versions, then=due.then,
            earlier=due.earlier, job_then=due.job_then, later=due.later, asked_ms=known.asked_ms, due_ms=due.due_ms,
            naming=due.naming, awaits_completion=due.awaits, run=rows.run, skip=rows.skip, cancelled=rows.cancelled,
            others=others, fire=fire, has_more=has_more, previous=previous, awaited=awaited,
            holder=_holder(conn, job, known.now_ms), waiting=self._waiting(conn, known, rows.run),
            paused_since_ms=known.paused_since_ms, audit=self._audit_facts(conn, known, due, about),
            kept_from_ms=self._kept_from(known), is_searched=rows.is_searched, is_hidden=rows.is_hidden,
        )  # fmt: skip

    def _waiting(self, conn: Connection, known: _Known, run: Run | None) -> Waiting | None:
        if run is None or run.state is not RunState.PLANNED or run.due_ms >= known.now_ms:
            return None
        group = executors.get_groups(conn, [run.group_id]).get(run.group_id)
        return Waiting(
            live_executors=len(self._site.executors.live(run.group_id)),
            open_of_job=[one.id for one in open_runs.list_open(conn, [run.job_id])],
            open_in_group=open_runs.count_open(conn, [run.group_id]).get(run.group_id, 0),
            max_running=0 if group is None else group.max_running,
        )

    def _audit_facts(self, conn: Connection, known: _Known, due: _DueTime, about: Run | None) -> AuditFacts:
        access, of_all = self._audit.access(known.job.group_id), self._audit.access(None)
        kill = before = now = None
        if about is not None and access is AuditAccess.READ and _was_killed(about):
            kill = self._audit.newest(conn, "run", about.id)
        if of_all is AuditAccess.READ:
            at_ms = due.due_ms or known.asked_ms or known.now_ms
            before = self._audit.newest(conn, "schedule", "all", to_ms=at_ms + 1)
            if known.paused_since_ms is not None:
                now = self._audit.newest(conn, "schedule", "all")
        is_pause = before is not None and before.action == PAUSED
        return AuditFacts(
            access=access, kill=kill, pauses_access=of_all, pause=before if is_pause else None, present_pause=now
        )

    def _kept_from(self, known: _Known) -> int | None:
        days = known.job.retention_days or self._run_days
        return known.now_ms - max(LEAST_DAYS, days) * DAY_MS if days else None


class _Known:
    """What is known before the schedule is asked: the job, its versions, calendars, and runs at the time itself."""

    def __init__(self, conn: Connection, job_id: int, asked_ms: int | None, now_ms: int) -> None:
        found = jobs.get_jobs(conn, {job_id}).get(job_id)
        if found is None:
            raise NotFoundError("job", job_id)
        self.job, self.asked_ms, self.now_ms = found, asked_ms, now_ms
        self.groups = readable_groups()
        listed = storage.list_versions(conn, job_id, MOST_VERSIONS)
        self.definitions: dict[int, JobVersion] = {}
        self.versions = _with_present(listed, found, self.definitions)
        self.read_around(conn, asked_ms or now_ms)
        paused = settings.find_setting(conn, settings.PAUSED)
        self.paused_since_ms = None if paused is None else int(paused)
        self.calendars: Mapping[str, Mapping[str, Any]] = {}
        self.calendar_times: Mapping[str, int] = {}
        names = {name for one in self.definitions.values() for name in _calendar_names(one.definition)}
        if names:
            self.calendars = settings.list_calendars(conn)
            self.calendar_times = storage.get_calendar_times(conn, names)
        self.newest = storage.find_newest_fire(conn, job_id, now_ms if asked_ms is None else asked_ms)
        self.at_time: Sequence[Run] = ()
        if asked_ms is not None:
            due = storage.list_due(conn, job_id, asked_ms, asked_ms + width_of(asked_ms))
            self.at_time = [run for run in due if self.shows(run)]

    def shows(self, run: Run) -> bool:
        """Return whether the caller may read a run: those of before its job moved belong to the group of then."""
        return self.groups is None or run.group_id in self.groups

    def read_around(self, conn: Connection, at_ms: int) -> None:
        """Read the definitions of the versions around a time that are not there yet."""
        before = [one.revision for one in self.versions if one.at_ms < at_ms][:MOST_DEFINITIONS]
        after = [one.revision for one in reversed(self.versions) if one.at_ms >= at_ms][:MOST_DEFINITIONS]
        wanted = {*before, *after} - self.definitions.keys()
        self.definitions.update(storage.get_versions(conn, self.job.id, wanted))

    def at(self, at_ms: int) -> tuple[JobVersion | None, Sequence[JobVersion], Sequence[JobVersion]]:
        """Return the version that was valid at an instant, it and those before, and those after; with definitions.

        What is due at an instant was planned before, so a change at that very instant comes too late.
        """
        whole = [self.definitions[one.revision] for one in self.versions if one.revision in self.definitions]
        valid = next((one for one in self.versions if one.at_ms < at_ms), None)
        earlier = [one for one in whole if valid is not None and one.revision <= valid.revision]
        later = [one for one in reversed(whole) if one.at_ms >= at_ms]
        return (earlier[0] if earlier and valid == _bare(earlier[0]) else None), earlier, later


class _DueTime:
    """The due time that is explained, and what the schedule says of the time that was asked for."""

    def __init__(self, known: _Known, ask_of: Callable[[Job], Ask], awaits: Callable[[Job], bool]) -> None:
        self._known, self._ask_of, self._awaits = known, ask_of, awaits
        self.error = ""
        self._has_failed = False
        asked_ms = known.asked_ms
        self.place(asked_ms or known.now_ms + 1)
        self.awaits = awaits(self.job_then or known.job)
        if self.awaits:
            self.due_ms = self._due_of_delay()
            is_named = self.due_ms is not None and self.due_ms == known.job.next_fire_ms
            before_ms = known.newest.planned_ms if known.newest is not None else None
            after_ms = known.job.next_fire_ms if (known.job.next_fire_ms or 0) > (asked_ms or known.now_ms) else None
            self.naming = Naming(is_named=is_named, before_ms=before_ms, after_ms=after_ms)
        elif asked_ms is None:
            self.due_ms = self._last()
            after_ms = None if self.due_ms is not None else self._after(known.now_ms)
            self.naming = Naming(
                is_named=self.due_ms is not None,
                error=self.error if self.due_ms is None else "",
                after_ms=after_ms,
                changed_calendars=self._changed(self.due_ms or known.now_ms),
            )
        else:
            self._name(asked_ms)
        if self.due_ms is not None:
            self.place(self.due_ms)

    def place(self, at_ms: int) -> None:
        """Take the versions around a time."""
        self.then, self.earlier, self.later = self._known.at(at_ms)
        self.job_then = None if self.then is None else self._job_of(self.then)

    def _job_of(self, version: JobVersion) -> Job | None:
        try:
            return job_at(self._known.job, version.definition)
        except msgspec.ValidationError as error:
            self.error = f"version {version.revision} of the job cannot be read here: {error}"
            return None

    def _due_of_delay(self) -> int | None:
        """Return the due time of a schedule that waits for its runs: of a row, or the next one."""
        known = self._known
        next_ms = known.job.next_fire_ms
        if known.asked_ms is not None:
            of_row = next((run.planned_ms for run in known.at_time if run.origin is Origin.SCHEDULE), None)
            is_next = next_ms is not None and 0 <= next_ms - known.asked_ms < width_of(known.asked_ms)
            return next_ms if is_next else of_row
        if next_ms is not None and next_ms <= known.now_ms:
            return next_ms
        is_waiting = known.job.awaits_root is not None or not known.job.enabled
        return None if is_waiting or known.newest is None else known.newest.planned_ms

    def _last(self) -> int | None:
        """Return the last due time that has passed: of a row or of a schedule, whether the job was started or not."""
        known = self._known
        of_row = known.newest.skip_last_ms or known.newest.planned_ms if known.newest is not None else None
        of_row = of_row if of_row is not None and of_row <= known.now_ms else None
        named = self._before(known.now_ms + 1)
        return max((ms for ms in (of_row, named) if ms is not None), default=None)

    def _name(self, asked_ms: int) -> None:
        known, end_ms = self._known, asked_ms + width_of(asked_ms)
        of_row = next((run.planned_ms for run in known.at_time if run.origin is Origin.SCHEDULE), None)
        named = self._first(self.job_then, asked_ms - 1, end_ms)
        self.due_ms = named if named is not None else of_row
        if self.due_ms is not None:
            self.naming = Naming(is_named=named is not None, changed_calendars=self._changed(self.due_ms))
            return
        error, self.error = self.error, ""
        outside, against = self._refused(asked_ms, end_ms)
        before_ms, after_ms = self._before(asked_ms), self._after(asked_ms)
        self.naming = Naming(
            outside=outside, calendars=against, changed_calendars=self._changed(asked_ms) if against else {},
            error=error or self.error if before_ms is None and after_ms is None else "", before_ms=before_ms,
            after_ms=after_ms,
        )  # fmt: skip

    def _refused(self, asked_ms: int, end_ms: int) -> tuple[str, Sequence[str]]:
        """Return what keeps the schedule from naming a time that it names otherwise: a field, or calendars."""
        job = self.job_then
        found = None if job is None else self._first(unlimited(job), asked_ms - 1, end_ms)
        if job is None or found is None:
            return "", ()
        if job.start_ms is not None and found < job.start_ms:
            return "start_ms", ()
        if job.end_ms is not None and found > job.end_ms:
            return "end_ms", ()
        try:
            return "", calendars_against(job, found, self._known.calendars)
        except (XwheelError, KeyError, ValueError, OverflowError) as error:
            self.error = f"a calendar cannot be read: {error}"
            return "", ()

    def _changed(self, at_ms: int) -> dict[str, int]:
        """Return the calendars of the job that were changed since an instant."""
        names = () if self.then is None else _calendar_names(self.then.definition)
        times = self._known.calendar_times
        return {name: times[name] for name in names if times.get(name, 0) >= at_ms}

    def _before(self, at_ms: int) -> int | None:
        """Return the last due time before an instant, of the versions that were valid until then."""
        high_ms = at_ms - 1
        segment: tuple[Job, int] | None = None
        for version in self.earlier:
            job = self._job_of(version)
            if job is None:
                break
            if segment is not None and schedule_of(segment[0]) != schedule_of(job):
                if (found := self._last_of(*segment, high_ms)) is not None:
                    return found
                high_ms = min(high_ms, segment[1])
            segment = (job, version.at_ms)
        found = None if segment is None else self._last_of(*segment, high_ms)
        if found is None and self.earlier and self.earlier[-1].revision > self._known.versions[-1].revision:
            self.error = self.error or f"versions of the job before {moment(self.earlier[-1].at_ms)} were not searched"
        return found

    def _last_of(self, job: Job, low_ms: int, high_ms: int) -> int | None:
        if high_ms <= low_ms or self._awaits(job):
            return None
        end_ms = high_ms if job.end_ms is None else min(high_ms, job.end_ms)
        # else what calendars leave out would be searched for years beyond
        ask = self._ask_of(msgspec.structs.replace(job, end_ms=end_ms))
        return self._asked(lambda: last_due(ask, low_ms, high_ms))

    def _after(self, at_ms: int) -> int | None:
        """Return the first due time after an instant, of the versions that are valid from then on."""
        chain = [self.then, *self.later] if self.then is not None else list(self.later)
        for place, version in enumerate(chain):
            job = self._job_of(version)
            until_ms = chain[place + 1].at_ms if place + 1 < len(chain) else None
            found = None if job is None else self._first(job, max(at_ms, version.at_ms), None)
            if found is not None and (until_ms is None or found <= until_ms):
                return found
        return None

    def _first(self, job: Job | None, after_ms: int, end_ms: int | None) -> int | None:
        """Return the first due time after an instant and before ``end_ms``, or None."""
        if job is None or self._awaits(job):
            return None
        if end_ms is not None:
            job = msgspec.structs.replace(job, end_ms=min(end_ms - 1, job.end_ms or end_ms))
        return self._asked(partial(self._ask_of(job), after_ms))

    def _asked(self, ask: Callable[[], int | None]) -> int | None:
        if self._has_failed:
            return None  # one that hangs would cost its time limit with each question
        try:
            return ask()
        except (XwheelError, ValueError, OverflowError) as error:
            at_ms = self._known.asked_ms or self._known.now_ms
            # calendars may leave nothing for years, and the last due time before the year 10000 has none after it
            is_end = isinstance(error, ScheduleError) and (
                error.field.startswith("calendar_") or at_ms > LAST_MS - NEAR_MS
            )
            self.error = self.error if is_end else str(error)
            self._has_failed = isinstance(error, PluginError)
            return None


class _Rows:
    """The rows of a due time: its run, the skip row that covers it, and cancelled runs of it."""

    def __init__(self, conn: Connection, known: _Known, due: _DueTime) -> None:
        self.run: Run | None = None
        self.skip: Run | None = None
        self.cancelled: Sequence[Run] = ()
        self.is_searched = True
        self.is_hidden = False
        if due.due_ms is not None:
            self.run = runs.find_run(conn, (known.job.id, str(Origin.SCHEDULE), due.due_ms, 0))
            if self.run is None:
                self._search(conn, known, due, due.due_ms)
        elif known.at_time:
            # no fire of the schedule: a run by hand, a child's, a retry
            self.run = known.at_time[0]
        found = [run for run in (self.run, self.skip, *self.cancelled) if run is not None]
        if not all(map(known.shows, found)):
            self.is_hidden, self.run, self.skip, self.cancelled = True, None, None, ()

    def _search(self, conn: Connection, known: _Known, due: _DueTime, due_ms: int) -> None:
        job_id = known.job.id
        jitters = {int(one.definition.get("jitter_ms", 0)) for one in (*due.earlier, *due.later)} | {0}
        times = {JITTER.due_ms(msgspec.structs.replace(known.job, jitter_ms=most), due_ms) for most in jitters}
        near = [run for at_ms in sorted(times) for run in storage.list_due(conn, job_id, at_ms, at_ms + 1)]
        found = {run.id: run for run in near if _is_fire(run, due_ms)}
        end = next((one for one in due.later if one.action == JobAction.PAUSE or is_reset(due.then, one)), None)
        if not found and end is not None:
            # a fire that was planned late is due when it was planned, and was cancelled by a later change
            late = storage.list_due(conn, job_id, due_ms, end.at_ms + 1)
            found = {run.id: run for run in late if _is_fire(run, due_ms)}
        self.cancelled = sorted(found.values(), key=lambda run: (run.finished_ms or 0, run.id), reverse=True)
        page = storage.page_skipped(conn, job_id, due_ms)
        self.skip = next((run for run in page.runs if run.planned_ms <= due_ms <= (run.skip_last_ms or 0)), None)
        self.is_searched = self.skip is not None or page.next is None


def width_of(asked_ms: int) -> int:
    """Return how many milliseconds a time stands for: a whole second, for times without milliseconds."""
    return 1 if asked_ms % SECOND_MS else SECOND_MS


def _with_present(listed: Sequence[JobVersion], job: Job, definitions: dict[int, JobVersion]) -> Sequence[JobVersion]:
    """Return the versions with one for the job's row where no version has its revision: an older xwheel wrote none."""
    if listed and listed[0].revision >= job.revision:
        return listed
    whole = JobVersion(
        job_id=job.id, revision=job.revision, at_ms=job.updated_ms, actor_kind="unknown", actor="",
        action=str(JobAction.FOUND), reason="", glue_version=job.glue_version, definition=definition_of(job),
    )  # fmt: skip
    definitions[job.revision] = whole
    return [_bare(whole), *listed]


def _bare(version: JobVersion) -> JobVersion:
    return msgspec.structs.replace(version, definition={})


def _calendar_names(definition: Mapping[str, Any]) -> list[str]:
    return [*definition.get("calendar_exclude", ()), *definition.get("calendar_require", ())]


def _is_fire(run: Run, due_ms: int) -> bool:
    return run.origin is Origin.SCHEDULE and run.planned_ms == due_ms and run.state is RunState.CANCELLED


def _rest_of_fire(conn: Connection, run: Run) -> tuple[list[Run], bool]:
    """Return the other runs of a run's fire, oldest first, and whether there are more."""
    page = storage.page_fire(conn, run.root_id)
    others = [other for other in page.runs if other.id != run.id]
    return sorted(others, key=lambda other: (other.created_ms, other.id)), page.next is not None


def _was_killed(run: Run) -> bool:
    return run.kill_requested or run.reason == "killed_by_user"


def _holder(conn: Connection, job: Job, now_ms: int) -> Holder:
    owner = next((one.owner for one in leases.list_leases(conn) if one.partition == job.partition), None)
    node = next((one for one in leases.list_nodes(conn) if one.id == owner), None)
    if node is None:
        return Holder(partition=job.partition, node=owner)
    is_alive = node.until_ms > now_ms
    return Holder(partition=job.partition, node=owner, is_alive=is_alive, started_ms=node.started_ms)
