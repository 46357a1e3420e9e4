"""Find plugins, load them, ask each hook once, and say which plugin registered what, or what is wrong with it.

Plugins are entry points of installed distributions, and the files of the folder ``plugins.folder``. Each is loaded
by itself: one that is broken brings nothing, and what is wrong with it names its distribution and entry point, or its
file.
"""

from __future__ import annotations

import copy
import difflib
import importlib.metadata
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar, cast, get_type_hints

import pluggy

from xwheel.config import Config
from xwheel.errors import ConfigError, DuplicateNameError, PluginError, XwheelError
from xwheel.plugin import contracts, folder
from xwheel.plugin.folder import list_files, one_file, warning_above
from xwheel.plugin.gates import Gate
from xwheel.plugin.group_calls import GroupCalls
from xwheel.plugin.hookspecs import HOOKS, PROJECT, Hook, all_hooks, check_object, hook_specs
from xwheel.plugin.observers import Observer
from xwheel.plugin.options import PluginOptions, noting_options, read_options, shown_options
from xwheel.plugin.pages import Pages
from xwheel.plugin.recorders import Recorder
from xwheel.plugin.registries import Registry
from xwheel.plugin.resources import Resources
from xwheel.plugin.routes import Routes
from xwheel.plugin.tables import Tables
from xwheel.plugin.validation import guarded, name_of, require, words_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

ENTRY_POINT_GROUP: Final = "xwheel"
CORE: Final = "xwheel"
FOLDER: Final = "plugins.folder"
GIVEN: Final = "given by a test"
MOST_OBJECTS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginOrigin:
    """Where a plugin comes from: a module that an entry point of a distribution names, or a file of :data:`FOLDER`.

    Settings call it by its ``name``, the entry point's or the file's. Only what ``is_installed`` is ever trusted.
    """

    name: str
    target: str
    distribution: str
    version: str = ""  # none for a file
    is_installed: bool = True

    @property
    def is_core(self) -> bool:
        """Whether it came with xwheel itself."""
        return self.is_installed and self.distribution == CORE

    def __str__(self) -> str:
        if not self.is_installed:
            return f"plugin {self.name} ({self.target})"
        version = f" {self.version}" if self.version else ""
        return f"{self.distribution}{version} (entry point {self.name} = {self.target})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """A plugin, for lists: one that is not ``enabled`` was not loaded, and one with an ``error`` brings nothing."""

    origin: PluginOrigin
    enabled: bool
    # kind to the names that it brought, sorted
    registers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # its options as it understood them, without secrets
    options: Mapping[str, object] = field(default_factory=dict)
    error: XwheelError | None = None  # what is wrong with it, and what to do

    def shown(self, health: Mapping[tuple[str, str], object]) -> dict[str, object]:
        """Return what people see of it, with the health of what it registers, by kind and name."""
        return {
            "name": self.origin.name,
            "distribution": self.origin.distribution,
            "version": self.origin.version,
            "module": self.origin.target,
            "enabled": self.enabled,
            "error": str(self.error or ""),
            "registers": [
                {"kind": kind, "name": name, "health": health.get((kind, name))}
                for kind, names in self.registers.items()
                for name in names
            ],
            "options": dict(self.options),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugins:
    """Everything that can be chosen by name, and the plugins that brought it."""

    schedule_types: Registry[contracts.ScheduleType]
    routers: Registry[contracts.Router]
    glue_types: Registry[contracts.GlueType]
    run_listeners: Registry[contracts.RunListener] = field(default_factory=lambda: Registry("run listener"))
    pages: Registry[Pages] = field(default_factory=lambda: Registry("set of pages"))
    tables: Registry[Tables] = field(default_factory=lambda: Registry("set of tables"))
    routes: Registry[Routes] = field(default_factory=lambda: Registry("set of routes"))
    resources: Registry[Resources] = field(default_factory=lambda: Registry("set of resources"))
    group_calls: Registry[GroupCalls] = field(default_factory=lambda: Registry("set of group calls"))
    observers: Registry[Observer] = field(default_factory=lambda: Registry("observer"))
    gates: Registry[Gate] = field(default_factory=lambda: Registry("gate"))
    recorders: Registry[Recorder] = field(default_factory=lambda: Registry("recorder"))
    commands: Registry[contracts.Commands] = field(default_factory=lambda: Registry("set of commands"))
    # by hook, what was registered for hooks that distributions bring
    others: Mapping[str, Registry[Any]] = field(default_factory=dict)
    installed: Sequence[PluginInfo] = ()  # all plugins, those included that are disabled or broken
    # names of plugins that ``plugins.tolerate`` lets a process start without, to why each is missing
    missing: Mapping[str, str] = field(default_factory=dict)

    def registered(self, hook: str) -> Registry[Any]:
        """Return what was registered for a hook; raises ``KeyError`` if there is none of this name."""
        found: Registry[Any] = getattr(self, _FIELDS[hook]) if hook in _FIELDS else self.others[hook]
        return found

    def offering(self, contract: type[T]) -> list[T]:
        """Return the routes, resources and observers of plugins that can do what a contract says, too, by name."""
        items = (*self.routes.values(), *self.resources.values(), *self.observers.values())
        found = {id(item): item for item in items if isinstance(item, contract)}
        return sorted(found.values(), key=name_of)


_FIELDS: Final = {hook: hook.removeprefix("xwheel_register_") for hook in HOOKS}
"""Hook to the attribute with what was registered for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSurvey:
    """What those plugins brought that are well, and what stops a start, that which is wrong with settings first."""

    plugins: Plugins
    errors: Sequence[XwheelError]
    warnings: Sequence[str]  # what stops none


