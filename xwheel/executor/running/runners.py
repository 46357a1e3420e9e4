"""Calls handlers: plain functions and runs that glue types host on pool threads, coroutines on one event loop.

``init`` comes before a handler's first run, ``destroy`` at the executor's end; neither may hold up anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from xwheel.clock import Clock
from xwheel.errors import ExecutorError, JobKilledError, JobTimeoutError
from xwheel.executor.context import CURRENT, JobContext
from xwheel.executor.handlers import Handler, HandlerKind
from xwheel.executor.logs.run_log import RunLog
from xwheel.executor.running.execution import Execution, describe_error, leave_copy
from xwheel.executor.running.pool import DaemonExecutor
from xwheel.runtime.foreign import ends_in_time
from xwheel.wire.contract import FAIL
from xwheel.wire.messages import CallbackItem

if TYPE_CHECKING:
    from xwheel.plugin.contracts import HostedRun

logger = logging.getLogger(__name__)

STOP_S: Final = 5.0
DESTROY_S: Final = 10.0  # what all ``destroy`` together may take

Ended = Callable[[Execution, CallbackItem], None]


class Lifecycles:
    """Calls ``init`` before a handler's first run and ``destroy`` at the end.

    Thread-safety: ``prepare`` may be called by any thread, ``prepare_async`` and ``close_async`` by the event loop's;
    one run initialises a handler, its other runs wait for it, and other handlers do not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}
        self._async_locks: dict[str, asyncio.Lock] = {}
        self._ready: dict[str, Handler] = {}

    def prepare(self, handler: Handler) -> None:
        """Initialise the handler unless it is; raises ExecutorError if that fails, and the next run tries again."""
        if handler.name in self._ready:
            return
        with self._lock:
            lock = self._locks.setdefault(handler.name, threading.Lock())
        with lock:
            if handler.name in self._ready:
                return
            try:
                if handler.init is not None:
                    _call_hook(handler.init)
            except BaseException as error:
                raise _init_failed(handler, error) from error
            self._ready[handler.name] = handler

    async def prepare_async(self, handler: Handler) -> None:
        """Do the same for a coroutine handler: a coroutine on its loop, so that what it makes belongs there."""
        if handler.name in self._ready:
            return
        if not inspect.iscoroutinefunction(handler.init):
            await asyncio.to_thread(self.prepare, handler)
            return
        async with self._async_locks.setdefault(handler.name, asyncio.Lock()):
            if handler.name in self._ready:
                return
            try:
                await handler.init()
            except asyncio.CancelledError:
                raise
            except BaseException as error:
                raise _init_failed(handler, error) from error
            self._ready[handler.name] = handler

    async def close_async(self) -> None:
        """Call those ``destroy`` that belong on the event loop."""
        for handler in list(self._ready.values()):
            if handler.kind is not HandlerKind.ASYNC or not inspect.iscoroutinefunction(handler.destroy):
                continue
            del self._ready[handler.name]
            try:
                await asyncio.wait_for(handler.destroy(), DESTROY_S)
            except BaseException:
                logger.exception("destroy of handler %s failed", handler.name)

    def forget_async(self) -> None:
        """Let coroutine handlers be initialised again, on another event loop: what they made belongs to the last."""
        self._async_locks.clear()
        for handler in list(self._ready.values()):
            if handler.kind is HandlerKind.ASYNC:
                self._ready.pop(handler.name, None)

    def close(self) -> None:
        """Call all other ``destroy``; one that blocks is left behind."""
        due = [handler for handler in self._ready.values() if handler.destroy is not None]
        self._ready.clear()
        if due and not ends_in_time(partial(_destroy, due), DESTROY_S, "xwheel-destroy"):
            logger.warning("destroy took more than %g s and is left behind", DESTROY_S)


def _destroy(handlers: list[Handler]) -> None:
    for handler in handlers:
        try:
            _call_hook(cast(Callable[[], object], handler.destroy))
        except BaseException:
            logger.exception("destroy of handler %s failed", handler.name)


def _call_hook(hook: Callable[[], object]) -> None:
    value = hook()
    if inspect.iscoroutine(value):
        asyncio.run(cast(Coroutine[Any, Any, object], value))


