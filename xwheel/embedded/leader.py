"""What the leading process has: the node, the executor next to it, and the order in which they begin and end."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from xwheel.clock import SystemClock
from xwheel.embedded.folder import Folder
from xwheel.embedded.jobs import DeclaredJobs
from xwheel.errors import XwheelError
from xwheel.executor import Executor
from xwheel.executor.context import JobContext
from xwheel.executor.declarations import Declaration
from xwheel.executor.handlers import MARK, Handler, HandlerKind
from xwheel.node.node import Node
from xwheel.storage.access import tokens
from xwheel.storage.database.startup import Pause, start_with

logger = logging.getLogger(__name__)

REGISTER_S: Final = 10
POLL_S: Final = 0.005


class Leader:
    """Node and executor of the process that has the folder's lock; complete and running once constructed.

    Coroutine handlers run on the given loop, or else on one of the executor's own. ``pause`` waits this many seconds
    for a database that is locked, and returns whether the process is to end meanwhile. Raises LockError if a node of
    its own has the database, and XwheelError if it cannot start; nothing is left behind.
    """

    def __init__(
        self,
        folder: Folder,
        declarations: Sequence[Declaration],
        settings: Mapping[str, Mapping[str, Any]],
        loop: asyncio.AbstractEventLoop | None,
        pause: Pause,
    ) -> None:
        state = folder.read_state()
        config = folder.config(settings, state)
        database = start_with(config, pause=pause)
        db = database.db
        try:
            # before the node is made, which would make one that is shown to no one
            token, now_ms = folder.management_token(), SystemClock().now_ms()
            database.run(lambda: db.transaction(lambda conn: tokens.replace_token(conn, "embedded", token, now_ms)))
        finally:
            db.close()
        self.node = Node(config, announce=logger.debug, has_people=False, pause=pause)
        try:
            self.state = self.node.until_done(lambda: DeclaredJobs(self.node).apply(declarations, state))
            self._executor = Executor(
                config,
                handlers=[_on_loop(one, loop) for one in declarations],
                is_guest=True,
                admin_addresses=[f"http://{self.node.executors.host}:{self.node.executors.port}"],
            )
            self.node.start(first=self._start_executor)
        except BaseException:
            self._abandon()
            raise
        self.state = replace(
            self.state,
            pid=os.getpid(),
            api_port=self.node.management.port,
            executor_api_port=self.node.executors.port,
            executor_port=self._executor.port,
        )
        folder.write_state(self.state)

    def stop(self) -> bool:
        """Send no more, let what runs end, deliver its outcomes, and leave; return whether all ended well."""
        return self.node.stop(last=self._executor.stop)

    def disown(self) -> None:
        """Let go in a forked child; the object must be kept there until the end."""
        self.node.disown()

    def _start_executor(self) -> None:
        self._executor.start()
        end_s = time.monotonic() + REGISTER_S
        while not self._executor.is_registered:
            if time.monotonic() > end_s:
                raise XwheelError(f"the executor did not register within {REGISTER_S} s: see the log")
            time.sleep(POLL_S)

    def _abandon(self) -> None:
        executor: Executor | None = getattr(self, "_executor", None)
        if executor is not None:
            executor.stop(0)
        self.node.close()


def _on_loop(declaration: Declaration, loop: asyncio.AbstractEventLoop | None) -> Callable[..., object]:
    """Return the declared function, or for a coroutine function one that has it run on a loop of the application."""
    handler: Handler = getattr(declaration.function, MARK)
    if loop is None or handler.kind is not HandlerKind.ASYNC:
        return declaration.function
    function = cast(Callable[..., Coroutine[Any, Any, object]], declaration.function)

    async def run(context: JobContext) -> object:
        made = function(context) if handler.takes_context else function()
        # the task there copies the present context, and a cancellation here reaches it
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made, loop))

    # what else the function declares for schedulers is not the embedded one's concern
    setattr(run, MARK, replace(handler, function=run, takes_context=True, declaration=None))
    return run
