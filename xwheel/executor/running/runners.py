"""Calls handlers: plain functions and runs that glue types host on pool threads, coroutines on one event loop.

``init`` comes before a handler's first run, ``destroy`` at the executor's end; neither may hold up anything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from xwheel.clock import Clock
from xwheel.errors import ExecutorError, JobKilledError, JobTimeoutError
from xwheel.executor.context import CURRENT, JobContext
from xwheel.executor.handlers import Handler, HandlerKind
from xwheel.executor.logs.run_log import RunLog
from xwheel.executor.running.execution import Execution, describe_error
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
    """One event loop on one thread, made with the first coroutine handler. Thread-safety: any thread."""

    def __init__(self, lifecycles: Lifecycles, clock: Clock) -> None:
        self._lifecycles = lifecycles
        self._clock = clock
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._tasks: set[asyncio.Future[None]] = set()

    def start(self, execution: Execution, context: JobContext, ended: Ended) -> None:
        """Run a coroutine handler; ``ended`` is called on the loop's thread."""
        self._get_loop().call_soon_threadsafe(self._spawn, execution, context, ended)

    def cancel(self, execution: Execution) -> None:
        """Cancel its task, if it still runs."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nothing runs there
                self._loop.call_soon_threadsafe(_cancel_task, execution)

    def close(self) -> None:
        """End the loop; tasks that are left are cancelled."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join(STOP_S + DESTROY_S)

    def _get_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_run_loop, args=(loop, self._lifecycles), name="xwheel-async", daemon=True
                )
                try:
                    thread.start()
                except BaseException:
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def _spawn(self, execution: Execution, context: JobContext, ended: Ended) -> None:
        token = CURRENT.set(context)  # the task copies the present context
        task = asyncio.ensure_future(self._guard(execution, context, ended))
        CURRENT.reset(token)
        self._tasks.add(task)  # the loop itself holds tasks only weakly
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, execution: Execution, context: JobContext, ended: Ended) -> None:
        try:
            # known from here on: a task that is cancelled before its first step never enters this function
            execution.task = asyncio.current_task()
            if execution.ending is not None:
                raise asyncio.CancelledError
            await self._lifecycles.prepare_async(execution.handler)
            function = cast(Callable[..., Coroutine[Any, Any, object]], execution.handler.function)
            value = await (function(context) if execution.handler.takes_context else function())
        except BaseException as error:
            outcome = execution.failed(error, self._clock.now_ms())
        else:
            outcome = execution.succeeded(value, self._clock.now_ms())
        execution.task = None
        ended(execution, outcome)


def _cancel_task(execution: Execution) -> None:
    if execution.task is not None:
        execution.task.cancel()


def _run_loop(loop: asyncio.AbstractEventLoop, lifecycles: Lifecycles) -> None:
    asyncio.set_event_loop(loop)
    # asyncio's own would keep the interpreter from ending as long as one of its threads is busy
    loop.set_default_executor(DaemonExecutor("async-helper"))
    try:
        loop.run_forever()
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=STOP_S))
        loop.run_until_complete(lifecycles.close_async())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()
