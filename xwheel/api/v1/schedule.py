"""Schedules: when one would fire, and the pause of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import falcon

from xwheel import cron
from xwheel.api.http.body import fields_in, rules_of, take_body, take_query
from xwheel.api.http.resource import Resource, readable_groups, reply, view_of
from xwheel.api.schema.messages import JobCreate, Nothing, PreviewQuery, WordsQuery
from xwheel.api.schema.views import DueView, JobWords, JobWordsView, PauseView, PreviewView, WordsView
from xwheel.errors import FieldError, ScheduleError, UnknownNameError
from xwheel.model import Job
from xwheel.model.jobs import check_period, draft_job
from xwheel.plugin.resources import Operation
from xwheel.scheduler.jobs.pause import ScheduleManager
from xwheel.scheduler.timetable import MAX_SEARCH_MS, CalendarCache, Timetable
from xwheel.storage import jobs

DIALECTS: Final = {"CRON": "quartz", "UNIX_CRON": "unix"}
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Preview(Resource):
    """``/schedule/preview``."""

    calendars: CalendarCache
    timetable: Timetable

    @Operation({200: PreviewView}, query=PreviewQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return the next due times of a schedule."""
        query = take_query(req, PreviewQuery)
        now_ms = self.clock.now_ms()
        check_calendars(self.calendars, fields_in(query))
        with naming_schedule_fields():
            place = cron.zone(query.timezone)
            given = {name: value for name, value in fields_in(query).items() if name not in {"from_ms", "count"}}
            job = draft_job(fields_in(JobCreate(group_id=1, name="preview", **given)), now_ms)
            after_ms = now_ms if query.from_ms is None else query.from_ms
            found = _due_times(self.timetable, job, after_ms, query.count)
            items = [DueView(due_ms=due_ms, local=_local(due_ms, place)) for due_ms in found]
            description = _describe(query.schedule_type, query.schedule_conf, query.timezone)
        reply(resp, PreviewView(items=items, description=description))


class Words(Resource):
    """``/schedule/words``."""

    @Operation({200: JobWordsView}, query=WordsQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return the schedules of jobs in words."""
        wanted, groups = take_query(req, WordsQuery).job_id, readable_groups()
        with self.db.read() as conn:
            known = jobs.get_jobs(conn, set(wanted), deleted=False)
        found = [known[job_id] for job_id in dict.fromkeys(wanted) if job_id in known]
        items = [_words_of(job) for job in found if groups is None or job.group_id in groups]
        reply(resp, JobWordsView(items=items))


class Pause(Resource):
    """``/schedule/pause``: while it is there, no schedule of any job fires."""

    schedules: ScheduleManager

    @Operation({200: PauseView})
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Tell since when schedules are paused."""
        reply(resp, PauseView(paused_since_ms=self.schedules.paused_since_ms()))

    @Operation({200: PauseView}, body=Nothing, is_body_optional=True)
    def on_put(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Pause all schedules; nothing changes if they are paused already."""
        take_body(req, Nothing, self._limit, optional=True)
        reply(resp, PauseView(paused_since_ms=self.schedules.pause()))

    @Operation({204: None})
    def on_delete(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Let schedules fire again; nothing changes if they do already."""
        self.schedules.resume()
        resp.status = 204


def check_calendars(book: CalendarCache, values: Mapping[str, Any]) -> None:
    """Raise FieldError, which names the field of a job, if values name a calendar which does not exist."""
    known = book.current()
    for field in ("calendar_exclude", "calendar_require"):
        for name in values.get(field, ()):
            if name not in known:
                raise FieldError(field, f"no calendar is called {name}; known: {', '.join(sorted(known)) or 'none'}")


@contextmanager
def naming_schedule_fields() -> Iterator[None]:
    """Raise ScheduleErrors of fields that clients know, instead of those of parts of an expression, such as ``hour``.

    Also instead of what :mod:`datetime` raises beyond the year 9999.
    """
    try:
        yield
    except (ValueError, OverflowError) as error:
        raise ScheduleError("schedule_conf", f"leads beyond the year 9999: {error}") from error
    except ScheduleError as error:
        if error.field in rules_of(JobCreate):
            raise
        raise ScheduleError("schedule_conf", str(error)) from error


def _due_times(timetable: Timetable, job: Job, after_ms: int, count: int) -> Sequence[int]:
    """Return due times; with calendars not further than ten years, which bounds the search as a whole.

    Raises ScheduleError if there can be none at all, and FieldError if the schedule type is not installed.
    """
    check_period(job)
    last_ms = max(after_ms, job.start_ms or 0) + MAX_SEARCH_MS
    has_calendars = bool(job.calendar_exclude or job.calendar_require)
    found: list[int] = []
    try:
        timetable.check(job)
        while len(found) < count:
            due_ms = timetable.next_fire(job, found[-1] if found else after_ms)
            if due_ms is None or (has_calendars and due_ms > last_ms):
                break
            found.append(due_ms)
    except UnknownNameError as error:
        raise FieldError("schedule_type", str(error)) from error
    except ScheduleError:
        if not found:
            raise
    return found


def _local(due_ms: int, place: ZoneInfo) -> str:
    moment = (EPOCH + timedelta(milliseconds=due_ms)).astimezone(place)
    return moment.isoformat(timespec="milliseconds" if due_ms % 1000 else "seconds")


def _describe(schedule_type: str, schedule_conf: str, timezone: str) -> WordsView | None:
    dialect = DIALECTS.get(schedule_type)
    if dialect is None:
        return None
    schedule = cron.parse(schedule_conf, dialect, timezone)
    return WordsView(en=schedule.describe("en"), zh=schedule.describe("zh"))


def _words_of(job: Job) -> JobWords:
    try:
        description = _describe(job.schedule_type, job.schedule_conf, job.timezone)
    except ScheduleError:  # such as a zone that this machine does not know
        description = None
    return view_of(JobWords, job, job_id=job.id, description=description)
