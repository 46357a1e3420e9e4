"""Run a command next to a small disk: ``python -m tests.support.small_disk FOLDER MEGABYTES COMMAND…``.

A tmpfs is mounted on the folder, in a mount namespace of its own (``unshare --mount``, with a user namespace unless we
are root), and is gone with the command. From outside the folder is seen through ``/proc/<pid>/root``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from pathlib import Path


def unshare(folder: str, megabytes: int, command: list[str], *, as_root: bool = True) -> list[str]:
    """Return the command that does it.

    Args:
        as_root: Where we are not root the command believes that it is, which database servers refuse.
    """
    flags = ["--mount"]
    if os.geteuid() != 0:
        flags += ["--map-root-user"] if as_root else ["--map-current-user", "--keep-caps"]
    return [
        "unshare", *flags, sys.executable, "-m", "tests.support.small_disk", folder, str(megabytes), *command,
    ]  # fmt: skip


def main() -> None:
    folder, megabytes, *command = sys.argv[1:]
    size = f"size={int(megabytes)}m".encode()
    # the program of this name wants to be called by root
    if ctypes.CDLL(None, use_errno=True).mount(b"xwheel-test", folder.encode(), b"tmpfs", 0, size):
        raise OSError(ctypes.get_errno(), f"cannot mount {folder}")
    os.execv(command[0], command)


def fill(path: Path) -> None:
    """Write a file until its disk has no room for another byte."""
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for size in (1 << 20, 65_536, 4096, 1):
            with contextlib.suppress(OSError):
                while True:
                    os.write(number, b"x" * size)
    finally:
        os.close(number)


if __name__ == "__main__":
    main()
