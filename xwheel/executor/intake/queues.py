"""Which runs wait, which run, and which is next.

The bookkeeping of :class:`~xwheel.executor.running.worker.Workers`, without any I/O.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from xwheel.config.sections import ExecutorSection
from xwheel.errors import ExecutorError, JobBlockedError, XwheelError
from xwheel.executor.handlers import Handler
from xwheel.executor.running.execution import Ending, Execution, Stage
from xwheel.model import BlockStrategy
from xwheel.wire.contract import TEXT_DISCARD
from xwheel.wire.messages import RunKey, TriggerRequest


class Next(Enum):
    """What the caller has to do after :meth:`JobQueues.set_ending`."""

    NOTHING = "it ends anyway, or whatever takes it to its next stage ends it"
    REPORT = "it waited and is out now"
    PUSH = "its handler runs and must be ended"


@dataclass(slots=True)
class _JobQueue:
    """What waits and what runs of one job; exists only while there is something."""

    early: set[Execution] = field(default_factory=set)  # here before they are due
    waiting: deque[Execution] = field(default_factory=deque)
    running: set[Execution] = field(default_factory=set)


class JobQueues:
    """One ordered queue per job over a bounded number of places.

    Thread-safety: any thread; one lock guards everything, and nothing slow happens under it.
    """

    def __init__(self, settings: ExecutorSection) -> None:
        self._settings = settings
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
            return [] if queue is None else [*queue.early, *reversed(queue.waiting), *queue.running]

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
        self, runs: Iterable[tuple[TriggerRequest, Handler | XwheelError]]
    ) -> list[Execution | XwheelError | None]:
        """Put runs into their jobs' queues, each with what to call or why there is nothing to call.

        Returns for each the run; or why it cannot come in; or None if it is here already.
        """
        with self._lock:
            return [self._admit(request, handler) for request, handler in runs]

    def _admit(self, request: TriggerRequest, handler: Handler | XwheelError) -> Execution | XwheelError | None:
        key = request.key
        if key in self._live:
            return None
        if isinstance(handler, XwheelError):
            return handler
        if request.due_ms and request.block_strategy is not BlockStrategy.SERIAL_EXECUTION:
            return ExecutorError("due_ms: what is discarded or covers others is decided when it is due: send it then")
        queue = self._queues.get(request.job_id)
        problem = self._closing or self._blocked(request, handler, queue)
        if problem:
            return JobBlockedError(problem)
        if queue is None:
            queue = self._queues[request.job_id] = _JobQueue()
        execution = Execution(request, handler, key)
        if request.due_ms:
            queue.early.add(execution)
        else:
            queue.waiting.append(execution)
        self._live[key] = execution
        return execution

    def hold(self, executions: Iterable[Execution]) -> list[Execution]:
        """Let runs that are early wait for their due time, now that they are on disk; return these."""
        with self._lock:
            early = [one for one in executions if self._is_early(one)]
            for execution in early:
                execution.stage = Stage.WAITING
        return early

    def enter(self, executions: Iterable[Execution]) -> list[Execution]:
        """Put early runs at the end of their jobs' queues; return those that are still here."""
        entered: list[Execution] = []
        with self._lock:
            for execution in executions:
                if self._is_early(execution):
                    queue = self._queues[execution.key.job_id]
                    queue.early.remove(execution)
                    queue.waiting.append(execution)
                    entered.append(execution)
        return entered

    def take_back(self, keys: Iterable[RunKey]) -> list[Execution]:
        """Remove those of these runs that wait for their due time, and return them."""
        with self._lock:
            found = [one for key in keys if (one := self._live.get(key)) is not None]
            # one that is not on disk yet starts as soon as it is, if it is due by then
            taken = [one for one in found if one.stage is Stage.WAITING and self._is_early(one)]
            for execution in taken:
                self._leave(execution)
        return taken

    def _is_early(self, execution: Execution) -> bool:
        queue = self._queues.get(execution.key.job_id)
        return queue is not None and execution in queue.early

    def reserve(self, executions: Iterable[Execution]) -> list[Execution]:
        """Give places to admitted runs that nothing stands before, as :meth:`take` would once they are on disk.

        They are written as started together with being accepted, which saves a commit.
        """
        with self._lock:
            # those that wait for a place come first
            return [] if self._ready else [one for one in executions if self._reserve(one)]

    def _reserve(self, execution: Execution) -> bool:
        queue = self._queues[execution.key.job_id]
        if execution.start_ms or self._active >= self._settings.workers or execution.ending is not None:
            return False
        covers = execution.request.block_strategy is BlockStrategy.COVER_EARLY
        # one that covers others does so once it is on disk
        if queue.waiting[0] is not execution or len(queue.running) >= (1 if covers else execution.handler.parallel):
            return False
        queue.running.add(queue.waiting.popleft())
        self._place(execution)
        return True

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

    def take(self, jobs: Iterable[int]) -> list[Execution]:
        """Give places to the next runs of these jobs, and to those that waited for a place."""
        taken: list[Execution] = []
        with self._lock:
            for job_id in jobs:
                self._make_ready(self._queues.get(job_id))
            while self._ready and self._active < self._settings.workers:
                execution = self._ready.popleft()
                if execution.stage is not Stage.ENDED:
                    self._place(execution)
                    taken.append(execution)
        return taken

    def _place(self, execution: Execution) -> None:
        execution.stage = Stage.STARTING
        execution.placed = True
        self._active += 1

    def begin(self, execution: Execution) -> Ending | None:
        """Mark a run as running; return why it must end instead, or None."""
        with self._lock:
            execution.stage = Stage.RUNNING
            return execution.ending

    def set_ending(self, execution: Execution, ending: Ending, unplaced: Ending | None = None) -> Next:
        """Decide that a run ends, one that waits as ``unplaced`` says if it is given; the first reason counts."""
        with self._lock:
            if execution.ending is not None or execution.stage is Stage.ENDED:
                return Next.NOTHING
            execution.ending = unplaced if unplaced and execution.stage < Stage.STARTING else ending
            if execution.stage is Stage.WAITING:
                execution.stage = Stage.ENDED
                return Next.REPORT
            # in other stages what takes it to its next stage sees the ending
            return Next.PUSH if execution.stage is Stage.RUNNING else Next.NOTHING

    def abandon(self, execution: Execution) -> bool:
        """Free the place of a run whose handler will not end; its job still waits for it.

        Returns False if that has ended, or is abandoned already; else it is to be reported now, and at its end no more.
        """
        with self._lock:
            if execution.stage is Stage.ENDED or execution.abandoned:
                return False
            execution.abandoned = True
            self._active -= 1
            return True

    def end(self, execution: Execution) -> None:
        """Mark a run as ended; from now on nothing pushes it."""
        with self._lock:
            execution.stage = Stage.ENDED

    def leave(self, execution: Execution) -> bool:
        """Remove a run and free its place, if it has one; return whether others wait for a place or behind it."""
        with self._lock:
            return self._leave(execution)

    def _leave(self, execution: Execution) -> bool:
        execution.stage = Stage.ENDED
        if execution.placed and not execution.abandoned:
            self._active -= 1
        self._live.pop(execution.key, None)
        queue = self._queues.get(execution.key.job_id)
        if queue is not None:
            queue.running.discard(execution)
            queue.early.discard(execution)
            if execution in queue.waiting:
                queue.waiting.remove(execution)
            if not queue.waiting and not queue.running and not queue.early:
                del self._queues[execution.key.job_id]
        if not self._live:
            self._emptied.notify_all()
        return bool(self._ready or (queue is not None and queue.waiting))

    def _blocked(self, request: TriggerRequest, handler: Handler, queue: _JobQueue | None) -> str:
        if len(self._live) - self._active >= self._settings.waiting_limit:
            return f"the executor has {self._settings.waiting_limit} waiting runs and takes no more"
        if queue is None:
            return ""
        strategy = request.block_strategy
        waiting = len(queue.waiting) + len(queue.early)
        busy = waiting + len(queue.running)
        if strategy is BlockStrategy.DISCARD_LATER and busy >= handler.parallel:
            return TEXT_DISCARD
        if strategy is BlockStrategy.SERIAL_EXECUTION and waiting >= self._settings.queue_limit:
            stuck = ", a run whose handler ignores its end" if any(e.abandoned for e in queue.running) else ""
            return f"job {request.job_id} has {self._settings.queue_limit} waiting runs{stuck}, and takes no more"
        return ""

    def _make_ready(self, queue: _JobQueue | None) -> None:
        while queue is not None and queue.waiting and queue.waiting[0].stage is not Stage.ADMITTED:
            if len(queue.running) >= queue.waiting[0].handler.parallel:
                return
            execution = queue.waiting.popleft()
            queue.running.add(execution)
            self._ready.append(execution)
