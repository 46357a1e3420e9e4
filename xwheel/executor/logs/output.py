"""Brings what a program prints into its run's log, while it runs and in bounded memory."""

from __future__ import annotations

import codecs
import os
import re
import select
from typing import Final

from xwheel.executor.logs.run_log import RunLog

CHUNK: Final = 64 * 1024
LAST_CHUNKS: Final = 64
"""Chunks read after the supervisor's end: a pipe holds less, so more would come from a process that escaped."""

LAST_LINES: Final = 5
LAST_CHARS: Final = 1000  # what is kept of the end of an output
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def copy_output(source: int, report: int, log: RunLog) -> str:
    """Copy until every writer has closed the pipe, or the supervisor has ended and what it left is read.

    Bytes that are not UTF-8 become replacement characters; what is beyond the log's limit is read and dropped there.
    The supervisor holds the other end of the pipe ``report`` until it ends. Returns the end of what was written,
    :data:`LAST_CHARS` at most.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    os.set_blocking(source, False)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(report, 0)
    left = LAST_CHUNKS
    has_ended = False
    end = ""
    while left:
        if not has_ended:
            has_ended = any(descriptor == report for descriptor, _ in poll.poll())
        try:
            data = os.read(source, CHUNK)
        except BlockingIOError:
            if has_ended:
                break
            continue
        if not data:
            break
        left -= has_ended
        text = decoder.decode(data)
        log.raw(text)
        end = (end + text[-LAST_CHARS:])[-LAST_CHARS:]
    text = decoder.decode(b"", True)
    log.raw(text)
    return (end + text)[-LAST_CHARS:]


def last_lines(end: str) -> str:
    """Return the last lines of the end of an output in one line, without what only terminals understand."""
    lines = (_TERMINAL.sub("", line) for line in end.splitlines())
    plain = ("".join(char for char in line if char.isprintable() or char == "\t").strip() for line in lines)
    return " / ".join([line for line in plain if line][-LAST_LINES:])
