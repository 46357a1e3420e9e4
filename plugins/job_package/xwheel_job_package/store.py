"""Files of packages: taken in piece by piece, named only by what was checked, and swept after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PIECE: Final = 64 * 1024
STALE_S: Final = 3600
"""An incoming file that no process wrote to for so long is left over from one that ended."""

_STORED: Final = re.compile(r"([1-9][0-9]*)-[A-Za-z0-9][A-Za-z0-9_.!+-]*")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A file that was taken in and is in no one's sight yet.

    Attributes:
        path: Where it is.
        sha256: Its hash.
        size: In bytes.
    """

    path: Path
    sha256: str
    size: int


class PackageStore:
    """A folder of packages, which several nodes may share.

    Thread-safety: any thread; what is written has a name of its own until it is whole.

    Args:
        directory: The folder; made if it is not there.
    """

    def __init__(self, directory: Path) -> None:
        self._files = directory / "packages"
        self._incoming = directory / "incoming"

    @contextmanager
    def take(self, read: Callable[[int], bytes]) -> Iterator[Incoming]:
        """Write a file piece by piece and hash it meanwhile; whatever is left of it at the end of the block goes."""
        for folder in (self._files, self._incoming):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._incoming / secrets.token_hex(16)
        hasher, size = hashlib.sha256(), 0
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                while piece := read(PIECE):
                    hasher.update(piece)
                    size += len(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            yield Incoming(path, hasher.hexdigest(), size)
        finally:
            path.unlink(missing_ok=True)

    def keep(self, incoming: Incoming, package_id: int, name: str) -> None:
        """Let a file appear in the store, whole and at once."""
        incoming.path.replace(self.path(package_id, name))
        descriptor = os.open(self._files, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def path(self, package_id: int, name: str) -> Path:
        """Return where a package's file is; the name was checked when it was uploaded."""
        return self._files / f"{package_id}-{name}"

    def drop(self, package_id: int, name: str) -> None:
        """Delete a package's file, if it is there."""
        self.path(package_id, name).unlink(missing_ok=True)

    def sweep(self, known: Collection[int], now_s: float) -> set[int]:
        """Delete files of packages that are not known, and what was left over; return the packages that have a file."""
        found = set()
        for path in self._files.iterdir() if self._files.is_dir() else ():
            named = _STORED.fullmatch(path.name)
            if named is not None and int(named[1]) in known:
                found.add(int(named[1]))
            elif named is not None:
                path.unlink(missing_ok=True)
        for path in self._incoming.iterdir() if self._incoming.is_dir() else ():
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < now_s - STALE_S:
                    path.unlink()
        return found
