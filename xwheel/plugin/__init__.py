"""What plugin authors import: the hook marker, the contracts, and nothing with I/O."""

from xwheel.errors import ConfigError, ExecutorError
from xwheel.plugin.contracts import (
    Command,
    GlueRequest,
    GlueType,
    HandlerLookup,
    RouteContext,
    Router,
    RunContext,
    ScheduleSpec,
    ScheduleType,
)
from xwheel.plugin.hookspecs import hookimpl

__all__ = [
    "Command",
    "ConfigError",
    "ExecutorError",
    "GlueRequest",
    "GlueType",
    "HandlerLookup",
    "RouteContext",
    "Router",
    "RunContext",
    "ScheduleSpec",
    "ScheduleType",
    "hookimpl",
]