class _Source(NamedTuple):
    origin: PluginOrigin
    load: Callable[[], object]
    lacks: Sequence[str] = ()  # what its distribution needs and is not there


def load_plugins(config: Config, given: Mapping[str, object] | None = None) -> Plugins:
    """Load all plugins that are there and not disabled; log those that are missing and tolerated.

    Tests give further ones by name, as files, modules or other objects with hooks. Raises PluginError, which names the
    distribution and entry point, if one that ``plugins.tolerate`` does not name cannot be loaded, has an unknown hook
    or a name twice, or registers what is not of the kind; ConfigError for an option, or what settings name.
    """
    return _checked(config, survey_plugins(config, given))


def load_glue_types(config: Config) -> Registry[contracts.GlueType]:
    """Load what an executor needs, as :func:`load_plugins`; those that only schedulers use need no options there."""
    return _checked(config, survey_plugins(config, hooks=("xwheel_register_glue_types",))).glue_types


def survey_plugins(
    config: Config, given: Mapping[str, object] | None = None, hooks: Collection[str] | None = None
) -> PluginSurvey:
    """Load what can be loaded, and say of the rest what is wrong with it; never raises because of a plugin.

    Only these hooks are asked, all if there are none. Tests give further plugins by name.
    """
    sources, errors = _find(config, given or {})
    loader = _Loader(config, hooks)
    infos = [loader.load(source, sources) for source in sources]
    names = {info.origin.name for info in infos}
    broken = {info.origin.name: info.error for info in infos if info.error}
    missing = {
        name: str(broken.get(name, "it is not installed"))
        for name in config.plugins.tolerate
        if name in broken or name not in names
    }
    errors += [info.error for info in infos if info.error and info.origin.name not in missing]
    plugins = Plugins(
        **{_FIELDS[hook]: found for hook, found in loader.registries.items() if hook in _FIELDS},
        others={hook: found for hook, found in loader.registries.items() if hook not in _FIELDS},
        installed=sorted(infos, key=lambda info: info.origin.name),
        missing=missing,
    )
    warnings = list(_left_over(config, names))
    if config.plugins.folder is not None:
        warnings += filter(None, [warning_above(config.plugins.folder)])
    return PluginSurvey(plugins=plugins, errors=errors, warnings=warnings)


