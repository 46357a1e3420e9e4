"""``/healthz`` and ``/readyz``: public, and therefore short; ``/health`` says more, and needs a token."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import falcon
from msgspec import UNSET

from xwheel.api.http.resource import Resource, reply, view_of
from xwheel.api.parts import ApiParts
from xwheel.api.schema.health import HealthReport, HealthView, NodeHealthView
from xwheel.plugin.resources import Operation
from xwheel.storage.schema import migrate

logger = logging.getLogger(__name__)

CACHE_MS: Final = 1000


class Health(Resource):
    """``/health``, ``/healthz`` and ``/readyz``; the database is asked at most once a second."""

    health: Callable[[], HealthReport]

    def __init__(self, parts: ApiParts) -> None:
        super().__init__(parts)
        self._head = migrate.head_revision()
        self._lock = threading.Lock()
        self._failing: list[str] = []
        self._asked_ms: int | None = None

    @Operation({200: NodeHealthView})
    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Tell how this node fares; 200 whatever fails."""
        report = self.health()
        failing = [*report.stale_loops, *self._missing(report)]
        more = {"status": "failing" if failing else "ok", "failing": failing}
        reply(resp, view_of(NodeHealthView, report, **more))

    @Operation({200: HealthView, 503: HealthView})
    def on_get_healthz(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer 200, or 503 with the names of the loops that stand still."""
        report = self.health()
        # a slow database must not get the node killed, so it is not asked
        _answer(resp, report, list(report.stale_loops))

    @Operation({200: HealthView, 503: HealthView})
    def on_get_readyz(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """Answer 200, or 503 with what is missing: ``leases``, ``database`` or ``schema``."""
        report = self.health()
        _answer(resp, report, self._missing(report))

    def _missing(self, report: HealthReport) -> list[str]:
        return ([] if report.holds_leases else ["leases"]) + self._ask_database()

    def _ask_database(self) -> list[str]:
        with self._lock:
            now_ms = self.clock.monotonic_ms()
            if self._asked_ms is None or now_ms - self._asked_ms >= CACHE_MS:
                try:
                    right = migrate.current_revision(self.db) == self._head
                    self._failing = [] if right else ["schema"]
                except Exception as error:
                    if self._failing != ["database"]:  # once an outage, however often this is asked
                        logger.warning("the database does not answer the readiness check: %s", error)
                    self._failing = ["database"]
                self._asked_ms = now_ms
            return self._failing


def _answer(resp: falcon.Response, report: HealthReport, failing: list[str]) -> None:
    view = HealthView(
        status="failing" if failing else "ok",
        # probes of nodes get what they always got
        role=UNSET if report.role == "node" else report.role,
        failing=failing or UNSET,
    )
    reply(resp, view, 503 if failing else 200)
