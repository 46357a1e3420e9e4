"""Give back what a process needs no more: to the allocator what only cycles hold, and to the system what is free."""

from __future__ import annotations

import ctypes
import gc

# glibc's; elsewhere allocators give back by themselves, or keep it
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)


def tidy() -> None:
    """Drop what only cycles hold, then let the system have what is free: some milliseconds, mostly without the GIL.

    The allocator keeps for each group of threads as much as they ever needed at once, so that a process grows with
    its worst moments; a node did so by a tenth an hour.
    """
    gc.collect()
    if _trim is not None:
        _trim(0)