def _checked(config: Config, survey: PluginSurvey) -> Plugins:
    """Log what an operator should know, and return what was loaded unless the start must stop."""
    for words in survey.warnings:
        logger.warning("%s", words)
    if survey.errors:
        first, *others = survey.errors
        more = f" (and {len(others)} more: 'xwheel plugins' lists all)" if others else ""
        raise type(first)(f"{first}{more}") from first.__cause__
    for name, reason in survey.plugins.missing.items():
        logger.warning("started without plugin %s, as plugins.tolerate allows: %s", name, reason)
    if config.plugins.folder is not None:
        well = [info.origin for info in survey.plugins.installed if info.enabled and not info.error]
        loaded = ", ".join(origin.name for origin in well if origin.distribution == FOLDER)
        logger.info("plugins of %s: %s", config.plugins.folder, loaded or "none")
    return survey.plugins


def _find(config: Config, given: Mapping[str, object]) -> tuple[list[_Source], list[XwheelError]]:
    sources = list(_installed(tuple(sys.path)))
    errors: list[XwheelError] = []
    if config.plugins.folder is not None:
        try:
            files = list_files(config.plugins.folder)
            sources += [_Source(_no_dist(file.name, file.path, FOLDER), file.load) for file in files]
        except ConfigError as error:
            errors.append(error)
    for name, plugin in given.items():
        if isinstance(plugin, Path):
            sources.append(_Source(_no_dist(name, plugin, GIVEN), one_file(plugin).load))
        else:
            target = getattr(plugin, "__file__", None) or type(plugin).__qualname__
            sources.append(_Source(_no_dist(name, target, GIVEN), partial(_given, plugin)))
    known = sorted(source.origin.name for source in sources)
    errors += [
        ConfigError(f"plugins.disabled names {name!r}, which is not installed; installed: {', '.join(known)}")
        for name in config.plugins.disabled
        if name not in known
    ]
    return sources, errors


@lru_cache(maxsize=4)
def _installed(_path: tuple[str, ...]) -> Sequence[_Source]:
    """Return what installed distributions bring, the core's first.

    It is looked up once for each path on which Python looks: to read what all distributions say of themselves takes
    longer than the rest of a survey, and what was imported stays as it is.
    """
    found: dict[tuple[str, str, str], _Source] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        dist = entry.dist
        brought_by, version = (dist.name, dist.version) if dist else ("unknown distribution", "")
        origin = PluginOrigin(name=entry.name, target=entry.value, distribution=brought_by, version=version)
        lacks = () if origin.is_core or dist is None else tuple(_unmet(dist))
        # an editable install may list the same distribution twice
        found.setdefault((origin.name, str(origin), origin.target), _Source(origin, entry.load, lacks))
    return sorted(found.values(), key=lambda source: (not source.origin.is_core, source.origin.name))


def _given(plugin: object) -> object:
    return plugin


def _no_dist(name: str, target: object, whence: str) -> PluginOrigin:
    return PluginOrigin(name=name, target=str(target), distribution=whence, is_installed=False)


def _left_over(config: Config, names: Iterable[str]) -> Iterator[str]:
    known = sorted(names)
    ways = ": remove the table, install what it is for, or name its folder in plugins.folder"
    for name in config.plugins.options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ways
            yield f"[plugins.options.{name}] is left over: no installed plugin is called {name}{hint}"


