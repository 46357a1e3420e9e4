"""Fetches the logs of runs on executors that do not ship them: while a run is open, and once after its end."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection
from xwheel.errors import LogStoreError
from xwheel.model import FINAL_STATES, RunState
from xwheel.plugin import LogAnswer, LogData, LogQuestions, PluginDatabase, PluginPartitions
from xwheel.wire.contract import TEXTS_NO_LOG

from xwheel_run_logs import storage
from xwheel_run_logs.contract import LogChunk, LogKey
from xwheel_run_logs.storage import OpenLog
from xwheel_run_logs.stores import CheckedStore, LogStores

logger = logging.getLogger(__name__)

IN_FLIGHT: Final = 32
PER_ADDRESS: Final = 4
LONGEST_MS: Final = 60_000
AGE_SHARE: Final = 10
"""A run that is open for long is asked less often: after a tenth of its age."""

RETRY_MS: Final = 10_000
GIVE_UP_MS: Final = 600_000
"""This long after a run's end its executor may be away; then what is there is all."""

POLL_MS: Final = 200
PAUSE_MS: Final = 1000
REST_MS: Final = 30_000
REMEMBERED: Final = 50_000
MOST_PIECES: Final = 1000
"""Pieces that are fetched of one log after its run's end."""

LONGEST_LINE: Final = 256 * 1024
MOST_CHARACTERS: Final = 512 * 1024
"""What is kept of one line, and of one answer."""

NEVER_SENT: Final = frozenset({RunState.SKIPPED, RunState.CANCELLED, RunState.REFUSED})


class _Asked(NamedTuple):
    """A question that is on its way."""

    log: OpenLog
    from_line: int


class _Piece(NamedTuple):
    """What an answer brings."""

    log: OpenLog
    chunk: LogChunk


@dataclass(slots=True)
class _Round:
    """What one step found out.

    Attributes:
        later: When logs are asked for next, by run.
        over: Runs whose log is as complete as it will be, though the store has no end of it.
        gone: Runs that have no log at all.
    """

    later: dict[int, int]
    over: list[int]
    gone: list[int]


