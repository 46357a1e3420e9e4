"""What this plugin registers: it answers calls, and counts and deletes between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import cast

from xwheel import Config
from xwheel.plugin import Need, Of, Permission, PluginSite, ResourceRoute
from xwheel.storage.database.engine import Database

from xwheel_reports.counting import ReportLoop
from xwheel_reports.last_and_next import RecentResource, UpcomingResource
from xwheel_reports.resources import OverviewResource, ReportResource
from xwheel_reports.sweep import ReportSweep


class Reports:
    """The report of one process.

    Args:
        config: The settings.
    """

    name = "report"
    chapters: Mapping[str, str] = MappingProxyType(
        {"reports": "What became of runs, hour by hour or day by day.", "overview": "Figures for a first look."}
    )

    def __init__(self, config: Config) -> None:
        self._upkeep = config.upkeep
        self._counting: ReportLoop
        self._sweep: ReportSweep

    def resources(self, site: PluginSite) -> Sequence[ResourceRoute]:
        """Return all resources."""
        upkeep, db = self._upkeep, cast("Database", site.database)
        interval_ms = upkeep.report_interval_s * 1000
        self._counting = ReportLoop(db, site.partitions, site.clock, interval_ms=interval_ms)
        self._sweep = ReportSweep(db, site.partitions, site.clock, upkeep)
        needs = {"GET": Need(Permission.READ, Of.SOME)}
        return [
            ResourceRoute("/reports", ReportResource(site), needs),
            ResourceRoute("/overview", OverviewResource(site), needs),
            ResourceRoute("/jobs/recent", RecentResource(db), needs),
            ResourceRoute("/schedule/upcoming", UpcomingResource(db), needs),
        ]

    def step(self, now_ms: int) -> int:
        """Count one hour, and delete a batch, if it is time; return how long to wait in milliseconds."""
        return min(self._counting.step(now_ms), self._sweep.step(now_ms))

    def end(self) -> None:
        """Keep nothing."""
