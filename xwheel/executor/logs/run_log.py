"""Run logs: one file per run under its day, written through a small buffer, read by line number while it grows."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from queue import SimpleQueue
from typing import Final

from xwheel.clock import Clock
from xwheel.private_files import OTHERS, make_folder, open_file, tighten
from xwheel.wire.messages import LogData

logger = logging.getLogger(__name__)

FLUSH_BYTES: Final = 64 * 1024
FLUSH_S: Final = 0.2
MAX_LOG: Final = 256 * 1024 * 1024
PAGE_BYTES: Final = 1024 * 1024
CHUNK: Final = 256 * 1024
REMEMBERED: Final = 512
SECOND: Final = "%Y-%m-%d %H:%M:%S"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class RunLog:
    """The log of one run, for any thread. The file appears with the first line, so that silent runs cost nothing.

    Its name is a plain text: pathlib enters the parts of every path among the names that the interpreter keeps, and a
    table that a hundred names a second go through is copied to another place of the memory again and again.
    """

    _waiting = 0
    _size = 0
    _file = -1
    _mid_line = False
    _has_failed = False
    is_closed = False  # then nothing will follow

    def __init__(
        self, owner: RunLogs, run_id: int, created_ms: int, begins_ms: int = 0, opening: Callable[[], str] | None = None
    ) -> None:
        self.owner = owner
        self.run_id = run_id
        self.created_ms = created_ms  # when the run's row was made
        self.begins_ms = begins_ms  # when the run starts
        # gives the line that stands before all others; called once, when there is something else to write
        self.opening = opening
        self._lock = threading.Lock()
        self._parts: list[str] = []

    @cached_property
    def name(self) -> str:
        """The file's whole name."""
        return self.owner.name_of(self.run_id, self.created_ms)

    @property
    def path(self) -> Path:
        """Where the file is, or would be."""
        return Path(self.name)

    @property
    def is_silent(self) -> bool:
        """Whether nothing was written, and no process may have."""
        return not self._size and self._file < 0

    def line(self, text: str) -> None:
        """Write a line with its time in front."""
        self._add(f"{self.owner.stamp()} {text}" if text else self.owner.stamp(), line=True)

    def raw(self, text: str) -> None:
        """Write text as it is; what ``print`` does."""
        self._add(text, line=False)

    def flush(self) -> None:
        """Bring everything into the file."""
        with self._lock:
            self._flush()

    def fileno(self) -> int:
        """Return a descriptor that appends to the file, for a process that writes by itself."""
        with self._lock:
            if not self._size and (first := self._first()):
                self._put(first)
            self._flush()
            self._open()
            return self._file

    def close(self, text: str = "") -> None:
        """Write a last line, which finds room in a full log too, and close the file; later lines are dropped."""
        with self._lock:
            if text and not self.is_closed:
                first = "" if self._size else self._first()
                self._parts.append(f"{chr(10) * self._mid_line}{first}{self.owner.stamp()} {text}\n")
            self._flush()
            self.is_closed = True
            if self._file >= 0:
                os.close(self._file)
                self._file = -1
                self.owner.opened.discard(self.name)

    def _add(self, text: str, *, line: bool) -> None:
        with self._lock:
            if self.is_closed or self._size > MAX_LOG:
                return
            if line:
                text = f"\n{text}\n" if self._mid_line else f"{text}\n"
            elif not text:
                return
            self._put(text if self._size else self._first() + text)

    def _first(self) -> str:
        opening, self.opening = self.opening, None
        return f"{self.owner.stamp(self.begins_ms)} {opening()}\n" if opening else ""

    def _put(self, text: str) -> None:
        self._size += len(text)
        if self._size > MAX_LOG:
            text += f"\n… the log reached {MAX_LOG} characters; the rest is dropped\n"
        self._mid_line = not text.endswith("\n")
        first = not self._parts
        self._parts.append(text)
        self._waiting += len(text)
        if self._waiting >= FLUSH_BYTES:
            self._flush()
        elif first:
            self.owner.tasks.put(self.flush)

    def _flush(self) -> None:
        if not self._parts:
            return
        data = "".join(self._parts).encode("utf-8", "replace")
        self._parts.clear()
        self._waiting = 0
        try:
            self._open()
            view = memoryview(data)
            while view:
                view = view[os.write(self._file, view) :]
        except OSError as error:
            # a full disk must not fail the handler; the run's outcome still says how it ended
            if not self._has_failed:
                self._has_failed = True
                # on another thread, since this one may be inside that very log
                self.owner.tasks.put(partial(logger.warning, "run log %s: lines are lost: %s", self.path, error))

    def _open(self) -> None:
        if self._file < 0 and not self.is_closed:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            try:
                self._file = open_file(self.name, flags)
            except FileNotFoundError:
                make_folder(self.path.parent)
                self._file = open_file(self.name, flags)
            self.owner.opened.add(self.name)
            self.owner.begun(self)


