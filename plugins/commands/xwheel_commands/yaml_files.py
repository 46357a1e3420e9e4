"""Reads YAML that is not trusted: text, whole numbers, true, false and null, with the line where each thing stands.

Only what every reader of YAML agrees on is taken for more than text, so ``yes``, ``1e3``, ``0x10`` and dates stay
text. There are no tags and no merge keys; size, depth and what aliases repeat are bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import IO, Any, Final

import yaml
from xwheel.errors import FieldError

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_DEPTH: Final = 32
TOO_DEEP: Final = f"is nested too deeply: at most {MAX_DEPTH} levels"
MAX_NODES: Final = 2_000_000
MAX_REPEATED: Final = 100_000
"""Nodes that all aliases of a file together may stand for."""

MAX_ECHO: Final = 64
TEXT_TAG: Final = "tag:yaml.org,2002:str"
NUMBER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
WORDS: Final[dict[str, bool | None]] = {"": None, "~": None, "null": None, "true": True, "false": False}
Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class YamlFileError(FieldError):
    """A file cannot be used; the field is the file, the line and what stands there."""


@dataclass(frozen=True, slots=True)
class YamlNode:
    """A value and where it stands.

    Attributes:
        value: Text, a number, true, false, null, a list of nodes, or a table of nodes by key.
        line: Counted from 1.
        size: Nodes in it, itself included.
    """

    value: Any
    line: int
    size: int = 1

    def plain(self) -> Any:
        """Return the value without places."""
        if isinstance(self.value, list):
            return [item.plain() for item in self.value]
        if isinstance(self.value, dict):
            return {key: item.plain() for key, item in self.value.items()}
        return self.value


def read_documents(name: str, stream: IO[bytes]) -> list[YamlNode]:
    """Return the documents of a file; empty ones are left out.

    Args:
        name: What errors call the file.
        stream: Its bytes; never more than the limit is read.

    Raises:
        YamlFileError: It is too large, not UTF-8, not YAML, too deep, or uses what is not allowed.
    """
    content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise YamlFileError(name, f"is too large: at most {MAX_BYTES // 1024 // 1024} MiB; split it in files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise YamlFileError(f"{name}:{line}", f"is not UTF-8 (byte {error.start})") from None
    try:
        return _Composer(name).documents(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = name if mark is None else f"{name}:{mark.line + 1}"
        if "nesting depth" in str(error.problem):  # the library's own limit, met while it reads ahead
            raise YamlFileError(place, TOO_DEEP) from None
        raise YamlFileError(place, f"is not YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        reason = getattr(error, "reason", None) or "it cannot be read"
        raise YamlFileError(name, f"is not YAML: {reason}") from None


@dataclass(slots=True)
class _Open:
    """A list or table that is not complete yet."""

    line: int
    anchor: str | None
    items: list[YamlNode] | None = None
    table: dict[str, YamlNode] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    key: str | None = None
    size: int = 1


class _Composer:
    """Builds nodes from the parser's events, with a stack of its own so that depth costs no recursion."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: list[_Open] = []
        self._anchors: dict[str, YamlNode] = {}
        self._documents: list[YamlNode] = []
        self._nodes = 0
        self._repeated = 0

    def documents(self, text: str) -> list[YamlNode]:
        for event in yaml.parse(text, Loader=Loader):
            line = event.start_mark.line + 1 if event.start_mark else 1
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event, line)
            elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
                self._begin(event, line)
            elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
                self._end()
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event, line)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._anchors.clear()
        return [node for node in self._documents if node.value is not None]

    def _scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        if event.tag not in (None, "!", TEXT_TAG):
            raise self._error(line, f"tags such as {event.tag[:MAX_ECHO]!r} are not allowed")
        is_plain = event.implicit[0] and event.tag is None
        self._take(YamlNode(_value(event.value) if is_plain else event.value, line), event.anchor, event.value)

    def _begin(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent, line: int) -> None:
        if event.tag not in (None, "!"):
            raise self._error(line, f"tags such as {event.tag[:MAX_ECHO]!r} are not allowed")
        if len(self._open) >= MAX_DEPTH:
            raise self._error(line, TOO_DEEP)
        if self._wants_key():
            raise self._error(line, "keys must be text")
        if isinstance(event, yaml.SequenceStartEvent):
            self._open.append(_Open(line, event.anchor, items=[]))
        else:
            self._open.append(_Open(line, event.anchor))

    def _end(self) -> None:
        done = self._open.pop()
        value = done.items if done.items is not None else done.table
        self._take(YamlNode(value, done.line, done.size), done.anchor)

    def _alias(self, event: yaml.AliasEvent, line: int) -> None:
        name = event.anchor or ""
        known = self._anchors.get(name)
        if known is None:
            raise self._error(line, f"the alias *{name[:MAX_ECHO]} stands for nothing that is complete")
        self._repeated += known.size
        if self._repeated > MAX_REPEATED:
            raise self._error(line, f"aliases repeat too much: at most {MAX_REPEATED} values in a file")
        if self._wants_key():
            raise self._error(line, "keys must be text, not aliases")
        self._take(known, None)

    def _wants_key(self) -> bool:
        return bool(self._open) and self._open[-1].items is None and self._open[-1].key is None

    def _take(self, node: YamlNode, anchor: str | None, raw: str | None = None) -> None:
        """Put a complete node where it belongs."""
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._error(node.line, f"holds too much: at most {MAX_NODES} values in a file")
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._open:
            self._documents.append(node)
            return
        owner = self._open[-1]
        owner.size += node.size
        if owner.items is not None:
            owner.items.append(node)
        elif owner.key is None:
            self._key(owner, raw or "", node.line)
        else:
            owner.table[owner.key] = node
            owner.key = None

    def _key(self, owner: _Open, key: str, line: int) -> None:
        if key == "<<":
            raise self._error(line, "merge keys (<<) are not supported: write the fields out")
        if key in owner.lines:
            raise self._error(line, f"the key {key[:MAX_ECHO]!r} stands here twice, first in line {owner.lines[key]}")
        owner.lines[key] = line
        owner.key = key

    def _error(self, line: int, reason: str) -> YamlFileError:
        return YamlFileError(f"{self._name}:{line}", reason)


def _value(text: str) -> Any:
    if text in WORDS:
        return WORDS[text]
    return int(text) if NUMBER.fullmatch(text) else text
