"""What is in a stored package, for people who read it: its files, and the text of one, within limits."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from xwheel.plugin import NotFoundError, RouteRefusedError

MOST_FILES: Final = 5000
MOST_TEXT: Final = 256 * 1024
"""Bytes of one file that are shown."""


def list_files(path: Path) -> dict[str, Any]:
    """Return the files of a package by path, at most :data:`MOST_FILES`, and whether there are more."""
    with _readable():
        if path.name.endswith(".tar.gz"):
            with tarfile.open(path, mode="r:gz") as archive:
                found = [(item.name, item.size) for item in archive if item.isreg()]
        else:
            with zipfile.ZipFile(path) as zipped:
                found = [(item.filename, item.file_size) for item in zipped.infolist() if not item.is_dir()]
    found.sort()
    shown = [{"path": name, "size": size} for name, size in found[:MOST_FILES]]
    return {"items": shown, "is_cut": len(found) > MOST_FILES}


def read_text(path: Path, member: str) -> dict[str, Any]:
    """Return the beginning of a file of a package; ``text`` is null where it is no text.

    Raises:
        NotFoundError: The package has no such file.
    """
    with _readable():
        data, size = _read_tar(path, member) if path.name.endswith(".tar.gz") else _read_zip(path, member)
    is_cut = len(data) > MOST_TEXT
    return {"path": member, "size": size, "text": _text(data[:MOST_TEXT], is_cut=is_cut), "is_cut": is_cut}


def _read_zip(path: Path, member: str) -> tuple[bytes, int]:
    with zipfile.ZipFile(path) as archive:
        try:
            info = archive.getinfo(member)
        except KeyError:
            raise NotFoundError("file of the package", member[:200]) from None
        with archive.open(info) as source:
            return source.read(MOST_TEXT + 1), info.file_size


def _read_tar(path: Path, member: str) -> tuple[bytes, int]:
    with tarfile.open(path, mode="r:gz") as archive:
        for item in archive:
            if item.name == member and item.isreg():
                source = archive.extractfile(item)
                assert source is not None  # noqa: S101 - it is a file
                with source:
                    return source.read(MOST_TEXT + 1), item.size
    raise NotFoundError("file of the package", member[:200])


def _text(data: bytes, *, is_cut: bool) -> str | None:
    """Return data as text; a sign that the limit cuts in two is left out."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        is_end = is_cut and error.start >= len(data) - 3
        return data[: error.start].decode() if is_end else None


@contextmanager
def _readable() -> Iterator[None]:
    """Turn what libraries raise on a file that changed on disk into an answer."""
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, NotImplementedError, RuntimeError, OSError) as error:
        text = f"the stored file cannot be read: {error}"
        raise RouteRefusedError(409, "bad_archive", text) from None
