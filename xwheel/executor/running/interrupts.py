"""Raises exceptions inside threads, at places where that leaves no lock behind."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
import threading
from pathlib import Path
from types import CodeType
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

_LOOKING: Final = threading.RLock()  # held while collections of garbage are off; a copy is forked when they are not
os.register_at_fork(before=_LOOKING.acquire, after_in_parent=_LOOKING.release, after_in_child=_LOOKING.release)


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


def functions_of(thread_id: int) -> list[CodeType]:
    """Return the code of the functions that a thread is in, the innermost first; nothing of a thread that has ended.

    Python makes the frames of another thread only as they are asked for. Until Python 3.12 a collection of garbage may
    begin there; its finalizers let the other thread go on, whose frames end. What Python returns then is memory that
    holds something else, and the process crashes or stands still (https://github.com/python/cpython/issues/106883).
    Therefore none begins meanwhile.
    """
    functions: list[CodeType] = []
    with _LOOKING:
        collects = gc.isenabled()
        gc.disable()
        try:
            frame = sys._current_frames().get(thread_id)
            while frame is not None:
                functions.append(frame.f_code)
                frame = frame.f_back
        finally:
            if collects:
                gc.enable()
    return functions


def _must_not_be_interrupted(thread_id: int) -> bool:
    functions = functions_of(thread_id)
    if not functions:
        return False
    innermost = functions[0]
    if innermost.co_name in _AT_LOCKS or innermost is _HANDLE or innermost.co_filename.startswith(_PACKAGE):
        return True
    return any(function.co_filename == _RUN_LOG for function in functions)
