"""``init`` before a handler's first run, ``destroy`` at the executor's end; neither may hold up anything else."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, cast

from xwheel.errors import ExecutorError
from xwheel.executor.handlers import Handler, HandlerKind
from xwheel.executor.running.execution import describe_error
from xwheel.runtime.foreign import ends_in_time

logger = logging.getLogger(__name__)

DESTROY_S: Final = 10.0  # what all ``destroy`` together may take


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
        """Initialise the handler if that has not happened yet; raises ExecutorError if ``init`` fails.

        The next run tries again then.
        """
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
