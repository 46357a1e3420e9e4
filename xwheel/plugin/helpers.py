"""What plugins have in common: alarm templates, receivers, and secrets that must not be shown."""

from __future__ import annotations

import base64
import difflib
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html.entities import codepoint2name
from importlib.util import find_spec
from typing import Final
from urllib.parse import quote, quote_plus

from xwheel.plugin.contracts import Alarm

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


def has_node_libraries() -> bool:
    """Return whether the libraries of a node are installed; an executor or the command line alone has none of them.

    For hooks of a plugin whose commands work without them: what needs a database is not registered there.
    """
    return find_spec("sqlalchemy") is not None


def alarm_values(alarm: Alarm) -> dict[str, str]:
    """Return the values of :data:`ALARM_PLACEHOLDERS`; every one can be encoded as UTF-8, and is else as it was."""
    try:
        time = (_EPOCH + timedelta(milliseconds=alarm.at_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        time = str(alarm.at_ms)
    job, group, run = alarm.job, alarm.group, alarm.run
    values = {
        "id": str(alarm.id),
        "kind": str(alarm.kind),
        "time": time,
        "title": alarm.title,
        "text": alarm.text,
        "reason": alarm.reason,
        "count": str(alarm.count),
        "job": job.name if job is not None else "",
        "job_id": str(job.id) if job is not None else "",
        "group": group.app_name if group is not None else "",
        "run_id": str(run.id) if run is not None else "",
    }
    return {name: value.encode("utf-8", "replace").decode("utf-8") for name, value in values.items()}


def checked_receivers(
    receivers: Iterable[str], parse: Callable[[str], str]
) -> tuple[list[str], dict[str, str]]:
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


class SecretMask:
    """Takes secrets out of texts, such as answers that repeat them, however these spell them.

    Each character may be as it is, or as URLs, forms, JSON, JavaScript and HTML write it, in either case and mixed;
    the whole may be in base64 at any of its three places, for URLs or not, in lines or not, and in hexadecimal numbers.

    Immutable.

    Args:
        secrets: As they are; empty ones do not count.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        known = sorted({text for text in secrets if text}, key=len, reverse=True)
        plain = {
            spelling
            for text in known
            for spelling in (text, quote(text, safe=""), quote_plus(text), _in_json(text))
        }
        self._plain = sorted(plain, key=len, reverse=True)
        self._patterns = [re.compile("|".join(_spelled(text))) for text in known]
        self._longest = max((sum(map(_most_of, text)) for text in known), default=0)

    @property
    def longest(self) -> int:
        """Characters of the longest spelling; so many at the end of a text that was cut may be a part of a secret."""
        return self._longest

    def hide(self, text: str) -> str:
        """Return the text with ``***`` in place of secrets."""
        for spelling in self._plain:
            text = text.replace(spelling, "***")
        for pattern in self._patterns:
            text = pattern.sub("***", text)
        return text


SHORTEST_CODED: Final = 6
"""Characters of a secret in base64 or hexadecimal numbers below which it is not looked for: other words are like it."""

_ESCAPES: Final = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_BASE64: Final = "[A-Za-z0-9+/_-]"
_LINE_END: Final = r"(?:\r?\n|(?:\\r)?\\n|(?:%0[dD])?%0[aA])?"
"""As it may stand anywhere in base64."""


def _spelled(secret: str) -> Iterator[str]:
    """Give patterns of all spellings of a secret."""
    yield "".join(map(_of_character, secret))
    data = secret.encode("utf-8", "surrogatepass")
    if len(data.hex()) >= SHORTEST_CODED:
        yield _any_case(data.hex())
    for place in range(3):
        coded = base64.b64encode(b"\0" * place + data).decode()
        # what is of this secret alone; a character at either end may be of its neighbours, too
        own = coded[(0, 2, 3)[place] : (place + len(data)) * 8 // 6]
        if len(own) >= SHORTEST_CODED:
            inner = _LINE_END.join(map(_of_base64, own))
            yield f"(?:{_BASE64}{_LINE_END})?{inner}(?:{_LINE_END}{_BASE64})?(?:=|%3[dD]){{0,2}}"


def _of_base64(character: str) -> str:
    """Return the pattern of a character of base64: two are others in URLs, and may be escaped there."""
    other = {"+": "-", "/": "_"}.get(character)
    return character if other is None else f"(?:{_of_character(character)}|{other})"


def _of_character(character: str) -> str:
    """Return the pattern of all spellings of a character, longest first; what was tried is not tried in another way."""
    code, units = ord(character), character.encode("utf-16-be", "surrogatepass").hex()
    octets = character.encode("utf-8", "surrogatepass")
    found = [
        "".join(f"%(?:25)?{_any_case(f'{octet:02x}')}" for octet in octets),
        "".join(rf"\\{{1,2}}u{_any_case(units[place : place + 4])}" for place in range(0, len(units), 4)),
        rf"&(?:amp;)?#(?:0{{0,4}}{code}|[xX]0{{0,4}}{_any_case(f'{code:x}')});?",
    ]
    if len(octets) == 1:
        found.append(rf"\\x{_any_case(f'{code:02x}')}")
    if name := {39: "apos", **codepoint2name}.get(code):
        found.append(f"&(?:amp;)?{name};?")
    if character == " ":
        found.append(r"\+")
    if character in _ESCAPES:
        found.append(rf"\\{_ESCAPES[character]}")
    elif not character.isalnum():
        found.append(rf"\\{re.escape(character)}")
    return f"(?>{'|'.join(found)}|{re.escape(character)})"


def _any_case(digits: str) -> str:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits)


def _most_of(character: str) -> int:
    """Return how many characters of a text the longest spelling of a character has."""
    return max(14, 5 * len(character.encode("utf-8", "surrogatepass")))


def _in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
