"""Brings what a program prints into its run's log, while it runs and in bounded memory."""

from __future__ import annotations

import codecs
import os
import select
from typing import Final

from xwheel.executor.logs.run_log import RunLog

CHUNK: Final = 64 * 1024
LAST_CHUNKS: Final = 64
"""Chunks read after the supervisor's end: a pipe holds less, so more would come from a process that escaped."""


def copy_output(source: int, report: int, log: RunLog) -> None:
    """Copy until every writer has closed the pipe, or the supervisor has ended and what it left is read.

    Bytes that are not UTF-8 become replacement characters.

    Args:
        source: The pipe that is standard output and error of the program.
        report: A pipe whose other end the supervisor holds until it ends.
        log: Where it goes; what is beyond the log's limit is read and dropped there.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    os.set_blocking(source, False)
    poll = select.poll()
    poll.register(source, select.POLLIN)
    poll.register(report, 0)
    left = LAST_CHUNKS
    has_ended = False
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
        log.raw(decoder.decode(data))
    log.raw(decoder.decode(b"", True))
