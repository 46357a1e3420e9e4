"""What routes of plugins do between calls: each on a thread of its own, supervised as the node's loops are."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from xwheel.api.parts import ApiParts
from xwheel.errors import OutageError, PluginError
from xwheel.model.access import ALL, Actor, ActorKind, acting
from xwheel.plugin.routes import SaysWhenDue, WokenUp, WorksAlong
from xwheel.plugin.validation import guarded
from xwheel.runtime.foreign import ends_in_time
from xwheel.runtime.loops import Service
from xwheel.scheduler.pulse import SLOW_MS, Pulse

logger = logging.getLogger(__name__)

LONGEST_WAIT_MS: Final = 60_000
STALE_MS: Final = 90_000  # a step may take seconds, and the wait after it a minute
END_S: Final = 5.0


class PluginWork:
    """The threads of all plugins whose routes, which were made before, work along."""

    def __init__(self, parts: ApiParts, pulse: Pulse) -> None:
        found = sorted({**parts.plugins.routes, **parts.plugins.resources}.items())
        self._workers = {name: item for name, item in found if isinstance(item, WorksAlong)}
        self.services = [
            Service(
                f"work-{name}",
                _checked(name, item, pulse),
                parts.clock,
                wakeup=item.wakeup if isinstance(item, WokenUp) else None,
                stale_ms=STALE_MS,
            )
            for name, item in self._workers.items()
        ]
        for service, item in zip(self.services, self._workers.values(), strict=True):
            if isinstance(item, SaysWhenDue):
                pulse.watch(service.wake, item.due, ahead_ms=0)

    def start(self) -> None:
        """Start all threads."""
        for service in self.services:
            service.start()

    def stop(self) -> bool:
        """Call no step any more, then let each plugin let go; return whether all of that ended in time."""
        ended = [service.stop(END_S) for service in self.services]
        return all(ended + [_end(name, item) for name, item in self._workers.items()])


def _checked(name: str, item: WorksAlong, pulse: Pulse) -> Callable[[int], int]:
    is_told = isinstance(item, SaysWhenDue)
    actor = Actor(kind=ActorKind.NODE, name=f"plugin {name}", grants=ALL)

    def step(now_ms: int) -> int:
        with acting(actor):
            wait_ms = guarded(f"routes {name}: step()", lambda: item.step(now_ms), allowed=OutageError)
        if type(wait_ms) is not int or wait_ms < 0:
            raise PluginError(f"routes {name}: step() must return milliseconds from 0 on, not {wait_ms!r:.40}")
        return min(wait_ms, SLOW_MS if is_told and not pulse.is_awake() else LONGEST_WAIT_MS)

    return step


def _end(name: str, item: WorksAlong) -> bool:
    """Let a plugin let go, on a thread that is left behind if it hangs; return whether it did in time."""

    def end() -> None:
        try:
            guarded(f"routes {name}: end()", item.end)
        except PluginError as error:
            logger.warning("%s", error)

    if ends_in_time(end, END_S, f"xwheel-end-{name}"):
        return True
    logger.warning("routes %s: end() did not come back within %g s", name, END_S)
    return False