class _Loader:
    """Loads one plugin after the other; each brings all that it registers, or nothing."""

    def __init__(self, config: Config, hooks: Collection[str] | None) -> None:
        self._config = config
        self._hooks = {name: hook for name, hook in all_hooks().items() if hooks is None or name in hooks}
        self._hears_all = hooks is None
        self._modules: dict[int, PluginOrigin] = {}
        self.registries: dict[str, Registry[Any]] = {name: Registry(hook.kind) for name, hook in all_hooks().items()}

    def load(self, source: _Source, all_sources: Sequence[_Source]) -> PluginInfo:
        """Load a plugin, and return what became of it."""
        config, origin = self._config, source.origin
        options = config.plugin(origin.name)
        shown = shown_options(None, options)
        if origin.name in config.plugins.disabled:
            return PluginInfo(origin=origin, enabled=False, options=shown)
        try:
            twins = [one.origin for one in all_sources if one.origin.name == origin.name]
            if len(twins) > 1:
                raise DuplicateNameError(f"plugin {origin.name} comes from {twins[0]} and from {twins[1]}")
            plugin = self._import(source)
            brought, noted = self._ask(plugin, origin)
            self._check_names(brought, origin)
        except (PluginError, ConfigError) as error:
            way_out = f"to start without it, name {origin.name} in plugins.tolerate, or in plugins.disabled for good"
            if origin.is_core:
                way_out = f"'pip install --force-reinstall {CORE}' may help"
            refused = type(error)(f"{error}; {way_out}")
            refused.__cause__ = error.__cause__
            return PluginInfo(origin=origin, enabled=True, options=shown, error=refused)
        for hook, objects in brought.items():
            trusted = objects if origin.is_installed and origin.distribution in config.plugins.trusted else ()
            self.registries[hook] = self.registries[hook].with_objects(objects, str(origin), trusted)
        registers = {self._hooks[hook].kind: sorted(objects) for hook, objects in brought.items() if objects}
        shown = shown_options(noted, options)
        return PluginInfo(origin=origin, enabled=True, registers=registers, options=shown)

    def _import(self, source: _Source) -> object:
        origin = source.origin
        for reason in source.lacks:
            raise PluginError(f"{origin} cannot be loaded: {reason}")
        try:
            plugin = source.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            # of our own, such as that others can write to the file
            kind = "" if isinstance(error, PluginError) else f"{type(error).__name__}: "
            raise PluginError(f"{origin} cannot be loaded: {kind}{_line(error)}{_where(error)}") from error
        twin = self._modules.setdefault(id(plugin), origin)
        words = f"{origin} and entry point {twin.name} are one and the same module: keep one of them"
        require(twin is origin, words)
        return plugin

    def _ask(self, plugin: object, origin: PluginOrigin) -> tuple[dict[str, dict[str, object]], PluginOptions | None]:
        """Return by hook what a plugin registers, by name, and its options if it read them with a model."""
        manager = _manager_of(plugin, origin)
        brought: dict[str, dict[str, object]] = {}
        read: dict[str, PluginOptions] = {}
        for name, hook in self._hooks.items():
            caller: pluggy.HookCaller = getattr(manager.hook, name)
            for implementation in caller.get_hookimpls():
                given, noted = self._call(name, implementation, origin)
                read |= noted
                objects = brought.setdefault(name, {})
                for item in given:
                    taken = _take(name, hook, item, origin)
                    if taken in objects:
                        raise DuplicateNameError(f"{hook.kind} {taken!r} is registered twice by {origin}")
                    objects[taken] = item
        options = self._config.plugin(origin.name)
        if options and origin.is_core and self._hears_all and origin.name not in read:
            raise ConfigError(f"plugins.options.{origin.name}.{min(options)}: {origin.name} has no options")
        return brought, read.get(origin.name)

    def _call(
        self, hook: str, implementation: pluggy.HookImpl, origin: PluginOrigin
    ) -> tuple[list[object], dict[str, PluginOptions]]:
        call = cast(Callable[..., Iterable[Any]], implementation.function)
        wanted = [*implementation.argnames, *implementation.kwargnames]
        try:
            with noting_options() as noted:
                arguments: dict[str, object] = {}
                if "config" in wanted:
                    arguments["config"] = self._config
                if "options" in wanted:
                    arguments["options"] = self._options(call, origin)
                given = list(islice(call(**arguments), MOST_OBJECTS + 1))
        except ConfigError as error:
            raise ConfigError(f"{error}; asked for by {origin}") from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            missing = error.args[0] if isinstance(error, KeyError) and error.args else None
            hint = ""
            if "options" in wanted and isinstance(missing, str) and missing.isidentifier():
                hint = f"; is plugins.options.{origin.name}.{missing} missing in the settings?"
            said = f"{type(error).__name__}: {_line(error)}{_where(error)}"
            raise PluginError(f"{origin} fails in {hook}: {said}{hint}") from error
        require(len(given) <= MOST_OBJECTS, f"{origin}, {hook}: returns more than {MOST_OBJECTS} objects")
        for other in sorted(set(noted) - {origin.name}):
            raise PluginError(f"{origin} reads plugins.options.{other}: its own table is plugins.options.{origin.name}")
        return given, noted

    def _options(self, call: Callable[..., object], origin: PluginOrigin) -> object:
        """Return a plugin's table as its hook's parameter wants it: as a checked model, or as it stands there."""
        try:
            annotation = getattr(call, "__annotations__", {}).get("options")
            stub = SimpleNamespace(__annotations__={"options": annotation})
            model = get_type_hints(stub, globalns=getattr(call, "__globals__", {}))["options"]
        except Exception:  # imported for type checkers only, say
            model = None
        if isinstance(model, type) and issubclass(model, PluginOptions):
            return read_options(self._config, origin.name, model)
        return copy.deepcopy(dict(self._config.plugin(origin.name)))

    def _check_names(self, brought: Mapping[str, Iterable[str]], origin: PluginOrigin) -> None:
        for hook, names in brought.items():
            registry = self.registries[hook]
            for name in names:
                for taken in registry if self._hooks[hook].is_alone else ():
                    raise PluginError(
                        f"{origin} brings a {registry.kind}, and {registry.owners[taken]} is one already: name one of "
                        "both in plugins.disabled"
                    )
                if name in registry:
                    raise DuplicateNameError(
                        f"{registry.kind} {name!r} is registered by {registry.owners[name]} and by {origin}"
                    )


