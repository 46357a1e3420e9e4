"""The executor SDK: mark functions with ``@job`` and run them for a scheduler.

::

    from xwheel.executor import Executor, JobContext, job

    @job("greet")
    def greet(ctx: JobContext) -> str:
        ctx.log(f"hello {ctx.param}")
        return "done"

    if __name__ == "__main__":
        Executor(load_config(), handlers=[greet]).run_forever()

``Executor`` is loaded when it is first asked for, so that a process handler's child starts without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from xwheel.executor.context import JobContext, current_job
from xwheel.executor.handlers import job, load_handlers, load_targets

if TYPE_CHECKING:
    from xwheel.executor.executor import Executor

__all__ = ["SUPERVISOR", "Executor", "JobContext", "current_job", "job", "load_handlers", "load_targets"]

SUPERVISOR: Final = Path(__file__).with_name("running") / "supervisor.py"
"""A file that a process may load to be supervised; :class:`xwheel.plugin.HostSetup` says what it does."""


def __getattr__(name: str) -> object:
    if name == "Executor":
        from xwheel.executor.executor import Executor

        return Executor
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
