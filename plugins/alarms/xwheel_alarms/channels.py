"""Send through alarm channels: a bounded queue and a thread for each, so that none waits for another."""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import ConflictError
from xwheel.plugin import PartHealth
from xwheel.plugin.validation import words_of
from xwheel.runtime.foreign import PluginThreads, PluginWorker

from xwheel_alarms.contract import Alarm, AlarmChannel, AlarmRetryLater
from xwheel_alarms.records import AlarmAttempt

MOST_HANGING: Final = 3
"""Sends of one channel that may hang; then nothing is sent through it until one of them comes back."""

ANSWER_LENGTH: Final = 1000
LONGEST_WAIT_S: Final = 1e9
ENDED: Final = 500
"""Ended attempts that are written in one transaction."""


@dataclass(frozen=True, slots=True)
class Send:
    """An attempt that is to be made.

    Attributes:
        reply: Gets the end of a test; None if the end is to be written to the attempt's row.
    """

    attempt: AlarmAttempt
    alarm: Alarm
    reply: Future[Sent] | None = None

    def __str__(self) -> str:
        return f"alarm {self.alarm.id}"


@dataclass(frozen=True, slots=True)
class Sent:
    """An attempt that ended.

    Attributes:
        started_ms: When the channel was called; None if it was not.
        retry_after_s: When the other side wants to be asked again, if it said so.
        is_skipped: It was not made: another node holds the partition now, and makes it.
    """

    attempt: AlarmAttempt
    ok: bool
    answer: str
    started_ms: int | None = None
    took_ms: int | None = None
    retry_after_s: float | None = None
    is_skipped: bool = False

    def __str__(self) -> str:
        return self.answer


@dataclass(slots=True)
class _Channel:
    """A channel, its queue and thread, and what came of its last attempts."""

    plugin: AlarmChannel
    worker: PluginWorker[Send, Sent]
    failures: int = 0
    last_ms: int | None = None
    last_answer: str = ""


