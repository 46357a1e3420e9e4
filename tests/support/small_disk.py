"""Run a command beside a small disk: ``python -m tests.support.small_disk FOLDER MEGABYTES COMMAND…``.

A tmpfs is mounted on the folder, in a mount namespace of its own (``unshare --mount``, with a user namespace unless we
are root), and is gone with the command. From outside the folder is seen through ``/proc/<pid>/root``.
"""

from __future__ import annotations

import os
import subprocess
import sys


def unshare(folder: str, megabytes: int, command: list[str]) -> list[str]:
    """Return the command that does it."""
    flags = ["--mount"] if os.geteuid() == 0 else ["--map-root-user", "--mount"]
    return [
        "unshare", *flags, sys.executable, "-m", "tests.support.small_disk", folder, str(megabytes), *command,
    ]  # fmt: skip


def main() -> None:
    folder, megabytes, *command = sys.argv[1:]
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={int(megabytes)}m", "xwheel-test", folder], check=True
    )
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
