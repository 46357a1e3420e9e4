"""The hooks. Each is called once, at start-up, and registers named objects; none is on the way of a fire.

A hook is handed those of the arguments ``config`` and ``options`` that its parameters name, in any order, or none.
``options`` is the plugin's table of options as it stands in the settings; checked and typed, if that parameter is
annotated with a subclass of :class:`~xwheel.plugin.PluginOptions`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, Final

import pluggy

from xwheel.errors import PluginError
from xwheel.plugin import contracts, gates, tables
from xwheel.plugin.group_calls import GroupCalls, check_group_calls
from xwheel.plugin.job_owners import OwnsJobs, check_owner_table
from xwheel.plugin.observers import Observer
from xwheel.plugin.pages import Pages, find_files
from xwheel.plugin.recorders import Recorder
from xwheel.plugin.resources import Resources
from xwheel.plugin.routes import Routes, check_routes_name
from xwheel.plugin.validation import read_entries, require

PROJECT: Final = "xwheel"
BROUGHT: Final = "xwheel.hooks"
"""Entry points that name a mapping such as :data:`HOOKS`: hooks that a distribution brings, for other plugins."""

MAX_NAME: Final = 64
MAX_SCHEDULE_NAME: Final = 32
_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f\x85\ufeff]+")
_COMMAND: Final = re.compile(r"[a-z][a-z0-9-]*(/[a-z][a-z0-9-]*)?")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_HOOK: Final = re.compile(r"xwheel_register_[a-z0-9_]+")
_TYPES: Final = {"str": str, "bool": bool, "Mapping[str, str]": Mapping, "Sequence[str]": Sequence}

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook by which plugins register objects of one kind.

    A distribution names hooks of its own in the entry-point group ``xwheel.hooks``: a mapping of a hook's name, which
    begins with ``xwheel_register_``, to this. What plugins register for it, :meth:`PluginSite.registered` returns.
    """

    kind: str  #: what messages call an object: ``router``
    contract: type[Any]  #: what an object is: a protocol, whose attributes with a value are defaults
    words: str  #: what plugins return, in one sentence
    _: KW_ONLY
    #: protocols of what an object may do besides; one that has such a method must have it in the right form
    more: Sequence[type[Any]] = ()
    #: called with an object that has that form; raises ``PluginError`` if its parts do not go together
    check: Callable[[Any], object] | None = None
    max_name: int = MAX_NAME  #: characters of an object's name; such names fit the columns that hold them
    #: whether an object has the plugin's name, with which the names of its tables begin
    is_plugins_own: bool = False
    is_alone: bool = False  #: whether of all plugins only one may register something


def _check_commands(item: contracts.Commands) -> None:
    what, module = f"commands {item.name[:MAX_NAME]}", item.module
    require(
        _COMMAND.fullmatch(item.name) is not None,
        f"{what}: a command's name has small letters, digits and dashes only, and one / if it is a command of a group",
    )
    require(bool(item.help.strip()) and item.help.isprintable(), f"{what}: help must be one sentence")
    is_module = _MODULE.fullmatch(module) is not None
    require(is_module, f"{what}: module must be the name of a module, not {module[:MAX_NAME]!r}")


def _check_owner(item: Any) -> None:
    if hasattr(item, "owner_table"):
        check_owner_table(item.owner_table)
        _check_more("set of resources", OwnsJobs, item)


HOOKS: Final[Mapping[str, Hook]] = {
    "xwheel_register_schedule_types": Hook(
        "schedule type",
        contracts.ScheduleType,
        "Return schedule types; jobs name them in ``schedule_type``.",
        max_name=MAX_SCHEDULE_NAME,
    ),
    "xwheel_register_routers": Hook(
        "router",
        contracts.Router,
        "Return routers; jobs name them in ``route_strategy``.",
        more=(contracts.TakesOptions,),
    ),
    "xwheel_register_glue_types": Hook(
        "glue type",
        contracts.GlueType,
        "Return glue types; jobs name them in ``glue_type``.",
        more=(contracts.ChecksSource, contracts.ChecksSavedSource),
    ),
    "xwheel_register_run_listeners": Hook(
        "run listener",
        contracts.RunListener,
        "Return run listeners; each gets the changes of runs on a thread of its own.",
    ),
    "xwheel_register_pages": Hook(
        "set of pages", Pages, "Return pages: files for browsers, and what they add to the console.", check=find_files
    ),
    "xwheel_register_tables": Hook(
        "set of tables",
        tables.Tables,
        "Return tables: those of the plugin in the nodes' database, and the migrations that make them.",
        check=tables.KnownTables,
        is_plugins_own=True,
    ),
    "xwheel_register_routes": Hook(
        "set of routes",
        Routes,
        "Return routes: resources of the management API below ``/api/v1/NAME``.",
        more=(contracts.KeepsMails,),
        check=check_routes_name,
    ),
    "xwheel_register_resources": Hook(
        "set of resources",
        Resources,
        "Return resources of the management API, written for Falcon and described in the OpenAPI document.",
        more=(contracts.KeepsMails,),
        check=_check_owner,
    ),
    "xwheel_register_group_calls": Hook(
        "set of group calls",
        GroupCalls,
        "Return group calls: calls on the executor API, in XXL-JOB's envelope, for callers with a group's token.",
        check=check_group_calls,
    ),
    "xwheel_register_observers": Hook(
        "observer",
        Observer,
        "Return observers, which write rows in the transactions that end runs, skip fires and stop jobs.",
        is_plugins_own=True,
    ),
    "xwheel_register_gates": Hook(
        "gate",
        gates.Gate,
        "Return gates, which say who calls the management API and what they may do.",
        more=(gates.KnowsOwners, gates.MakesFirst),
        check=gates.check_gate,
    ),
    "xwheel_register_recorders": Hook(
        "recorder",
        Recorder,
        "Return a recorder, which writes down who changes what; of all plugins at most one does.",
        is_plugins_own=True,
        is_alone=True,
    ),
    "xwheel_register_commands": Hook(
        "set of commands",
        contracts.Commands,
        "Return commands: ``xwheel NAME ...``; asked by the command ``xwheel``, too, where it knows no such command.",
        check=_check_commands,
    ),
}
"""The hooks of xwheel itself, by name."""


