"""Ships the lines of run logs to the scheduler while runs write them, from the files, as far as it has not got them."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import WireError
from xwheel.executor.logs.run_log import CHUNK, RunLog, read_chunk, skip_lines
from xwheel.executor.reporting.admin_client import AdminClient, NotTakenError, TooLargeError
from xwheel.wire.messages import LogPart, LogReceipt

logger = logging.getLogger(__name__)

INTERVAL_MS: Final = 1000  # how often a log that grows is shipped
IDLE_MS: Final = 60_000
MAX_PARTS: Final = 500
MAX_BYTES: Final = 1024 * 1024  # logs of one request, and bytes of the files; one chunk or line comes on top
LEAST_BYTES: Final = 64 * 1024  # requests that a scheduler finds too large get ever smaller, down to this
MAX_ASKS: Final = 50  # logs that one request asks about: each may be a call of the scheduler's store
SEARCHED: Final = 1000
FIRST_PAUSE_MS: Final = 200
LONGEST_PAUSE_MS: Final = 10_000
STUCK_MS: Final = 60_000
# logs that wait to be shipped; of more, the oldest that are over stay here alone until the next start
MAX_LOGS: Final = 100_000
Key = tuple[int, int]


@dataclass(slots=True)
class _Shipment:
    run_id: int
    created_ms: int
    path: Path
    log: RunLog | None  # what writes it; None for one of a run that ended before this start
    line: int = 1  # number of the first line that the scheduler lacks
    offset: int = 0  # where that line begins in the file
    is_asked: bool = False  # the scheduler is to say first how far it has it
    not_before_ms: int = 0  # when there may be something to ship
    pause_ms: int = 0  # how long it waited last since the scheduler did not take what it was sent

    @property
    def key(self) -> Key:
        """What makes it the log of one run."""
        return self.run_id, self.created_ms

    @property
    def is_over(self) -> bool:
        """Whether nothing more is written into it."""
        return self.log is None or self.log.is_closed

    def part(self, content: str = "", is_end: bool = False) -> LogPart:
        """Return what is said of it next."""
        run_id, created_ms, line = self.run_id, self.created_ms, self.line
        return LogPart(run_id=run_id, created_ms=created_ms, from_line=line, content=content, is_end=is_end)


@dataclass(frozen=True, slots=True)
class _Sent:
    shipment: _Shipment
    part: LogPart
    next_line: int
    next_offset: int


class LogShipping:
    """The loop that ships logs; :meth:`step` belongs to one thread at a time.

    The files are the only buffer: nothing is kept in memory but how far each log is shipped, and runs never wait.
    After a start the scheduler is asked how far it has the logs of the last day. ``earlier`` gives the logs of runs
    that ended before, each as run, creation time and file; ``wakeup`` ends the waits of the loop.
    """

    def __init__(
        self, client: AdminClient, clock: Clock, earlier: Callable[[], Iterable[tuple[int, int, Path]]]
    ) -> None:
        self._client = client
        self._clock = clock
        self._earlier = earlier
        self._is_begun = False
        self._news: deque[RunLog] = deque()
        self._logs: OrderedDict[Key, _Shipment] = OrderedDict()
        self._is_wanted = False
        self.wakeup = threading.Event()
        self._pause_ms = 0
        self._not_before_ms = 0
        self._dropped = 0
        self._most = MAX_BYTES
        self._parts = MAX_PARTS

    def begun(self, log: RunLog) -> None:
        """Note that a run begins to write; from any thread, and waits for nothing."""
        self._news.append(log)
        if self._is_wanted and not self.wakeup.is_set():
            self.wakeup.set()

    def want(self, is_wanted: bool) -> None:
        """Note whether the scheduler that we are registered with has a log store."""
        if is_wanted != self._is_wanted:
            self._is_wanted = is_wanted
            self._is_begun = False  # what ended meanwhile is asked about, as after a start
            shipped = "logs are shipped to the scheduler's log store"
            logger.info(shipped if is_wanted else "logs stay here: the scheduler has no log store")
            self.wakeup.set()

    def step(self, _now_ms: int) -> int:
        """Ship one request; return how long to wait before the next, in milliseconds."""
        now_ms = self._clock.monotonic_ms()
        self._take_news()
        if not self._is_wanted:
            # only logs that still grow are kept in mind, for when the scheduler wants them after all
            for one in [one for one in self._logs.values() if one.is_over]:
                del self._logs[one.key]
            return INTERVAL_MS * 10
        if now_ms < self._not_before_ms:
            return self._not_before_ms - now_ms
        if not self._is_begun:  # runs that ended before this start, or while no logs were wanted
            self._is_begun = True
            for run_id, created_ms, path in self._earlier():
                if (run_id, created_ms) not in self._logs:
                    self._add(_Shipment(run_id, created_ms, path, None, is_asked=True))
        sent = self._gather(now_ms)
        return self._ship(sent, now_ms) if sent else (INTERVAL_MS if self._logs else IDLE_MS)

    def _ship(self, sent: Sequence[_Sent], now_ms: int) -> int:
        try:
            receipts = self._client.ship_logs([one.part for one in sent])
        except TooLargeError as error:
            self._make_smaller(sent, error, now_ms)
            return 0
        except WireError as error:
            if isinstance(error, NotTakenError):
                self._part(sent, now_ms)
            return self._back_off(error, now_ms)
        self._parts = min(MAX_PARTS, 2 * self._parts)
        if self._pause_ms:
            logger.info("logs are shipped again")
            self._pause_ms = 0
        self._settle(sent, receipts, now_ms)
        return 0

    def finish(self, timeout_s: float) -> bool:
        """Ship what is left of logs whose runs are over, for this long at most; return whether these arrived."""
        deadline_ms = self._clock.monotonic_ms() + round(timeout_s * 1000)
        pause = threading.Event()
        while self._is_wanted and self._clock.monotonic_ms() < deadline_ms:
            self._take_news()
            if not any(one.is_over for one in self._logs.values()):
                return True
            for one in self._logs.values():
                one.not_before_ms = 0 if one.is_over and not one.pause_ms else one.not_before_ms
            wait_ms = self.step(self._clock.now_ms())
            if wait_ms:
                self._clock.wait(pause, min(wait_ms, FIRST_PAUSE_MS))
        return not self._is_wanted or not any(one.is_over for one in self._logs.values())

    def _take_news(self) -> None:
        for _ in range(len(self._news)):
            log = self._news.popleft()
            known = self._logs.get((log.run_id, log.created_ms))
            if known is None:
                self._add(_Shipment(log.run_id, log.created_ms, log.path, log))
            else:
                known.log = log  # its file was opened again

    def _add(self, shipment: _Shipment) -> None:
        self._logs[shipment.key] = shipment
        while len(self._logs) > MAX_LOGS:
            first = islice(self._logs.items(), SEARCHED)
            oldest = next((key for key, one in first if one.is_over), next(iter(self._logs)))
            del self._logs[oldest]
            self._dropped += 1
            if self._dropped in (1, 1000) or self._dropped % 100_000 == 0:
                text = "%d logs wait for the scheduler, and %d more stay here: it takes too few"
                logger.warning(text, MAX_LOGS, self._dropped)

    def _gather(self, now_ms: int) -> list[_Sent]:
        found: list[_Sent] = []
        size = asks = 0
        for shipment in list(self._logs.values()):  # those that were shipped last come last
            if shipment.not_before_ms > now_ms and (shipment.pause_ms or not shipment.is_over):
                continue
            if shipment.pause_ms and found:
                continue  # what was not taken before travels by itself, so that it holds up no other
            sent = self._read(shipment, self._most - size, now_ms)
            if sent is None:
                continue
            found.append(sent)
            self._logs.move_to_end(shipment.key)
            asks += shipment.is_asked
            size += sent.next_offset - shipment.offset
            is_alone = shipment.pause_ms > 0
            if is_alone or len(found) >= self._parts or asks >= MAX_ASKS or size >= self._most:
                break
        return found

    def _read(self, shipment: _Shipment, room: int, now_ms: int) -> _Sent | None:
        # before the lines are read: what is written behind them is left for the next time
        is_over = shipment.is_over
        if shipment.is_asked:
            return _Sent(shipment, shipment.part(), shipment.line, shipment.offset)
        line, offset, is_end = shipment.line, shipment.offset, False
        pieces: list[str] = []
        try:
            while room > 0:
                text, lines, end = read_chunk(shipment.path, offset, min(room, CHUNK), live=not is_over)
                if not lines:
                    is_end = is_over
                    break
                pieces.append(text)
                line += lines
                room -= end - offset
                offset = end
        except FileNotFoundError:
            is_end = is_over  # deleted: what was shipped is all
            if not is_over:
                shipment.not_before_ms = now_ms + INTERVAL_MS
                return None
        except OSError as error:
            logger.warning("the log of run %d cannot be read: %s", shipment.run_id, error)
            shipment.not_before_ms, shipment.pause_ms = now_ms + STUCK_MS, STUCK_MS
            return None
        if not pieces and not is_end:
            shipment.not_before_ms = now_ms + INTERVAL_MS
            return None
        return _Sent(shipment, shipment.part("".join(pieces), is_end), line, offset)

    def _settle(self, sent: Sequence[_Sent], receipts: Sequence[LogReceipt], now_ms: int) -> None:
        by_run = {receipt.run_id: receipt for receipt in receipts}
        for one in sent:
            shipment, receipt = one.shipment, by_run.get(one.shipment.run_id)
            if receipt is None:
                self._wait(shipment, now_ms)
            elif receipt.settled:
                del self._logs[shipment.key]
                if receipt.message:
                    logger.info("the log of run %d stays here: %s", shipment.run_id, receipt.message)
            elif receipt.next_line == one.next_line and not shipment.is_asked:
                shipment.pause_ms = 0
                is_full = one.next_offset - shipment.offset >= LEAST_BYTES
                shipment.line, shipment.offset = one.next_line, one.next_offset
                shipment.not_before_ms = now_ms if is_full else now_ms + INTERVAL_MS
            else:
                self._go_to(shipment, receipt.next_line, now_ms)

    def _go_to(self, shipment: _Shipment, line: int, now_ms: int) -> None:
        """Go on with the line that the scheduler lacks; it had more or less than we thought."""
        is_stuck = line <= shipment.line and not shipment.is_asked
        shipment.is_asked = False
        try:
            have, offset = skip_lines(shipment.path, line - 1)
        except OSError:
            have, offset = line - 1, shipment.offset
        if have < line - 1:
            # more than there is: what it says cannot be, or the file is another one
            text = "the log of run %d has %d lines, but the scheduler's store wants line %d"
            logger.warning(text, shipment.run_id, have, line)
            is_stuck = True
        else:
            shipment.line, shipment.offset = line, offset
        if is_stuck:
            self._wait(shipment, now_ms)

    def _wait(self, shipment: _Shipment, now_ms: int) -> None:
        shipment.pause_ms = min(STUCK_MS, max(INTERVAL_MS, 2 * shipment.pause_ms))
        shipment.not_before_ms = now_ms + shipment.pause_ms

    def _make_smaller(self, sent: Sequence[_Sent], error: TooLargeError, now_ms: int) -> None:
        """Send less from now on; a line that is too large by itself keeps only its own log waiting."""
        if self._most > LEAST_BYTES:
            self._most = max(LEAST_BYTES, self._most // 2)
            return
        largest = max(sent, key=lambda one: len(one.part.content)).shipment
        logger.warning("the log of run %d stays here for now: %s", largest.run_id, error)
        largest.pause_ms = STUCK_MS
        self._wait(largest, now_ms)

    def _part(self, sent: Sequence[_Sent], now_ms: int) -> None:
        """Send fewer logs together, and let one that fails by itself wait: a store may be unable to take just that."""
        self._parts = max(1, len(sent) // 2)
        if len(sent) == 1:
            self._wait(sent[0].shipment, now_ms)

    def _back_off(self, error: WireError, now_ms: int) -> int:
        if not self._pause_ms:
            logger.warning("%d logs wait for the scheduler: %s", len(self._logs), error)
        self._pause_ms = min(LONGEST_PAUSE_MS, max(FIRST_PAUSE_MS, 2 * self._pause_ms))
        self._not_before_ms = now_ms + self._pause_ms
        return self._pause_ms
