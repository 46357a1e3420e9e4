"""Log stores: what they are given, what they must be able to do, and the hook that registers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

import msgspec
from xwheel.plugin import Hook


class LogKey(msgspec.Struct, frozen=True, gc=False):
    """Names the log of a run: ids may begin again in a new database, ids with the time when the row was made do not.

    Attributes:
        run_id: The run.
        created_ms: When its row was made, in epoch milliseconds.
    """

    run_id: int
    created_ms: int


class LogChunk(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Some consecutive lines of a run's log.

    Attributes:
        key: Whose log it is.
        job_id: The run's job.
        first_line: Number of its first line; those of a log count from 1.
        lines: How many lines it has; 0 only if ``is_last``.
        text: The lines, each with a line feed at its end; no other character ends a line.
        is_last: Whether the log ends with it.
    """

    key: LogKey
    job_id: int
    first_line: int
    lines: int
    text: str
    is_last: bool = False

    @property
    def next_line(self) -> int:
        """Number of the line behind it."""
        return self.first_line + self.lines


class LogEnd(msgspec.Struct, frozen=True, gc=False):
    """How far a store has a log.

    Attributes:
        next_line: Number of the first line that it does not have.
        is_complete: Whether the last chunk is there, so that no line will follow.
    """

    next_line: int
    is_complete: bool


class LogStore(Protocol):
    """Keeps the logs of runs, so that they outlast the machine on which they were written.

    Only schedulers call it: for what executors ship, for what they fetch from foreign executors, and to read. Every
    call is made on a thread of its own and counts as failed after the setting ``run_logs.call_timeout_s``; while four
    of a store's calls hang, it is not called. What fails harms no run and is tried again: the lines stay with the
    executor until the store has them.

    Several nodes call the stores of the same name, at times for the same log: the same lines may be appended twice at
    once, in chunks of other sizes.

    Attributes:
        name: What the setting ``run_logs.store`` calls it.
    """

    name: str

    def append(self, chunks: Sequence[LogChunk]) -> Sequence[int]:
        """Keep chunks, and return for each, in their order, the number of the first line that its log lacks then.

        A chunk is kept if it begins with that line, and whole or not at all. One that was kept before changes nothing,
        and neither does one that begins later, for lines between are missing; of one that begins earlier and ends
        later, nothing or just the new lines are kept. Its sender goes on with the line that is answered, so the
        answer is from 1 to the chunk's ``next_line`` or, if more is there already, beyond it. Up to 500 chunks with
        four megabytes of text come in one call; those of one log are in their order.

        Raises:
            Exception: It is not known what was kept; all of it is sent again.
        """

    def read(self, key: LogKey, from_line: int, max_bytes: int) -> str:
        """Return whole lines from one on, each with its line feed, or an empty text if there is none.

        At most this many bytes as UTF-8, but one line in any case; more is cut off at the end of a line.
        """

    def find(self, key: LogKey) -> LogEnd | None:
        """Return how far the store has a log; None if it has nothing of it."""

    def delete(self, keys: Sequence[LogKey]) -> None:
        """Delete logs for good; those that are not there count as deleted. Up to 500 come in one call."""


@runtime_checkable
class ChecksSetup(Protocol):
    """A log store that finds out at a start, from its options alone, that it cannot work."""

    def check(self) -> None:
        """Refuse options that are missing or do not fit; called once, if the settings choose the store.

        It does no I/O: a store that is away for a while must not keep a scheduler from starting.

        Raises:
            ConfigError: One sentence that names the option and says what is allowed.
        """


HOOKS: Final[Mapping[str, Hook]] = {
    "xwheel_register_log_stores": Hook(
        "log store",
        LogStore,
        "Return log stores; the setting ``run_logs.store`` names the one that is used.",
        more=(ChecksSetup,),
    )
}
"""The hook that this distribution brings."""
