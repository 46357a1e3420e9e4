"""The hooks. Each is called once, at start-up, and registers named objects; none is on the way of a fire.

A hook is handed those of these arguments that its parameters name, in any order, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pluggy

from xwheel.config import Config
from xwheel.plugin.contracts import AlarmChannel, GlueType, Router, RunListener, ScheduleType

PROJECT = "xwheel"
Options = Mapping[str, Any]
"""The plugin's table of options as it stands in the settings; checked and typed, if the hook's parameter is annotated
with a subclass of :class:`~xwheel.plugin.PluginOptions`."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def xwheel_register_schedule_types(config: Config, options: Options) -> Iterable[ScheduleType]:  # type: ignore[empty-body]
    """Return schedule types; jobs name them in ``schedule_type``."""


@hookspec
def xwheel_register_routers(config: Config, options: Options) -> Iterable[Router]:  # type: ignore[empty-body]
    """Return routers; jobs name them in ``route_strategy``."""


@hookspec
def xwheel_register_glue_types(config: Config, options: Options) -> Iterable[GlueType]:  # type: ignore[empty-body]
    """Return glue types; jobs name them in ``glue_type``."""


@hookspec
def xwheel_register_alarms(config: Config, options: Options) -> Iterable[AlarmChannel]:  # type: ignore[empty-body]
    """Return alarm channels; alarm rules name them in ``channel``."""


@hookspec
def xwheel_register_run_listeners(config: Config, options: Options) -> Iterable[RunListener]:  # type: ignore[empty-body]
    """Return run listeners; each gets the changes of runs on a thread of its own."""
