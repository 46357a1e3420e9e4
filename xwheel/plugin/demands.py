"""What the contracts demand of an object, checked when it is registered and not when a run needs it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from xwheel.errors import PluginError
from xwheel.plugin.contracts import ChecksSource, TakesOptions

MAX_NAME: Final = 64
"""Characters of a name; of a schedule type's :data:`MAX_SCHEDULE_NAME`. They fit the columns that hold them."""

MAX_SCHEDULE_NAME: Final = 32
_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f\x85\ufeff]+")
OPTIONAL: Final[dict[str, type[Any]]] = {"router": TakesOptions, "glue type": ChecksSource}
"""Kind to what its objects may do besides; one that has such a method must have it in the right form."""

_TYPES: Final[dict[str, type]] = {"str": str, "bool": bool}


def check_object(kind: str, contract: type[Any], item: object) -> None:
    """Refuse an object that cannot be what it is registered as.

    Args:
        kind: What it shall be, such as ``router``.
        contract: The protocol of that kind.
        item: The object.

    Raises:
        PluginError: An attribute or a method is missing or of another form; the message names it.
    """
    for attribute, annotation in inspect.get_annotations(contract).items():
        wanted = _TYPES[annotation]
        found = getattr(item, attribute, None)
        if not isinstance(found, wanted):
            words = "missing" if not hasattr(item, attribute) else f"{type(found).__name__}"
            raise PluginError(
                f"{_shown(item)} is no {kind}: {attribute} must be {wanted.__name__}, not {words}"
            )
    name = getattr(item, "name", "")
    limit = MAX_SCHEDULE_NAME if kind == "schedule type" else MAX_NAME
    if len(name) > limit or not _NAME.fullmatch(name):
        raise PluginError(
            f"{_shown(item)}: a {kind}'s name has 1 to {limit} characters and no blanks, not {name[:MAX_NAME]!r}"
        )
    for method, pattern in _methods(contract):
        _check_method(kind, method, pattern, item)
    if kind in OPTIONAL:
        for method, pattern in _methods(OPTIONAL[kind]):
            if hasattr(item, method):
                _check_method(kind, method, pattern, item)


def _methods(contract: type[Any]) -> Iterator[tuple[str, Callable[..., object]]]:
    for name, value in vars(contract).items():
        if inspect.isfunction(value) and not name.startswith("_"):
            yield name, value


def _check_method(kind: str, name: str, pattern: Callable[..., object], item: object) -> None:
    method = getattr(item, name, None)
    expected = list(inspect.signature(pattern).parameters)[1:]
    form = f"{name}({', '.join(expected)})"
    if not callable(method):
        raise PluginError(f"{_shown(item)} is no {kind}: the method {form} is missing")
    if inspect.iscoroutinefunction(method):
        raise PluginError(f"{_shown(item)} is no {kind}: {form} must be a plain method, not an async one")
    try:
        signature = inspect.signature(method)
    except ValueError:
        return  # compiled code may not tell
    try:
        signature.bind(*expected)
    except TypeError as error:
        raise PluginError(
            f"{_shown(item)} is no {kind}: {name}{signature} cannot be called as {form}: {error}"
        ) from None


def _shown(item: object) -> str:
    kind = item if isinstance(item, type) else type(item)
    return f"class {kind.__qualname__}" if isinstance(item, type) else f"an object of {kind.__qualname__}"
