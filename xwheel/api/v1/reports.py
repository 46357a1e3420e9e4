"""Figures: what became of runs by hour or day, and how much there is of everything."""

from __future__ import annotations

from typing import Final

import falcon

from xwheel.api.http.body import take_query
from xwheel.api.http.resource import Resource, readable_groups, reply
from xwheel.api.schema.messages import ReportBy, ReportQuery
from xwheel.api.schema.views import BucketView, CountsView, OverviewView, ReportView
from xwheel.errors import FieldError
from xwheel.plugin.resources import Operation
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.scheduler.jobs.owners import JobOwners
from xwheel.scheduler.jobs.pause import ScheduleManager
from xwheel.storage import reports

SPAN_MS: Final = {ReportBy.HOUR: reports.DAY_MS, ReportBy.DAY: 30 * reports.DAY_MS}
MAX_SPAN_MS: Final = 400 * reports.DAY_MS


class Reports(Resource):
    """``/reports``."""

    @Operation({200: ReportView}, query=ReportQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count runs by what became of them, for each hour or day in which they were due."""
        query = take_query(req, ReportQuery)
        now_ms = self.clock.now_ms()
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
            raise FieldError("from_ms", f"must be at most {MAX_SPAN_MS // reports.DAY_MS} days before to_ms")
        groups = readable_groups()
        with self.db.read() as conn:
            found = reports.list_report(
                conn,
                from_ms,
                to_ms,
                group_id=query.group_id,
                job_id=query.job_id,
                by=query.by.value,
                limit=query.limit,
                groups=groups,
            )
            totals = reports.get_totals(
                conn, from_ms, to_ms, group_id=query.group_id, job_id=query.job_id, groups=groups
            )
        items = [
            BucketView(from_ms=bucket.from_ms, counts=CountsView(**bucket.counts._asdict()))
            for bucket in found
        ]
        reply(
            resp,
            ReportView(from_ms=from_ms, to_ms=to_ms, items=items, totals=CountsView(**totals._asdict())),
        )


class OverviewResource(Resource):
    """``/overview``."""

    registry: ExecutorRegistry
    owners: JobOwners
    schedules: ScheduleManager

    @Operation({200: OverviewView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Count groups, executors, jobs and open runs, and what became of the runs of the last 24 hours."""
        del req
        now_ms = self.clock.now_ms()
        groups = readable_groups()
        with self.db.read() as conn:
            found = reports.get_overview(conn, groups)
            day = reports.get_totals(conn, now_ms - reports.DAY_MS, now_ms + 1, groups=groups)
        live = self.registry.all(now_ms)
        view = OverviewView(
            **found._asdict(),
            executors=sum(groups is None or item.group_id in groups for item in live),
            declaration_conflicts=self.owners.conflicts(groups),
            paused_since_ms=self.schedules.paused_since_ms(),
            last_day=CountsView(**day._asdict()),
        )
        reply(resp, view)
