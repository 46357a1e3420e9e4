"""Raises exceptions inside threads, at places where that leaves no lock behind."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from pathlib import Path
from typing import Final

_PACKAGE: Final = str(Path(__file__).parents[1]) + os.sep
_RUN_LOG: Final = str(Path(__file__).parents[1] / "logs" / "run_log.py")

# functions of Python's own that take a lock for their caller, or give it back
_AT_LOCKS: Final = frozenset({
    "acquire", "release", "__enter__", "__exit__",  # conditions, semaphores, log handlers, and what is like them
    "_acquire_restore", "_release_save",  # of conditions, around a wait
    "_acquireLock", "_releaseLock",  # of logging, until Python 3.12
})  # fmt: skip
_HANDLE: Final = logging.Handler.handle.__code__  # from Python 3.13 on it takes the lock by itself


def interrupt(thread_id: int, error: type[BaseException]) -> bool:
    """Raise an error inside a thread, at its next Python instruction; return whether it was set on its way.

    It is not while the thread is in a function that takes a lock for its caller, or gives it back: the error would come
    before the block that releases the lock, or instead of the release. Nor is it while the thread writes a run's log.
    An error is raised in the very function where the thread stands as it is set: threads stand still only at calls and
    at places where they look for errors.
    """
    if _must_not_be_interrupted(thread_id):
        return False
    _set(thread_id, error)
    # another thread may have had its turn between the two; one that waits for a lock now has not seen the error yet
    if _must_not_be_interrupted(thread_id):
        _set(thread_id, None)
        return False
    return True


def take_back(thread_id: int) -> None:
    """Drop an error that was set on its way to a thread and not raised there yet."""
    _set(thread_id, None)


def _set(thread_id: int, error: type[BaseException] | None) -> None:
    argument = None if error is None else ctypes.py_object(error)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), argument)


def _must_not_be_interrupted(thread_id: int) -> bool:
    frame = sys._current_frames().get(thread_id)
    if frame is None:
        return False
    code = frame.f_code
    if code.co_name in _AT_LOCKS or code is _HANDLE or code.co_filename.startswith(_PACKAGE):
        return True
    while frame is not None:
        if frame.f_code.co_filename == _RUN_LOG:
            return True
        frame = frame.f_back
    return False
