"""``@job``: what a function promises to the executor, and the registry that finds it by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from xwheel.errors import ConfigError, HandlerNotFoundError
from xwheel.executor.declarations import Declaration, declare, nearest
from xwheel.model.jobs import DECLARABLE
from xwheel.model.shorthand import SHORT_NAMES
from xwheel.wire.contract import TEXT_NO_HANDLER

if TYPE_CHECKING:
    from xwheel.plugin.contracts import Command, HostedRun

MARK: Final = "__xwheel_job__"
MAX_NAME: Final = 255
OPTIONS: Final = ("process", "parallel", "init", "destroy")
SCHEDULES: Final = ("cron", "every", "delay", "at")

F = TypeVar("F", bound=Callable[..., object])

# what ``@job`` marked in this process, by module, name in it and name of the handler
_declared: dict[tuple[str, str, str], Callable[..., object]] = {}


class HandlerKind(StrEnum):
    """Where a handler runs."""

    THREAD = "thread"
    ASYNC = "async"
    PROCESS = "process"
    HOSTED = "hosted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function with its name and options."""

    name: str
    function: Callable[..., object]
    kind: HandlerKind
    takes_context: bool  # it wants the JobContext as its argument
    parallel: int = 1  # how many runs of one job may run at once
    init: Callable[[], object] | None = None  # called once before the first run, in each process of its own
    destroy: Callable[[], object] | None = None  # called once when the executor ends
    command: Command | None = None  # what a process handler becomes; the function prepares it then
    hosted: HostedRun | None = None  # the run in a process of its glue type's own
    declaration: Declaration | None = None  # the job that code declares with it


def job(
    name: str,
    *,
    process: bool = False,
    parallel: int = 1,
    init: Callable[[], object] | None = None,
    destroy: Callable[[], object] | None = None,
    cron: str | None = None,
    every: float | str | timedelta | None = None,
    delay: float | str | timedelta | None = None,
    at: datetime | str | None = None,
    **fields: Any,
) -> Callable[[F], F]:
    """Make a function a handler that jobs name, and with a schedule or other fields of a job declare that job, too.

    The function stays what it was; an executor finds it when it is given the function or its module. Declared jobs are
    made on the scheduler by ``xwheel sync``, or by the executor itself with ``executor.sync_jobs``; a mistake in what
    is said of the job is told there, and the handler works nevertheless.

    Args:
        name: What jobs call it; also the name of the declared job.
        process: Run it in a process of its own, which a kill or a timeout really ends.
        parallel: How many runs of one job may run at once; 1 keeps them in order.
        init: Called before the first run.
        destroy: Called when the executor ends.
        cron: Five fields as in crontab, or six or seven as in Quartz.
        every: A fixed rate: seconds, a timedelta, or a text such as ``500ms``, ``10s``, ``5m``.
        delay: The pause between the end of a run and the next one; written as above.
        at: Once, at that time.
        fields: Further fields of the job, by the management API's names: ``timezone``, ``param``, ``timeout_s``,
            ``max_retries`` (or ``retries``).

    Raises:
        ConfigError: The name, an option or the function cannot be used; the message names the function.
    """

    def mark(function: F) -> F:
        handler = describe(name, function, process, parallel, init, destroy)
        schedule = {"cron": cron, "every": every, "delay": delay, "at": at}
        _refuse_options(f"@job({name!r}) on {getattr(function, '__qualname__', function)}", schedule, fields)
        setattr(function, MARK, replace(handler, declaration=declare(name, function, schedule, fields)))
        module, place = (getattr(function, part, "?") for part in ("__module__", "__qualname__"))
        _declared[module, place, name] = function
        return function

    return mark


def _refuse_options(where: str, schedule: Mapping[str, object], fields: Mapping[str, Any]) -> None:
    """Refuse names that were meant to be options of the handler: without them it would run in another way.

    Raises ConfigError if there is one, or nothing but names that no job has.
    """
    known = {*DECLARABLE, *SHORT_NAMES}
    strange = [name for name in fields if name not in known]
    declares = any(value is not None for value in schedule.values()) or len(strange) < len(fields)
    for name in strange:
        close = nearest(name, {*known, *OPTIONS, *SCHEDULES})
        if close in OPTIONS or not declares:
            hint = f"did you mean {close}?" if close else f"options are {', '.join((*OPTIONS, *SCHEDULES))}"
            raise ConfigError(f"{where}: {name} is neither an option of handlers nor a field of jobs; {hint}")


def describe(
    name: str,
    function: Callable[..., object],
    process: bool = False,
    parallel: int = 1,
    init: Callable[[], object] | None = None,
    destroy: Callable[[], object] | None = None,
) -> Handler:
    """Return a function as a handler; raises like :func:`job`."""
    where = f"@job({name!r}) on {getattr(function, '__qualname__', function)}"
    if not name.strip() or name != name.strip() or len(name) > MAX_NAME:
        raise ConfigError(f"{where}: a name of 1 to {MAX_NAME} characters without outer blanks is needed")
    if parallel < 1:
        raise ConfigError(f"{where}: parallel must be at least 1")
    return Handler(
        name=name,
        function=function,
        kind=_kind(where, function, process),
        takes_context=_takes_context(where, function),
        parallel=parallel,
        init=init,
        destroy=destroy,
    )


