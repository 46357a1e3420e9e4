"""What the objects of plugins must be, return and raise: type, range and membership.

Their form is checked when they are registered, and not when a run needs it.

Every call of a schedule type, a router, an alarm channel, a glue type, a run listener, a log store or an identity
provider goes through here, so that one that returns something else, raises ``SystemExit`` or returns what runs code of
its own fails its own job, run, send or sign-in, by name. One that may hang is called on a thread of
:mod:`xwheel.runtime.foreign` besides.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from xwheel.errors import LogStoreError, PluginError, RouteError, ScheduleError, StorageError, XwheelError
from xwheel.model import RegisteredExecutor
from xwheel.plugin.contracts import (
    ChecksSavedSource,
    ChecksSetup,
    ChecksSource,
    Commands,
    KeepsMails,
    PartHealth,
    ReportsHealth,
    ScheduleSpec,
    ScheduleType,
    TakesOptions,
)
from xwheel.plugin.gates import Gate, KnowsOwners, MakesFirst, check_gate
from xwheel.plugin.group_calls import GroupCalls
from xwheel.plugin.identities import SignsInByPassword, SignsInByRedirect, SignsOut
from xwheel.plugin.job_owners import OwnsJobs, check_owner_table
from xwheel.plugin.pages import Pages, find_files
from xwheel.plugin.routes import Routes, check_routes_name
from xwheel.plugin.run_logs import LogText, ReadsLogs, TakesLogs
from xwheel.plugin.tables import KnownTables, Tables
from xwheel.wire.messages import LogPart, LogReceipt

logger = logging.getLogger(__name__)

T = TypeVar("T")

LAST_MS: Final = 253_402_300_799_999
"""The last due time that is accepted: the end of the year 9999, beyond which no date can be shown."""

NEAR_MS: Final = 10 * 366 * 86_400_000
"""So near to it dates cannot be calculated with any more."""

TEXT_LENGTH: Final = 500
SHOWN_LENGTH: Final = 60
SHOWN_BITS: Final = 128
LONGEST_WAIT_S: Final = 1e9
MAX_NAME: Final = 64
"""Characters of a name; of a schedule type's :data:`MAX_SCHEDULE_NAME`. They fit the columns that hold them."""

MAX_SCHEDULE_NAME: Final = 32
_NAME: Final = re.compile(r"[^\s\x00-\x1f\x7f\x85\ufeff]+")
_COMMAND: Final = re.compile(r"[a-z][a-z0-9-]*(/[a-z][a-z0-9-]*)?")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
OPTIONAL: Final[Mapping[str, Sequence[type[Any]]]] = {
    "router": (TakesOptions,),
    "glue type": (ChecksSource, ChecksSavedSource),
    "log store": (ChecksSetup,),
    "set of routes": (KeepsMails,),
    "set of resources": (KeepsMails,),
    "gate": (KnowsOwners, MakesFirst),
    "identity provider": (SignsInByPassword, SignsInByRedirect, SignsOut),
}
"""Kind to what its objects may do besides; one that has such a method must have it in the right form."""

_TYPES: Final[dict[str, type]] = {
    "str": str,
    "bool": bool,
    "Mapping[str, str]": Mapping,
    "Sequence[str]": Sequence,
}


def check_object(kind: str, contract: type[Any], item: object) -> None:
    """Give an object the defaults of attributes that it leaves out; refuse it if it is not what it is registered as.

    Args:
        kind: What it shall be, such as ``router``.
        contract: The protocol of that kind.
        item: The object.

    Raises:
        PluginError: An attribute or a method is missing or of another form; the message names it.
    """
    for attribute, annotation in inspect.get_annotations(contract).items():
        wanted = _TYPES[annotation]
        if attribute in vars(contract) and not hasattr(item, attribute):
            _set_default(item, attribute, vars(contract)[attribute])
        found = getattr(item, attribute, None)
        if not isinstance(found, wanted):
            words = "missing" if not hasattr(item, attribute) else f"{type(found).__name__}"
            raise PluginError(
                f"{_named(item)} is no {kind}: {attribute} must be {wanted.__name__}, not {words}"
            )
    name = getattr(item, "name", "")
    limit = MAX_SCHEDULE_NAME if kind == "schedule type" else MAX_NAME
    if len(name) > limit or not _NAME.fullmatch(name):
        raise PluginError(
            f"{_named(item)}: a {kind}'s name has 1 to {limit} characters and no blanks, not {name[:MAX_NAME]!r}"
        )
    for method, pattern in _methods(contract):
        _check_method(kind, method, pattern, item)
    for more in OPTIONAL.get(kind, ()):
        _check_optional(kind, more, item)
    if kind == "identity provider" and not isinstance(item, SignsInByPassword | SignsInByRedirect):
        raise PluginError(f"{_named(item)} is no {kind}: it needs the method sign_in, or begin and finish")
    _check_whole(kind, item)


