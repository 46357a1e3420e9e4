"""What the objects of a log are called, and what their names alone tell; no I/O.

Each object holds some consecutive lines, and its name says which: the first one, how many, how many bytes they are. So
two nodes that write the same lines in chunks of other sizes write other objects, and none overwrites the other's.
Objects may overlap, and reading takes each line once. That also makes it safe to put some objects together into a
larger one and to delete them after that: whatever is cut off in between, each line is in some object.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from xwheel_run_logs import LogChunk, LogEnd, LogKey

TAIL: Final = 64 * 1024
"""Bytes of text up to which the last object of a log is written again with what comes next."""

PART: Final = 512 * 1024
"""Bytes of text at which objects are cut, behind the line."""

LEVEL: Final = 1
_NAME: Final = re.compile(r"([0-9]{12,18})-([0-9]{1,18})-([0-9]{1,18})(-end)?\.gz")


class Part(NamedTuple):
    """One object of a log.

    Attributes:
        first_line: Number of its first line.
        lines: How many it has; 0 only where it just says that the log ends.
        size: How many bytes they are, as UTF-8.
        is_last: Whether the log ends with it.
    """

    first_line: int
    lines: int
    size: int
    is_last: bool

    @property
    def next_line(self) -> int:
        """Number of the line behind it."""
        return self.first_line + self.lines

    @property
    def name(self) -> str:
        """What it is called in the log's folder."""
        return f"{self.first_line:012d}-{self.lines}-{self.size}{'-end' if self.is_last else ''}.gz"


def parse_name(name: str) -> Part | None:
    """Return what a name says; None if it is not one of ours."""
    found = _NAME.fullmatch(name)
    return None if found is None else Part(int(found[1]), int(found[2]), int(found[3]), found[4] is not None)


def folder_of(prefix: str, key: LogKey) -> str:
    """Return what the names of a log's objects begin with: the UTC day of its run, the run's id and time."""
    day = datetime.fromtimestamp(key.created_ms // 1000, UTC).strftime("%Y-%m-%d")
    return f"{prefix}{'/' if prefix else ''}{day}/{key.run_id:d}-{key.created_ms:d}/"


def cover(parts: Iterable[Part]) -> tuple[list[Part], LogEnd]:
    """Return few parts that together have each line from the first one on, in order, and how far they go."""
    chosen: list[Part] = []
    line, best = 1, None
    ordered = sorted(parts)
    for part in ordered:
        if part.first_line > line:
            # what lies behind the farthest part is out of reach, if it leaves a gap
            if best is not None:
                chosen.append(best)
                line, best = best.next_line, None
            if part.first_line > line:
                break
        if part.next_line > (line if best is None else best.next_line):
            best = part
    if best is not None:
        chosen.append(best)
        line = best.next_line
    return chosen, LogEnd(line, any(part.is_last and part.next_line == line for part in ordered))


def needed(chosen: Sequence[Part], from_line: int, max_bytes: int) -> list[Part]:
    """Return those of the parts that are wanted for this many bytes from a line on."""
    found: list[Part] = []
    size = 0
    for part in chosen:
        if part.next_line <= from_line:
            continue
        if found and size >= max_bytes:
            break
        # of the first one, perhaps only the last line is wanted
        size += part.size if found else 0
        found.append(part)
    return found


def join(parts: Sequence[Part], texts: Sequence[bytes], from_line: int) -> bytes:
    """Return the lines of overlapping parts from one on, each once."""
    found, line = [], from_line
    for part, text in zip(parts, texts, strict=True):
        found.append(text[behind(text, line - part.first_line) :])
        line = part.next_line
    return b"".join(found)


def groups(chosen: Sequence[Part]) -> Iterator[list[Part]]:
    """Yield runs of neighbours that are better one object."""
    group: list[Part] = []
    for part in chosen:
        if group and sum(each.size for each in group) + part.size > PART:
            if len(group) > 1:
                yield group
            group = []
        group.append(part)
    if len(group) > 1:
        yield group


class News(NamedTuple):
    """What chunks bring to a log.

    Attributes:
        next_line: The first line that is missing then.
        is_last: Whether the last chunk is among them.
        text: The new lines, as bytes of UTF-8.
        answers: What to answer to each chunk.
    """

    next_line: int
    is_last: bool
    text: bytes
    answers: list[int]


def news(line: int, chunks: Sequence[LogChunk]) -> News:
    """Return what chunks bring to a log that has all lines before one."""
    is_last, found, answers = False, [], []
    for chunk in chunks:
        skipped = line - chunk.first_line
        if 0 <= skipped < chunk.lines:
            text = chunk.text.encode("utf-8", "replace")
            found.append(text[behind(text, skipped) :])
            line = chunk.next_line
            is_last |= chunk.is_last
        elif chunk.is_last and chunk.next_line == line:
            is_last = True
        answers.append(line)
    return News(line, is_last, b"".join(found), answers)


def cut(first_line: int, text: bytes, *, is_last: bool) -> Iterator[tuple[Part, bytes]]:
    """Yield the objects that a text becomes."""
    start = 0
    while True:
        end = text.find(b"\n", start + PART - 1) + 1 or len(text)
        piece = text[start:end]
        lines = piece.count(b"\n")
        yield Part(first_line, lines, len(piece), is_last and end == len(text)), piece
        if end == len(text):
            return
        first_line, start = first_line + lines, end


def behind(text: bytes, lines: int) -> int:
    """Return where the line behind this many lines begins; the end of the text if it has no more."""
    place = 0
    for _ in range(lines):
        place = text.find(b"\n", place) + 1
        if not place:
            return len(text)
    return place


def whole_lines(text: bytes, max_bytes: int) -> str:
    """Return whole lines from the beginning, at most this many bytes, but one line at least."""
    if len(text) > max_bytes:
        end = text.rfind(b"\n", 0, max_bytes) + 1 or text.find(b"\n") + 1
        text = text[:end]
    return text.decode("utf-8", "replace")


def pack(text: bytes) -> bytes:
    """Return an object's content; the same text gives the same bytes."""
    return gzip.compress(text, LEVEL, mtime=0)


def unpack(data: bytes) -> bytes:
    """Return the text of an object.

    Raises:
        ValueError: It is damaged.
    """
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"cannot be decompressed ({error})") from None