def handler_of(function: Callable[..., object] | Command | HostedRun, name: str) -> Handler:
    """Return a function's handler; functions that glue types build count as plain ones, other things as processes."""
    found = getattr(function, MARK, None)
    if isinstance(found, Handler):
        return found
    from xwheel.plugin.contracts import Command, HostedRun  # applications that only mark handlers do without

    name = name or "glue"
    if isinstance(function, HostedRun):
        kind, run = HandlerKind.HOSTED, function.run
        return Handler(name=name, function=run, kind=kind, takes_context=True, hosted=function)
    if isinstance(function, Command):
        kind, prepare = _kind("the command of a glue type", function.prepare, process=True), function.prepare
        return Handler(name=name, function=prepare, kind=kind, takes_context=True, command=function)
    return describe(name, function)


def _kind(where: str, function: Callable[..., object], process: bool) -> HandlerKind:
    is_async = inspect.iscoroutinefunction(function)
    if process and is_async:
        raise ConfigError(f"{where}: an async function cannot be a process handler")
    if process and "<" in getattr(function, "__qualname__", "<"):
        raise ConfigError(f"{where}: a process handler must be importable, so not local and no lambda")
    if process:
        return HandlerKind.PROCESS
    return HandlerKind.ASYNC if is_async else HandlerKind.THREAD


def _takes_context(where: str, function: Callable[..., object]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    needed = [item for item in parameters if item.default is item.empty and item.kind not in _VARIADIC]
    if len(needed) > 1 or any(item.kind is item.KEYWORD_ONLY for item in needed):
        raise ConfigError(f"{where}: takes no argument or one, the JobContext")
    return bool(needed) or any(item.kind in _POSITIONAL for item in parameters)


_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class HandlerRegistry:
    """Handlers by name, of functions with ``@job`` and of modules that hold some; read-only once the executor runs.

    Raises ConfigError if a source holds no handler, or two handlers share a name.
    """

    def __init__(self, sources: Iterable[object] = ()) -> None:
        self._handlers: dict[str, Handler] = {}
        for source in sources:
            found = _handlers_in(source)
            if not found:
                raise ConfigError(f"{getattr(source, '__name__', source)!r} holds no @job handler")
            for handler in found:
                known = self._handlers.setdefault(handler.name, handler)
                if known.function is not handler.function:
                    places = f"{_place(known.function)} and {_place(handler.function)}"
                    raise ConfigError(f"handler {handler.name!r} is both {places}")

    @property
    def names(self) -> list[str]:
        """The names of all handlers, sorted."""
        return sorted(self._handlers)

    @property
    def declarations(self) -> list[Declaration]:
        """The jobs that code declares with them, by name."""
        found = (self._handlers[name].declaration for name in self.names)
        return [item for item in found if item is not None]

    def get(self, name: str) -> Callable[..., object]:
        """Return the function that jobs call by this name; raises HandlerNotFoundError if no handler has it."""
        handler = self._handlers.get(name)
        if handler is None:
            raise HandlerNotFoundError(TEXT_NO_HANDLER.format(name))
        return handler.function


def load_targets(targets: Sequence[str]) -> list[object]:
    """Import what targets name; a module without ``:name`` stands for all handlers in it and in what it imports.

    Returns functions, and whatever the targets with ``:name`` name. Raises ConfigError: one cannot be imported, or
    there is no handler in any of them.
    """
    found: list[object] = []
    for target in targets:
        before = dict(_declared)
        item = load_handlers(target)
        if ":" in target:
            found.append(item)
            continue
        functions = [mark.function for mark in _handlers_in(item)]
        functions += [function for key, function in _declared.items() if before.get(key) is not function]
        found += functions
    if targets and not found:
        raise ConfigError(
            f"{', '.join(targets)}: no @job handler is there, nor in what is imported there: mark functions with "
            "@job('NAME'), or name the modules that have them"
        )
    return found


def load_handlers(target: str) -> object:
    """Import ``module`` or ``module:name``; return the module, or the attribute: an executor, a function or a list.

    Raises ConfigError: it cannot be imported or has no such attribute.
    """
    module_name, _, attribute = target.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigError(f"cannot import {module_name!r}: {type(error).__name__}: {error}") from error
    for part in filter(None, attribute.split(".")):
        if not hasattr(found, part):
            raise ConfigError(f"{module_name!r} has no attribute {attribute!r}")
        found = getattr(found, part)
    return found


def _handlers_in(source: object) -> list[Handler]:
    mark = getattr(source, MARK, None)
    if isinstance(mark, Handler):
        return [mark]
    values: Iterable[object] = ()
    if isinstance(source, ModuleType | type):
        values = vars(source).values()
    elif isinstance(source, Mapping):
        values = source.values()
    elif isinstance(source, Iterable) and not isinstance(source, str):
        values = source
    marks = [getattr(value, MARK, None) for value in values]
    return [mark for mark in marks if isinstance(mark, Handler)]


def _place(function: Callable[..., object]) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', function)}"