def _check_whole(kind: str, item: object) -> None:
    """Refuse an object whose attributes do not go together, or that names what is not there."""
    match kind, item:
        case "set of pages", Pages():
            find_files(item)
        case "set of tables", Tables():
            KnownTables(item)
        case "set of routes", Routes():
            check_routes_name(item.name)
        case "gate", Gate():
            check_gate(item)
        case "set of commands", Commands():
            _check_commands(item)
        case "set of group calls", GroupCalls():
            if not item.title.strip() or not item.title.isprintable():
                raise PluginError(f"group calls {item.name}: title must be some words")
        case "set of resources", _ if hasattr(item, "owner_table"):
            check_owner_table(item.owner_table)
            _check_optional(kind, OwnsJobs, item)


def _check_commands(item: Commands) -> None:
    if not _COMMAND.fullmatch(item.name):
        raise PluginError(
            f"commands {item.name[:MAX_NAME]}: a command's name has small letters, digits and dashes only, "
            "and one / if it is a command of a group"
        )
    if not item.help.strip() or not item.help.isprintable():
        raise PluginError(f"commands {item.name}: help must be one sentence")
    if not _MODULE.fullmatch(item.module):
        raise PluginError(
            f"commands {item.name}: module must be the name of a module, not {item.module[:MAX_NAME]!r}"
        )


def _check_optional(kind: str, contract: type[Any], item: object) -> None:
    """Refuse an object with a part of what else its kind may have, or with that in another form."""
    found = [method for method, _ in _methods(contract) if hasattr(item, method)]
    for method, pattern in _methods(contract) if found else ():
        _check_method(kind, method, pattern, item)


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
        what: The plugin, for the message, such as ``schedule type CRON``.
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


def reported_health(plugin: ReportsHealth) -> Sequence[PartHealth]:
    """Return what a plugin says of the health of what it calls; nothing if it fails, which the log tells."""
    name = getattr(plugin, "name", type(plugin).__name__)
    try:
        found = guarded(f"{name}: health()", lambda: tuple(plugin.health()))
        if not all(isinstance(item, PartHealth) for item in found):
            raise PluginError(f"{name}: health() must return objects of PartHealth")
    except PluginError as error:
        logger.warning("%s", error)
        return ()
    return found


def log_text(plugin: ReadsLogs, read: Callable[[], LogText]) -> LogText:
    """Return what a plugin read of a log.

    Raises:
        XwheelError: As the plugin says; ``LogStoreError`` if it raised anything else, or returned no such text.
    """
    name = getattr(plugin, "name", type(plugin).__name__)
    try:
        found = guarded(f"logs of {name}", read, allowed=XwheelError)
    except LogStoreError:
        raise
    except PluginError as error:
        raise LogStoreError(str(error)) from error
    kinds = (int, int, str, bool, str, str)
    if type(found) is not LogText or tuple(map(type, found)) != kinds:
        raise LogStoreError(f"logs of {name}: a LogText is due, not an object of {type(found).__qualname__}")
    return found


def wants_logs(plugin: TakesLogs) -> bool:
    """Return whether a plugin wants logs shipped; not if it fails, which the log tells."""
    name = getattr(plugin, "name", type(plugin).__name__)
    try:
        return guarded(f"{name}: wants_logs()", plugin.wants_logs) is True
    except PluginError as error:
        logger.warning("%s", error)
        return False


def log_receipts(
    plugin: TakesLogs, instance: str, parts: Sequence[LogPart], group_id: int | None
) -> list[LogReceipt]:
    """Return what a plugin answers to shipped parts of logs.

    Raises:
        LogStoreError: It raised that or anything else, or returned no receipts of these runs.
    """
    name = getattr(plugin, "name", type(plugin).__name__)
    try:
        found = guarded(
            f"logs of {name}",
            lambda: list(plugin.take_logs(instance, parts, group_id)),
            allowed=(LogStoreError, StorageError),
        )
    except LogStoreError:
        raise
    except PluginError as error:
        logger.error("%s", error)
        raise LogStoreError(str(error)) from error
    asked = {part.run_id for part in parts}
    if not all(type(item) is LogReceipt and item.run_id in asked for item in found):
        logger.error("logs of %s: take_logs() must return receipts of the runs that it was given", name)
        raise LogStoreError(f"logs of {name}: no receipts")
    return found


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
    executors stands for it, and so does its address.

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
    raise RouteError(
        f"chose {_shown(item)}, which is no executor: choose from context.executors or context.addresses"
    )


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
    kind = item if isinstance(item, type) else type(item)
    return f"class {kind.__qualname__}" if isinstance(item, type) else f"an object of {kind.__qualname__}"
