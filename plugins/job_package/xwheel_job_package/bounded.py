"""What a reader would take long for, or much memory, looked at first: directories of zips, modules, manifests."""

from __future__ import annotations

import ast
import re
import struct
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Any, Final

from xwheel_job_package.report import PackageError

MAX_SOURCE: Final = 1 << 20
"""Bytes of one module that has jobs."""

MAX_WORDS: Final = 200_000
"""Words and signs of one module; a tree of so many takes one to three seconds and 300 MB at most."""

MAX_ALL_WORDS: Final = 500_000
"""The same of all modules of a package."""

MAX_TOML: Final = 256 << 10
MAX_LINE: Final = 4096
"""Characters of a line of a manifest, and so of a key with dots."""

MAX_NESTING: Final = 50
"""Brackets in one another in a manifest."""

HEADER: Final = 46
"""Bytes of a member in a zip's directory, besides its name, its extra fields and its comment."""

MAX_HEADER: Final = 1024
"""Bytes of a member in a zip's directory, of all members on an average."""

_MEMBER: Final = struct.Struct("<4s24xHHH12x")
_TOKEN: Final = re.compile(rb"[\w\x80-\xff]+|[^\w\s]")
# positions in what the library returns of the end of a zip
_SIGNATURE, _COUNT, _SIZE, _PLACE = 0, 4, 5, 9
_ZIP64: Final = b"PK\x06\x06"
_SHORT: Final = b"PK\x05\x06"
_ZIP64_BYTES: Final = 56 + 20


def check_directory(file: IO[bytes], most: int) -> int:
    """Return how many members a zip has, by its directory, which is walked without anything being made of it.

    What the end of the archive says is compared with what is there: the library believes the size and makes an object
    of each member, whatever number is said.

    Args:
        file: The zip.
        most: Members that are allowed.

    Raises:
        PackageError: ``bad_archive`` or ``too_large``.
    """
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if not end:
        raise PackageError("bad_archive", "it is no zip: its end is missing")
    count, size = int(end[_COUNT]), int(end[_SIZE])
    if count > most:
        raise PackageError("too_large", f"{count} members; {most} are the most (max_members)")
    if size > most * MAX_HEADER:
        raise PackageError("too_large", f"the zip's directory has {size} bytes; {most * MAX_HEADER} are the most")
    begin = _end_of_directory(file, end) - size
    if begin < 0:
        raise PackageError("bad_archive", "the zip's directory would begin before the file does")
    file.seek(begin)
    found = 0
    for _ in _members(file.read(size)):
        found += 1
        if found > most:
            raise PackageError("too_large", f"more than {most} members (max_members), though it says {count}")
    if found != count:
        raise PackageError("bad_archive", f"it says that it has {count} members, and has {found}")
    return found


def _end_of_directory(file: IO[bytes], end: Sequence[Any]) -> int:
    """Return where the library takes a zip's directory to end.

    Of the large form it names the place of the short end, or, since it was corrected in 2025 (CVE-2025-8291), that of
    the large one, which comes before it.
    """
    place = int(end[_PLACE])
    file.seek(place)
    is_short = file.read(len(_SHORT)) == _SHORT
    return place - _ZIP64_BYTES if end[_SIGNATURE] == _ZIP64 and is_short else place


def _members(directory: bytes) -> Iterator[int]:
    """Give where each member begins in a zip's directory."""
    place = 0
    while place < len(directory):
        if len(directory) - place < HEADER:
            raise PackageError("bad_archive", "the zip's directory is cut off")
        signature, *lengths = _MEMBER.unpack_from(directory, place)
        if signature != b"PK\x01\x02":
            raise PackageError("bad_archive", "the zip's directory holds something else than members")
        yield place
        place += HEADER + sum(lengths)


class Parser:
    """Parses the modules of a package, as many and as large as it may have."""

    def __init__(self) -> None:
        self._words = 0

    def parse(self, source: bytes) -> ast.Module:
        """Return the tree of a module.

        Raises:
            PackageError: ``too_large``: it, or all of them together.
            SyntaxError: It is no Python, or what else :func:`ast.parse` raises.
        """
        if len(source) > MAX_SOURCE:
            raise PackageError("too_large", f"{len(source)} bytes; a module with jobs has {MAX_SOURCE} at most")
        words = 0
        for _ in _TOKEN.finditer(source):
            words += 1
            if words > MAX_WORDS:
                text = f"more than {MAX_WORDS} words and signs in a module with jobs: move data into a file"
                raise PackageError("too_large", text)
        self._words += words
        if self._words > MAX_ALL_WORDS:
            raise PackageError("too_large", f"more than {MAX_ALL_WORDS} words and signs in all modules with jobs")
        return ast.parse(source)


def load_toml(data: bytes, path: str, most: int = MAX_TOML) -> dict[str, Any]:
    """Return a TOML document that can be read soon.

    Raises:
        PackageError: ``bad_archive`` or ``too_large``, with the file.
    """
    if len(data) > most:
        raise PackageError("too_large", f"{len(data)} bytes; {most} are the most", file=path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise PackageError("bad_archive", "must be UTF-8", file=path) from None
    depth = 0
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_LINE:
            raise PackageError("too_large", f"a line of over {MAX_LINE} characters", file=path, line=number)
        if line.partition("=")[0].count(".") > MAX_NESTING:
            raise PackageError("too_large", f"a key of over {MAX_NESTING} parts", file=path, line=number)
        # brackets in texts count too, which is harmless
        depth = max(0, depth + sum(map(line.count, "[{")) - sum(map(line.count, "]}")))
        if depth > MAX_NESTING:
            raise PackageError("too_large", f"over {MAX_NESTING} brackets in one another", file=path, line=number)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PackageError("bad_archive", str(error), file=path) from None
    except RecursionError:
        raise PackageError("bad_archive", "nested too deep to be read", file=path) from None
