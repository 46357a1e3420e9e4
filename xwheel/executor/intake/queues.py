"""Which runs wait, which run, and which is next.

The bookkeeping of :class:`~xwheel.executor.running.worker.Workers`, without any I/O.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from xwheel.errors import JobBlockedError, XwheelError
from xwheel.executor.handlers import Handler
from xwheel.executor.running.execution import Ending, Execution, Stage
from xwheel.model import BlockStrategy
from xwheel.wire.contract import TEXT_DISCARD
from xwheel.wire.messages import RunKey, TriggerRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """How much is taken in."""

    places: int  # handlers that run at once
    per_job: int  # waiting runs of one job
    waiting: int  # waiting runs of all jobs
    grace_ms: int  # between asking a handler to end and forcing it


class Next(Enum):
    """What the caller has to do after :meth:`JobQueues.set_ending`."""

    NOTHING = "it ends anyway, or whatever takes it to its next stage ends it"
    REPORT = "it waited and is out now"
    PUSH = "its handler runs and must be ended"


@dataclass(slots=True)
class _JobQueue:
    """What waits and what runs of one job; exists only while there is something."""

    waiting: deque[Execution] = field(default_factory=deque)
    running: set[Execution] = field(default_factory=set)


class JobQueues:
    """One ordered queue per job over a bounded number of places.

    Thread-safety: every method may be called by any thread; one lock guards everything, and nothing slow happens
    under it.
    """

    def __init__(self, limits: QueueLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._emptied = threading.Condition(self._lock)
        self._queues: dict[int, _JobQueue] = {}
        self._live: dict[RunKey, Execution] = {}
        self._ready: deque[Execution] = deque()
        self._active = 0
        self._closing = ""

    def has(self, job_id: int) -> bool:
        """Return whether a job has a waiting or a running run."""
        return job_id in self._queues

    def of_job(self, job_id: int) -> list[Execution]:
        """Return a job's runs, waiting ones last to first so that ending them starts none of them."""
        with self._lock:
            queue = self._queues.get(job_id)
            return [] if queue is None else [*reversed(queue.waiting), *queue.running]

    def all(self) -> list[Execution]:
        """Return every run, latest first."""
        with self._lock:
            return list(reversed(self._live.values()))

    def close(self, why: str) -> None:
        """Admit nothing any more."""
        with self._lock:
            self._closing = why

    def wait_empty(self, timeout_s: float) -> bool:
        """Wait until no run is here; return whether that came in time."""
        with self._lock:
            return self._emptied.wait_for(lambda: not self._live, timeout_s)

    def admit(
        self, request: TriggerRequest, handler: Handler | XwheelError
    ) -> Execution | XwheelError | None:
        """Put a run into its job's queue, with what to call or why there is nothing to call.

        Returns the run; or why it cannot come in; or None if it is here already.
        """
        key = request.key
        with self._lock:
            if key in self._live:
                return None
            if isinstance(handler, XwheelError):
                return handler
            queue = self._queues.get(request.job_id)
            problem = self._closing or self._blocked(request, handler, queue)
            if problem:
                return JobBlockedError(problem)
            if queue is None:
                queue = self._queues[request.job_id] = _JobQueue()
            execution = Execution(request, handler, key)
            queue.waiting.append(execution)
            self._live[key] = execution
            return execution

    def confirm(self, execution: Execution) -> list[Execution]:
        """Let an admitted run wait, now that it is on disk; return the runs that it covers."""
        with self._lock:
            execution.stage = Stage.WAITING
            if execution.request.block_strategy is not BlockStrategy.COVER_EARLY:
                return []
            queue = self._queues[execution.key.job_id]
            before = list(queue.waiting)
            before = before[: before.index(execution)]
            return [*reversed(before), *queue.running]

    def withdraw(self, execution: Execution) -> None:
        """Remove a run that did not reach the disk."""
        with self._lock:
            execution.stage = Stage.ENDED
            self._remove(execution)

    def take(self, jobs: Iterable[int]) -> list[Execution]:
        """Give places to the next runs of these jobs, and to those that waited for a place."""
        taken: list[Execution] = []
        with self._lock:
            for job_id in jobs:
                self._make_ready(self._queues.get(job_id))
            while self._ready and self._active < self._limits.places:
                execution = self._ready.popleft()
                if execution.stage is not Stage.ENDED:
                    execution.stage = Stage.STARTING
                    execution.placed = True
                    self._active += 1
                    taken.append(execution)
        return taken

    def begin(self, execution: Execution) -> Ending | None:
        """Mark a run as running; return why it must end instead, or None."""
        with self._lock:
            execution.stage = Stage.RUNNING
            return execution.ending

    def set_ending(self, execution: Execution, ending: Ending) -> Next:
        """Decide that a run ends; the first reason counts."""
        with self._lock:
            if execution.ending is not None or execution.stage is Stage.ENDED:
                return Next.NOTHING
            execution.ending = ending
            if execution.stage is Stage.WAITING:
                execution.stage = Stage.ENDED
                return Next.REPORT
            # in other stages what takes it to its next stage sees the ending
            return Next.PUSH if execution.stage is Stage.RUNNING else Next.NOTHING

    def abandon(self, execution: Execution) -> bool:
        """Free the place of a run whose handler will not end; its job still waits for it."""
        with self._lock:
            if execution.stage is Stage.ENDED or execution.abandoned:
                return False
            execution.abandoned = True
            self._active -= 1
            return True

    def first_report(self, execution: Execution) -> bool:
        """Return whether this is the first report of a run, and note that there is one."""
        with self._lock:
            if execution.reported:
                return False
            execution.reported = True
            return True

    def end(self, execution: Execution) -> None:
        """Mark a run as ended; from now on nothing pushes it."""
        with self._lock:
            execution.stage = Stage.ENDED

    def leave(self, execution: Execution) -> None:
        """Remove a run and free its place."""
        with self._lock:
            if execution.placed and not execution.abandoned:
                self._active -= 1
            self._remove(execution)

    def _blocked(self, request: TriggerRequest, handler: Handler, queue: _JobQueue | None) -> str:
        if len(self._live) - self._active >= self._limits.waiting:
            return f"the executor has {self._limits.waiting} waiting runs and takes no more"
        if queue is None:
            return ""
        strategy = request.block_strategy
        busy = len(queue.waiting) + len(queue.running)
        if strategy is BlockStrategy.DISCARD_LATER and busy >= handler.parallel:
            return TEXT_DISCARD
        if strategy is BlockStrategy.SERIAL_EXECUTION and len(queue.waiting) >= self._limits.per_job:
            stuck = ", a run whose handler ignores its end" if any(e.abandoned for e in queue.running) else ""
            return f"job {request.job_id} has {self._limits.per_job} waiting runs{stuck}, and takes no more"
        return ""

    def _make_ready(self, queue: _JobQueue | None) -> None:
        while queue is not None and queue.waiting and queue.waiting[0].stage is not Stage.ADMITTED:
            if len(queue.running) >= queue.waiting[0].handler.parallel:
                return
            execution = queue.waiting.popleft()
            queue.running.add(execution)
            self._ready.append(execution)

    def _remove(self, execution: Execution) -> None:
        self._live.pop(execution.key, None)
        queue = self._queues.get(execution.key.job_id)
        if queue is not None:
            queue.running.discard(execution)
            if execution in queue.waiting:
                queue.waiting.remove(execution)
            if not queue.waiting and not queue.running:
                del self._queues[execution.key.job_id]
        if not self._live:
            self._emptied.notify_all()
