"""The calls: how jobs ran lately, and which fire next."""

from __future__ import annotations

from typing import Final

import falcon
import msgspec
from xwheel.api.http.body import take_query
from xwheel.api.http.resource import readable_groups, reply
from xwheel.plugin import Operation, PluginDatabase
from xwheel.storage.database.rows import groups_among
from xwheel.storage.jobs import find_names

from xwheel_reports.messages import (
    RecentItem,
    RecentQuery,
    RecentRun,
    RecentView,
    UpcomingItem,
    UpcomingPage,
    UpcomingQuery,
)
from xwheel_reports.recent import list_last_runs, list_next_fires

LAST: Final = 20
"""Runs of each job that are shown as its last ones."""


class RecentResource:
    """``/jobs/recent``."""

    def __init__(self, database: PluginDatabase) -> None:
        self._database = database

    @Operation({200: RecentView}, query=RecentQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Return the last runs of jobs, 20 of each at most, newest first."""
        wanted, groups = take_query(req, RecentQuery).job_id, readable_groups()
        with self._database.read() as conn:
            known = find_names(conn, set(wanted), groups)
            found = list_last_runs(conn, known, LAST)
        items = [
            RecentItem(
                job_id=job_id,
                runs=[
                    msgspec.convert(run._asdict(), RecentRun)
                    for run in found.get(job_id, ())
                    if groups is None or run.group_id in groups
                ],
            )
            for job_id in dict.fromkeys(wanted)
            if job_id in known
        ]
        reply(resp, RecentView(items=items))


class UpcomingResource:
    """``/schedule/upcoming``."""

    def __init__(self, database: PluginDatabase) -> None:
        self._database = database

    @Operation({200: UpcomingPage}, query=UpcomingQuery)
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List when started jobs fire next, soonest first: one fire of each."""
        query = take_query(req, UpcomingQuery)
        groups = groups_among(readable_groups(), query.group_id)
        with self._database.read() as conn:
            found = list_next_fires(conn, query.until_ms, query.limit, groups)
        reply(resp, UpcomingPage(items=[UpcomingItem(**fire._asdict()) for fire in found]))
