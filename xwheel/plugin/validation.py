"""What the objects of plugins must return and raise: type, range and membership; their form is judged by ``hookspecs``.

Every call of a plugin's object goes through here, so that one that returns something else, raises ``SystemExit`` or
returns what runs code of its own fails its own job, run, send or sign-in, by name. One that may hang is called on a
thread of :mod:`xwheel.runtime.foreign` besides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import entry_points
from itertools import islice
from typing import Any, Final, TypeVar

from xwheel.errors import LogStoreError, PluginError, RouteError, ScheduleError, StorageError, XwheelError
from xwheel.model import RegisteredExecutor, Reporter
from xwheel.plugin.contracts import PartHealth, ReportsHealth, ScheduleSpec, ScheduleType
from xwheel.plugin.run_logs import LogText, ReadsLogs, TakesLogs
from xwheel.wire.messages import LogPart, LogReceipt

logger = logging.getLogger(__name__)

T = TypeVar("T")

LAST_MS: Final = 253_402_300_799_999
"""The last due time that is accepted: the end of the year 9999, beyond which no date can be shown."""

NEAR_MS: Final = 10 * 366 * 86_400_000  # so near to it dates cannot be calculated with any more
TEXT_LENGTH: Final = 500
SHOWN_LENGTH: Final = 60
SHOWN_BITS: Final = 128


def read_entries(group: str, read: Callable[[Any], T]) -> list[T]:
    """Return what the entry points of a group name, read; one that cannot be is logged and left out."""
    found = []
    for entry in entry_points(group=group):
        try:
            found.append(read(entry.load()))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            logger.warning("entry point %s = %s of %s: %s", entry.name, entry.value, group, words_of(error))
    return found


def require(holds: bool, words: str) -> None:
    """Raise a :class:`PluginError` with these words unless what they say holds."""
    if not holds:
        raise PluginError(words)


def is_text(value: object, most: int, least: int = 0) -> bool:
    """Return whether a value is a plain text of so many characters; a subclass may be anything."""
    return type(value) is str and least <= len(value) <= most


def is_number(value: object, least: int, most: int) -> bool:
    """Return whether a value is a plain whole number in a range."""
    return type(value) is int and least <= value <= most


def name_of(plugin: object) -> str:
    """Return what messages call a plugin's object."""
    return str(getattr(plugin, "name", type(plugin).__name__))


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


def guarded(what: str, call: Callable[[], T], *, allowed: type[XwheelError] | tuple[type[XwheelError], ...] = ()) -> T:
    """Return what a call to a plugin, such as ``schedule type CRON``, returns; it may raise what is ``allowed``.

    Anything else is a PluginError; ``SystemExit``, ``KeyboardInterrupt`` and ``GeneratorExit`` count too.
    """
    try:
        return call()
    except allowed:
        raise
    except BaseException as error:
        raise PluginError(f"{what} failed: {error_words(error)}") from error


def reported_health(plugin: ReportsHealth) -> Sequence[PartHealth]:
    """Return what a plugin says of the health of what it calls; nothing if it fails, which the log tells."""
    name = name_of(plugin)
    try:
        found = guarded(f"{name}: health()", lambda: tuple(plugin.health()))
        require(
            all(isinstance(item, PartHealth) for item in found), f"{name}: health() must return objects of PartHealth"
        )
    except PluginError as error:
        logger.warning("%s", error)
        return ()
    return found


def log_text(plugin: ReadsLogs, read: Callable[[], LogText]) -> LogText:
    """Return what a plugin read of a log; it may raise errors of ours, anything else is a LogStoreError."""
    what = f"logs of {name_of(plugin)}"
    try:
        found = guarded(what, read, allowed=XwheelError)
    except PluginError as error:
        raise error if isinstance(error, LogStoreError) else LogStoreError(str(error)) from error
    kinds = (int, int, str, bool, str, str)
    if type(found) is not LogText or tuple(map(type, found)) != kinds:
        raise LogStoreError(f"{what}: a LogText is due, not an object of {type(found).__qualname__}")
    return found


def wants_logs(plugin: TakesLogs) -> bool:
    """Return whether a plugin wants logs shipped; not if it fails, which the log tells."""
    try:
        return guarded(f"{name_of(plugin)}: wants_logs()", plugin.wants_logs) is True
    except PluginError as error:
        logger.warning("%s", error)
        return False