def _take(name: str, hook: Hook, item: Any, origin: PluginOrigin) -> str:
    what = f"an object of {type(item).__qualname__}"
    try:
        guarded(what, lambda: check_object(hook.contract, item), allowed=PluginError)
        observes = hook.contract in (Resources, Routes) and isinstance(item, Observer)
        if (hook.is_plugins_own or observes) and item.name != origin.name:
            raise PluginError(f"the {hook.kind} of plugin {origin.name} must have its name, not {item.name[:40]}")
        return str.__str__(item.name)
    except PluginError as error:
        raise PluginError(f"{origin}, {name}: {error}{_place_of(item)}") from None


def _manager_of(plugin: object, origin: PluginOrigin) -> pluggy.PluginManager:
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(hook_specs())
    try:
        manager.register(plugin, name=origin.name)
    except Exception as error:
        raise PluginError(
            f"{origin} has a hook of a wrong form: {_line(error)}; a hook takes config and options, or one of them"
        ) from error
    try:
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        known = ", ".join(sorted(all_hooks()))
        raise PluginError(f"{origin}: {_line(error)}; known hooks: {known}") from error
    _check_hooks(manager, origin, plugin)
    return manager


def _check_hooks(manager: pluggy.PluginManager, origin: PluginOrigin, plugin: object) -> None:
    """Refuse hooks that would never be called, or not in the way that was meant."""
    callers = manager.get_hookcallers(plugin) or []
    marked = {caller.name for caller in callers}
    for caller in callers:
        wraps = any(item.plugin is plugin and (item.wrapper or item.hookwrapper) for item in caller.get_hookimpls())
        require(not wraps, f"{origin}: {caller.name} wraps a hook, but hooks only register objects")
    for name, _ in inspect.getmembers(plugin, inspect.isroutine):
        require(
            name in marked or not name.startswith("xwheel_register_"),
            f"{origin}: {name} is not marked with @hookimpl (from xwheel import hookimpl): it is never called",
        )
    require(bool(marked), f"{origin} has no hook: mark functions such as xwheel_register_routers with @hookimpl")


def _unmet(dist: Distribution) -> Iterator[str]:
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


def _where(error: BaseException) -> str:
    """Return the last line of a plugin's own code, or of what it calls, that an error came from."""
    if isinstance(error, SyntaxError):
        return f" (in {error.filename}:{error.lineno})" if error.filename else ""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen") and frame.filename not in _NOT_THEIRS
    ]
    return f" (in {frames[-1].filename}:{frames[-1].lineno})" if frames else ""


def _place_of(item: object) -> str:
    kind = item if isinstance(item, type) else type(item)
    try:
        return f" (in {inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]})"
    except (OSError, TypeError):
        return ""


def _line(error: BaseException) -> str:
    return " ".join(words_of(error).split())


_NOT_THEIRS: Final = frozenset({__file__, folder.__file__, importlib.__file__, importlib.metadata.__file__})
