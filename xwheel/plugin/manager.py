"""Find plugins through entry points, ask each hook once, and give read-only registries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import pluggy

from xwheel.config import Config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError
from xwheel.plugin import hookspecs
from xwheel.plugin.contracts import AlarmChannel, GlueType, Router, RunListener, ScheduleType
from xwheel.plugin.registry import Registry

ENTRY_POINT_GROUP = "xwheel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """Everything that can be chosen by name."""

    schedule_types: Registry[ScheduleType]
    routers: Registry[Router]
    glue_types: Registry[GlueType]
    alarm_channels: Registry[AlarmChannel] = field(default_factory=lambda: Registry("alarm channel", {}, {}))
    run_listeners: Registry[RunListener] = field(default_factory=lambda: Registry("run listener", {}, {}))


def load_plugins(config: Config) -> Plugins:
    """Load all plugins that are installed and not disabled.

    Raises:
        PluginError: One fails to load, has a hook nobody specified or a name twice. The message names the
            distribution and the entry point.
        ConfigError: Options are given for a plugin that is not there.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    origins = _register_all(manager, config)
    unknown = set(config.plugins.options) - set(origins)
    if unknown:
        raise ConfigError(
            f"plugins.options.{min(unknown)} belongs to no loaded plugin; loaded: {', '.join(sorted(origins))}"
        )
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        raise PluginError(f"{_origin_of(manager, error.plugin, origins)}: {error}") from error

    def registry(kind: str, hook: Any) -> Registry[Any]:
        return _collect(kind, hook, config, lambda plugin: _origin_of(manager, plugin, origins))

    return Plugins(
        schedule_types=registry("schedule type", manager.hook.xwheel_register_schedule_types),
        routers=registry("router", manager.hook.xwheel_register_routers),
        glue_types=registry("glue type", manager.hook.xwheel_register_glue_types),
        alarm_channels=registry("alarm channel", manager.hook.xwheel_register_alarms),
        run_listeners=registry("run listener", manager.hook.xwheel_register_run_listeners),
    )


def _register_all(manager: pluggy.PluginManager, config: Config) -> dict[str, str]:
    """Register every entry point's module; return where each plugin name comes from."""
    origins: dict[str, str] = {}
    found = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name)
    for name in set(config.plugins.disabled) - {entry.name for entry in found}:
        raise ConfigError(f"plugins.disabled names {name!r}, which is not installed")
    for entry in found:
        origin = _describe(entry)
        if entry.name in config.plugins.disabled or origins.get(entry.name) == origin:
            continue  # an editable install may list the same distribution twice
        if entry.name in origins:
            raise DuplicateNameError(
                f"plugin {entry.name} comes from {origins[entry.name]} and from {origin}"
            )
        try:
            manager.register(entry.load(), name=entry.name)
        except Exception as error:
            reason = " ".join(str(error).split())
            raise PluginError(f"{origin} cannot be loaded: {type(error).__name__}: {reason}") from error
        origins[entry.name] = origin
    return origins


def _collect(
    kind: str, hook: pluggy.HookCaller, config: Config, origin_of: Callable[[object], str]
) -> Registry[Any]:
    """Ask each implementation by itself, so that a failure or a duplicate can be told by its owner."""
    objects: dict[str, Any] = {}
    owners: dict[str, str] = {}
    for implementation in hook.get_hookimpls():
        owner = origin_of(implementation.plugin)
        arguments = {"config": config}
        try:
            call = cast(Callable[..., Iterable[Any]], implementation.function)
            given = call(*(arguments[name] for name in implementation.argnames))
            named = [(item.name, item) for item in given]
        except Exception as error:
            raise PluginError(f"{owner} fails in {hook.name}: {type(error).__name__}: {error}") from error
        for name, item in named:
            if name in objects:
                raise DuplicateNameError(f"{kind} {name!r} is registered by {owners[name]} and by {owner}")
            objects[name], owners[name] = item, owner
    return Registry(kind, objects, owners)


def _describe(entry: EntryPoint) -> str:
    distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "unknown distribution"
    return f"{distribution} (entry point {entry.name} = {entry.value})"


def _origin_of(manager: pluggy.PluginManager, plugin: object, origins: dict[str, str]) -> str:
    name = manager.get_name(plugin) or "?"
    return origins.get(name, name)
