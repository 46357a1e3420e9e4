"""What the resources of the management API share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import falcon
import msgspec

from xwheel.alarms.rules import AlarmManager
from xwheel.api.http.auth import Policy
from xwheel.api.v1.health import HealthReport
from xwheel.clock import Clock
from xwheel.config.sections import ApiSection
from xwheel.errors import FieldError, NotFoundError
from xwheel.model import Run
from xwheel.plugin.discovery import Plugins
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.executors.secrets import ExecutorSecrets
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.listeners import ListenerHealth
from xwheel.scheduler.manage.dependencies import DependencyManager
from xwheel.scheduler.manage.jobs import JobManager
from xwheel.scheduler.manage.pause import ScheduleManager
from xwheel.scheduler.manage.run_now import RunNow
from xwheel.scheduler.manage.scripts import Scripts
from xwheel.scheduler.plan.timetable import CalendarCache, Timetable
from xwheel.storage.database.engine import Database
from xwheel.wire.messages import LogData

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiParts:
    """What both applications work with.

    Attributes:
        config: Limits and threads.
        secrets: What executors may show.
        health: What the node knows of itself; must not wait for anything.
        listener_health: How each run listener fares.
        fetch_log: Reads a run's log from a line on at the executor that has it.
        kill: Ends a run, or begins to.
    """

    db: Database
    clock: Clock
    config: ApiSection
    jobs: JobManager
    run_now: RunNow
    scripts: Scripts
    dependencies: DependencyManager
    registry: ExecutorRegistry
    finisher: Finisher
    timetable: Timetable
    schedules: ScheduleManager
    calendars: CalendarCache
    secrets: ExecutorSecrets
    health: Callable[[], HealthReport]
    alarms: AlarmManager
    plugins: Plugins
    listener_health: Callable[[], Sequence[ListenerHealth]]
    fetch_log: Callable[[Run, int], LogData]
    kill: Callable[[int], Run]


class Resource:
    """A resource that needs a management token.

    Args:
        parts: What it works with.
    """

    policy = Policy.TOKEN

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._db = parts.db
        self._limit = parts.config.max_body_bytes


def reply(resp: falcon.Response, view: msgspec.Struct, status: int = 200) -> None:
    """Make a message the response."""
    resp.status = status
    resp.data = msgspec.json.encode(view)


def view_of(kind: type[T], record: object) -> T:
    """Return what clients see of a record: the fields that the view names."""
    return msgspec.convert(record, kind, from_attributes=True)


def changes_of(message: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a message that the client gave or that have a default, as plain values."""
    plain: dict[str, Any] = msgspec.to_builtins(message)
    return plain


@contextmanager
def naming(field: str, kind: str) -> Iterator[None]:
    """Blame a field of the body if the object that it refers to is not there.

    Raises:
        FieldError: Instead of the NotFoundError of an object of this kind.
    """
    try:
        yield
    except NotFoundError as error:
        if error.kind != kind:
            raise
        raise FieldError(field, str(error)) from error
