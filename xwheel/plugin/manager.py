"""Load plugins, ask each hook once, and give read-only registries."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import pluggy

from xwheel.config import Config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError
from xwheel.plugin.contracts import AlarmChannel, GlueType, Router, RunListener, ScheduleType
from xwheel.plugin.demands import check_object
from xwheel.plugin.loading import Origin, find_origins, load_all, origin_of
from xwheel.plugin.options import PluginOptions, noting_options, shown_options
from xwheel.plugin.registry import Registry

CONTRACTS: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "xwheel_register_schedule_types": ("schedule type", ScheduleType),
    "xwheel_register_routers": ("router", Router),
    "xwheel_register_glue_types": ("glue type", GlueType),
    "xwheel_register_alarms": ("alarm channel", AlarmChannel),
    "xwheel_register_run_listeners": ("run listener", RunListener),
}
"""Hook to the kind of object that it registers, and the contract of that kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """An installed plugin, for those who look.

    Attributes:
        origin: Its name, distribution and version.
        enabled: False if the settings disable it; it was not loaded then.
        registers: Kind to the names that it brought, sorted.
        options: Its options as it understood them, without secrets.
    """

    origin: Origin
    enabled: bool
    registers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """Everything that can be chosen by name, and the plugins that brought it."""

    schedule_types: Registry[ScheduleType]
    routers: Registry[Router]
    glue_types: Registry[GlueType]
    alarm_channels: Registry[AlarmChannel] = field(default_factory=lambda: Registry("alarm channel", {}, {}))
    run_listeners: Registry[RunListener] = field(default_factory=lambda: Registry("run listener", {}, {}))
    installed: Sequence[PluginInfo] = ()


def load_plugins(config: Config) -> Plugins:
    """Load all plugins that are installed and not disabled.

    Raises:
        PluginError: One cannot be loaded, has a hook nobody specified or a name twice, or registers what is not of
            the kind. The message names the distribution and the entry point.
        ConfigError: An option is not acceptable, or belongs to no plugin.
    """
    manager, origins = load_all(config)
    noted: dict[str, PluginOptions] = {}
    registries = {hook: _collect(manager, hook, config, origins, noted) for hook in CONTRACTS}
    for name, options in config.plugins.options.items():
        if options and name in origins and origins[name].is_core and name not in noted:
            raise ConfigError(f"plugins.options.{name}.{min(options)}: {name} has no options")
    infos = []
    for name, (origin, _) in find_origins(config).items():
        brought = {
            registry.kind: sorted(item for item, owner in registry.owners.items() if owner == str(origin))
            for registry in registries.values()
            if name in origins
        }
        infos.append(
            PluginInfo(
                origin=origin,
                enabled=name in origins,
                registers={kind: names for kind, names in brought.items() if names},
                options=shown_options(noted.get(name), config.plugin(name)),
            )
        )
    return Plugins(
        schedule_types=registries["xwheel_register_schedule_types"],
        routers=registries["xwheel_register_routers"],
        glue_types=registries["xwheel_register_glue_types"],
        alarm_channels=registries["xwheel_register_alarms"],
        run_listeners=registries["xwheel_register_run_listeners"],
        installed=infos,
    )


def load_glue_types(config: Config) -> Registry[GlueType]:
    """Load what an executor needs; plugins that only schedulers use need no options there.

    Raises:
        PluginError: A plugin cannot be loaded, or brings a glue type that is none.
        ConfigError: An option of one with glue types is not acceptable.
    """
    manager, origins = load_all(config)
    return _collect(manager, "xwheel_register_glue_types", config, origins, {})


def _collect(
    manager: pluggy.PluginManager,
    hook: str,
    config: Config,
    origins: dict[str, Origin],
    read: dict[str, PluginOptions],
) -> Registry[Any]:
    """Ask each implementation by itself, so that a failure or a duplicate can be told by its owner.

    What options they read is added to ``read``.
    """
    kind, contract = CONTRACTS[hook]
    objects: dict[str, Any] = {}
    owners: dict[str, str] = {}
    trusted: set[str] = set()
    caller: pluggy.HookCaller = getattr(manager.hook, hook)
    for implementation in caller.get_hookimpls():
        origin = origin_of(manager, implementation.plugin, origins)
        call = cast(Callable[..., Iterable[Any]], implementation.function)
        arguments = {"config": config}
        try:
            with noting_options() as noted:
                given = list(call(*(arguments[name] for name in implementation.argnames)))
        except ConfigError as error:
            raise ConfigError(f"{error}; asked for by {origin}") from error
        except Exception as error:
            reason = " ".join(str(error).split())
            raise PluginError(f"{origin} fails in {hook}: {type(error).__name__}: {reason}") from error
        if set(noted) - {origin.name}:
            raise PluginError(
                f"{origin} reads plugins.options.{min(set(noted) - {origin.name})}: its own table is "
                f"plugins.options.{origin.name}"
            )
        read |= noted
        for item in given:
            try:
                check_object(kind, contract, item)
            except PluginError as error:
                raise PluginError(f"{origin}, {hook}: {error}") from None
            name = item.name
            if name in objects:
                raise DuplicateNameError(f"{kind} {name!r} is registered by {owners[name]} and by {origin}")
            objects[name], owners[name] = item, str(origin)
            if origin.distribution in config.plugins.trusted:
                trusted.add(name)
    return Registry(kind, objects, owners, trusted)
