"""Handlers that only count, or note when they start, so that the pipeline is what gets measured."""

from __future__ import annotations

import mmap
import os
import struct
import threading
import time
from functools import cache
from pathlib import Path

from xwheel.executor import JobContext, job

COUNT_FILE = "BENCH_COUNT_FILE"
"""Environment variable: a file of eight bytes that gets the number of runs."""

STARTS = "starts"
"""Next to it: a file that gets a run's id and when its handler started, in microseconds, of what notes this."""

START = struct.Struct("<QQ")

_turn = threading.Lock()


def _counter() -> memoryview:
    name = os.environ.get(COUNT_FILE)
    if name is None:
        return memoryview(bytearray(8)).cast("Q")
    with Path(name).open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 8)).cast("Q")


_count = _counter()


@cache
def _starts() -> int:
    path = Path(os.environ[COUNT_FILE]).with_name(STARTS)
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)


@job("nothing", parallel=64)
def nothing() -> None:
    """Count this run."""
    with _turn:
        _count[0] += 1


@job("note_start", parallel=64)
def note_start(context: JobContext) -> None:
    """Note when this run started, in a few microseconds: what a handler does holds up those that start after it."""
    started_us = time.time_ns() // 1000
    os.write(_starts(), START.pack(context.run_id, started_us))