@cache
def all_hooks() -> Mapping[str, Hook]:
    """Return the hooks of xwheel itself, then those that distributions bring; what cannot be read is logged."""
    found = dict(HOOKS)
    for brought in read_entries(BROUGHT, _brought):
        found |= {name: hook for name, hook in brought.items() if name not in found}
    return found


def _brought(given: Any) -> dict[str, Hook]:
    kinds = {hook.kind for hook in HOOKS.values()}
    for name, hook in given.items():
        is_hook = isinstance(hook, Hook) and isinstance(hook.contract, type) and hook.kind not in kinds
        if not is_hook or not _HOOK.fullmatch(name) or name in HOOKS:
            raise PluginError(f"{name!r:.60} must be a name xwheel_register_... that is not taken, of a Hook")
    return dict(given)


def hook_specs() -> type:
    """Return what pluggy knows all hooks by: each takes the same."""

    def register(config: object, options: object) -> None:
        del config, options

    return type("Hooks", (), dict.fromkeys(all_hooks(), staticmethod(hookspec(register))))


def check_object(contract: type[Any], item: object) -> None:
    """Give an object the defaults of attributes that it leaves out; refuse it if it is not what it is registered as."""
    hook = next(hook for hook in all_hooks().values() if hook.contract is contract)
    kind = hook.kind
    for attribute, annotation in inspect.get_annotations(contract).items():
        wanted = _TYPES.get(annotation, object)
        if attribute in vars(contract) and not hasattr(item, attribute):
            _set_default(item, attribute, vars(contract)[attribute])
        found = getattr(item, attribute, None)
        if not hasattr(item, attribute) or not isinstance(found, wanted):
            words = type(found).__name__ if hasattr(item, attribute) else "missing"
            what = f"{_named(item)} is no {kind}"
            raise PluginError(f"{what}: {attribute} must be {wanted.__name__}, not {words}")
    name = getattr(item, "name", "")
    if len(name) > hook.max_name or not _NAME.fullmatch(name):
        raise PluginError(
            f"{_named(item)}: a {kind}'s name has 1 to {hook.max_name} characters and no blanks, not "
            f"{name[:MAX_NAME]!r}"
        )
    for method, pattern in _methods(contract):
        _check_method(kind, method, pattern, item)
    for more in hook.more:
        _check_more(kind, more, item)
    if hook.check is not None:
        hook.check(item)


def _check_more(kind: str, contract: type[Any], item: object) -> None:
    methods = list(_methods(contract))
    if any(hasattr(item, method) for method, _ in methods):
        for method, pattern in methods:
            _check_method(kind, method, pattern, item)


def _set_default(item: object, attribute: str, value: object) -> None:
    for owner in (item, type(item)):  # its class, if it has slots or is frozen
        try:
            setattr(owner, attribute, value)
        except (AttributeError, TypeError):
            continue
        return
    raise PluginError(f"{_named(item)} takes no attribute: write {attribute} = {value} in its class")


def _methods(contract: type[Any]) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, value in vars(contract).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield name, value


def _check_method(kind: str, name: str, pattern: Callable[..., object], item: object) -> None:
    method = getattr(item, name, None)
    expected = list(inspect.signature(pattern).parameters)[1:]
    form = f"{name}({', '.join(expected)})"
    if not callable(method):
        raise PluginError(f"{_named(item)} is no {kind}: the method {form} is missing")
    if inspect.iscoroutinefunction(method):
        raise PluginError(f"{_named(item)} is no {kind}: {form} must be a plain method, not an async one")
    try:
        signature = inspect.signature(method)
    except ValueError:
        return  # compiled code may have none
    try:
        signature.bind(*expected)
    except TypeError as error:
        raise PluginError(
            f"{_named(item)} is no {kind}: {name}{signature} cannot be called as {form}: {error}"
        ) from None


def _named(item: object) -> str:
    return f"class {item.__qualname__}" if isinstance(item, type) else f"an object of {type(item).__qualname__}"
