"""What plugin authors import: the hook marker, the contracts, and nothing with I/O."""

from xwheel.plugin.contracts import (
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