class RunLogs:
    """All run logs of an executor.

    Thread-safety: every method may be called by any thread. One thread flushes what lies in buffers; it sleeps while
    nothing does. What it has to do comes through a queue that is written in C: a handler's thread that is interrupted
    there leaves no lock behind that other runs need. ``begun`` is told of each log whose file is opened; it is called
    while a lock is held, so it must not wait.
    """

    def __init__(self, directory: Path, clock: Clock, begun: Callable[[RunLog], None] = lambda _: None) -> None:
        self.opened: set[str] = set()  # names of the files that logs write to now; each log notes its own
        self.begun = begun
        self._directory = directory
        self._folder = f"{directory}{os.sep}"
        self._clock = clock
        self._lock = threading.Lock()
        self.tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # of the flushing thread
        self._stopping = threading.Event()
        self._stamp = (-1, "")
        self._positions: OrderedDict[Path, tuple[int, int]] = OrderedDict()
        self._thread = threading.Thread(target=self._flush_loop, name="xwheel-log-flush", daemon=True)
        _close_to_others(directory)
        self._thread.start()

    def open(
        self, run_id: int, created_ms: int, begins_ms: int = 0, opening: Callable[[], str] | None = None
    ) -> RunLog:
        """Return the log of a run that is about to start; see :class:`RunLog`."""
        return RunLog(self, run_id, created_ms, begins_ms, opening)

    def name_of(self, run_id: int, created_ms: int) -> str:
        """Return the whole name of a run's file."""
        return f"{self._folder}{_day(created_ms)}{os.sep}{run_id:d}.log"

    def read(self, run_id: int, created_ms: int, from_line: int, *, live: bool, tail: int = 0) -> LogData | None:
        """Read from a line on, which count from 1, at most about a megabyte; return None if there is no file.

        Foreign schedulers send the creation time without its milliseconds. A live run may still write: a line without
        its end is then left for later. ``tail`` asks for this many last lines instead.
        """
        path = self.find(run_id, created_ms)
        if path is None:
            return None
        if tail:
            from_line = max(1, _count_lines(path) + 1 - tail)
        with self._lock:
            known = self._positions.get(path, (1, 0))
        line, offset = known if known[0] <= from_line else (1, 0)
        found: list[str] = []
        size, is_end = 0, not live
        with path.open("rb") as file:
            line, offset = _skip_lines(file.fileno(), line, offset, from_line)
            file.seek(offset)
            for data, whole in _read_lines(file.fileno()):
                if live and not data.endswith(b"\n"):
                    break
                if line >= from_line:
                    if found and size + len(data) > PAGE_BYTES:
                        is_end = False
                        break
                    found.append(_shorten(data, whole).decode("utf-8", "replace"))
                    size += len(data)
                line += 1
                offset += whole
        with self._lock:
            self._positions[path] = (line, offset)
            self._positions.move_to_end(path)
            while len(self._positions) > REMEMBERED:
                self._positions.popitem(last=False)
        to_line = from_line + len(found) - 1
        return LogData(from_line=from_line, to_line=to_line, content="".join(found), is_end=is_end)

    def stamp(self, at_ms: int | None = None) -> str:
        """Return a time in the executor's zone, as lines begin; None takes the present."""
        seconds, millis = divmod(self._clock.now_ms() if at_ms is None else at_ms, 1000)
        known, text = self._stamp
        if known != seconds:
            text = second_text(seconds)
            self._stamp = (seconds, text)
        return f"{text}.{millis:03d}"

    def sweep(self, now_ms: int, days: int) -> int:
        """Delete logs of runs created this many days ago that were not written to for as long; return how many.

        A run may go on for months: its log stays while it is open. 0 days keep all.
        """
        if days <= 0 or not self._directory.is_dir():
            return 0
        oldest_ms = now_ms - days * 86_400_000
        oldest = _day(oldest_ms)
        return sum(
            self._sweep_day(entry, oldest_ms)
            for entry in sorted(self._directory.iterdir())
            if _DAY.fullmatch(entry.name) and entry.name < oldest
        )

    def _sweep_day(self, folder: Path, oldest_ms: int) -> int:
        gone = 0
        # what vanishes, is no folder, or belongs to another user is passed over; what is left in a folder keeps it
        with contextlib.suppress(OSError):
            for path in folder.iterdir():
                with contextlib.suppress(OSError):
                    if str(path) not in self.opened and path.stat().st_mtime * 1000 < oldest_ms:
                        path.unlink()
                        gone += 1
            folder.rmdir()
        return gone

    def close(self) -> None:
        """Stop flushing; logs that are still open flush when they close."""
        self._stopping.set()
        self.tasks.put(None)
        self._thread.join()

    def _flush_loop(self) -> None:
        tasks: list[Callable[[], None] | None] = []
        while None not in tasks:
            tasks = [self.tasks.get()]
            self._stopping.wait(FLUSH_S)
            tasks += [self.tasks.get_nowait() for _ in range(self.tasks.qsize())]
            for task in filter(None, tasks):
                task()

    def find(self, run_id: int, created_ms: int) -> Path | None:
        """Return the file of a run's log, or None if it has none."""
        # seconds may have been rounded up over midnight, so the neighbouring days count too
        for shift_ms in (0, -86_400_000, 86_400_000):
            path = self._directory / _day(max(0, created_ms + shift_ms)) / f"{run_id:d}.log"
            if path.exists():
                return path
        return None


