"""Give back what a process needs no more: to the allocator what only cycles hold, and to the system what is free."""

from __future__ import annotations

import ctypes
import gc

# glibc's; elsewhere allocators give back by themselves, or keep it
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def trim() -> None:
    """Let the system have what is free: some milliseconds, without the GIL.

    The allocator keeps for each group of threads as much as they ever needed at once, so that a process grows with
    its worst moments; a node and an executor did so by a tenth an hour.
    """
    if _trim is not None:
        _trim(0)


def tidy() -> None:
    """Drop what only cycles hold, then let the system have what is free: for a node, whose objects are few.

    Left alone, the interpreter would search for cycles only after half an hour of steady work or more, and among older
    objects only after days.
    """
    gc.collect()
    trim()