class AlarmChannels:
    """The alarm channels of a node. Every method may be called by any thread.

    A channel sends one alarm at a time. A send that does not come back in time is a failed one; its thread is left
    behind and another takes its place, three times at most.

    Args:
        plugins: The plugins' channels by name.
        clock: Where time comes from.
        wake: Called when an attempt ended.
        is_ours: Returns whether this node holds a partition; asked right before each send.
        queue_size: Sends that may wait in memory for one channel.
        timeout_s: How long a send may take.
    """

    def __init__(
        self,
        plugins: Mapping[str, AlarmChannel],
        clock: Clock,
        wake: Callable[[], None],
        is_ours: Callable[[int], bool],
        *,
        queue_size: int,
        timeout_s: float,
    ) -> None:
        self._clock = clock
        self._wake = wake
        self._is_ours = is_ours
        self._queue_size = queue_size
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._under_way: dict[int, str] = {}
        self._ended: deque[Sent] = deque()
        self._testing: set[str] = set()
        threads = PluginThreads(timeout_s, most_hanging=MOST_HANGING)
        self._channels = {
            name: _Channel(
                plugin,
                PluginWorker(
                    f"alarm channel {name}",
                    f"xwheel-alarm-{name}",
                    partial(self._send, plugin),
                    self._done,
                    threads,
                    clock,
                    limit=queue_size,
                ),
            )
            for name, plugin in sorted(plugins.items())
        }

    @property
    def names(self) -> Sequence[str]:
        """Names of the installed channels, sorted."""
        return tuple(self._channels)

    def room(self, channel: str) -> int:
        """Return how many attempts a channel takes now."""
        return self._queue_size - self._channels[channel].worker.queued()

    def under_way(self, channel: str) -> set[int]:
        """Return the attempts through a channel that were put and whose end is not written yet."""
        with self._lock:
            return {item for item, name in self._under_way.items() if name == channel}

    def put(self, channel: str, sends: Sequence[Send]) -> None:
        """Take attempts through one channel, as many as its queue holds."""
        with self._lock:
            self._under_way.update((send.attempt.id, channel) for send in sends)
        if refused := self._channels[channel].worker.put(sends):
            self.forget([send.attempt.id for send in refused])

    def ended(self) -> list[Sent]:
        """Return the attempts that ended and are not forgotten, oldest first; 500 at most."""
        with self._lock:
            return [self._ended[place] for place in range(min(len(self._ended), ENDED))]

    def forget(self, ids: Sequence[int]) -> None:
        """Drop attempts whose end is written."""
        gone = set(ids)
        with self._lock:
            for item in gone:
                self._under_way.pop(item, None)
            self._ended = deque(sent for sent in self._ended if sent.attempt.id not in gone)

    def check(self) -> int | None:
        """Give up sends that take too long; return in how many milliseconds to check again, None if not needed."""
        checks = (channel.worker.check(self._give_up) for channel in self._channels.values())
        return min((wait for wait in checks if wait is not None), default=None)

    def is_busy(self) -> bool:
        """Return whether a send is under way."""
        return any(channel.worker.busy_ms() is not None for channel in self._channels.values())

    def health(self) -> list[PartHealth]:
        """Return how each channel fares, by name."""
        return [
            PartHealth(
                kind="alarm channel",
                name=name,
                ok=not (hanging := channel.worker.hanging()) and not channel.failures,
                failures=channel.failures,
                hanging=hanging,
                queued=channel.worker.queued(),
                last_ms=channel.last_ms,
                last_answer=channel.last_answer,
            )
            for name, channel in self._channels.items()
        ]

    def test(self, attempt: AlarmAttempt, alarm: Alarm) -> Sent:
        """Send a test now, and return what came of it: after its own time, and as much for a send before it.

        Raises:
            ConflictError: Another test of the channel is under way.
        """
        name = attempt.channel
        with self._lock:
            if name in self._testing:
                raise ConflictError(f"a test of channel {name} is under way: try again when it has ended")
            self._testing.add(name)
        worker = self._channels[name].worker
        reply: Future[Sent] = Future()
        try:
            if not worker.put([Send(attempt, alarm, reply)]):
                return reply.result(2 * self._timeout_s)
        except TimeoutError:
            pass
        finally:
            with self._lock:
                self._testing.discard(name)
        text = f"no turn in time: {worker.queued()} sends wait and {worker.hanging()} hang"
        return Sent(attempt, False, text)

    def close(self) -> None:
        """Send nothing more; what waits is still in its rows."""
        for channel in self._channels.values():
            channel.worker.close()

    def _send(self, plugin: AlarmChannel, sends: Sequence[Send]) -> Sent:
        (send,) = sends
        attempt = send.attempt
        if send.reply is None and not self._is_ours(attempt.partition):
            return Sent(attempt, False, "", is_skipped=True)
        began_ms, started_ms = self._clock.monotonic_ms(), self._clock.now_ms()
        retry_after_s: float | None = None
        said: object
        try:
            said, ok, kind = plugin.send(send.alarm) or "", True, ""
        except AlarmRetryLater as later:
            said, ok, kind, retry_after_s = later, False, "", seconds(later.after_s)
        except BaseException as error:  # a plugin's thread has nothing above it that would handle this
            said, ok, kind = error, False, f"{type(error).__name__}: "
        took_ms = self._clock.monotonic_ms() - began_ms
        answer = words_of(said, kind)
        if len(answer) > ANSWER_LENGTH:
            answer = answer[: ANSWER_LENGTH - 3] + "..."
        return Sent(attempt, ok, answer, started_ms, took_ms, retry_after_s)

    def _give_up(self, send: Send, took_ms: int | None) -> None:
        """End an attempt whose send hangs, or that waits in vain for a channel that hangs."""
        name = send.attempt.channel
        if took_ms is None:
            hanging = self._channels[name].worker.hanging()
            text = f"channel {name} is still hanging: {hanging} sends have not come back"
            sent = Sent(send.attempt, False, text)
        else:
            started_ms = self._clock.now_ms() - took_ms
            sent = Sent(send.attempt, False, f"no answer in {took_ms} ms", started_ms, took_ms)
        self._done([send], sent)

    def _done(self, sends: Sequence[Send], sent: Sent) -> None:
        (send,) = sends
        with self._lock:
            if not sent.is_skipped:
                channel = self._channels[sent.attempt.channel]
                channel.failures = 0 if sent.ok else channel.failures + 1
                channel.last_ms, channel.last_answer = self._clock.now_ms(), sent.answer
            if send.reply is None:
                self._ended.append(sent)
        if send.reply is None:
            self._wake()
        else:
            send.reply.set_result(sent)


def seconds(given: object) -> float | None:
    """Return a plugin's number of seconds, or None if it is none."""
    if type(given) not in (int, float) or not -LONGEST_WAIT_S <= given <= LONGEST_WAIT_S:  # type: ignore[operator]
        return None
    return float(given) if math.isfinite(given) else None  # type: ignore[arg-type]
