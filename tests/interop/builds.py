"""Applications are built once for all processes and kept, under a name that changes with whatever they are built of."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

BUILD_S = 240


def digest(files: Iterable[Path], *words: str) -> str:
    """Return a short name of what files and words say."""
    found = hashlib.sha256("\0".join(words).encode())
    for file in sorted(files):
        found.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return found.hexdigest()[:12]


def build_once(folder: Path, build: Callable[[Path], object]) -> Path:
    """Return a folder that ``build`` filled, in this process or before in another one.

    Args:
        folder: Where it stands in the end; it is there only when complete.
        build: Gets an empty folder next to it.
    """
    if folder.exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(folder.suffix + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            work = Path(tempfile.mkdtemp(prefix=folder.name + ".", dir=folder.parent))
            try:
                build(work)
                work.rename(folder)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return folder


def call(command: Sequence[str | Path], folder: Path, tries: int = 1, **environment: str) -> None:
    """Run a build command, more than once if it fetches something; its output is the message of its failure."""
    for number in range(1, tries + 1):
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=BUILD_S,
            check=False,
        )
        if done.returncode == 0:
            return
        assert number < tries, f"{command} in {folder}:\n{done.stdout.decode(errors='replace')[-4000:]}"
