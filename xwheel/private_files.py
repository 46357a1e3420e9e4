"""Files and folders of this user alone, whatever the umask: 0600 in 0700."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final

from xwheel.errors import ConfigError

logger = logging.getLogger(__name__)

FILE: Final = 0o600
FOLDER: Final = 0o700
OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
STRANGERS: Final = stat.S_IROTH | stat.S_IWOTH
SQLITE_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


def make_folder(path: Path, *, ours: Collection[str] | None = None) -> None:
    """Make a folder, and the missing ones above it, for this user alone; raises OSError if it cannot be made.

    One that is there already and was open to others is closed to them. For a folder that an operator named, ``ours``
    has the names of all that we keep there: if there is anything else in it, it is left as it is and a warning says how
    to close it.
    """
    try:
        path.mkdir(FOLDER)
    except FileNotFoundError:
        if path.parent == path:
            raise
        make_folder_above(path)
        path.mkdir(FOLDER, exist_ok=True)
    except FileExistsError:
        if not path.is_dir():
            raise
        if ours is None or {entry.name for entry in os.scandir(path)} <= set(ours):
            tighten(path)
        else:
            warn_if_open("the data folder", path, mode=FOLDER)


def make_folder_above(path: Path) -> None:
    """Make the missing folders above a path for this user alone; those that are there stay as they are."""
    if not path.parent.exists():
        make_folder(path.parent)


def open_file(path: str | Path, flags: int) -> int:
    """Return a descriptor of a file, which is made for this user alone, or made so; an ``opener`` of :func:`open`.

    Not for a database file of SQLite: closing the descriptor would give up the locks that this process has on it.
    """
    handle = os.open(path, flags | os.O_CLOEXEC, FILE)
    found = os.fstat(handle)
    if found.st_mode & OTHERS and stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
        os.fchmod(handle, stat.S_IMODE(found.st_mode) & ~OTHERS)
    return handle


def write_text(path: Path, text: str) -> None:
    """Write a file of this user alone; raises OSError if it cannot be written."""
    with open(path, "w", encoding="utf-8", opener=open_file) as file:
        file.write(text)


def replace_text(path: Path, text: str) -> None:
    """Write a file of this user alone, all at once: a reader sees the whole of it, or what was there before."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    write_text(draft, text)
    draft.replace(path)


def read_first_line(path: Path, setting: str, what: str) -> str:
    """Return the first line of a file with a secret, and warn if other users can read it.

    ConfigError says by the setting that names the file that it cannot be read, or holds no text there.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{setting}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{setting}: {path} is not UTF-8") from None
    warn_if_open(what, path)
    found = text.partition("\n")[0].rstrip("\r")
    if not found:
        raise ConfigError(f"{setting}: the first line of {path} is empty")
    return found


def prepare_sqlite(path: str) -> None:
    """Make the file of a database before SQLite does, which takes the umask and gives its mode to the files next to it.

    What cannot be made or changed is left for SQLite to complain about.
    """
    path = os.path.realpath(path)
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    except FileExistsError:
        for suffix in SQLITE_SUFFIXES:
            tighten(path + suffix)
    except OSError:
        return


def tighten(path: str | Path) -> None:
    """Close a file or folder of ours to others; nothing happens if it is not there or belongs to another user."""
    try:
        found = Path(path).stat()
        if found.st_mode & OTHERS and found.st_uid == os.geteuid() and not found.st_mode & stat.S_ISVTX:
            Path(path).chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
    except OSError as error:
        logger.debug("%s keeps its mode: %s", path, error)


def warn_if_open(what: str, path: str | Path, *, mode: int = FILE) -> None:
    """Warn in one line of a file or folder, if it is there, that users outside of its group can get at."""
    place = Path(path).absolute()
    try:
        if not place.stat().st_mode & STRANGERS or not _is_reachable(place):
            return
    except OSError:
        return
    logger.warning("%s in %s can be read or changed by other users: chmod %o %s", what, place, mode, place)


def _is_reachable(path: Path) -> bool:
    """Return whether every user may pass through the folders above."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)
