"""Find plugins through entry points, load them, ask each hook once, and say which plugin registered what.

What is wrong with a plugin names its distribution and entry point.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution, entry_points
from typing import Any, Final, cast

import pluggy

from xwheel.config import Config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError
from xwheel.plugin import hookspecs
from xwheel.plugin.contracts import AlarmChannel, GlueType, Router, RunListener, ScheduleType
from xwheel.plugin.options import PluginOptions, noting_options, shown_options
from xwheel.plugin.registries import Registry
from xwheel.plugin.validation import check_object

CONTRACTS: Final[Mapping[str, tuple[str, type[Any]]]] = {
    "xwheel_register_schedule_types": ("schedule type", ScheduleType),
    "xwheel_register_routers": ("router", Router),
    "xwheel_register_glue_types": ("glue type", GlueType),
    "xwheel_register_alarms": ("alarm channel", AlarmChannel),
    "xwheel_register_run_listeners": ("run listener", RunListener),
}
"""Hook to the kind of object that it registers, and the contract of that kind."""

ENTRY_POINT_GROUP: Final = "xwheel"
HOOK_PREFIX: Final = "xwheel_"
CORE: Final = "xwheel"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOrigin:
    """Where a plugin comes from.

    Attributes:
        name: Its entry point's name, by which settings call it.
        target: The module, as the entry point names it.
        distribution: What ``pip`` installed.
        version: Its version.
    """

    name: str
    target: str
    distribution: str
    version: str

    @property
    def is_core(self) -> bool:
        """Whether it came with xwheel itself."""
        return self.distribution == CORE

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} (entry point {self.name} = {self.target})".replace(
            "  ", " "
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """An installed plugin, for lists of them.

    Attributes:
        origin: Its name, distribution and version.
        enabled: False if the settings disable it; it was not loaded then.
        registers: Kind to the names that it brought, sorted.
        options: Its options as it understood them, without secrets.
    """

    origin: PluginOrigin
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
        PluginError: One cannot be loaded, has an unknown hook or a name twice, or registers what is not of
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


def find_origins(config: Config) -> dict[str, tuple[PluginOrigin, EntryPoint]]:
    """Return every installed plugin by name, those that the settings disable included.

    Raises:
        DuplicateNameError: Two distributions bring the same name, and it is not disabled.
        ConfigError: The settings name a plugin that is not installed.
    """
    found: dict[str, tuple[PluginOrigin, EntryPoint]] = {}
    for entry in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: entry.name):
        origin = _origin_of(entry)
        known = found.setdefault(entry.name, (origin, entry))[0]
        # an editable install may list the same distribution twice
        if known != origin and entry.name not in config.plugins.disabled:
            raise DuplicateNameError(f"plugin {entry.name} comes from {known} and from {origin}")
    for name in config.plugins.disabled:
        if name not in found:
            raise ConfigError(
                f"plugins.disabled names {name!r}, which is not installed; installed: {', '.join(found)}"
            )
    for name in config.plugins.options:
        if name not in found:
            raise ConfigError(
                f"plugins.options.{name} belongs to no installed plugin; installed: {', '.join(found)}"
            )
    return found


def load_all(config: Config) -> tuple[pluggy.PluginManager, dict[str, PluginOrigin]]:
    """Load every plugin that is installed and not disabled; return where each comes from by name.

    Raises:
        PluginError: One cannot be loaded, needs what is not installed, or has hooks that are none.
        ConfigError: The settings name a plugin that is not installed.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    origins: dict[str, PluginOrigin] = {}
    for name, (origin, entry) in find_origins(config).items():
        if name in config.plugins.disabled:
            continue
        _register(manager, origin, entry)
        origins[name] = origin
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        known = ", ".join(sorted(vars(manager.hook)))
        raise PluginError(
            f"{origin_of(manager, error.plugin, origins)}: {_line(error)}; known hooks: {known}"
        ) from error
    return manager, origins


def origin_of(
    manager: pluggy.PluginManager, plugin: object, origins: dict[str, PluginOrigin]
) -> PluginOrigin:
    """Return where a loaded plugin comes from."""
    return origins[manager.get_name(plugin) or ""]


def _collect(
    manager: pluggy.PluginManager,
    hook: str,
    config: Config,
    origins: dict[str, PluginOrigin],
    read: dict[str, PluginOptions],
) -> Registry[Any]:
    """Ask each implementation by itself, so that a failure or a duplicate names its owner.

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


def _register(manager: pluggy.PluginManager, origin: PluginOrigin, entry: EntryPoint) -> None:
    if not origin.is_core and entry.dist is not None:
        for reason in _unmet(entry.dist):
            raise PluginError(f"{origin} cannot be loaded: {reason}")
    try:
        plugin = entry.load()
    except (Exception, SystemExit) as error:
        raise PluginError(f"{origin} cannot be loaded: {type(error).__name__}: {_line(error)}") from error
    twin = manager.get_name(plugin)
    if twin is not None:
        raise PluginError(f"{origin} and entry point {twin} are one and the same module: keep one of them")
    try:
        manager.register(plugin, name=origin.name)
    except Exception as error:
        raise PluginError(f"{origin} has a hook of a wrong form: {_line(error)}") from error
    _check_hooks(manager, origin, plugin)


def _check_hooks(manager: pluggy.PluginManager, origin: PluginOrigin, plugin: object) -> None:
    """Refuse hooks that would never be called, or not in the way that was meant."""
    callers = manager.get_hookcallers(plugin) or []
    marked = {caller.name for caller in callers}
    for caller in callers:
        for item in caller.get_hookimpls():
            if item.plugin is plugin and (item.wrapper or item.hookwrapper):
                raise PluginError(f"{origin}: {caller.name} wraps a hook, but hooks only register objects")
    for name, value in inspect.getmembers(plugin, inspect.isroutine):
        if name.startswith(f"{HOOK_PREFIX}register_") and name not in marked:
            raise PluginError(f"{origin}: {name} is not marked with @hookimpl: {value!r} is never called")
    if not marked:
        raise PluginError(
            f"{origin} has no hook: mark functions such as xwheel_register_routers with @hookimpl"
        )


def _unmet(dist: Distribution) -> Iterator[str]:
    """Yield what a distribution says that it needs, and that is not there."""
    try:
        from packaging.requirements import InvalidRequirement, Requirement
    except ImportError:  # an executor alone, without the extra "server"
        return
    for text in dist.requires or ():
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue  # pip judges that, and it had no objection
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        needed = f"it needs {wanted.name}{wanted.specifier}"
        try:
            version = distribution(wanted.name).version
        except PackageNotFoundError:
            yield f"{needed}, which is not installed"
            continue
        if not wanted.specifier.contains(version, prereleases=True):
            yield f"{needed}, but {wanted.name} {version} is installed"


def _origin_of(entry: EntryPoint) -> PluginOrigin:
    dist = entry.dist
    return PluginOrigin(
        name=entry.name,
        target=entry.value,
        distribution=dist.name if dist else "unknown distribution",
        version=dist.version if dist else "",
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())
