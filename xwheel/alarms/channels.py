"""Alarm channels at work: a bounded queue and a thread each, so that none waits for another."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from xwheel.alarms.records import ChannelHealth
from xwheel.clock import Clock
from xwheel.errors import AlarmRetryLater
from xwheel.model.alarms import AlarmAttempt
from xwheel.plugin import Alarm, AlarmChannel
from xwheel.plugin.validation import seconds, words_of

logger = logging.getLogger(__name__)

MOST_HANGING: Final = 3
"""Threads of a channel that may be given up; then nothing is sent through it until one of them comes back."""

ANSWER_LENGTH: Final = 1000


@dataclass(frozen=True, slots=True)
class Send:
    """An attempt that is to be made."""

    attempt: AlarmAttempt
    alarm: Alarm


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt that ended.

    Attributes:
        started_ms: When the channel was called; None if it was not.
        retry_after_s: When the other side wants to be asked again, if it said so.
        is_left: It was not made: the partition is another node's now, and so is the attempt.
    """

    attempt: AlarmAttempt
    ok: bool
    answer: str
    started_ms: int | None
    took_ms: int | None
    retry_after_s: float | None = None
    is_left: bool = False


@dataclass(slots=True, eq=False)
class _Worker:
    """A thread of a channel; ``send`` is what it is busy with."""

    thread: threading.Thread | None = None
    send: Send | None = None
    began_ms: int = 0
    started_ms: int = 0
    is_given_up: bool = False


@dataclass(slots=True)
class _Record:
    failures: int = 0
    last_ms: int | None = None
    last_answer: str = ""


class ChannelSender:
    """Sends through one channel, one alarm at a time. Every method may be called by any thread.

    The thread lives as long as there is something to send. A send that does not come back in time is a failed one; its
    thread is given up and another takes its place, three times at most.

    Args:
        channel: The plugin's channel.
        clock: Where time comes from.
        done: Gets each attempt that ended; on the channel's thread or on that which calls :meth:`check`.
        is_ours: Tells whether a partition is still held here; asked right before each send.
        queue_size: Sends that may wait.
        timeout_ms: How long a send may take.
    """

    def __init__(
        self,
        channel: AlarmChannel,
        clock: Clock,
        done: Callable[[Sent], None],
        is_ours: Callable[[int], bool],
        *,
        queue_size: int,
        timeout_ms: int,
    ) -> None:
        self._channel = channel
        self._clock = clock
        self._done = done
        self._is_ours = is_ours
        self._queue_size = queue_size
        self._timeout_ms = timeout_ms
        self._lock = threading.Lock()
        self._queue: deque[Send] = deque()
        self._worker: _Worker | None = None
        self._hanging = 0
        self._record = _Record()
        self._is_closed = False

    def room(self) -> int:
        """Return how many sends fit the queue."""
        with self._lock:
            return self._queue_size - len(self._queue)

    def put(self, send: Send) -> bool:
        """Let a send wait for its turn; tell whether there was room."""
        with self._lock:
            if self._is_closed or len(self._queue) >= self._queue_size:
                return False
            self._queue.append(send)
            if self._worker is None and self._hanging < MOST_HANGING:
                self._start()
            return True

    def check(self) -> int | None:
        """Give up a send that takes too long; return in how many milliseconds to check again, None if not needed."""
        failed: list[Sent] = []
        with self._lock:
            worker = self._worker
            if worker is not None and worker.send is not None:
                took_ms = self._clock.monotonic_ms() - worker.began_ms
                if took_ms < self._timeout_ms:
                    return self._timeout_ms - took_ms
                failed.append(self._give_up(worker, worker.send, took_ms))
            if self._worker is None and self._hanging >= MOST_HANGING:
                text = (
                    f"channel {self._channel.name} is still hanging: {self._hanging} sends have not come back"
                )
                failed += [Sent(send.attempt, False, text, None, None) for send in self._queue]
                self._queue.clear()
            for sent in failed:
                self._note(sent)
        for sent in failed:
            self._done(sent)
        return None

    def is_busy(self) -> bool:
        """Tell whether a send is under way that has not been given up."""
        with self._lock:
            return self._worker is not None and self._worker.send is not None

    def health(self) -> ChannelHealth:
        """Return how the channel fares."""
        with self._lock:
            record = self._record
            return ChannelHealth(
                channel=self._channel.name,
                is_healthy=not self._hanging and not record.failures,
                failures=record.failures,
                hanging=self._hanging,
                queued=len(self._queue),
                last_ms=record.last_ms,
                last_answer=record.last_answer,
            )

    def close(self) -> None:
        """Send nothing more; what waits is forgotten, its rows are still there."""
        with self._lock:
            self._is_closed = True
            self._queue.clear()

    def _start(self) -> None:
        worker = _Worker()
        name = f"xwheel-alarm-{self._channel.name}"
        worker.thread = threading.Thread(target=self._work, args=(worker,), name=name, daemon=True)
        self._worker = worker
        worker.thread.start()

    def _give_up(self, worker: _Worker, send: Send, took_ms: int) -> Sent:
        worker.is_given_up = True
        self._hanging += 1
        self._worker = None
        logger.warning(
            "alarm channel %s did not come back from alarm %d in %d ms and is left alone with it; %d sends hang",
            self._channel.name,
            send.alarm.id,
            took_ms,
            self._hanging,
        )
        if self._queue and self._hanging < MOST_HANGING:
            self._start()
        return Sent(send.attempt, False, f"no answer in {took_ms} ms", worker.started_ms, took_ms)

    def _work(self, worker: _Worker) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._worker = None  # the next send starts another: they are few
                    return
                send = self._queue.popleft()
                is_ours = not send.attempt.id or self._is_ours(send.attempt.partition)
                worker.send = send if is_ours else None
                worker.began_ms, worker.started_ms = self._clock.monotonic_ms(), self._clock.now_ms()
            if not is_ours:
                self._done(Sent(send.attempt, False, "", None, None, is_left=True))
                continue
            sent = self._try(send, worker)
            with self._lock:
                worker.send = None
                if worker.is_given_up:
                    self._hanging -= 1
                    logger.warning(
                        "alarm channel %s came back late from alarm %d: %s",
                        self._channel.name,
                        send.alarm.id,
                        sent.answer,
                    )
                    if self._queue and self._worker is None and not self._is_closed:
                        self._start()
                    return
                self._note(sent)
            self._done(sent)

    def _try(self, send: Send, worker: _Worker) -> Sent:
        retry_after_s: float | None = None
        said: object
        try:
            said, ok, kind = self._channel.send(send.alarm) or "", True, ""
        except AlarmRetryLater as later:
            said, ok, kind, retry_after_s = later, False, "", seconds(later.after_s)
        except BaseException as error:  # a plugin's thread has nobody else to tell
            said, ok, kind = error, False, f"{type(error).__name__}: "
        took_ms = self._clock.monotonic_ms() - worker.began_ms
        return Sent(send.attempt, ok, _words(kind, said), worker.started_ms, took_ms, retry_after_s)

    def _note(self, sent: Sent) -> None:
        self._record = _Record(
            failures=0 if sent.ok else self._record.failures + 1,
            last_ms=self._clock.now_ms(),
            last_answer=sent.answer,
        )


def _words(kind: str, said: object) -> str:
    """Return what a plugin said as text that can be shown and kept."""
    text = words_of(said, kind)
    return text if len(text) <= ANSWER_LENGTH else text[: ANSWER_LENGTH - 3] + "..."