def second_text(seconds: int) -> str:
    """Return a second in the executor's zone, as lines begin."""
    return datetime.fromtimestamp(seconds).strftime(SECOND)


def _close_to_others(directory: Path) -> None:
    """Close to others what a version before 0.2 left open to them; each folder is gone through once in its life."""
    with contextlib.suppress(OSError):
        for folder in [*directory.iterdir(), directory]:
            if folder.stat().st_mode & OTHERS:
                for entry in folder.iterdir() if _DAY.fullmatch(folder.name) else ():
                    tighten(entry)
                tighten(folder)


def read_chunk(path: Path, offset: int, most: int = CHUNK, *, live: bool) -> tuple[str, int, int]:
    """Return whole lines of a log from the begin of one on, as :meth:`RunLogs.read` counts and shortens them.

    They have ``most`` bytes at most, but are one line in any case. Returns the lines, each with a line feed at its end,
    how many they are, and where the next one begins; nothing if there is nothing.
    """
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        data = file.read(most) or b""
        end = data.rfind(b"\n") + 1
        if end:
            return data[:end].decode("utf-8", "replace"), data.count(b"\n"), offset + end
        if not data:
            return "", 0, offset
        file.seek(offset)
        line, whole = next(_read_lines(file.fileno()))
    if live and not line.endswith(b"\n"):
        return "", 0, offset
    text = _shorten(line, whole)
    ended = text if text.endswith(b"\n") else text + b"\n"
    return ended.decode("utf-8", "replace"), 1, offset + whole


def skip_lines(path: Path, lines: int) -> tuple[int, int]:
    """Return how many of this many first lines a log has, and where the next one begins."""
    with path.open("rb", buffering=0) as file:
        line, offset = _skip_lines(file.fileno(), 1, 0, lines + 1)
        file.seek(offset)
        for data, whole in _read_lines(file.fileno()):
            if line > lines or not data.endswith(b"\n"):
                break
            line, offset = line + 1, offset + whole
    return line - 1, offset


def _count_lines(path: Path) -> int:
    with path.open("rb", buffering=0) as file:
        count, last = 0, b"\n"
        while data := file.read(CHUNK):
            count, last = count + data.count(b"\n"), data[-1:]
    return count + (last != b"\n")


def _skip_lines(descriptor: int, line: int, offset: int, wanted: int) -> tuple[int, int]:
    """Return a line at or shortly before the wanted one, and where it begins; whole chunks are only counted.

    The search starts at a line before, which begins at ``offset``.
    """
    place = os.lseek(descriptor, offset, os.SEEK_SET)
    while line < wanted and (chunk := os.read(descriptor, CHUNK)):
        ends = chunk.count(b"\n")
        if line + ends > wanted:
            break
        if ends:
            line += ends
            offset = place + chunk.rfind(b"\n") + 1
        place += len(chunk)
    return line, offset


def _read_lines(descriptor: int) -> Iterator[tuple[bytes, int]]:
    """Yield lines with their ends, and how long they are; the last one may lack its end.

    Of a line that is longer than a page, the middle is missing: a program may print any amount without an end.
    """
    rest = b""
    missing = 0
    while chunk := os.read(descriptor, CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n", len(line) + 1 + missing
            missing = 0
        if len(rest) > PAGE_BYTES:
            missing += len(rest) - PAGE_BYTES
            rest = rest[:PAGE_BYTES]
    if rest:
        yield rest, len(rest) + missing


def _shorten(line: bytes, whole: int) -> bytes:
    if whole <= PAGE_BYTES:
        return line
    return line[:PAGE_BYTES] + f" … (a line of {whole} bytes)\n".encode()


def _day(at_ms: int) -> str:
    with contextlib.suppress(ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(at_ms // 1000).strftime("%Y-%m-%d")
    return "1970-01-01"
