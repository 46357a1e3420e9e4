"""Files as answers: whole, or the range that the caller wants, without holding them in memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple
from urllib.parse import quote

import falcon

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class ByteRange(NamedTuple):
    """Part of a file: its first byte, and how many bytes."""

    start: int
    length: int


class FilePart:
    """Part of an open file, as a file of its own, which closes that file; a server may send it without copying it."""

    def __init__(self, file: BinaryIO, part: ByteRange) -> None:
        self._file = file
        self._part = part
        self._place = 0
        file.seek(part.start)

    def read(self, size: int = -1) -> bytes:
        """Return up to this many bytes more, or all that are left."""
        left = self._part.length - self._place
        data = self._file.read(left if size < 0 else min(size, left)) if left > 0 else b""
        self._place += len(data)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        """Go to a place in the part, and return it."""
        base = {0: 0, 1: self._place, 2: self._part.length}[whence]
        self._place = max(0, base + place)
        self._file.seek(self._part.start + self._place)
        return self._place

    def tell(self) -> int:
        """Return the place in the part."""
        return self._place

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def wanted_range(text: str | None, size: int) -> ByteRange | None:
    """Return the range that a caller wants; None for the whole file, which may be sent to those who ask for several.

    Raises falcon.HTTPRangeNotSatisfiable if the file has no byte of it.
    """
    found = _RANGE.fullmatch((text or "").strip())
    if found is None or not (found[1] or found[2]):
        return None
    if found[1]:
        start, last = int(found[1]), int(found[2]) if found[2] else size - 1
        if found[2] and last < start:
            return None  # no range, so it counts as if it were not there
        length = min(last, size - 1) - start + 1
    else:
        length = min(int(found[2]), size)
        start = size - length
    if length <= 0:
        raise falcon.HTTPRangeNotSatisfiable(size)
    return ByteRange(start, length)


def send_file(
    req: falcon.Request, resp: falcon.Response, path: Path, *, media_type: str, name: str = "", etag: str = ""
) -> None:
    """Make a file the response, or the range that is wanted; raises OSError, and what :func:`wanted_range` does."""
    file = path.open("rb")
    try:
        size = file.seek(0, 2)
        condition = req.get_header("If-Range")
        part = wanted_range(req.get_header("Range"), size) if condition in (None, etag) else None
        resp.set_header("Accept-Ranges", "bytes")
        resp.content_type = media_type
        if name:
            resp.set_header("Content-Disposition", f"attachment; filename*=UTF-8''{quote(name, safe='')}")
        if part is not None:
            resp.status = falcon.HTTP_206
            resp.set_header("Content-Range", f"bytes {part.start}-{part.start + part.length - 1}/{size}")
        whole = part or ByteRange(0, size)
        resp.set_stream(FilePart(file, whole), whole.length)  # type: ignore[arg-type]
    except BaseException:
        file.close()
        raise
