"""``/healthz`` and ``/readyz``: public, and therefore short; ``/health`` says more, and needs a token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import falcon
import msgspec
from msgspec import UNSET

from xwheel.api.schema.health import (
    HealthCountsView,
    HealthReport,
    HealthView,
    LoopHealthView,
    NodeHealthView,
)
from xwheel.clock import Clock
from xwheel.plugin.resources import Operation
from xwheel.storage.database.engine import Database
from xwheel.storage.schema import migrate

logger = logging.getLogger(__name__)

CACHE_MS: Final = 1000


class Healthz:
    """Whether the process and its loops live; a slow database must not get the node killed, so it is not asked.

    Args:
        report: Returns the state of the node.
    """

    def __init__(self, report: Callable[[], HealthReport]) -> None:
        self._report = report

    @Operation({200: HealthView, 503: HealthView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer 200, or 503 with the names of the loops that stand still."""
        del req
        report = self._report()
        _answer(resp, report, list(report.stale_loops))


class Readyz:
    """Whether the node can work: it holds its leases, the database answers, the schema is right.

    Args:
        report: Returns the state of the node.
        db: The database, asked at most once a second.
        clock: Where time comes from.
    """

    def __init__(self, report: Callable[[], HealthReport], db: Database, clock: Clock) -> None:
        self._report = report
        self._db = db
        self._clock = clock
        self._head = migrate.head_revision()
        self._lock = threading.Lock()
        self._failing: list[str] = []
        self._asked_ms: int | None = None

    @Operation({200: HealthView, 503: HealthView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Answer 200, or 503 with what is missing: ``leases``, ``database`` or ``schema``."""
        del req
        report = self._report()
        _answer(resp, report, self.missing(report))

    def missing(self, report: HealthReport) -> list[str]:
        """Return what the node lacks to work."""
        return ([] if report.holds_leases else ["leases"]) + self._ask_database()

    def _ask_database(self) -> list[str]:
        with self._lock:
            now_ms = self._clock.monotonic_ms()
            if self._asked_ms is None or now_ms - self._asked_ms >= CACHE_MS:
                try:
                    right = migrate.current_revision(self._db) == self._head
                    self._failing = [] if right else ["schema"]
                except Exception as error:
                    if self._failing != ["database"]:  # once an outage, however often this is asked
                        logger.warning("the database does not answer the readiness check: %s", error)
                    self._failing = ["database"]
                self._asked_ms = now_ms
            return self._failing


class NodeHealth:
    """``/health``: the state of this node, and what it has counted.

    Args:
        report: Returns the state of the node.
        ready: Asks the database.
    """

    def __init__(self, report: Callable[[], HealthReport], ready: Readyz) -> None:
        self._report = report
        self._ready = ready

    @Operation({200: NodeHealthView})
    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell how this node fares; 200 whatever fails."""
        del req
        report = self._report()
        failing = [*report.stale_loops, *self._ready.missing(report)]
        view = NodeHealthView(
            status="failing" if failing else "ok",
            role=report.role,
            failing=failing,
            partitions=report.partitions,
            missing_plugins=list(report.missing_plugins),
            counts=msgspec.convert(report.counts, HealthCountsView, from_attributes=True),
            loops=[msgspec.convert(loop, LoopHealthView, from_attributes=True) for loop in report.loops],
        )
        resp.data = msgspec.json.encode(view)


def _answer(resp: falcon.Response, report: HealthReport, failing: list[str]) -> None:
    resp.status = HTTPStatus.SERVICE_UNAVAILABLE if failing else HTTPStatus.OK
    view = HealthView(
        status="failing" if failing else "ok",
        # probes of nodes get what they always got
        role=UNSET if report.role == "node" else report.role,
        failing=failing or UNSET,
    )
    resp.data = msgspec.json.encode(view)
