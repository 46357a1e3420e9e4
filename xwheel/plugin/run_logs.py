"""Logs of runs that a plugin has, so that they outlast their executors: how they come to it, and how they are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from xwheel.model import Reporter, Run
from xwheel.wire.messages import LogData, LogPart, LogReceipt


class LogText(NamedTuple):
    """A piece of a log."""

    from_line: int  #: number of its first line
    next_line: int  #: where the next piece begins
    content: str  #: the lines, each with a line feed at its end
    is_end: bool  #: whether nothing will follow
    place: str = ""  #: ``store`` or ``executor``; empty if there was nothing to read
    note: str = ""  #: why lines may be missing, or empty


@runtime_checkable
class ReadsLogs(Protocol):
    """A plugin that has logs of runs; ``GET /runs/{run_id}/log`` reads through it.

    What it has not, it reads itself where executors have it: ``site.executors.logs``. Called on several threads.
    """

    def read_log(self, run: Run, from_line: int) -> LogText:
        """Return a piece of a log from a line on; empty while the run was not sent.

        Raises:
            XwheelError: ``LogStoreError`` if what has the log fails, and what reading at an executor raises.
        """

    def tail_log(self, run: Run, lines: int) -> LogText:
        """Return this many last lines, or more if an executor cannot tell which they are; raises likewise."""


@runtime_checkable
class TakesLogs(Protocol):
    """A plugin that takes the lines that xwheel's executors ship while they write; one of them is asked."""

    def wants_logs(self) -> bool:
        """Return whether executors shall ship, from memory: the answer to each beat says so."""

    def take_logs(self, instance: str, parts: Sequence[LogPart], reporter: Reporter) -> Sequence[LogReceipt]:
        """Keep parts of logs; return for each run how far its log is there.

        Args:
            instance: The executor instance that sends them: only of its own runs anything may be taken.
            parts: Those of one run in their order; one without lines asks how far its log is.
            reporter: Who sends them. Take lines only of runs that it may report.

        Raises:
            LogStoreError: It is not known what was kept; the executor sends all of it again later.
        """


class LogAnswer(NamedTuple):
    """What came back from a question for lines of a log."""

    run_id: int  #: the run
    data: LogData | None  #: the lines; None if there is no usable answer
    error: str = ""  #: why there is none, or empty


class LogQuestions(Protocol):
    """Asks executors for their logs, many at once, over connections of its own. It belongs to one thread."""

    def ask(self, group_id: int, address: str, run_id: int, created_ms: int, from_line: int) -> bool:
        """Ask for lines of a run's log from one on; return False if no live executor of the group is there."""

    def poll(self, timeout_ms: int) -> Sequence[LogAnswer]:
        """Wait for answers at most so long, and return those that came."""

    def close(self) -> None:
        """Close all connections."""
