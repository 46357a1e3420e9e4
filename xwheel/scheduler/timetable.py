"""When jobs fire: schedule types, start and end, calendars and jitter put together.

All but :class:`CalendarCache` is a function of the job, the calendars and the time.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final, TypeVar

from xwheel.calendars import Calendar, parse_calendar
from xwheel.cron import zone
from xwheel.errors import PluginError, ScheduleError, UnknownNameError
from xwheel.model import Job
from xwheel.plugin import ScheduleSpec, ScheduleType
from xwheel.plugin.questions import PluginQuestion, PluginQuestions
from xwheel.plugin.validation import guarded, next_due
from xwheel.storage import settings
from xwheel.storage.database.engine import Connection, Database

T = TypeVar("T")

# a job whose calendars forbid this much is a mistake: ten years of single days, or a day of single seconds
MAX_TRIES: Final = 4000
MAX_SEARCH_MS: Final = 10 * 366 * 86_400_000
REFRESH_MS: Final = 1000


class CalendarCache:
    """The calendars as they stand in the database, parsed once for each change.

    Thread-safety: the mapping is replaced, never changed, so readers need no lock.
    """

    def __init__(self, db: Database) -> None:
        self._db = db
        self._version: tuple[tuple[str, int], ...] = ()
        self._parsed: Mapping[str, Calendar] = {}

    def current(self) -> Mapping[str, Calendar]:
        """Return the calendars by name."""
        return self._parsed

    def step(self, now_ms: int) -> int:
        """See what other processes changed; return how long to wait in milliseconds."""
        del now_ms
        with self._db.read() as conn:
            self.read(conn)
        return REFRESH_MS

    def read(self, conn: Connection) -> None:
        """Take the calendars as this connection sees them."""
        version = settings.calendars_version(conn)
        if version != self._version:
            definitions = settings.list_calendars(conn)
            self._parsed = {name: parse_calendar(definition) for name, definition in definitions.items()}
            self._version = version


class Timetable:
    """Answers when a job fires next, by the calendars as they stand then."""

    def __init__(
        self, types: Mapping[str, ScheduleType], calendars: Callable[[], Mapping[str, Calendar]] = dict
    ) -> None:
        self._types, self._calendars = types, calendars
        # many fires of one job are asked for in a row
        self._last: tuple[Job, ScheduleSpec] | None = None
        # settled here: an attribute of a plugin may be code, too
        asked = {name: getattr(kind, "awaits_completion", False) for name, kind in types.items()}
        self._awaiting = {name for name, answer in asked.items() if answer is True}

    def next_fire(self, job: Job, after_ms: int) -> int | None:
        """Return the first due time strictly after an instant, inside start, end and calendars.

        Raises UnknownNameError if the schedule type is not installed, PluginError if it fails or returned what is no
        due time, and ScheduleError if the configuration cannot be understood, a calendar is not there, or the
        calendars leave nothing for years.
        """
        if job.start_ms is not None:
            after_ms = max(after_ms, job.start_ms - 1)
        last = self._last
        if last is None or last[0] is not job:
            last = self._last = (job, spec_of(job))
        name, spec = job.schedule_type, last[1]
        kind = self._types[name]
        if not job.calendar_exclude and not job.calendar_require:
            return _before_end(job, next_due(name, kind, spec, after_ms))
        rules = [(self._calendar("calendar_exclude", name), False) for name in job.calendar_exclude]
        rules += [(self._calendar("calendar_require", name), True) for name in job.calendar_require]
        place = zone(job.timezone)
        search_end_ms = after_ms + MAX_SEARCH_MS
        for _ in range(MAX_TRIES):
            due_ms = _before_end(job, next_due(name, kind, spec, after_ms))
            if due_ms is None:
                return None
            if due_ms > search_end_ms:
                break
            moment = datetime.fromtimestamp(due_ms / 1000, place).replace(tzinfo=None)
            against = [calendar for calendar, wanted in rules if calendar.covers(moment) is not wanted]
            if not against:
                return due_ms
            # nothing before the farthest edge can do; a fold or gap of the clock there costs a few more tries
            edge = max(calendar.until(moment) for calendar in against).replace(tzinfo=place)
            after_ms = max(due_ms, int(edge.astimezone(UTC).timestamp() * 1000) - 1)
        field = "calendar_exclude" if job.calendar_exclude else "calendar_require"
        raise ScheduleError(field, f"leave no due time for ten years (job {job.id})")

    def due_ms(self, job: Job, planned_ms: int) -> int:
        """Return when a fire shall be sent: its planned time plus the job's jitter.

        The jitter is a fixed number from 0 to ``jitter_ms`` for each fire, so that planning twice gives the same.
        """
        if job.jitter_ms <= 0:
            return planned_ms
        return planned_ms + zlib.crc32(b"%d/%d" % (job.id, planned_ms)) % (job.jitter_ms + 1)

    def awaits_completion(self, job: Job) -> bool:
        """Return whether the next fire is set when the last one ends."""
        # a type that is not installed fails where its next fire is asked for, after the present one is planned
        return job.schedule_type in self._awaiting

    def check(self, job: Job) -> None:
        """Refuse a schedule that cannot work; raises ScheduleError, which names the job's field and what is allowed."""
        zone(job.timezone)
        for field in ("calendar_exclude", "calendar_require"):
            for name in getattr(job, field):
                self._calendar(field, name)
        kind = self._types[job.schedule_type]
        what = f"schedule type {job.schedule_type}"
        try:
            guarded(what, lambda: kind.check(spec_of(job)), allowed=ScheduleError)
        except PluginError as error:
            raise ScheduleError("schedule_conf", str(error)) from error
        except ScheduleError as error:
            if error.field in {"schedule_conf", "timezone", "anchor_ms"}:
                raise
            # a part of the configuration, such as the hour of a cron expression
            raise ScheduleError("schedule_conf", str(error)) from error

    def preview(self, job: Job, after_ms: int, count: int) -> Sequence[int]:
        """Return the next due times, fewer if there are no more."""
        found: list[int] = []
        while len(found) < count and (due_ms := self.next_fire(job, after_ms)) is not None:
            found.append(due_ms)
            after_ms = due_ms
        return found

    def _calendar(self, field: str, name: str) -> Calendar:
        known = self._calendars()
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ScheduleError(field, f"no calendar is called {name[:64]!r}; known: {names}")
        return known[name]


