"""What the objects of plugins return and raise, checked at every call: type, range and membership.

Whoever calls a schedule type, a router, an alarm channel, a glue type or a run listener does it through here, so that
one that lies, raises ``SystemExit`` or returns what runs code of its own fails its own job, run or send, by name. One
that may hang is called on a thread of :mod:`xwheel.plugin_threads` besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from xwheel.errors import PluginError, RouteError, ScheduleError, XwheelError
from xwheel.model import RegisteredExecutor
from xwheel.plugin.contracts import ScheduleSpec, ScheduleType

T = TypeVar("T")

LAST_MS: Final = 253_402_300_799_999
"""The last due time that is accepted: the end of the year 9999, beyond which no date can be shown."""

NEAR_MS: Final = 10 * 366 * 86_400_000
"""So near to it dates cannot be calculated with any more."""

TEXT_LENGTH: Final = 500
SHOWN_LENGTH: Final = 60
SHOWN_BITS: Final = 128
LONGEST_WAIT_S: Final = 1e9


def words_of(said: object, kind: str = "") -> str:
    """Return what a plugin raised or said as text that can be logged and kept, whatever its ``__str__`` does."""
    try:
        text = kind + str.__str__(str(said))
    except BaseException:  # it is asked for words only, and has none
        text = f"{kind}(nothing that can be read)"
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def error_words(error: BaseException) -> str:
    """Return an exception of a plugin as one text: its own words if it is one of ours, otherwise with its type."""
    kind = "" if isinstance(error, XwheelError) else f"{type(error).__name__}: "
    text = words_of(error, kind)
    return text if len(text) <= TEXT_LENGTH else text[: TEXT_LENGTH - 3] + "..."


def guarded(
    what: str, call: Callable[[], T], *, allowed: type[XwheelError] | tuple[type[XwheelError], ...] = ()
) -> T:
    """Return what a call to a plugin returns.

    Args:
        what: Who is called, for the message, such as ``schedule type CRON``.
        call: Calls it.
        allowed: What it may raise by its contract.

    Raises:
        PluginError: It raised anything else; ``SystemExit``, ``KeyboardInterrupt`` and ``GeneratorExit`` count too.
    """
    try:
        return call()
    except allowed:
        raise
    except BaseException as error:
        raise PluginError(f"{what} failed: {error_words(error)}") from error


def next_due(name: str, kind: ScheduleType, spec: ScheduleSpec, after_ms: int) -> int | None:
    """Return the first due time of a schedule after an instant, or None if there is none.

    Raises:
        ScheduleError: The schedule type refuses the configuration, or its next due time lies beyond the year 9999.
        PluginError: It raised anything else, or returned what is no due time.
    """
    try:
        due_ms = kind.next_ms(spec, after_ms)
    except ScheduleError:
        raise
    except BaseException as error:
        if isinstance(error, ValueError | OverflowError) and after_ms > LAST_MS - NEAR_MS:
            raise ScheduleError(
                "schedule_conf", f"leads beyond the year 9999 (schedule type {name})"
            ) from error
        raise PluginError(f"schedule type {name} failed: {error_words(error)}") from error
    if due_ms is None or (type(due_ms) is int and after_ms < due_ms <= LAST_MS):
        return due_ms
    if type(due_ms) is int and due_ms > LAST_MS:
        raise ScheduleError("schedule_conf", f"leads beyond the year 9999 (schedule type {name})")
    raise PluginError(
        f"schedule type {name} returned {_shown(due_ms)} for the time after {after_ms}: a due time is an int of "
        "milliseconds later than that, or None"
    )


def chosen_executors(
    chosen: object, known: Mapping[str, RegisteredExecutor]
) -> tuple[RegisteredExecutor, ...]:
    """Return what a router chose, drawn from the executors that it was given.

    A sequence of any kind counts, read once and never further than there are executors. A copy that equals one of the
    executors stands for it.

    Args:
        chosen: What the router returned; to read it may run the router's code, so this is called where it is.
        known: The executors that it was given, by address.

    Raises:
        RouteError: It is no sequence, is empty, or holds what is none of the executors, or one of them twice; the
            message follows the router's name.
    """
    if (type(chosen) is tuple or type(chosen) is list) and len(chosen) == 1:
        only = chosen[0]
        if type(only) is RegisteredExecutor and known.get(only.address) is only:
            return (only,)
    if isinstance(chosen, str | bytes | bytearray) or not isinstance(chosen, Sequence):
        raise RouteError(f"returned {_shown(chosen)} where a list of executors is due")
    found = tuple(islice(iter(chosen), len(known) + 1))
    if not found:
        raise RouteError(f"chose none of {len(known)} executors")
    picked: dict[str, RegisteredExecutor] = {}
    for item in found:
        if type(item) is not RegisteredExecutor:
            raise RouteError(
                f"chose {_shown(item)}, which is no executor: choose from context.executors themselves"
            )
        mine = known.get(item.address)
        if mine is None or (mine is not item and mine != item):
            raise RouteError(f"chose {item.address[:SHOWN_LENGTH]}, which it was not given")
        if item.address in picked:
            raise RouteError(f"chose {item.address} twice: each executor takes one shard")
        picked[item.address] = mine
    return tuple(picked.values())


def seconds(given: object) -> float | None:
    """Return a plugin's number of seconds, or None if it is none."""
    if type(given) not in (int, float) or not -LONGEST_WAIT_S <= given <= LONGEST_WAIT_S:  # type: ignore[operator]
        return None
    return float(given) if math.isfinite(given) else None  # type: ignore[arg-type]


def _shown(value: object) -> str:
    """Return a value as a message shows it, without running code of its own."""
    if type(value) is int and value.bit_length() <= SHOWN_BITS:
        return repr(value)
    if type(value) in (float, bool):
        return repr(value)
    if type(value) in (str, bytes):
        return repr(value[:SHOWN_LENGTH])  # type: ignore[index]
    return f"an object of {type(value).__qualname__}"[:SHOWN_LENGTH]