def log_receipts(plugin: TakesLogs, instance: str, parts: Sequence[LogPart], reporter: Reporter) -> list[LogReceipt]:
    """Return what a plugin answers to shipped parts of logs; all but receipts of these runs is a LogStoreError."""
    what, asked = f"logs of {name_of(plugin)}", {part.run_id for part in parts}
    allowed = (LogStoreError, StorageError)
    try:
        found = guarded(what, lambda: list(plugin.take_logs(instance, parts, reporter)), allowed=allowed)
        are_fit = all(type(item) is LogReceipt and item.run_id in asked for item in found)
        require(are_fit, f"{what}: take_logs() must return receipts of the runs that it was given")
    except LogStoreError:
        raise
    except PluginError as error:
        logger.error("%s", error)
        raise LogStoreError(str(error)) from error
    return found


def next_due(name: str, kind: ScheduleType, spec: ScheduleSpec, after_ms: int) -> int | None:
    """Return the first due time of a schedule after an instant, or None if there is none.

    Raises ScheduleError if the schedule type refuses the configuration, or its next due time lies beyond the year 9999;
    PluginError if it raised anything else, or returned what is no due time.
    """
    try:
        due_ms = kind.next_ms(spec, after_ms)
    except ScheduleError:
        raise
    except BaseException as error:
        if isinstance(error, ValueError | OverflowError) and after_ms > LAST_MS - NEAR_MS:
            raise _too_late(name) from error
        raise PluginError(f"schedule type {name} failed: {error_words(error)}") from error
    if due_ms is None or (type(due_ms) is int and after_ms < due_ms <= LAST_MS):
        return due_ms
    if type(due_ms) is int and due_ms > LAST_MS:
        raise _too_late(name)
    raise PluginError(
        f"schedule type {name} returned {_shown(due_ms)} for the time after {after_ms}: a due time is an int of "
        "milliseconds later than that, or None"
    )


def _too_late(name: str) -> ScheduleError:
    return ScheduleError("schedule_conf", f"leads beyond the year 9999 (schedule type {name})")


def chosen_executors(chosen: object, known: Mapping[str, RegisteredExecutor]) -> tuple[RegisteredExecutor, ...]:
    """Return what a router chose, drawn from the executors that it was given.

    A sequence of any kind counts, read once and never further than there are executors. A copy that equals one of the
    executors stands for it, and so does its address. To read it may run the router's code, so this is called where
    that is; ``known`` has the executors by address.

    Raises RouteError, whose message follows the router's name, if it is no sequence, is empty, or holds what is none of
    the executors, or one of them twice.
    """
    if (type(chosen) is tuple or type(chosen) is list) and len(chosen) == 1:
        only = chosen[0]
        if type(only) is RegisteredExecutor and known.get(only.address) is only:
            return (only,)
    if type(chosen) is str and chosen in known:
        raise RouteError(f"returned {_shown(chosen)} where a list is due: return [address]")
    if isinstance(chosen, str | bytes | bytearray) or not isinstance(chosen, Sequence):
        raise RouteError(f"returned {_shown(chosen)} where a list of executors or addresses is due")
    found = tuple(islice(iter(chosen), len(known) + 1))
    if not found:
        raise RouteError(f"chose none of {len(known)} executors")
    picked: dict[str, RegisteredExecutor] = {}
    for item in found:
        address = _address_of(item)
        mine = known.get(address)
        if mine is None or (type(item) is RegisteredExecutor and mine is not item and mine != item):
            raise RouteError(f"chose {address[:SHOWN_LENGTH]}, which it was not given")
        if address in picked:
            raise RouteError(f"chose {address} twice: each executor takes one shard")
        picked[address] = mine
    return tuple(picked.values())


def _address_of(item: object) -> str:
    if type(item) is RegisteredExecutor:
        return item.address
    if type(item) is str:
        return item
    raise RouteError(f"chose {_shown(item)}, which is no executor: choose from context.executors or context.addresses")


def _shown(value: object) -> str:
    """Return a value as a message shows it, without running code of its own."""
    if type(value) in (float, bool) or (type(value) is int and value.bit_length() <= SHOWN_BITS):
        return repr(value)
    if type(value) in (str, bytes):
        return repr(value[:SHOWN_LENGTH])  # type: ignore[index]
    return f"an object of {type(value).__qualname__}"[:SHOWN_LENGTH]
