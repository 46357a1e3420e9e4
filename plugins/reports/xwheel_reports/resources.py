"""The calls: what became of runs by hour or day, and how much there is of everything."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

import falcon
from xwheel.api.http.body import take_query
from xwheel.api.http.resource import readable_groups, reply
from xwheel.errors import FieldError, OutageError, PluginError
from xwheel.plugin import Operation, OwnsJobs, PluginDatabase, PluginSite
from xwheel.plugin.validation import guarded
from xwheel.storage import settings
from xwheel.storage.retention import DAY_MS

from xwheel_reports import storage
from xwheel_reports.messages import BucketView, CountsView, OverviewView, ReportBy, ReportQuery, ReportView

logger = logging.getLogger(__name__)

SPAN_MS: Final = {ReportBy.HOUR: DAY_MS, ReportBy.DAY: 30 * DAY_MS}
MAX_SPAN_MS: Final = 400 * DAY_MS


class ReportResource:
    """``/reports``.

    Args:
        site: What the plugin works with.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    @Operation({200: ReportView}, query=ReportQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count runs by what became of them, for each hour or day in which they were due."""
        query = take_query(req, ReportQuery)
        now_ms = self._site.now_ms()
        if query.to_ms is not None:
            to_ms = query.to_ms
        elif query.from_ms is not None and query.from_ms >= now_ms:
            to_ms = query.from_ms + SPAN_MS[query.by]
        else:
            to_ms = now_ms
        from_ms = max(1, to_ms - SPAN_MS[query.by]) if query.from_ms is None else query.from_ms
        if to_ms <= from_ms:
            raise FieldError("to_ms", "must be later than from_ms")
        if to_ms - from_ms > MAX_SPAN_MS:
            raise FieldError("from_ms", f"must be at most {MAX_SPAN_MS // DAY_MS} days before to_ms")
        groups = readable_groups()
        with self._site.database.read() as conn:
            found = storage.list_report(
                conn,
                from_ms,
                to_ms,
                group_id=query.group_id,
                job_id=query.job_id,
                by=query.by.value,
                limit=query.limit,
                groups=groups,
            )
            totals = storage.get_totals(
                conn, from_ms, to_ms, group_id=query.group_id, job_id=query.job_id, groups=groups
            )
        items = [BucketView(from_ms=bucket.from_ms, counts=CountsView(**bucket.counts._asdict())) for bucket in found]
        reply(resp, ReportView(from_ms=from_ms, to_ms=to_ms, items=items, totals=CountsView(**totals._asdict())))


class OverviewResource:
    """``/overview``.

    Args:
        site: What the plugin works with.
    """

    def __init__(self, site: PluginSite) -> None:
        self._site = site

    @Operation({200: OverviewView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count groups, executors, jobs and open runs, and what became of the runs of the last 24 hours."""
        del req
        now_ms = self._site.now_ms()
        groups = readable_groups()
        with self._site.database.read() as conn:
            found = storage.get_overview(conn, groups)
            day = storage.get_totals(conn, now_ms - DAY_MS, now_ms + 1, groups=groups)
            paused = settings.find_setting(conn, settings.PAUSED)
        conflicts = count_conflicts(self._site.offering(OwnsJobs), self._site.database, groups)
        live = self._site.executors.live()
        view = OverviewView(
            **found._asdict(),
            executors=sum(groups is None or item.group_id in groups for item in live),
            declaration_conflicts=conflicts,
            paused_since_ms=None if paused is None else int(paused),
            last_day=CountsView(**day._asdict()),
        )
        reply(resp, view)


def count_conflicts(owners: Iterable[OwnsJobs], database: PluginDatabase, groups: Collection[int] | None) -> int:
    """Return how many groups, of some or of all, have executors that contradict each other about their jobs.

    Of plugins that own jobs, one that fails counts none.
    """
    count = 0
    for owner in owners:
        what = f"resources {getattr(owner, 'name', type(owner).__name__)}"
        try:
            # a connection for each: what one asks may fail on it
            with database.read() as conn:
                ask = partial(owner.conflicts, conn, groups)
                found = guarded(what, ask, allowed=(OutageError, PluginError))
        except PluginError as error:
            logger.error("%s", error)
            continue
        count += found if type(found) is int else 0
    return count
