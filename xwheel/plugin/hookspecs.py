"""The hooks. Each is called once, at start-up, and registers named objects; none is on the way of a fire.

A hook is handed those of these arguments that its parameters name, in any order, or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pluggy

from xwheel.config import Config
from xwheel.plugin.contracts import (
    AlarmChannel,
    Commands,
    GlueType,
    LogStore,
    Router,
    RunListener,
    ScheduleType,
)
from xwheel.plugin.gates import Gate
from xwheel.plugin.group_calls import GroupCalls
from xwheel.plugin.identities import IdentityProvider
from xwheel.plugin.observers import Observer
from xwheel.plugin.pages import Pages
from xwheel.plugin.recorders import Recorder
from xwheel.plugin.resources import Resources
from xwheel.plugin.routes import Routes
from xwheel.plugin.tables import Tables

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


@hookspec
def xwheel_register_log_stores(config: Config, options: Options) -> Iterable[LogStore]:  # type: ignore[empty-body]
    """Return log stores; the setting ``run_logs.store`` names the one that is used."""


@hookspec
def xwheel_register_identity_providers(config: Config, options: Options) -> Iterable[IdentityProvider]:  # type: ignore[empty-body]
    """Return identity providers; the setting ``accounts.providers`` names those by which people sign in."""


@hookspec
def xwheel_register_pages(config: Config, options: Options) -> Iterable[Pages]:  # type: ignore[empty-body]
    """Return pages: files for browsers, and what they add to the console."""


@hookspec
def xwheel_register_tables(config: Config, options: Options) -> Iterable[Tables]:  # type: ignore[empty-body]
    """Return tables: those of the plugin in the nodes' database, and the migrations that make them."""


@hookspec
def xwheel_register_routes(config: Config, options: Options) -> Iterable[Routes]:  # type: ignore[empty-body]
    """Return routes: resources of the management API below ``/api/v1/NAME``."""


@hookspec
def xwheel_register_resources(config: Config, options: Options) -> Iterable[Resources]:  # type: ignore[empty-body]
    """Return resources of the management API, written for Falcon and described in the OpenAPI document."""


@hookspec
def xwheel_register_group_calls(config: Config, options: Options) -> Iterable[GroupCalls]:  # type: ignore[empty-body]
    """Return group calls: calls on the executor API, in XXL-JOB's envelope, for callers with a group's token."""


@hookspec
def xwheel_register_observers(config: Config, options: Options) -> Iterable[Observer]:  # type: ignore[empty-body]
    """Return observers, which write rows in the transactions that end runs, skip fires and stop jobs."""


@hookspec
def xwheel_register_gates(config: Config, options: Options) -> Iterable[Gate]:  # type: ignore[empty-body]
    """Return gates, which say who calls the management API and what they may do."""


@hookspec
def xwheel_register_recorders(config: Config, options: Options) -> Iterable[Recorder]:  # type: ignore[empty-body]
    """Return a recorder, which writes down who changes what; of all plugins at most one does."""


@hookspec
def xwheel_register_commands(config: Config, options: Options) -> Iterable[Commands]:  # type: ignore[empty-body]
    """Return commands: ``xwheel NAME ...``; asked by the command ``xwheel``, too, where it knows no such command."""
