"""The log store: which objects are written, read, put together and deleted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

from xwheel.plugin import ConfigError
from xwheel_run_logs import LogChunk, LogEnd, LogKey

from xwheel_log_s3.bucket import Bucket, LogS3Error, MissingObjectError
from xwheel_log_s3.memory import Known, Memory
from xwheel_log_s3.options import PLUGIN, Options
from xwheel_log_s3.parallel import Deadline, run_all
from xwheel_log_s3.parts import (
    TAIL,
    Part,
    cover,
    cut,
    folder_of,
    groups,
    join,
    needed,
    news,
    pack,
    parse_name,
    unpack,
    whole_lines,
)

__all__ = ["LogS3Error", "S3Logs"]

logger = logging.getLogger(__name__)

READ_ATTEMPTS: Final = 5
COMPACTED: Final = 512
"""Objects of all logs that one call puts together at most; the others stay as they are, and are read just the same."""


class S3Logs:
    """Keeps logs in a bucket; see :class:`~xwheel_run_logs.LogStore` and :mod:`xwheel_log_s3.parts`.

    A chunk of a log is one request, and one more where this node does not know the log. The last object of a log is
    written again while it is short, and what a log left in many objects is put together when it ends.

    Args:
        options: The plugin's options.
    """

    name = "s3"

    def __init__(self, options: Options) -> None:
        self._options = options
        self._bucket = Bucket(options)
        self._memory = Memory()

    def check(self) -> None:
        """Refuse options without a bucket."""
        if not self._options.bucket:
            raise ConfigError(f"plugins.options.{PLUGIN}.bucket: is missing: name the bucket that keeps the logs")

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        """Append lines; logs at the same time, and the chunks of each in one request."""
        deadline = Deadline(self._options.timeout_s)
        places: dict[LogKey, list[int]] = {}
        for number, chunk in enumerate(chunks):
            places.setdefault(chunk.key, []).append(number)
        replaced: list[str] = []
        ended: list[LogKey] = []
        tasks = [
            partial(self._append, key, [chunks[number] for number in numbers], replaced, ended, deadline)
            for key, numbers in places.items()
        ]
        try:
            found = run_all(tasks, self._options.parallel)
        finally:
            # what is not deleted now is in other objects, too
            self._tidy(ended, replaced, deadline)
        answers = [0] * len(chunks)
        for numbers, group in zip(places.values(), found, strict=True):
            for number, answer in zip(numbers, group, strict=True):
                answers[number] = answer
        return answers

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        """Return lines from one on."""
        deadline = Deadline(self._options.timeout_s)
        folder = self._folder(key)
        for attempt in range(1, READ_ATTEMPTS + 1):
            chosen, end = cover(self._parts(key, deadline))
            if from_line >= end.next_line:
                return ""
            wanted = needed(chosen, from_line, max_bytes)
            try:
                texts = run_all(
                    [partial(self._get, folder + part.name, deadline) for part in wanted], self._options.parallel
                )
            except MissingObjectError:
                # it was just put into a larger one
                if attempt == READ_ATTEMPTS:
                    raise
                continue
            return whole_lines(join(wanted, texts, from_line), max_bytes)
        raise AssertionError("unreachable")

    def find(self, key: LogKey) -> LogEnd | None:
        """Return how far the log goes, by the names of its objects alone."""
        parts = self._parts(key, Deadline(self._options.timeout_s))
        _, end = cover(parts)
        return end if end.is_complete or end.next_line > 1 else None

    def delete(self, keys: Sequence[LogKey]) -> None:
        """Delete all objects of logs."""
        deadline = Deadline(self._options.timeout_s)
        self._memory.forget(keys)
        folders = [self._folder(key) for key in keys]
        tasks = [partial(self._bucket.names, folder, deadline) for folder in folders]
        found = run_all(tasks, self._options.parallel)
        names = [folder + name for folder, group in zip(folders, found, strict=True) for name in group]
        self._bucket.delete(names, deadline)

    def _append(
        self, key: LogKey, chunks: Sequence[LogChunk], replaced: list[str], ended: list[LogKey], deadline: Deadline
    ) -> list[int]:
        """Append chunks of one log and return what to answer to each; note what is to be tidied."""
        known = self._memory.get(key)
        first = chunks[0].first_line
        if known is None and first == 1:
            # a new log, as a rule: if its first lines can be written there is nothing to ask for
            answers = self._write(key, chunks, Known(), replaced, ended, deadline, is_new=True)
            if answers is not None:
                return answers
        if known is None or not known.is_sure or first > known.next_line:
            known = self._look(key, known, deadline)
        answers = self._write(key, chunks, known, replaced, ended, deadline)
        assert answers is not None  # noqa: S101 -- only what must be new can be refused
        return answers

    def _write(
        self,
        key: LogKey,
        chunks: Sequence[LogChunk],
        known: Known,
        replaced: list[str],
        ended: list[LogKey],
        deadline: Deadline,
        *,
        is_new: bool = False,
    ) -> list[int] | None:
        """Write what chunks bring beyond what is known; return None if it must be new and is not."""
        found = news(known.next_line, chunks)
        if found.next_line == known.next_line and (known.is_complete or not found.is_last):
            if not is_new:
                self._memory.note(key, known)
            return found.answers
        folder = self._folder(key)
        part, text = None, b""
        for part, text in cut(known.tail_line, known.tail + found.text, is_last=found.is_last):
            if not self._bucket.put(folder + part.name, pack(text), deadline, only_new=is_new):
                return None
        assert part is not None  # noqa: S101 -- it yields one part at least
        if known.tail_part is not None and known.tail_part != part:
            replaced.append(folder + known.tail_part.name)
        if found.is_last:
            self._memory.forget([key])
            if part.first_line > 1:
                ended.append(key)
            return found.answers
        more = Known(next_line=found.next_line, tail_line=found.next_line, is_sure=known.is_sure)
        if part.size < TAIL:
            more = more._replace(tail_line=part.first_line, tail=text, tail_part=part)
        self._memory.note(key, more)
        return found.answers

    def _look(self, key: LogKey, known: Known | None, deadline: Deadline) -> Known:
        """Return how far a log goes, from the names of its objects."""
        _, end = cover(self._parts(key, deadline))
        if known is not None and known.next_line == end.next_line:
            return known._replace(is_sure=True)
        if known is not None and known.next_line > end.next_line:
            self._memory.forget([key])  # somebody deleted it
        return Known(next_line=end.next_line, tail_line=end.next_line, is_sure=True, is_complete=end.is_complete)

    def _tidy(self, ended: Sequence[LogKey], replaced: list[str], outer: Deadline) -> None:
        """Put together what logs that ended left in many objects, and delete objects whose lines are in others.

        Nothing depends on it, so what fails is only told.
        """
        deadline = Deadline(min(outer.left_s(), self._options.timeout_s / 4))
        try:
            if ended:
                self._compact(ended, replaced, deadline)
            self._bucket.delete(replaced, deadline)
        except (LogS3Error, ValueError) as error:
            logger.warning("objects of logs were not put together, which costs space and harms nothing: %s", error)

    def _compact(self, keys: Sequence[LogKey], replaced: list[str], deadline: Deadline) -> None:
        tasks = [partial(self._parts, key, deadline) for key in keys]
        work = []
        left = COMPACTED
        for key, parts in zip(keys, run_all(tasks, self._options.parallel), strict=True):
            chosen, end = cover(parts)
            if not end.is_complete:
                continue  # a node that has just begun it again
            for group in groups(chosen):
                left -= len(group)
                if left >= 0:
                    is_last = group[-1] is chosen[-1]
                    work.append(partial(self._join, key, group, is_last, replaced, deadline))
            folder = self._folder(key)
            kept = {*chosen, *(part for part in parts if part.is_last and part.next_line == end.next_line)}
            replaced += [folder + part.name for part in parts if part.next_line <= end.next_line and part not in kept]
        run_all(work, self._options.parallel)

    def _join(self, key: LogKey, group: Sequence[Part], is_last: bool, replaced: list[str], deadline: Deadline) -> None:
        """Write the lines of neighbours into one object."""
        folder = self._folder(key)
        text = join(group, [self._get(folder + part.name, deadline) for part in group], group[0].first_line)
        whole = Part(group[0].first_line, group[-1].next_line - group[0].first_line, len(text), is_last)
        self._bucket.put(folder + whole.name, pack(text), deadline)
        replaced += [folder + part.name for part in group]
        if is_last:
            # what only said that the log ends
            replaced.append(folder + Part(whole.next_line, 0, 0, True).name)

    def _get(self, name: str, deadline: Deadline) -> bytes:
        try:
            return unpack(self._bucket.get(name, deadline))
        except ValueError as error:
            raise LogS3Error(f"the object {name} {error}") from None

    def _parts(self, key: LogKey, deadline: Deadline) -> list[Part]:
        names = self._bucket.names(self._folder(key), deadline)
        return [part for name in names if (part := parse_name(name)) is not None]

    def _folder(self, key: LogKey) -> str:
        return folder_of(self._options.prefix, key)
