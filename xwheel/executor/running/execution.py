"""One accepted run on its way through the executor, and the outcomes it can have."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import msgspec

from xwheel.errors import ExecutorError, JobKilledError, JobTimeoutError
from xwheel.executor.context import JobContext
from xwheel.executor.handlers import Handler
from xwheel.executor.logs.run_log import RunLog
from xwheel.executor.running.interrupts import interrupt, take_back
from xwheel.model import RunState
from xwheel.model.reasons import RunReason
from xwheel.wire.codec import cut
from xwheel.wire.contract import FAIL, MAX_MESSAGE, OK, TEXT_COVER, TEXT_KILLED, TIMEOUT
from xwheel.wire.messages import CallbackItem, RunKey, TriggerRequest

if TYPE_CHECKING:
    from xwheel.timer import Timeout  # the process of a handler needs none

MAX_REPR: Final = 1000
MAX_SHOWN: Final = 1000  # characters of a parameter or a result in the log


class Stage(IntEnum):
    """Where an execution stands; it only rises."""

    ADMITTED = 0
    WAITING = 1
    STARTING = 2
    RUNNING = 3
    ENDED = 4


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run is made to end, and what is reported then."""

    state: RunState
    code: int
    reason: RunReason
    message: str
    error: type[ExecutorError] = JobKilledError  # what the handler sees raised


KILLED: Final = Ending(RunState.KILLED, FAIL, RunReason.KILLED, TEXT_KILLED)
COVERED: Final = Ending(RunState.KILLED, FAIL, RunReason.COVERED, TEXT_COVER)
STOPPED: Final = Ending(RunState.KILLED, FAIL, RunReason.EXECUTOR_STOPPED, "the executor was stopped")
NOT_STARTED: Final = Ending(RunState.FAILED, FAIL, RunReason.NOT_STARTED, "the executor did not start this run")

GIVEN_BACK: Final = Ending(
    RunState.FAILED, FAIL, RunReason.FAILED_OVER, "the executor gave this run back before it was due"
)


def timed_out(seconds: int) -> Ending:
    """Return the ending of a run that passed its time limit."""
    text = f"the run passed its time limit of {seconds} s"
    return Ending(RunState.TIMED_OUT, TIMEOUT, RunReason.TIMED_OUT, text, JobTimeoutError)


class Execution:
    """A run, its handler, and the means to end it.

    Thread-safety: ``stage``, ``ending`` and the flags belong to the lock of the queues; ``lock`` guards the moment
    between a handler's end and an exception injected into its thread, or a signal sent to its process.
    """

    # what most runs never change stands in the class, which costs a run nothing
    stage = Stage.ADMITTED
    ending: Ending | None = None
    placed = False
    abandoned = False  # its handler will not end; reported already
    start_ms = 0  # when it is due, by the monotonic clock; 0 for one that came when it was
    started_ms = 0
    context: JobContext | None = None
    log: RunLog | None = None
    thread_id = 0  # of the thread into which errors may be raised, or 0
    is_injected = False  # one may be on its way there
    task: asyncio.Task[None] | None = None
    force: Callable[[int], None] | None = None  # ends its process, each round harder
    timer: Timeout | None = None  # limits its time

    def __init__(self, request: TriggerRequest, handler: Handler, key: RunKey) -> None:
        self.request = request
        self.handler = handler
        self.key = key
        self.lock = threading.Lock()

    def forced_by(self, push: Callable[[int], None]) -> None:
        """Let the run be ended so from now on, and at once if a kill came before there was anything to end."""
        with self.lock:
            self.force = push
            ending = self.ending
        if ending is not None:
            push(0)

    def begin(self, log: RunLog, started_ms: int) -> JobContext:
        """Make the context, just before the handler is called."""
        self.log = log
        self.started_ms = started_ms
        self.context = JobContext(self.request, log, started_ms)
        return self.context

    def arm(self) -> None:
        """Allow exceptions to be injected into the calling thread."""
        with self.lock:
            self.thread_id = threading.get_ident()

    def disarm(self) -> None:
        """Forbid injections, and take back one that was not raised yet."""
        with self.lock:
            thread_id, self.thread_id = self.thread_id, 0
            if thread_id and self.is_injected:
                take_back(thread_id)

    def inject(self, error: type[ExecutorError]) -> bool:
        """Raise an error inside the handler's thread; return False if it is to be tried again shortly."""
        with self.lock:
            self.is_injected = True
            return not self.thread_id or interrupt(self.thread_id, error)

    def succeeded(self, value: object, now_ms: int) -> CallbackItem:
        """Return the outcome of a handler that returned."""
        if self.ending is not None:
            return self.ended(self.ending, now_ms)
        if value is None and self.context is not None:
            value = self.context.result
        return self._outcome(OK, RunState.SUCCEEDED, RunReason.PLAIN, message_of(value), now_ms)

    def failed(self, error: BaseException, now_ms: int) -> CallbackItem:
        """Return the outcome of a handler that raised; its traceback goes to the run's log."""
        if self.ending is None and self.log is not None:
            self.log.line(traceback_of(error))
        return self.outcome(FAIL, describe_error(error), now_ms)

    def ended(self, ending: Ending, now_ms: int, note: str = "") -> CallbackItem:
        """Return the outcome of a run that was made to end."""
        return self._outcome(ending.code, ending.state, ending.reason, ending.message + note, now_ms)

    def outcome(self, code: int, message: str, now_ms: int) -> CallbackItem:
        """Return the outcome that is reported with a code; why a run was made to end counts more."""
        if self.ending is not None:
            return self.ended(self.ending, now_ms)
        state = RunState.SUCCEEDED if code == OK else RunState.FAILED
        return self._outcome(code, state, RunReason.PLAIN, message, now_ms)

    def close_log(self, outcome: CallbackItem) -> None:
        """Write how it ended, and close the log; a run that succeeded in silence has none."""
        if self.log is not None:
            is_told = outcome.state is not RunState.SUCCEEDED or not self.log.is_silent
            self.log.close(closing_line(outcome) if is_told else "")

    def _outcome(self, code: int, state: RunState, reason: RunReason, message: str, now_ms: int) -> CallbackItem:
        return CallbackItem(
            run_id=self.key.run_id,
            job_id=self.key.job_id,
            created_ms=self.key.created_ms,
            code=code,
            state=state,
            reason=reason,
            message=cut(message, MAX_MESSAGE),
            started_ms=self.started_ms,
            finished_ms=now_ms,
        )


