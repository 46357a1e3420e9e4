"""How commands spell values: times and spans, fields of an object, pieces of a log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import typer
from xwheel.cli.output import NOTHING, plain, visible
from xwheel.clock import wall_ms
from xwheel.errors import FieldError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNITS_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
SPAN: Final = re.compile(r"([1-9][0-9]{0,8})([smhdw])")
MAX_MS: Final = 253_402_300_799_999
SGR: Final = re.compile(r"\x1b\[([0-9;:]{0,64})m")


def print_fields(values: Iterable[tuple[str, object]]) -> None:
    """Print one object, a field a line."""
    pairs = [(name, visible(value)) for name, value in values]
    width = max((len(name) for name, _ in pairs), default=0)
    for name, value in pairs:
        typer.echo(f"{name:<{width}}  {value}".rstrip())


class Colours:
    """Lets the colours of a log through and nothing else that a terminal obeys; remembers whether they are on.

    Args:
        keep: Whether there is a terminal; elsewhere colours are dropped.
    """

    def __init__(self, keep: bool) -> None:
        self._keep = keep
        self._is_on = False

    def only(self, text: str) -> str:
        """Return a piece of a log for a terminal."""
        pieces = []
        start = 0
        for found in SGR.finditer(text):
            pieces += [plain(text[start : found.start()]), found[0] if self._keep else ""]
            start = found.end()
            self._is_on = self._keep and bool(found[1].strip("0;:"))
        return "".join([*pieces, plain(text[start:])])

    def end(self) -> str:
        """Return what belongs behind the last piece, so that what comes next has the terminal's own colours."""
        return "\x1b[0m" if self._is_on else ""


def local_time(moment_ms: int | None) -> str:
    """Return an instant as ISO 8601 in the zone of this machine, or a dash."""
    if moment_ms is None:
        return NOTHING
    moment = (EPOCH + timedelta(milliseconds=moment_ms)).astimezone()
    return moment.isoformat(timespec="milliseconds" if moment_ms % 1000 else "seconds")


def local_clock(moment_ms: int) -> str:
    """Return the time of day of an instant in the zone of this machine, and the day unless it is today's."""
    moment = (EPOCH + timedelta(milliseconds=moment_ms)).astimezone()
    today = (EPOCH + timedelta(milliseconds=wall_ms())).astimezone().date()
    return moment.strftime("%H:%M:%S" if moment.date() == today else "%Y-%m-%d %H:%M:%S")


def utc_time(moment_ms: int) -> str:
    """Return an instant of UTC, to the second."""
    return datetime.fromtimestamp(moment_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def shown(values: dict[str, Any]) -> list[tuple[str, object]]:
    """Return the fields of an object with its times spelled for people."""
    return [
        (name, local_time(value) if is_instant(name) and value is not None else value) for name, value in values.items()
    ]


def is_instant(field: str) -> bool:
    """Return whether a field holds an instant rather than a duration."""
    return field in {
        "anchor_ms", "start_ms", "end_ms", "next_fire_ms", "last_fire_ms", "created_ms", "updated_ms", "due_ms",
        "planned_ms", "dispatched_ms", "accepted_ms", "began_ms", "finished_ms", "skip_last_ms", "seen_ms",
    }  # fmt: skip


def span_ms(text: str, option: str) -> int:
    """Return the milliseconds of a span such as ``90s`` or ``1h``.

    Raises:
        FieldError: It is none.
    """
    found = SPAN.fullmatch(text)
    if found is None:
        raise FieldError(option, f"takes a span such as 90s, 10m, 1h or 2d, not {text[:40]!r}")
    return int(found[1]) * UNITS_MS[found[2]]


def utc_instant(text: str, option: str) -> str:
    """Return an instant of ISO 8601 or epoch ms as ISO 8601 in UTC; without an offset it is in this machine's zone.

    Raises:
        FieldError: It is none.
    """
    if SPAN.fullmatch(text):
        raise FieldError(option, "takes an instant; a span from now goes with --in")
    moment = EPOCH + timedelta(milliseconds=instant_ms(text, option))
    return moment.isoformat(timespec="milliseconds")


def instant_ms(text: str, option: str) -> int:
    """Return the instant that an option names: a span before now such as ``1h``, epoch ms, or ISO 8601.

    Raises:
        FieldError: It names none.
    """
    found = SPAN.fullmatch(text)
    try:
        if found:
            moment_ms = wall_ms() - int(found[1]) * UNITS_MS[found[2]]
        elif text.isascii() and text.isdecimal() and len(text) < len(str(MAX_MS)) + 1:
            moment_ms = int(text)
        else:
            moment_ms = (datetime.fromisoformat(text).astimezone() - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError, OSError):
        moment_ms = -1
    if not 1 <= moment_ms <= MAX_MS:
        raise FieldError(
            option, f"takes a span such as 90s, 1h or 2d, ISO 8601, or epoch milliseconds, not {text[:40]!r}"
        )
    return moment_ms
