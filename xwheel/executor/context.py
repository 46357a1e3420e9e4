"""What a handler knows about its run, and how it is told to end."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Final, Protocol

from xwheel.errors import ExecutorError, JobKilledError, JobTimeoutError
from xwheel.wire.messages import TriggerRequest

CURRENT: Final[ContextVar[JobContext]] = ContextVar("xwheel_current_job")
"""The run that the present thread or task works for."""


class LogSink(Protocol):
    """Where a run's lines go: ``line`` writes one with its time, ``raw`` writes text as it is."""

    def line(self, text: str) -> None: ...  # noqa: D102

    def raw(self, text: str) -> None: ...  # noqa: D102


class JobContext:
    """The side of a run that its handler sees.

    Thread-safety: may be used by every thread that a handler starts.

    Attributes:
        run_id: The run; XXL-JOB's log id.
        job_id: The job it belongs to.
        handler: Name under which the job called.
        param: Parameter of this run.
        job_param: The job's own parameter, if this run was given another one; of jobs whose code is their source, and
            from an xwheel scheduler. Otherwise empty.
        shard_index: Which shard this is, from 0.
        shard_total: How many shards there are; 1 if the job is not sharded.
        planned_ms: When the schedule wanted it, epoch milliseconds; from a scheduler that does not say, when it was
            triggered.
        knows_planned: Whether the scheduler said so. Only then is ``planned_ms`` the same for all attempts of a fire.
        started_ms: When it began here, epoch milliseconds.
        attempt: 1 for the first try.
        timeout_s: Time limit in seconds, 0 for none.
        trace_parent: W3C ``traceparent`` of the trigger, or empty.
    """

    def __init__(self, request: TriggerRequest, sink: LogSink, started_ms: int = 0) -> None:
        self.run_id = request.run_id
        self.job_id = request.job_id
        self.handler = request.handler
        self.param = request.param
        self.job_param = request.job_param
        self.shard_index = request.shard_index
        self.shard_total = request.shard_total
        self.knows_planned = request.planned_ms > 0
        self.planned_ms = request.planned_ms or request.created_ms
        self.attempt = request.attempt
        self.timeout_s = request.timeout_s
        self.trace_parent = request.trace_parent
        self.started_ms = started_ms
        self.result: object = None
        self.sink = sink
        self._ending = threading.Event()
        self._error: type[ExecutorError] = JobKilledError

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end now: its run was killed or ran out of time."""
        return self._ending.is_set()

    def log(self, text: str) -> None:
        """Write a line, with its time, into the run's log."""
        self.sink.line(text)

    def set_result(self, value: object) -> None:
        """Set what is reported if the handler returns None."""
        self.result = value

    def wait(self, seconds: float) -> None:
        """Sleep, but end at once when the run is to end.

        Raises:
            JobKilledError: The run was killed.
            JobTimeoutError: The run ran out of time.
        """
        if self._ending.wait(seconds):
            raise self._error(f"run {self.run_id} is to end")

    def cancel(self, error: type[ExecutorError]) -> None:
        """Tell the handler to end; the executor calls this."""
        self._error = error if issubclass(error, JobTimeoutError) else JobKilledError
        self._ending.set()


def current_job() -> JobContext:
    """Return the context of the run that called, directly or deeper down.

    Raises:
        ExecutorError: The caller does not run inside a handler.
    """
    found = CURRENT.get(None)
    if found is None:
        raise ExecutorError("there is no current job: this code does not run inside a handler")
    return found
