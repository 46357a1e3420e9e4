"""A lock of the operating system for each node of this machine: one that has ended is known at once, however it did."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import stat
import tempfile
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from xwheel.private_files import FOLDER, make_folder_above

logger = logging.getLogger(__name__)

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
SUFFIX: Final = ".lock"
NAME: Final = re.compile(r"[0-9a-f]{8,64}")


class NodeLocks:
    """Says which nodes ran on this machine and run no more: a file for each, locked for as long as its process lives.

    A node's id is random, so a file of that name is that node's; a copy on another machine, or from before a restart
    of this one, has another boot id and says nothing. Where no file can be kept, nothing is known of any node. The
    folder is of this user alone, and made if it is not there; ``boot`` is None for the kernel's own id.
    """

    def __init__(self, folder: Path, boot: str | None = None) -> None:
        self._folder = folder
        self._boot = _boot_id() if boot is None else boot
        self._held: tuple[Path, int] | None = None

    def hold(self, owner: str) -> None:
        """Lock the file of this node until its process ends; without it the others wait for the lease's end."""
        if not self._boot or self._held is not None:
            return
        try:
            make_folder_above(self._folder)
            self._folder.mkdir(FOLDER, exist_ok=True)
            _refuse_shared(self._folder)
            path = self._folder / f"{owner}{SUFFIX}"
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(handle, self._boot.encode())
        except OSError as error:
            logger.warning(
                "no lock can be kept in %s, so that a restart after a crash waits for the lease to end: %s;"
                " schedule.lock_dir names another folder",
                self._folder,
                error,
            )
            return
        self._held = (path, handle)

    def has_ended(self, owner: str) -> bool:
        """Return whether a node ran on this machine and has ended; False if that is not known."""
        if not self._boot or not NAME.fullmatch(owner):
            return False
        try:
            _refuse_shared(self._folder)  # what others may write proves nothing
            handle = os.open(self._folder / f"{owner}{SUFFIX}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if os.read(handle, 64).decode(errors="replace") != self._boot:
                return False
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def sweep(self, known: Collection[str]) -> None:
        """Delete the files of nodes that have ended and are in no row any more."""
        with suppress(OSError):
            for path in list(self._folder.glob(f"*{SUFFIX}")):
                if path.stem not in known and self.has_ended(path.stem):
                    path.unlink(missing_ok=True)

    def leave(self) -> None:
        """Unlock our file and let it lie: the others see that this node has ended; nothing happens if there is none.

        In a forked child it only closes the child's copy: the parent keeps the lock.
        """
        if self._held is not None:
            os.close(self._held[1])
            self._held = None

    def release(self) -> None:
        """Give our file back; nothing happens if there is none."""
        if self._held is not None:
            path, handle = self._held
            self._held = None
            path.unlink(missing_ok=True)
            os.close(handle)


def default_lock_dir() -> Path:
    """Return the folder for the locks of this user's nodes, the same at each start of this machine."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime) / "xwheel" if runtime else Path(tempfile.gettempdir()) / f"xwheel-{os.geteuid()}"


def _refuse_shared(folder: Path) -> None:
    """Raise an error unless a folder belongs to this user and no one else may write there."""
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PermissionError(f"{folder} is not a folder that only this user may write to")


def _boot_id() -> str:
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