def _init_failed(handler: Handler, error: BaseException) -> ExecutorError:
    return ExecutorError(f"init of handler {handler.name} failed: {describe_error(error)}")


def run_in_thread(execution: Execution, context: JobContext, lifecycles: Lifecycles, clock: Clock) -> CallbackItem:
    """Call a plain handler on this thread and return its outcome, whatever it raises."""
    value: object = None
    error: BaseException | None = None
    pid = os.getpid()
    token = CURRENT.set(context)
    try:
        try:
            execution.arm()
            lifecycles.prepare(execution.handler)
            if execution.ending is not None:  # meanwhile; the handler has nothing to tidy up yet
                raise execution.ending.error
            function = execution.handler.function
            value = function(context) if execution.handler.takes_context else function()
        finally:
            execution.disarm()
    except BaseException as raised:
        error = raised
    leave_copy(pid, error)
    if execution.is_injected:
        error = _settle(execution) or error
    CURRENT.reset(token)
    if error is not None:
        return execution.failed(error, clock.now_ms())
    return execution.succeeded(value, clock.now_ms())


def run_hosted(execution: Execution, hosted: HostedRun, context: JobContext, log: RunLog, clock: Clock) -> CallbackItem:
    """Let a glue type's own process execute a run, on this thread, and return the outcome, whatever it raises.

    Signs to end go to the glue type; no error is raised inside this thread.
    """

    def push(round_number: int) -> None:
        try:
            hosted.end(round_number)
        except BaseException:  # the next round comes; after the fourth the run is reported without its end
            logger.exception("run %d of job %d cannot be ended", execution.key.run_id, execution.key.job_id)

    execution.forced_by(push)
    token = CURRENT.set(context)
    try:
        value = hosted.run(context, log.raw)
    except ExecutorError as error:  # said for people; where it was raised tells them nothing
        return execution.outcome(FAIL, str(error), clock.now_ms())
    except BaseException as error:
        return execution.failed(error, clock.now_ms())
    finally:
        CURRENT.reset(token)
        with execution.lock:
            execution.force = None
    return execution.succeeded(value, clock.now_ms())


def _settle(execution: Execution) -> BaseException | None:
    """Make sure that no injected exception is still on its way: it may have struck inside ``disarm`` itself."""
    late: BaseException | None = None
    while True:
        try:
            execution.disarm()
        except (JobKilledError, JobTimeoutError) as error:
            late = error
        else:
            return late