class LogFetcher:
    """The loop that fetches; :meth:`step` belongs to one thread.

    A line that is being written may be there in part: of an open run, the last line of an answer waits for the next
    one. What memory does not know, such as after a start, the store says: where to go on.

    Args:
        db: The database.
        partitions: Those of this node.
        questions: Puts the questions, to live executors alone.
        stores: Where logs go.
        interval_ms: How often an open run is asked, at most.
    """

    def __init__(
        self,
        db: PluginDatabase,
        partitions: PluginPartitions,
        questions: LogQuestions,
        stores: LogStores,
        *,
        interval_ms: int,
    ) -> None:
        self._db = db
        self._partitions = partitions
        self._questions = questions
        self._stores = stores
        self._interval_ms = interval_ms
        self._asked: dict[int, _Asked] = {}
        self._per_address: Counter[str] = Counter()
        self._lines: OrderedDict[int, int] = OrderedDict()
        self._pieces: Counter[int] = Counter()
        self._failing: dict[int, int] = {}
        self._next_ms = 0

    def step(self, now_ms: int) -> int:
        """Put questions and keep what came back; return how long to wait in milliseconds."""
        held = self._partitions.held()
        if not held:
            return PAUSE_MS
        found = _Round({}, [], [])
        if now_ms >= self._next_ms and len(self._asked) < IN_FLIGHT:
            self._next_ms = now_ms + PAUSE_MS
            if self._ask_all(held, now_ms, found):
                self._next_ms = now_ms  # others may wait for their turn
        pieces = self._read(self._questions.poll(POLL_MS if self._asked else 0), now_ms, found)
        ended = self._keep(pieces, now_ms, found)
        self._write(ended, found)
        if self._asked or self._next_ms <= now_ms:
            return 0
        # the node asks when the next one is due
        return REST_MS

    def close(self) -> None:
        """Close all connections."""
        self._questions.close()

    def _ask_all(self, held: Collection[int], now_ms: int, found: _Round) -> bool:
        """Put questions about logs that are due; return whether any was put."""
        with self._db.read() as conn:
            busy = [address for address, count in self._per_address.items() if count >= PER_ADDRESS]
            due = storage.list_due(conn, held, now_ms, 4 * IN_FLIGHT, asked=self._asked, busy=busy)
        asks = 0
        for log in due:
            if log.state in NEVER_SENT:
                found.gone.append(log.id)
            elif not log.address or log.state is RunState.PLANNED:
                found.later[log.id] = now_ms + RETRY_MS
            elif len(self._asked) < IN_FLIGHT and self._per_address[log.address] < PER_ADDRESS:
                asks += self._ask(log, now_ms, found)
        return bool(asks)

    def _ask(self, log: OpenLog, now_ms: int, found: _Round) -> bool:
        line = self._line(log, now_ms, found)
        if line is None:
            return False
        if not self._questions.ask(log.group_id, log.address, log.id, log.created_ms, line):
            self._put_off(log, now_ms, "no live executor", found)
            return False
        self._asked[log.id] = _Asked(log, line)
        self._per_address[log.address] += 1
        return True

    def _line(self, log: OpenLog, now_ms: int, found: _Round) -> int | None:
        """Return the first line that the store lacks; None if that cannot be known now."""
        line = self._lines.get(log.id)
        if line is None:
            store = self._stores.find(log.store)
            if store is None:
                found.over.append(log.id)
                logger.warning("the log of run %d is incomplete: its store %r is gone", log.id, log.store)
                return None
            try:
                end = store.find(_key(log))
            except LogStoreError:
                found.later[log.id] = now_ms + RETRY_MS
                return None
            line = end.next_line if end else 1
            self._remember(log.id, line)
        return line

    def _read(self, answers: Iterable[LogAnswer], now_ms: int, found: _Round) -> list[_Piece]:
        pieces: list[_Piece] = []
        for answer in answers:
            asked = self._asked.pop(answer.run_id)
            log = asked.log
            self._per_address[log.address] -= 1
            if not self._per_address[log.address]:
                del self._per_address[log.address]
            if answer.data is None:
                self._put_off(log, now_ms, answer.error, found)
                continue
            self._failing.pop(log.id, None)
            pieces.append(_Piece(log, self._chunk(asked, answer.data)))
        return pieces

    def _chunk(self, asked: _Asked, data: LogData) -> LogChunk:
        """Return the lines of an answer; the end of an open run is no end."""
        is_final = asked.log.state in FINAL_STATES
        text = usable_lines(asked.from_line, data, is_final=is_final)
        self._pieces[asked.log.id] += is_final
        is_whole = asked.from_line + text.count("\n") > data.to_line
        is_last = is_final and ((data.is_end and is_whole) or not text or self._pieces[asked.log.id] >= MOST_PIECES)
        return LogChunk(
            key=_key(asked.log),
            job_id=asked.log.job_id,
            first_line=asked.from_line,
            lines=text.count("\n"),
            text=text,
            is_last=is_last,
        )

    def _keep(self, pieces: Sequence[_Piece], now_ms: int, found: _Round) -> list[int]:
        """Hand lines to their stores; return the runs whose whole log is there."""
        by_store: dict[str, list[_Piece]] = {}
        for piece in pieces:
            if piece.chunk.lines or piece.chunk.is_last:
                by_store.setdefault(piece.log.store, []).append(piece)
            else:
                found.later[piece.log.id] = self._again_ms(piece.log, now_ms)
        ended: list[int] = []
        for name, those in by_store.items():
            store = self._stores.find(name)
            answers = self._append(store, [piece.chunk for piece in those]) if store else None
            for place, (log, chunk) in enumerate(those):
                line = answers[place] if answers else None
                if line is None:
                    self._lines.pop(log.id, None)
                    found.later[log.id] = now_ms + RETRY_MS
                    continue
                self._remember(log.id, line)
                if chunk.is_last and line >= chunk.next_line:
                    ended.append(log.id)
                elif log.state in FINAL_STATES:
                    self._go_on(log, chunk, line, now_ms, found)
                else:
                    found.later[log.id] = self._again_ms(log, now_ms)
        return ended

    def _append(self, store: CheckedStore, chunks: Sequence[LogChunk]) -> list[int | None]:
        """Return which line each log lacks then, None for those that the store did not take."""
        try:
            return [*store.append(chunks)]
        except LogStoreError:  # it said so
            # one log that it cannot take keeps no other waiting
            return [None] if len(chunks) == 1 else [self._append(store, [chunk])[0] for chunk in chunks]

    def _go_on(self, log: OpenLog, chunk: LogChunk, line: int, now_ms: int, found: _Round) -> None:
        """Ask for the rest of a run that is over; at once only if the store takes what comes."""
        if self._pieces[log.id] >= MOST_PIECES:
            found.over.append(log.id)
            logger.warning("the log of run %d is incomplete: it has no end", log.id)
        else:
            found.later[log.id] = now_ms if line > chunk.first_line else now_ms + RETRY_MS

    def _again_ms(self, log: OpenLog, now_ms: int) -> int:
        age_ms = now_ms - log.created_ms
        return now_ms + max(self._interval_ms, min(LONGEST_MS, age_ms // AGE_SHARE))

    def _put_off(self, log: OpenLog, now_ms: int, why: str, found: _Round) -> None:
        """Ask again later, or never if the run has been over, and its log asked for in vain, for long."""
        since_ms = self._failing.setdefault(log.id, now_ms)
        while len(self._failing) > REMEMBERED:
            self._failing.pop(next(iter(self._failing)))
        if log.finished_ms is not None and now_ms - max(log.finished_ms, since_ms) > GIVE_UP_MS:
            found.over.append(log.id)
            logger.warning("the log of run %d is incomplete: %s at %s", log.id, why, log.address)
        else:
            found.later[log.id] = now_ms + RETRY_MS

    def _write(self, ended: Sequence[int], found: _Round) -> None:
        never = dict.fromkeys(found.over)
        if not (ended or found.later or never or found.gone):
            return

        def write(conn: Connection) -> None:
            storage.end_logs(conn, ended)
            storage.put_off(conn, [*found.later.items(), *never.items()])
            storage.delete_logs(conn, found.gone)

        self._db.transaction(write)
        for run_id in (*ended, *never, *found.gone):
            self._lines.pop(run_id, None)
            self._pieces.pop(run_id, None)
            self._failing.pop(run_id, None)

    def _remember(self, run_id: int, line: int) -> None:
        self._lines[run_id] = line
        self._lines.move_to_end(run_id)
        while len(self._lines) > REMEMBERED:
            dropped, _ = self._lines.popitem(last=False)
            self._pieces.pop(dropped, None)


def usable_lines(from_line: int, data: LogData, *, is_final: bool) -> str:
    """Return the whole lines of an answer that follow those which are there.

    Executors differ: some answer other lines than they were asked for, count further than they give, leave out the
    last line's end, or send a text in place of a log that is not there.

    Args:
        from_line: Which line was asked for.
        data: The answer.
        is_final: Whether the run is over; before, the last line may not be whole.
    """
    if not data.content or data.content in TEXTS_NO_LOG or data.from_line != from_line:
        return ""
    if data.to_line < from_line:
        return ""
    text = data.content if data.content.endswith("\n") else f"{data.content}\n"
    lines = text.split("\n")[:-1][: data.to_line - from_line + 1]
    if not is_final:
        lines = lines[:-1]
    kept: list[str] = []
    room = MOST_CHARACTERS
    for line in lines:
        text = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]} … (a line of {len(line)} characters)"
        room -= len(text) + 1
        if kept and room < 0:
            break  # the rest is asked for next
        kept.append(f"{text}\n")
    return "".join(kept)


def _key(log: OpenLog) -> LogKey:
    return LogKey(log.id, log.created_ms)
