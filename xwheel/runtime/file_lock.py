"""An exclusive lock of the operating system on a file, which ends with its process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from xwheel.errors import LockError
from xwheel.private_files import open_file


class FileLock:
    """An exclusive lock that is free again as soon as its process is gone, however it ended.

    The file is made if it is not there; ``what`` says what the lock means, for the message.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._what = what
        self._handle: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this object has the lock; in a forked child, whether the parent had it at the fork."""
        return self._handle is not None

    def acquire(self) -> None:
        """Take the lock; nothing happens if this object has it. Raises LockError: another process has it."""
        if self._handle is not None:
            return
        handle = open_file(self._path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(handle)
            raise LockError(f"another process holds {self._path}: {self._what}") from error
        self._handle = handle

    def release(self) -> None:
        """Give the lock back, if it is held. A forked child closes its copy alone: the parent keeps the lock."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