class AsyncRunner:
    """Runs coroutine handlers on one event loop, made with the first of them. Thread-safety: any thread."""

    def __init__(self, lifecycles: Lifecycles, clock: Clock) -> None:
        self._lifecycles = lifecycles
        self._clock = clock
        self._lock = threading.Lock()
        self._loop: _LoopThread | None = None

    def start(self, execution: Execution, context: JobContext, ended: Ended) -> None:
        """Run a coroutine handler; ``ended`` is called on the loop's thread."""
        with self._lock:
            if self._loop is None or not self._loop.run(execution, context, ended):
                self._loop = _LoopThread(self._lifecycles, self._clock)
                self._loop.run(execution, context, ended)

    def cancel(self, execution: Execution) -> None:
        """Cancel its task, if it still runs."""
        if self._loop is not None:
            self._loop.call(_cancel_task, execution)

    def disown(self) -> None:
        """In a forked child: let the copy of the loop end before it goes on with the parent's runs."""
        if self._loop is not None:
            self._loop.stop()

    def close(self) -> None:
        """End the loop; tasks that are left are cancelled."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.close()


class _LoopThread:
    """An event loop and its thread.

    Handlers may end the loop: asyncio lets ``sys.exit`` in an inner task or a callback pass through it, and there is
    ``loop.stop()``. The loop then goes on with the open runs. If a handler closes the loop, the open runs fail.
    """

    def __init__(self, lifecycles: Lifecycles, clock: Clock) -> None:
        self._lifecycles = lifecycles
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Execution, Ended] = {}
        self._exits: dict[Execution, BaseException] = {}
        self._is_closing = self._is_lost = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="xwheel-async", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._loop.close()
            raise

    def run(self, execution: Execution, context: JobContext, ended: Ended) -> bool:
        """Begin a task for a run soon; return False if the loop was closed: the run needs another one."""
        with self._lock:
            if self._is_lost:
                return False
            self._open[execution] = ended
        self.call(self._spawn, execution, context)
        return True

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the loop's thread soon, unless a handler closed the loop."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def stop(self) -> None:
        """Let the loop come back to its thread; for the loop's own thread."""
        self._loop.stop()

    def close(self) -> None:
        """End the loop; tasks that are left are cancelled."""
        self._is_closing = True
        self.call(self._loop.stop)
        self._thread.join(STOP_S + DESTROY_S)

    def _work(self) -> None:
        pid = os.getpid()
        asyncio.set_event_loop(self._loop)
        # asyncio's own would keep the interpreter from ending as long as one of its threads is busy
        self._loop.set_default_executor(DaemonExecutor("async-helper"))
        while not (self._is_closing or self._loop.is_closed()):
            try:
                self._loop.run_forever()
            except BaseException as error:
                self._exited(error)
            leave_copy(pid)
        if self._loop.is_closed():
            self._lose_open()
        else:
            self._tidy_up()
            self._loop.close()

    def _exited(self, error: BaseException) -> None:
        """Let the run fail whose inner task or callback ended the loop; the others go on."""
        context = _context_of(error)
        with self._lock:
            found = list(self._open)
        for execution in found:
            if execution.context is context and execution.task is not None:
                self._exits[execution] = error
                execution.task.cancel()
                return
        logger.error("%s ended the event loop of handlers, which goes on", describe_error(error))

    def _tidy_up(self) -> None:
        self._loop.set_task_factory(None)  # a handler may have set one
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._finish(asyncio.wait(left, timeout=STOP_S))
        self._finish(self._lifecycles.close_async())
        self._finish(self._loop.shutdown_asyncgens())
        self._finish(self._loop.shutdown_default_executor())

    def _finish(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine to its end, though others end the loop meanwhile."""
        task = self._loop.create_task(coroutine)
        while not (task.done() or self._loop.is_closed()):
            with contextlib.suppress(BaseException):
                self._loop.run_until_complete(task)

    def _lose_open(self) -> None:
        """Let the open runs fail: a handler closed their loop."""
        with self._lock:
            self._is_lost = True
            lost = list(self._open)
        self._lifecycles.forget_async()
        for execution in lost:
            self._end(execution, ExecutorError("a handler closed the event loop"), None)

    def _spawn(self, execution: Execution, context: JobContext) -> None:
        token = CURRENT.set(context)  # the task copies the present context
        execution.task = asyncio.Task(self._guard(execution, context), loop=self._loop)
        CURRENT.reset(token)
        # one that is cancelled before its first step never enters its coroutine
        execution.task.add_done_callback(lambda _: self._end(execution, asyncio.CancelledError(), None))

    async def _guard(self, execution: Execution, context: JobContext) -> None:
        pid = os.getpid()
        value: object = None
        failure: BaseException | None = None
        try:
            if execution.ending is not None:
                raise asyncio.CancelledError
            await self._lifecycles.prepare_async(execution.handler)
            function = cast(Callable[..., Coroutine[Any, Any, object]], execution.handler.function)
            value = await (function(context) if execution.handler.takes_context else function())
        except BaseException as error:
            failure = error
        leave_copy(pid, failure)
        self._end(execution, self._exits.pop(execution, failure), value)

    def _end(self, execution: Execution, failure: BaseException | None, value: object) -> None:
        with self._lock:
            ended = self._open.pop(execution, None)
        execution.task = None
        if ended is None:
            return
        now_ms = self._clock.now_ms()
        if failure is None:
            ended(execution, execution.succeeded(value, now_ms))
        else:
            ended(execution, execution.failed(failure, now_ms))


def _cancel_task(execution: Execution) -> None:
    if execution.task is not None:
        execution.task.cancel()


def _context_of(error: BaseException) -> JobContext | None:
    """Return the context of the run whose task or callback raised an error that ended the loop."""
    with contextlib.suppress(BaseException):  # the error may be of the handler's own class
        at = error.__traceback__
        while at is not None:
            handle: Any = at.tb_frame.f_locals.get("self")
            if issubclass(type(handle), asyncio.Handle):
                context: Context = handle._context
                return context.get(CURRENT)
            at = at.tb_next
    return None