class AskedTimetable(Timetable):
    """The same for threads that wait for the answer: no schedule type is asked inside a transaction, or for too long.

    Each question to one that is not trusted goes to a thread and back; planning, which asks for many jobs, has one
    thread for all of them (:mod:`xwheel.scheduler.plan.batches`).
    """

    def __init__(
        self,
        types: Mapping[str, ScheduleType],
        calendars: Callable[[], Mapping[str, Calendar]],
        trusted: Collection[str],  # names of the schedule types that are asked at once
        questions: PluginQuestions,
    ) -> None:
        super().__init__(types, calendars)
        self._trusted, self._questions = trusted, questions

    def next_fire(self, job: Job, after_ms: int) -> int | None:
        """Return the first due time strictly after an instant; one that hangs raises PluginError, too."""
        return self._questions.ask(*self._next_fire(job, after_ms))

    def need(self, jobs: Iterable[Job], after_ms: int) -> None:
        """Have the next fires of many jobs asked for at once, before a transaction asks for each."""
        self._questions.need(dict(self._next_fire(job, after_ms) for job in jobs))

    def check(self, job: Job) -> None:
        """Refuse a schedule that cannot work."""
        calendars = self._calendars()
        plain = Timetable(self._types, lambda: calendars)
        try:
            key = ("check", *_key(job), _Same(calendars))
            self._questions.ask(key, self._question(job, partial(plain.check, job)))
        except UnknownNameError:
            raise
        except PluginError as error:
            raise ScheduleError("schedule_conf", str(error)) from error

    def preview(self, job: Job, after_ms: int, count: int) -> Sequence[int]:
        """Return the next due times, fewer if there are no more; not for transactions."""
        plain = Timetable(self._types, self._calendars)
        return self._questions.ask(None, self._question(job, partial(plain.preview, job, after_ms, count)))

    def _next_fire(self, job: Job, after_ms: int) -> tuple[Hashable, PluginQuestion[int | None]]:
        # calendars may be another transaction's a moment later, so the question keeps those of this moment
        calendars = self._calendars()
        plain = Timetable(self._types, lambda: calendars)
        key = ("next", *_key(job), after_ms, _Same(calendars))
        return key, self._question(job, partial(plain.next_fire, job, after_ms))

    def _question(self, job: Job, call: Callable[[], T]) -> PluginQuestion[T]:
        name = job.schedule_type
        return PluginQuestion(f"schedule type {name}", name in self._trusted or name not in self._types, call)


class _Same:
    """A key that equals itself for one object only, and keeps it."""

    def __init__(self, item: object) -> None:
        self._item = item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other._item is self._item

    def __hash__(self) -> int:
        return id(self._item)


def _key(job: Job) -> tuple[Hashable, ...]:
    exclude, require = tuple(job.calendar_exclude), tuple(job.calendar_require)
    spec = (job.schedule_type, job.schedule_conf, job.timezone, job.anchor_ms)
    return (*spec, job.start_ms, job.end_ms, exclude, require)


def spec_of(job: Job) -> ScheduleSpec:
    """Return what a schedule type may look at."""
    return ScheduleSpec(conf=job.schedule_conf, timezone=job.timezone, anchor_ms=job.anchor_ms)


def _before_end(job: Job, due_ms: int | None) -> int | None:
    return None if due_ms is None or (job.end_ms is not None and due_ms > job.end_ms) else due_ms
