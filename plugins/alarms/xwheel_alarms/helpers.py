"""What channels have in common: templates of texts, receivers, and who got an alarm already."""

from __future__ import annotations

import difflib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from xwheel import cron
from xwheel.errors import ScheduleError

from xwheel_alarms.contract import Alarm

# what stands between braces and could be meant for a name; JSON's braces, which hold quotes or spaces, could not
_MARK: Final = re.compile(r"""\{([^{}\s"':,]+)\}""")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SHOWN: Final = 40

ALARM_PLACEHOLDERS: Final = (
    "id",
    "kind",
    "time",
    "title",
    "text",
    "reason",
    "count",
    "job",
    "job_id",
    "group",
    "run_id",
    "link",
)


class AlarmTemplate:
    """A text with placeholders; ``{title}`` stands for the value of that name.

    That is the whole language: no attributes, no indices, no formats, no conditions. Braces around anything else are
    plain text, so that a template may be JSON. Values are put in once and not searched again. Immutable.

    Args:
        text: The template.
        extra: Names that a channel knows besides :data:`ALARM_PLACEHOLDERS`.

    Raises:
        ValueError: It names what is not known; the message says what is.
    """

    def __init__(self, text: str, extra: Collection[str] = ()) -> None:
        known = (*ALARM_PLACEHOLDERS, *extra)
        for name in _MARK.findall(text):
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {{{near[0]}}}? " if near else ""
                shown = name if len(name) <= _MAX_SHOWN else f"{name[:_MAX_SHOWN]}..."
                raise ValueError(f"{{{shown}}} is no placeholder; {hint}known: {', '.join(known)}")
        parts = _MARK.split(text)
        self._texts = parts[::2]
        self._names = parts[1::2]

    @property
    def names(self) -> frozenset[str]:
        """The placeholders in it."""
        return frozenset(self._names)

    def fill(self, values: Mapping[str, str], escape: Callable[[str], str] = str) -> str:
        """Return the text with the values in it.

        Args:
            values: By name; what is missing is empty.
            escape: Makes a value harmless in the target, such as ``html.escape``; applied to values alone.
        """
        parts = [self._texts[0]]
        for name, text in zip(self._names, self._texts[1:], strict=True):
            parts += (escape(values.get(name, "")), text)
        return "".join(parts)


def shown_time(at_ms: int, timezone: str = "UTC") -> str:
    """Return a time as the clocks of a zone show it, with the zone; in UTC if this machine does not know the zone."""
    try:
        moment = _EPOCH + timedelta(milliseconds=at_ms)
        try:
            local = moment.astimezone(cron.zone(timezone))
        except ScheduleError:
            return moment.strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):
        return str(at_ms)
    if timezone == "UTC":
        return local.strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"{local.isoformat(' ', 'seconds')} {timezone}"


def alarm_values(alarm: Alarm) -> dict[str, str]:
    """Return the values of :data:`ALARM_PLACEHOLDERS`; every one can be encoded as UTF-8, and is else as it was."""
    job, group, run = alarm.job, alarm.group, alarm.run
    values = {
        "id": str(alarm.id),
        "kind": str(alarm.kind),
        "time": shown_time(alarm.at_ms, job.timezone if job is not None else "UTC"),
        "title": alarm.title,
        "text": alarm.text,
        "reason": alarm.reason,
        "count": str(alarm.count),
        "job": job.name if job is not None else "",
        "job_id": str(job.id) if job is not None else "",
        "group": group.app_name if group is not None else "",
        "run_id": str(run.id) if run is not None else "",
        "link": alarm.link,
    }
    return {name: value.encode("utf-8", "replace").decode("utf-8") for name, value in values.items()}


def checked_receivers(receivers: Iterable[str], parse: Callable[[str], str]) -> tuple[list[str], dict[str, str]]:
    """Return the receivers that can be used, each once, and for every other one the reason.

    Args:
        receivers: As an alarm rule has them.
        parse: Returns a receiver in its one spelling, or raises ``ValueError``, whose message is the reason.
    """
    good: dict[str, None] = {}
    bad: dict[str, str] = {}
    for receiver in receivers:
        try:
            good[parse(receiver)] = None
        except ValueError as error:
            bad[repr(receiver[:100])] = str(error)
    return list(good), bad


class AlarmReceipts:
    """Remembers which receivers got an alarm while others did not, so that it is not sent to them again.

    *Thread-safety:* all methods may be called from any thread.

    Args:
        limit: How many alarms are remembered; the oldest goes first. A restart forgets them all.
    """

    def __init__(self, limit: int = 1000) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._got: OrderedDict[tuple[object, ...], set[str]] = OrderedDict()

    def missing(self, alarm: Alarm, receivers: Iterable[str]) -> Sequence[str]:
        """Return the receivers that have not got it, in order, each once."""
        with self._lock:
            got = self._got.get(_key(alarm), set())
            return [receiver for receiver in dict.fromkeys(receivers) if receiver not in got]

    def note(self, alarm: Alarm, receivers: Iterable[str]) -> None:
        """Remember that they got it, as others did not."""
        with self._lock:
            self._got.setdefault(_key(alarm), set()).update(receivers)
            self._got.move_to_end(_key(alarm))
            while len(self._got) > self._limit:
                self._got.popitem(last=False)

    def forget(self, alarm: Alarm) -> None:
        """Forget it, since all receivers got it."""
        with self._lock:
            self._got.pop(_key(alarm), None)


def _key(alarm: Alarm) -> tuple[object, ...]:
    # a summary may go under the id of the alarm that began it
    return (alarm.id, alarm.kind, alarm.at_ms, alarm.count, alarm.title)
