"""The log store that ships with the core: a file for each run in a folder of the scheduler's machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Final

from pydantic import Field
from xwheel.config import Config
from xwheel.errors import ConfigError
from xwheel.plugin import PluginOptions, hookimpl
from xwheel.private_files import make_folder, open_file

from xwheel_run_logs.contract import LogChunk, LogEnd, LogKey, LogStore

PIECE: Final = 256 * 1024
REMEMBERED: Final = 4096
OPEN_ENDING: Final = ".part"
ENDING: Final = ".log"


class LogFilesOptions(PluginOptions):
    """Options of the log store ``file``: ``[plugins.options.log_files]``."""

    directory: Path = Field(Path("xwheel-logs"), description="Folder of the logs, in folders by day.")
    shared: bool = Field(
        False,
        description="All nodes see this folder, on a network file system or the same machine. It must be said where "
        "several nodes can share a database.",
    )


class LogFiles:
    """Keeps each log in a file of its own: ``DAY/RUN-CREATED.part`` while it grows, ``.log`` once it is complete.

    Appending locks the file, so that several nodes of a shared folder do not mix up their lines. What a crash of the
    machine left of a line is cut off by the next append.

    Args:
        options: Where the files are.
        needs_shared: Whether several nodes may use the database.
    """

    name = "file"

    def __init__(self, options: LogFilesOptions, *, needs_shared: bool = False) -> None:
        self._directory = options.directory
        self._is_refused = needs_shared and not options.shared
        self._lock = threading.Lock()
        # where lines end, to begin near a wanted one: file to (line, offset), the farthest of each
        self._ends: OrderedDict[LogKey, tuple[int, int]] = OrderedDict()

    def check(self) -> None:
        """Refuse a folder of one machine where several nodes may be."""
        if self._is_refused:
            raise ConfigError(
                "plugins.options.log_files.shared: several nodes can share this database, and each would keep logs "
                "that the others do not see: set it to true if all nodes use this folder, on a network file system or "
                "the same machine, or choose another log store"
            )

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        """Append to the files; see :class:`~xwheel_run_logs.LogStore`."""
        answers: list[int] = []
        for key, group in groupby(chunks, key=lambda chunk: chunk.key):
            answers += self._append(key, list(group))
        return answers

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        """Return lines from one on."""
        with self._opened(key, os.O_RDONLY) as file:
            if file is None:
                return ""
            line, offset = self._seek(key, file, from_line)
            return "" if line < from_line else _read_lines(file, offset, max_bytes)

    def find(self, key: LogKey) -> LogEnd | None:
        """Return how far the file goes."""
        with self._opened(key, os.O_RDONLY) as file:
            if file is None:
                return None
            line, _ = self._seek(key, file)
            return LogEnd(line, self._path(key, ENDING).exists())

    def delete(self, keys: Sequence[LogKey]) -> None:
        """Delete files, and folders that are empty then."""
        for key in keys:
            with self._lock:
                self._ends.pop(key, None)
            for ending in (OPEN_ENDING, ENDING):
                self._path(key, ending).unlink(missing_ok=True)
        for folder in {self._folder(key) for key in keys}:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _append(self, key: LogKey, chunks: Sequence[LogChunk]) -> Iterator[int]:
        known = self._ends.get(key)
        if known is None and chunks[0].first_line > 1 and not self._exists(key):
            yield from [1] * len(chunks)
            return
        with self._opened(key, os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            if file is None:
                raise FileNotFoundError(self._path(key, OPEN_ENDING))
            fcntl.flock(file, fcntl.LOCK_EX)
            line, offset = self._seek(key, file)
            if os.fstat(file).st_size > offset:
                os.ftruncate(file, offset)  # a line without its end, of a machine that crashed
            for chunk in chunks:
                skipped = line - chunk.first_line
                if 0 <= skipped < chunk.lines or (chunk.is_last and chunk.next_line == line):
                    data = chunk.text.encode()
                    data = data[_behind(data, skipped) :]
                    _write(file, data)
                    line, offset = chunk.next_line, offset + len(data)
                    self._note(key, line, offset)
                    if chunk.is_last:
                        self._complete(key)
                yield line

    def _complete(self, key: LogKey) -> None:
        with contextlib.suppress(FileNotFoundError):  # it is complete already
            self._path(key, OPEN_ENDING).rename(self._path(key, ENDING))

    @contextlib.contextmanager
    def _opened(self, key: LogKey, flags: int) -> Iterator[int | None]:
        """Open the file of a log, whether it grows or is complete; give None if it is not there."""
        descriptor = None
        try:
            for ending in (ENDING, OPEN_ENDING, ENDING):  # it may be completed just now
                if ending == OPEN_ENDING and flags & os.O_CREAT:
                    make_folder(self._folder(key))
                with contextlib.suppress(FileNotFoundError):
                    asked = flags if ending == OPEN_ENDING else flags & ~os.O_CREAT
                    descriptor = open_file(str(self._path(key, ending)), asked)
                    break
            yield descriptor
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _exists(self, key: LogKey) -> bool:
        return any(self._path(key, ending).exists() for ending in (OPEN_ENDING, ENDING))

    def _seek(self, key: LogKey, file: int, wanted: int | None = None) -> tuple[int, int]:
        """Return a line and where it begins: the wanted one, or the first one that is missing."""
        size = os.fstat(file).st_size
        with self._lock:
            line, offset = self._ends.get(key, (1, 0))
        if offset > size or (wanted is not None and line > wanted):
            line, offset = 1, 0  # the file is another one, or the wanted line lies before
        while wanted is None or line < wanted:
            piece = os.pread(file, PIECE, offset)
            ends = piece.count(b"\n")
            if not ends:
                # a line that is longer than a piece, or the end of the file
                length = _line_length(file, offset) if piece else 0
                if not length:
                    break
                line, offset = line + 1, offset + length
                continue
            if wanted is not None and line + ends > wanted:
                return wanted, offset + _behind(piece, wanted - line)
            line, offset = line + ends, offset + piece.rfind(b"\n") + 1
        self._note(key, line, offset)
        return line, offset

    def _note(self, key: LogKey, line: int, offset: int) -> None:
        with self._lock:
            known = self._ends.get(key)
            if known is None or known[0] < line:
                self._ends[key] = (line, offset)
            self._ends.move_to_end(key)
            while len(self._ends) > REMEMBERED:
                self._ends.popitem(last=False)

    def _folder(self, key: LogKey) -> Path:
        return self._directory / datetime.fromtimestamp(key.created_ms // 1000, UTC).strftime("%Y-%m-%d")

    def _path(self, key: LogKey, ending: str) -> Path:
        return self._folder(key) / f"{key.run_id:d}-{key.created_ms:d}{ending}"


def _behind(text: bytes, lines: int) -> int:
    """Return where the line behind this many lines begins."""
    place = 0
    for _ in range(lines):
        place = text.index(b"\n", place) + 1
    return place


def _line_length(file: int, offset: int) -> int:
    """Return how long the line is that begins at a place; 0 if it has no end yet."""
    length = 0
    while piece := os.pread(file, PIECE, offset + length):
        end = piece.find(b"\n")
        if end >= 0:
            return length + end + 1
        length += len(piece)
    return 0


def _read_lines(file: int, offset: int, max_bytes: int) -> str:
    """Return whole lines from a place on, at most this many bytes, but at least one line if there is one."""
    data = os.pread(file, max_bytes, offset)
    end = data.rfind(b"\n") + 1
    if not end and data:
        end = _line_length(file, offset)
        data = b""
        while len(data) < end:
            data += os.pread(file, end - len(data), offset + len(data))
    return data[:end].decode("utf-8", "replace")


def _write(file: int, data: bytes) -> None:
    """Write all of it, or nothing that counts: a part of a line is cut off by the next append."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


@hookimpl
def xwheel_register_log_stores(config: Config, options: LogFilesOptions) -> list[LogStore]:
    """Register the log store."""
    return [LogFiles(options, needs_shared=not config.database.url.startswith("sqlite"))]
