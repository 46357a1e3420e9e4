"""Ask executors whether they live, or whether a job is idle there, for routers that want to know."""

from __future__ import annotations

import logging
import math
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, NamedTuple

from xwheel.clock import Clock
from xwheel.errors import RouteError
from xwheel.model import RegisteredExecutor
from xwheel.scheduler.executors.calls import HTTP_OK, ExecutorClient
from xwheel.scheduler.executors.registry import ExecutorRegistry
from xwheel.wire import codec, contract

logger = logging.getLogger(__name__)

FRESH_MS: Final = 1000
IDLE_FRESH_MS: Final = 100
SPENT_MS: Final = 200  # by then the run that goes there is there, and the executor says so itself
KEPT: Final = 20_000
POLL_MS: Final = 1000  # what is handed in ends the wait


class Probe(NamedTuple):
    """A question."""

    address: str
    group_id: int
    job_id: int = 0  # whether this job is idle there; 0 for whether the executor lives


class _Known(NamedTuple):
    answer: Future[bool]
    until_ms: float = math.inf
    at_ms: float = math.inf


@dataclass(eq=False, repr=False)
class Probes:
    """Asks executors and keeps their answers for a moment, so that many runs cost one question.

    Thread-safety: :meth:`step` belongs to the one that owns the calls; everything else may be called from any thread.
    """

    calls: ExecutorClient
    registry: ExecutorRegistry
    clock: Clock

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[Probe, _Known] = {}
        self._discarded: dict[str, int] = {}
        self._stopped = False

    def beat(self, executor: RegisteredExecutor) -> Future[bool]:
        """Ask whether an executor lives; return what will hold the answer, or raise RouteError: the node stops."""
        return self._put(Probe(executor.address, executor.group_id), executor)

    def idle_beat(self, executor: RegisteredExecutor, job_id: int) -> Future[bool]:
        """Ask likewise whether an executor has nothing of a job."""
        return self._put(Probe(executor.address, executor.group_id, job_id), executor)

    def spend(self, executor: RegisteredExecutor, job_id: int) -> None:
        """Let an idle answer count no more: a run goes there."""
        probe = Probe(executor.address, executor.group_id, job_id)
        answer: Future[bool] = Future()
        answer.set_result(False)
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            known = self._known.get(probe)
            if known is not None and known.answer.done():
                self._known[probe] = _Known(answer, now_ms + SPENT_MS, now_ms)

    def discard(self, address: str) -> None:
        """Discard what an address answered until now: it could not be reached."""
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            if len(self._discarded) >= KEPT:
                self._discarded.clear()
                self._known = {key: known for key, known in self._known.items() if not known.answer.done()}
            self._discarded[address] = now_ms

    def step(self, now_ms: int) -> int:
        """Move questions on for a while; return 0: the waiting happens inside."""
        for answer in self.calls.poll(POLL_MS):
            probe = answer.key
            assert isinstance(probe, Probe)  # noqa: S101 - we put it there
            if not answer.reached:
                self.registry.suspect(probe.address, now_ms)
            elif answer.response is None and answer.status == HTTP_OK:
                logger.warning("%s gave an unreadable answer to a beat: %s", probe.address, answer.error)
            with self._lock:
                known = self._known.get(probe)
                if known is not None and not known.answer.done():
                    fresh_ms = IDLE_FRESH_MS if probe.job_id else FRESH_MS
                    at_ms = self.clock.monotonic_ms()
                    self._known[probe] = _Known(known.answer, at_ms + fresh_ms, at_ms)
                    known.answer.set_result(answer.response is not None and answer.response.ok)
        return 0

    def stop(self) -> None:
        """Answer nothing more: what waits is told that the node stops."""
        with self._lock:
            self._stopped = True
            for known in self._known.values():
                if not known.answer.done():
                    known.answer.set_exception(RouteError("the node stops"))
            self._known.clear()
        self.calls.client.wake()

    def _put(self, probe: Probe, executor: RegisteredExecutor) -> Future[bool]:
        now_ms = self.clock.monotonic_ms()
        with self._lock:
            if self._stopped:
                raise RouteError("the node stops")
            known = self._known.pop(probe, None)
            discarded_ms = self._discarded.get(probe.address, -1)
            is_new = known is None or known.until_ms <= now_ms or known.at_ms <= discarded_ms
            if known is None or is_new:
                known = _Known(Future())
            self._known[probe] = known  # at the end: what was asked for longest ago is forgotten first
            if len(self._known) > KEPT:
                for other in [key for key, one in self._known.items() if one.answer.done()][: KEPT // 2]:
                    del self._known[other]
        if is_new:
            path, body = contract.BEAT, b"{}"
            if probe.job_id:
                path, body = contract.IDLE_BEAT, codec.encode_idle_beat(probe.job_id)
            self.calls.ask(probe, executor, path, body)
        return known.answer
