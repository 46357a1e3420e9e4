"""Calendars: named days and stretches of time that jobs keep out of, or keep to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import falcon

from xwheel.api.http.body import BODY, take_query, take_table
from xwheel.api.http.resource import Resource, by_name, named, reply, reply_page
from xwheel.api.parts import ApiParts
from xwheel.api.schema.messages import NameQuery
from xwheel.api.schema.views import CalendarItem, CalendarPage, CalendarView
from xwheel.errors import FieldError, NotFoundError, ScheduleError
from xwheel.plugin.resources import Operation
from xwheel.scheduler.jobs.pause import ScheduleManager
from xwheel.storage import settings
from xwheel.storage.database.engine import Connection

MAX_CALENDAR_BYTES: Final = 60_000
"""Written out again, with blanks after commas, it still fits MariaDB's TEXT."""


class Calendars(Resource):
    """``/calendars``."""

    @Operation({200: CalendarPage}, query=NameQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List calendars by name, without their definitions."""
        query = take_query(req, NameQuery)
        with self.db.read() as conn:
            known = settings.calendars_version(conn)
        items = [CalendarItem(name=name, updated_ms=updated_ms) for name, updated_ms in known]
        reply_page(resp, CalendarPage, CalendarItem, by_name(items, query.after), query.limit, key="name")


class CalendarResource(Resource):
    """``/calendars/{name}``."""

    schedules: ScheduleManager

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._limit = min(self._limit, MAX_CALENDAR_BYTES)

    @Operation({200: CalendarView}, problems=("not-found", "invalid-field"))
    def on_get(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Return a calendar."""
        reply(resp, self._get(named(name)))

    @Operation({200: CalendarView, 201: CalendarView}, body=dict, problems=("not-found",))
    def on_put(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Write a calendar; the jobs that use it fire by it from now on."""
        name = named(name)
        definition = take_table(req, self._limit)
        with self.db.read() as conn:
            is_new = _find(conn, name) is None
        with _naming_the_body():
            self.schedules.save_calendar(name, definition)
        view = self._get(name)  # it may be deleted meanwhile
        if is_new:
            resp.location = f"/api/v1/calendars/{name}"
        reply(resp, view, 201 if is_new else 200)

    @Operation({204: None}, problems=("not-found", "conflict", "invalid-field"))
    def on_delete(self, _req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Delete a calendar that no job uses."""
        self.schedules.delete_calendar(named(name))
        resp.status = 204

    def _get(self, name: str) -> CalendarView:
        with self.db.read() as conn:
            view = _find(conn, name)
        if view is None:
            raise NotFoundError("calendar", name)
        return view


def _find(conn: Connection, name: str) -> CalendarView | None:
    definition = settings.list_calendars(conn).get(name)
    updated_ms = dict(settings.calendars_version(conn)).get(name)
    if definition is None or updated_ms is None:
        return None
    return CalendarView(name=name, definition=definition, updated_ms=updated_ms)


@contextmanager
def _naming_the_body() -> Iterator[None]:
    """Name the body where the fault is no single entry: an empty table, or a job that could not fire any more."""
    try:
        yield
    except ScheduleError as error:
        if error.field.startswith("calendar."):
            raise
        if error.field == "calendar":
            raise FieldError(BODY, error.reason) from error
        raise FieldError(BODY, f"a started job that uses this calendar could not go on: {error}") from error
