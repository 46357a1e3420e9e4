"""xwheel: a distributed job scheduler that speaks XXL-JOB's wire protocol.

The way of a fire, in ten lines. A *job* row says what to run and when. ``claim`` finds due jobs, ``plan``
decides, purely, and both the *run* rows and the job's next fire time are written in one transaction. ``adopt``
picks up planned rows that no memory holds: after a restart, a run-now, a retry. The *ring* keeps what is due
within the pre-read window and gives it back on time. ``route`` chooses the address, the *trigger pool* gives it
a place in the fast or the slow lane, the *fence* writes both down and is the last moment at which a stop or an
edit can prevent the run. ``send`` carries it to the executor's ``intake``. The executor's *outcome* comes back
as a callback and is committed before it is answered; what follows from it, such as a retry, is planned in the
same transaction. Memory is only ever a cache of rows.
"""

__version__ = "0.1.0"

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from xwheel.config import Config
    from xwheel.errors import XwheelError
    from xwheel.model import ExecutorGroup, Job, Run
    from xwheel.plugin import RouteContext, hookimpl

__all__ = ["Config", "ExecutorGroup", "Job", "RouteContext", "Run", "XwheelError", "__version__", "hookimpl"]

_HOMES: Final = {
    "Config": "xwheel.config",
    "ExecutorGroup": "xwheel.model",
    "Job": "xwheel.model",
    "RouteContext": "xwheel.plugin",
    "Run": "xwheel.model",
    "XwheelError": "xwheel.errors",
    "hookimpl": "xwheel.plugin",
}


def __getattr__(name: str) -> object:
    """Load a public name when it is first asked for, so that importing a part does not import everything."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
