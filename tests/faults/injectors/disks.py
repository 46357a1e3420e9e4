"""A small disk that several processes may use one after the other, and that can be filled to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.faults.injectors.fault import Fault
from tests.support.paths import ROOT
from tests.support.small_disk import fill, unshare

FILLER = "filler"


class SmallDisk:
    """A tmpfs on a folder, seen there by the processes of :meth:`command` alone; it outlives them.

    Attributes:
        path: The folder as it is seen from outside.

    Args:
        folder: An empty one.
        megabytes: How much fits.
    """

    def __init__(self, folder: Path, megabytes: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # ends with us: its input does
        holder = ["/bin/sh", "-c", "echo ready; exec cat"]
        self._holder = subprocess.Popen(
            unshare(str(folder), megabytes, holder, as_root=False),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self._holder.communicate()
            raise RuntimeError(f"no disk on {folder}: unshare ended with {self._holder.returncode}")
        self.path = Path(f"/proc/{self._holder.pid}/root{folder}")

    def command(self, words: Sequence[str], *, cwd: Path | None = None) -> list[str]:
        """Return the command that runs words next to the disk; the pid is theirs in the end."""
        user = ["--user", "--preserve-credentials"] if os.geteuid() else []
        # entering leaves the working directory, which may have another look from inside
        there = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd or Path.cwd())]
        return ["nsenter", f"--target={self._holder.pid}", "--mount", *user, "--", *there, *words]

    def fill(self) -> None:
        """Leave no room for another byte; what was freed since the last time is used up, too."""
        fill(self.path / FILLER)

    def free(self) -> None:
        """Make room again."""
        (self.path / FILLER).unlink(missing_ok=True)

    def filling(self) -> Fault:
        """Return a fault that fills it and makes room again."""
        return Fault("full disk", self.fill, self.free)

    def close(self) -> None:
        """Let it be gone with all that is on it, once no process uses it."""
        self._holder.communicate()

    def __enter__(self) -> SmallDisk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
