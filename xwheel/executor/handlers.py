"""``@job``: what a function promises to the executor, and the registry that finds it by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeVar

from xwheel.errors import ConfigError, HandlerNotFoundError
from xwheel.wire.contract import TEXT_NO_HANDLER

if TYPE_CHECKING:
    from xwheel.plugin.contracts import Command

MARK: Final = "__xwheel_job__"
MAX_NAME: Final = 255

F = TypeVar("F", bound=Callable[..., object])

_declared: dict[tuple[str, str, str], Callable[..., object]] = {}
"""What ``@job`` marked in this process, by module, name in it and name of the handler."""


class HandlerKind(StrEnum):
    """Where a handler runs."""

    THREAD = "thread"
    ASYNC = "async"
    PROCESS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """A function with its name and options.

    Attributes:
        takes_context: Whether it wants the :class:`~xwheel.executor.JobContext` as its argument.
        parallel: How many runs of one job may run at once.
        init: Called once before the first run in this executor (in a process handler: in each process).
        destroy: Called once when the executor ends.
        command: The program that a process handler becomes, or None; ``function`` prepares it then.
    """

    name: str
    function: Callable[..., object]
    kind: HandlerKind
    takes_context: bool
    parallel: int = 1
    init: Callable[[], object] | None = None
    destroy: Callable[[], object] | None = None
    command: Command | None = None


def job(
    name: str,
    *,
    process: bool = False,
    parallel: int = 1,
    init: Callable[[], object] | None = None,
    destroy: Callable[[], object] | None = None,
) -> Callable[[F], F]:
    """Make a function a handler that jobs name.

    The function stays what it was; an executor finds it when it is given the function or its module.

    Args:
        name: What jobs call it.
        process: Run it in a process of its own, which a kill or a timeout really ends.
        parallel: How many runs of one job may run at once; 1 keeps them in order.
        init: Called before the first run.
        destroy: Called when the executor ends.

    Raises:
        ConfigError: The name or the function cannot be used; the message names the function.
    """

    def mark(function: F) -> F:
        setattr(function, MARK, describe(name, function, process, parallel, init, destroy))
        module, place = (getattr(function, part, "?") for part in ("__module__", "__qualname__"))
        _declared[module, place, name] = function
        return function

    return mark


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
    kind = _kind(where, function, process)
    return Handler(
        name=name,
        function=function,
        kind=kind,
        takes_context=_takes_context(where, function),
        parallel=parallel,
        init=init,
        destroy=destroy,
    )


def handler_of(function: Callable[..., object] | Command, name: str) -> Handler:
    """Return a function's handler; functions that glue types build count as plain ones, commands as processes."""
    found = getattr(function, MARK, None)
    if isinstance(found, Handler):
        return found
    from xwheel.plugin.contracts import Command  # applications that only mark handlers do without

    if not isinstance(function, Command):
        return describe(name or "glue", function)
    _kind("the command of a glue type", function.prepare, process=True)
    return Handler(
        name=name or "glue",
        function=function.prepare,
        kind=HandlerKind.PROCESS,
        takes_context=True,
        command=function,
    )


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
    """Handlers by name; read-only once the executor runs.

    Args:
        sources: Functions with ``@job``, and modules that hold some.

    Raises:
        ConfigError: A source holds no handler, or two handlers share a name.
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
                    raise ConfigError(
                        f"handler {handler.name!r} is both {_place(known.function)} and {_place(handler.function)}"
                    )

    @property
    def names(self) -> list[str]:
        """The names of all handlers, sorted."""
        return sorted(self._handlers)

    def get(self, name: str) -> Callable[..., object]:
        """Return the function that jobs call by this name.

        Raises:
            HandlerNotFoundError: No handler has the name.
        """
        handler = self._handlers.get(name)
        if handler is None:
            raise HandlerNotFoundError(TEXT_NO_HANDLER.format(name))
        return handler.function


def load_targets(targets: Sequence[str]) -> list[object]:
    """Import what targets name; a module without ``:name`` stands for all handlers in it and in what it imports.

    Returns:
        Functions, and whatever the targets with ``:name`` name.

    Raises:
        ConfigError: One cannot be imported, or there is no handler in any of them.
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
    """Import ``module`` or ``module:name`` and return what it names.

    Returns:
        The module, or the attribute (an executor, a function or a list of functions).

    Raises:
        ConfigError: It cannot be imported or has no such attribute.
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
