"""All alarm channels of a node: takes attempts, collects what came of them, and sends tests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xwheel.alarms.channels import ChannelSender, Send, Sent
from xwheel.alarms.records import ChannelHealth
from xwheel.alarms.texts import make_alarm
from xwheel.clock import Clock
from xwheel.errors import ConflictError
from xwheel.model.alarms import AlarmAttempt, AlarmKind, AlarmRow, AlarmState, AlarmTarget, AttemptState
from xwheel.plugin import AlarmChannel
from xwheel.storage.alarms import alarms, attempts, lists
from xwheel.storage.alarms.attempts import EndedAttempt, NewAttempt
from xwheel.storage.database.engine import Connection, Database

LOOK_MS: Final = 250


class Senders:
    """One sender for each installed channel. Every method may be called by any thread.

    Args:
        db: The database, for tests.
        channels: The plugins' channels by name.
        clock: Where time comes from.
        wake: Told when an attempt ended.
        is_ours: Tells whether a partition is held here.
        queue_size: Sends that may wait in memory for one channel.
        timeout_ms: How long a send may take.
    """

    def __init__(
        self,
        db: Database,
        channels: Mapping[str, AlarmChannel],
        clock: Clock,
        wake: Callable[[], None],
        is_ours: Callable[[int], bool],
        *,
        queue_size: int,
        timeout_ms: int,
    ) -> None:
        self._db = db
        self._clock = clock
        self._wake = wake
        self._timeout_ms = timeout_ms
        self._senders = {
            name: ChannelSender(
                channel, clock, self._done, is_ours, queue_size=queue_size, timeout_ms=timeout_ms
            )
            for name, channel in sorted(channels.items())
        }
        self._lock = threading.Lock()
        self._under_way: dict[int, str] = {}
        self._ended: deque[Sent] = deque()
        self._tests: dict[str, Sent | None] = {}

    @property
    def names(self) -> Sequence[str]:
        """Names of the installed channels, sorted."""
        return tuple(self._senders)

    def room(self, channel: str) -> int:
        """Return how many attempts a channel takes now."""
        return self._senders[channel].room()

    def under_way(self, channel: str) -> set[int]:
        """Return the attempts through a channel that were put and whose end is not written yet."""
        with self._lock:
            return {item for item, name in self._under_way.items() if name == channel}

    def put(self, send: Send) -> bool:
        """Take an attempt; tell whether there was room."""
        channel = send.attempt.channel
        with self._lock:
            self._under_way[send.attempt.id] = channel
        if self._senders[channel].put(send):
            return True
        self.forget([send.attempt.id])
        return False

    def ended(self) -> list[Sent]:
        """Return the attempts that ended and are not forgotten, oldest first; 500 at most."""
        with self._lock:
            return [self._ended[place] for place in range(min(len(self._ended), 500))]

    def forget(self, ids: Sequence[int]) -> None:
        """Drop attempts whose end is written."""
        gone = set(ids)
        with self._lock:
            for item in gone:
                self._under_way.pop(item, None)
            self._ended = deque(sent for sent in self._ended if sent.attempt.id not in gone)

    def check(self) -> int | None:
        """Give up sends that take too long; return in how many milliseconds to check again, None if not needed."""
        waits = [wait for sender in self._senders.values() if (wait := sender.check()) is not None]
        return min(waits, default=None)

    def is_busy(self) -> bool:
        """Tell whether a send is under way."""
        return any(sender.is_busy() for sender in self._senders.values())

    def health(self) -> list[ChannelHealth]:
        """Return how each channel fares, by name."""
        return [sender.health() for sender in self._senders.values()]

    def close(self) -> None:
        """Send nothing more."""
        for sender in self._senders.values():
            sender.close()

    def test(self, channel: str, receivers: Sequence[str]) -> AlarmAttempt:
        """Send a test now, wait for what comes of it, and keep it.

        Raises:
            ConflictError: Another test of the channel is under way.
        """
        with self._lock:
            if channel in self._tests:
                raise ConflictError(f"a test of channel {channel} is under way: try again when it has ended")
            self._tests[channel] = None
        try:
            return self._test(channel, receivers)
        finally:
            with self._lock:
                self._tests.pop(channel, None)

    def _test(self, channel: str, receivers: Sequence[str]) -> AlarmAttempt:
        now_ms = self._clock.now_ms()
        alarm_id = self._db.transaction(lambda conn: alarms.insert_test(conn, now_ms))
        draft = _test_attempt(alarm_id, channel, tuple(receivers))
        alarm = make_alarm(_test_row(alarm_id, now_ms), None, None, None, receivers=receivers)
        sent = self._wait(draft) if self._senders[channel].put(Send(draft, alarm)) else None
        if sent is None:
            health = self._senders[channel].health()
            text = f"no turn in time: {health.queued} sends wait and {health.hanging} hang"
            sent = Sent(draft, False, text, None, None)
        state = AttemptState.SENT if sent.ok else AttemptState.FAILED
        new = NewAttempt(
            alarm_id, None, None, 0, AlarmTarget(channel=channel, receivers=draft.receivers), 1, None
        )
        end = EndedAttempt(0, state, sent.started_ms, sent.took_ms, sent.answer)

        def write(conn: Connection) -> AlarmAttempt:
            attempt_id = attempts.insert_ended(conn, new, end)
            return lists.get_attempt(conn, attempt_id)

        return self._db.transaction(write)

    def _wait(self, draft: AlarmAttempt) -> Sent | None:
        """Wait for the end of a test: its own time, and as much for one before it."""
        pause = threading.Event()
        until_ms = self._clock.monotonic_ms() + 2 * self._timeout_ms + LOOK_MS
        while self._clock.monotonic_ms() < until_ms:
            with self._lock:
                sent = self._tests.get(draft.channel)
            if sent is not None and sent.attempt.alarm_id == draft.alarm_id:
                return sent
            pause.wait(
                0.02
            )  # short real time: a test is rare, and a clock moved by hand would be over at once
        return None

    def _done(self, sent: Sent) -> None:
        with self._lock:
            if not sent.attempt.id:
                if sent.attempt.channel in self._tests:
                    self._tests[sent.attempt.channel] = sent
                return
            self._ended.append(sent)
        self._wake()


def _test_row(alarm_id: int, now_ms: int) -> AlarmRow:
    return AlarmRow(
        id=alarm_id,
        rule_id=None,
        job_id=None,
        group_id=None,
        run_id=None,
        partition=0,
        kind=AlarmKind.TEST,
        state=AlarmState.TOLD,
        at_ms=now_ms,
        last_ms=now_ms,
        due_ms=None,
        count=1,
        reason="",
        message="",
        notice_id=None,
        note="",
    )


def _test_attempt(alarm_id: int, channel: str, receivers: tuple[str, ...]) -> AlarmAttempt:
    return AlarmAttempt(
        id=0,
        alarm_id=alarm_id,
        job_id=None,
        group_id=None,
        partition=0,
        channel=channel,
        receivers=receivers,
        number=1,
        state=AttemptState.WAITING,
        due_ms=None,
        started_ms=None,
        took_ms=None,
        answer="",
    )