def opening_line(request: TriggerRequest) -> str:
    """Return the first line of a run's log."""
    what = f"handler {request.handler}" if request.handler else request.glue_type
    words = [f"run {request.run_id} of job {request.job_id}, {what}"]
    words += [f"attempt {request.attempt}"] if request.attempt > 1 else []
    words += [f"shard {request.shard_index} of {request.shard_total}"] if request.shard_total > 1 else []
    words += [f"limit {request.timeout_s} s"] if request.timeout_s else []
    words += [f"parameter {cut(request.param, MAX_SHOWN)!r}"] if request.param else []
    return ", ".join(words)


def closing_line(outcome: CallbackItem) -> str:
    """Return the last line of a run's log."""
    took = f"{outcome.state} after {(outcome.finished_ms - outcome.started_ms) / 1000:.3f} s"
    return f"{took}: {cut(outcome.message, MAX_SHOWN)}" if outcome.message else took


def describe_error(error: BaseException) -> str:
    """Return one line that names the error; survives errors that cannot be shown."""
    name = _type_of(error)
    try:  # the handler's own code runs here
        text = _plain(str(error))
    except BaseException:
        return f"{name} (its text cannot be shown)"
    if issubclass(type(error), SystemExit):
        text = f"the handler called sys.exit({text})"
    return f"{name}: {text}" if text else name


def traceback_of(error: BaseException) -> str:
    """Return the lines that say where an error was raised; survives errors that cannot be shown."""
    with suppress(BaseException):  # the error's own code runs here, and it may hold what no formatter expects
        return _plain("".join(traceback.format_exception(error)).rstrip())
    places = ""
    with suppress(BaseException):
        places = "".join(traceback.format_tb(error.__traceback__))
    return places + describe_error(error)


def message_of(value: object) -> str:
    """Return a handler's result as text: strings as they are, JSON where possible, otherwise ``repr``."""
    if value is None:
        return ""
    try:  # the handler's own code runs here, and in its repr
        return _plain(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    except BaseException:
        with suppress(BaseException):
            return cut(_plain(repr(value)), MAX_REPR)
        return f"({_type_of(value)} that cannot be shown)"


def leave_copy(pid: int, error: BaseException | None = None) -> None:
    """End this process, as Python ends one, if it is a copy that a handler forked and that came back from the handler.

    Only the process of this number has a part in the run. ``error`` is what the handler raised.
    """
    if os.getpid() == pid:
        return
    status = 0
    with suppress(BaseException):
        if error is not None:
            code = error.code if isinstance(error, SystemExit) else traceback_of(error)
            status = code if isinstance(code, int) else int(code is not None)
            if isinstance(code, str):
                sys.stderr.write(f"{code}\n")
    flush_streams()
    os._exit(status & 0xFF)


def flush_streams() -> None:
    """Let out what was printed; a handler may have put anything in the place of the streams."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(BaseException):
            stream.flush()


def _type_of(value: object) -> str:
    try:
        return _plain(type(value).__name__)
    except BaseException:  # its type has a type of its own, which is the handler's code
        return "something"


def _plain(text: str) -> str:
    """Return text without the methods of a subclass, which are the handler's code."""
    return str.__str__(text)
