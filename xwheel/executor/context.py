"""What a handler knows about its run, and how it is told to end."""

from __future__ import annotations

import threading
from contextvars import ContextVar
from typing import Final, Protocol

from xwheel.errors import ExecutorError, JobKilledError, JobTimeoutError
from xwheel.wire.messages import TriggerRequest

# the run that the present thread or task works for
CURRENT: Final[ContextVar[JobContext]] = ContextVar("xwheel_current_job")
_MAKING: Final = threading.Lock()  # of an event for a context


class LogSink(Protocol):
    """Where a run's lines go: ``line`` writes one with its time, ``raw`` writes text as it is."""

    def line(self, text: str) -> None: ...  # noqa: D102

    def raw(self, text: str) -> None: ...  # noqa: D102


class JobContext:
    """The side of a run that its handler sees.

    Thread-safety: may be used by every thread that a handler starts.
    """

    result: object = None
    _is_ending = False
    _error: type[ExecutorError] = JobKilledError
    _ending: threading.Event | None = None  # made for the first that waits

    def __init__(self, request: TriggerRequest, sink: LogSink, started_ms: int = 0) -> None:
        self.run_id = request.run_id  #: the run; XXL-JOB's log id
        self.job_id = request.job_id  #: the job it belongs to
        self.handler = request.handler  #: name under which the job called
        self.param = request.param  #: parameter of this run
        #: the job's own parameter, if this run was given another one; of jobs whose code is their source, and from an
        #: xwheel scheduler. Otherwise empty
        self.job_param = request.job_param
        self.shard_index = request.shard_index  #: which shard this is, from 0
        self.shard_total = request.shard_total  #: how many shards there are; 1 if the job is not sharded
        #: when the schedule wanted it, epoch milliseconds; from a scheduler that does not say, when it was triggered
        self.planned_ms = request.planned_ms or request.created_ms
        #: whether the scheduler said so. Only then is ``planned_ms`` the same for all attempts of a fire
        self.knows_planned = request.planned_ms > 0
        self.attempt = request.attempt  #: 1 for the first try
        self.timeout_s = request.timeout_s  #: time limit in seconds, 0 for none
        self.trace_parent = request.trace_parent  #: W3C ``traceparent`` of the trigger, or empty
        self.started_ms = started_ms  #: when it began here, epoch milliseconds
        self.sink = sink

    @property
    def cancelled(self) -> bool:
        """Whether the handler should end now: its run was killed or ran out of time."""
        return self._is_ending

    def log(self, text: str) -> None:
        """Write a line, with its time, into the run's log."""
        self.sink.line(text)

    def set_result(self, value: object) -> None:
        """Set what is reported if the handler returns None."""
        self.result = value

    def wait(self, seconds: float) -> None:
        """Sleep, but no longer than the run may: raises JobKilledError or JobTimeoutError as soon as it is to end."""
        with _MAKING:
            ending = self._ending = self._ending or threading.Event()
        if self._is_ending or ending.wait(seconds):
            raise self._error(f"run {self.run_id} is to end")

    def cancel(self, error: type[ExecutorError]) -> None:
        """Tell the handler to end; the executor calls this."""
        self._error = error if issubclass(error, JobTimeoutError) else JobKilledError
        self._is_ending = True
        with _MAKING:
            ending = self._ending
        if ending is not None:
            ending.set()


def current_job() -> JobContext:
    """Return the context of the run that called, directly or deeper down; raises ExecutorError outside handlers."""
    found = CURRENT.get(None)
    if found is None:
        raise ExecutorError("there is no current job: this code does not run inside a handler")
    return found
