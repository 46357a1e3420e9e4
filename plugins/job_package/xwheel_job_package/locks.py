"""Locks on files, which processes of one machine share and the kernel gives back when a holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from typing import Final

from xwheel_job_package.failures import Cancel

AGAIN_S: Final = 0.05


class HeldLock:
    """A held lock; :meth:`release` gives it back."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Give it back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> HeldLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def take(path: Path, cancel: Cancel, *, shared: bool = False) -> HeldLock:
    """Wait for a lock and take it; anyone who holds it for work has a time limit of its own.

    Raises:
        PackageRunError: The run was asked to end meanwhile.
    """
    while (found := try_take(path, shared=shared)) is None:
        cancel.pause(AGAIN_S)
    return found


def try_take(path: Path, *, shared: bool = False) -> HeldLock | None:
    """Return a lock if it is free, or if it is shared and the others share it, too."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            # it may have been deleted with what it guards between the opening and the lock
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return HeldLock(descriptor)
    except BlockingIOError:
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None
