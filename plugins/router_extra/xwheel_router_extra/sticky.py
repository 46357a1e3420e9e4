"""STICKY: a job stays on the executor where it ran last."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from xwheel.plugin import RegisteredExecutor, RouteContext

from xwheel_router_extra.hashing import ConsistentHash

JOBS = 100_000


class Sticky:
    """The executor that the job's last run was sent to, as long as it is live and not suspect.

    Where nothing is known, as after a restart or once the executor is gone, the consistent hash chooses, so that
    most jobs stay where they were. Unlike with CONSISTENT_HASH alone, no job moves because an executor came.
    """

    name = "STICKY"
    asks = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hash = ConsistentHash()
        self._last: dict[int, str] = {}

    def route(self, context: RouteContext) -> Sequence[RegisteredExecutor]:
        """Return where it ran last."""
        last = self._last.get(context.job.id)
        if last is not None:
            for item in context.trusted:
                if item.address == last:
                    return [item]
        (chosen,) = self._hash.route(context)
        with self._lock:
            self._last.pop(context.job.id, None)
            if len(self._last) >= JOBS:
                del self._last[next(iter(self._last))]
            self._last[context.job.id] = chosen.address
        return [chosen]
