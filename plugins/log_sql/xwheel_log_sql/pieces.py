"""How the lines of a log are laid into rows, without any SQL.

A log is one row in ``xwheel_log``: where it ends, and its last few kilobytes. What is older lies in rows of
``xwheel_log_piece``, each with some ten kilobytes, and none of them ever changes. So a log that gets a line each second
rewrites one small row, and a short log is one row in all.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from xwheel_run_logs import LogChunk

LEAST_PIECE: Final = 16 * 1024
"""Bytes of text from which a log's end becomes a piece."""

PIECE: Final = 64 * 1024
"""Bytes of text at which pieces are cut, behind the line."""

LEVEL: Final = 1
"""Of the compression: the fastest one is within a few percent of the others for logs."""


class Log(NamedTuple):
    """The row of a log.

    Attributes:
        next_line: The first line that is missing.
        is_complete: Whether the last chunk came.
        tail_line: Number of the tail's first line.
        tail: The last lines, as bytes of UTF-8; they are in no piece.
    """

    next_line: int = 1
    is_complete: bool = False
    tail_line: int = 1
    tail: bytes = b""


class Piece(NamedTuple):
    """Lines that stay as they are.

    Attributes:
        first_line: Number of the first one.
        text: The lines, as bytes of UTF-8.
    """

    first_line: int
    text: bytes


def extend(log: Log, chunks: Sequence[LogChunk]) -> tuple[Log, list[Piece], list[int]]:
    """Return a log with what chunks bring, the pieces that are new, and what to answer to each chunk."""
    line, is_complete = log.next_line, log.is_complete
    found, answers = [log.tail], []
    for chunk in chunks:
        skipped = line - chunk.first_line
        if 0 <= skipped < chunk.lines:
            text = chunk.text.encode("utf-8", "replace")
            found.append(text[behind(text, skipped) :])
            line = chunk.next_line
            is_complete |= chunk.is_last
        elif chunk.is_last and chunk.next_line == line:
            is_complete = True
        answers.append(line)
    if line == log.next_line:
        return log._replace(is_complete=is_complete), [], answers
    tail_line, text, start, pieces = log.tail_line, b"".join(found), 0, []
    for piece in _cut(text):
        pieces.append(Piece(tail_line, piece))
        tail_line += piece.count(b"\n")
        start += len(piece)
    return Log(line, is_complete, tail_line, text[start:]), pieces, answers


def _cut(text: bytes) -> Iterator[bytes]:
    """Yield what becomes pieces; what is left stays the tail."""
    start = 0
    while len(text) - start >= LEAST_PIECE:
        end = text.find(b"\n", start + PIECE - 1) + 1 or len(text)
        yield text[start:end]
        start = end


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
    """Return a text compressed."""
    return zlib.compress(text, LEVEL) if text else b""


def unpack(data: bytes) -> bytes:
    """Return a text that was compressed.

    Raises:
        ValueError: It is damaged.
    """
    try:
        return zlib.decompress(data) if data else b""
    except zlib.error as error:
        raise ValueError(f"a row of the log cannot be decompressed ({error})") from None
