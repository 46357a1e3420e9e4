"""The tick thread: hold what is due soon, and hand it on when its time comes."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass

from xwheel.clock import STEP_MS
from xwheel.ring import TimeRing
from xwheel.scheduler.cluster.contract import Lease
from xwheel.scheduler.fire.batch import Firing
from xwheel.scheduler.fire.deferred import DeferredRuns
from xwheel.scheduler.records import Queued

logger = logging.getLogger(__name__)

FIRE_BATCH = 1000
LEAST_REACH = 64
RETRY_PLACE_MS = 100
IDLE_MS = 1000
# what may leave early does so this long before it is due, or sooner: until then others gather
READY_MS = 100


class Inbox:
    """Planned runs on their way to the ring; any thread puts, the tick thread takes.

    Thread-safety: a deque, whose appends and pops are atomic.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._runs: deque[Sequence[Queued]] = deque()

    def put(self, runs: Sequence[Queued]) -> None:
        """Take planned runs."""
        if runs:
            self._runs.append(runs)
            self._wake()

    def take(self) -> Sequence[Queued]:
        """Return the runs of one :meth:`put`, the oldest; none if there are no more."""
        return self._runs.popleft() if self._runs else ()


class WaitingRuns:
    """Due runs without a place, in a line for each group: one whose executors are busy holds up no other.

    A line is asked as far from its head as has paid lately, so that a long one costs little while nothing moves.
    """

    def __init__(self) -> None:
        self._lines: dict[int, deque[int]] = {}
        self._reach: dict[int, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, group_id: int, run_id: int) -> None:
        """Put a run at the end of its line."""
        self._lines.setdefault(group_id, deque()).append(run_id)
        self._count += 1

    def take(self, stuck: Collection[int]) -> dict[int, list[int]]:
        """Take from the heads of all lines but the stuck ones, a batch in all; return group id to run ids."""
        room = FIRE_BATCH
        taken: dict[int, list[int]] = {}
        for group_id in [group_id for group_id in self._lines if group_id not in stuck]:
            line = self._lines.pop(group_id)
            count = min(len(line), room, self._reach.get(group_id, FIRE_BATCH))
            taken[group_id] = [line.popleft() for _ in range(count)]
            room -= count
            if line:
                self._lines[group_id] = line  # behind the others: next time they come first
            if not room:
                break
        self._count -= FIRE_BATCH - room
        return taken

    def give_back(self, group_id: int, taken: Sequence[int], left: Sequence[int]) -> None:
        """Put what found no place back to the head, and note how far to reach next time."""
        self.put_first(group_id, left)
        went = len(taken) - len(left)
        reach = went * 5 // 4 if left and went else 2 * len(taken)
        self._reach[group_id] = max(LEAST_REACH, min(FIRE_BATCH, reach))

    def put_first(self, group_id: int, run_ids: Sequence[int]) -> None:
        """Put runs at the head of their line, in this order."""
        if run_ids:
            self._lines.setdefault(group_id, deque()).extendleft(reversed(run_ids))
            self._count += len(run_ids)

    def drop_newest(self, count: int) -> list[int]:
        """Forget this many runs, from the ends of the longest lines, and return them."""
        dropped: list[int] = []
        while len(dropped) < count:
            line = max(self._lines.values(), key=len)
            share = min(count - len(dropped), max(1, len(line) // 2))
            dropped += [line.pop() for _ in range(share)]
        self._count -= len(dropped)
        return dropped


@dataclass(eq=False, repr=False)
class TickLoop:
    """Owns the ring; everything but :meth:`is_held`, which only asks dicts, belongs to the tick thread."""

    ring_at: Callable[[int], TimeRing]  # makes a time ring that begins at an instant
    begin_ms: InitVar[int]  # the time at the start; it may be the machine's, ahead of the shared one
    inbox: Inbox
    firing: Firing
    deferred: DeferredRuns
    lease: Lease
    _: KW_ONLY
    send_ms: int  # how long a send may take
    # due runs kept in memory without a place; more stay rows and are found again by reconciling
    waiting_limit: int
    arm_ms: int  # how long before its due time a run may be fenced, at most; 0 for when it is due

    def __post_init__(self, begin_ms: int) -> None:
        self._ring = self.ring_at(begin_ms)
        self._latest_ms = begin_ms
        self._held: dict[int, Queued] = {}
        self._waiting = WaitingRuns()
        self.overflowed = 0

    def is_held(self, run_id: int) -> bool:
        """Return whether the ring or a line has a run; from any thread."""
        # while a try moves it from one to the other neither may have it: taking it in twice changes nothing
        return run_id in self._held or self.deferred.is_held(run_id)

    def depth(self) -> tuple[int, int]:
        """Return how many runs the ring holds and how many wait for a place or are deferred."""
        return len(self._ring), len(self._waiting) + len(self.deferred)

    def step(self, now_ms: int) -> int:
        """Take what came in, fire what is due; return how long to wait in milliseconds."""
        if now_ms < self._latest_ms - STEP_MS:
            self._turn_back(now_ms)
        self._latest_ms = max(self._latest_ms, now_ms)
        self._take_inbox(now_ms)
        if not self.lease.may_act(self.send_ms):
            return RETRY_PLACE_MS
        ripe = self.deferred.take_ripe(now_ms)
        self._held.update((run.id, run) for run in ripe)
        for run in reversed(ripe):
            self._waiting.put_first(run.group_id, [run.id])
        for run_id in self._ring.advance(now_ms):
            self._waiting.append(self._held[run_id].group_id, run_id)
        stuck: set[int] = set()  # no place: asking again in this tick would spin
        while lines := self._waiting.take(stuck):
            left = self._fire_batch([run_id for line in lines.values() for run_id in line], now_ms)
            for group_id, line in lines.items():
                remaining = [run_id for run_id in line if run_id in left and self._is_due(run_id, now_ms)]
                self._waiting.give_back(group_id, line, remaining)
                early = [run_id for run_id in line if run_id in left and not self._is_due(run_id, now_ms)]
                self._ring.push_many(early, [self._held[run_id].due_ms for run_id in early])
                if remaining:
                    stuck.add(group_id)
        excess = len(self._waiting) - self.waiting_limit
        for run_id in self._waiting.drop_newest(excess) if excess > 0 else ():
            self._held.pop(run_id, None)
            self.overflowed += 1
        return self._wait_ms(now_ms)

    def _fire_batch(self, batch: Sequence[int], now_ms: int) -> set[int]:
        left: set[int] = set()
        try:
            left = self.firing.fire([self._held[run_id] for run_id in batch], now_ms)
        finally:
            # after a failure the rows say what became of them; reconciling brings back those still planned
            for run_id in batch:
                if run_id not in left:
                    self._held.pop(run_id, None)
        return left

    def drain(self) -> list[int]:
        """Forget everything and return the ids; the rows stay planned for the next holder."""
        self._take_inbox(self._latest_ms)
        ids = list(self._held)
        self._ring.drain()
        self._held.clear()
        self._waiting = WaitingRuns()
        self.deferred.drain()
        return ids

    def _turn_back(self, now_ms: int) -> None:
        """Begin again at an earlier time, until whose end the old ring and the lines of deferred runs would rest."""
        held = [*self._held.values(), *self.deferred.drain()]
        self._held, self._waiting = {}, WaitingRuns()
        self._ring, self._latest_ms = self.ring_at(now_ms), now_ms
        self.inbox.put(held)

    def _is_due(self, run_id: int, now_ms: int) -> bool:
        return self._held[run_id].due_ms <= now_ms

    def _leaves_ms(self, due_ms: int) -> int:
        """Return when a run leaves that may do so early; those that are due within a while go together."""
        least_ms = min(READY_MS, self.arm_ms)
        width_ms = max(1, self.arm_ms - least_ms)
        return (due_ms - least_ms) // width_ms * width_ms

    def _take_inbox(self, now_ms: int) -> None:
        while batch := self.inbox.take():
            # one that came under a later epoch stays where it is, but is decided about under that
            self._held.update((run.id, run) for run in batch if run.id in self._held)
            fresh = [run for run in batch if not self.is_held(run.id)]
            self._held.update((run.id, run) for run in fresh)
            may_leave_early = self.firing.may_leave_early(fresh, now_ms) if self.arm_ms else ()
            at_ms = [self._leaves_ms(run.due_ms) if run.id in may_leave_early else run.due_ms for run in fresh]
            self._ring.push_many([run.id for run in fresh], at_ms)

    def _wait_ms(self, now_ms: int) -> int:
        if self._waiting:
            return RETRY_PLACE_MS
        due_ms = self._ring.next_due_ms()
        ring_ms = IDLE_MS if due_ms is None else due_ms - now_ms
        return max(1, math.ceil(min(IDLE_MS, ring_ms, self.deferred.next_try_ms() - now_ms)))
