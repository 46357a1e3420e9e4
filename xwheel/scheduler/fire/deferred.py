"""Due runs that may not go yet: they leave the waiting line and are tried again from time to time.

What waits for the same thing stands in one line, oldest first, and only the head of a line is tried: if the head may
not go, nothing behind it may. A try is an ordinary fire, so it reads rows and jobs again, a batch at a time.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from xwheel.model import Run
from xwheel.scheduler.records import Deferred, Line, Shard
from xwheel.storage.runs import QueuedRun

FIRST_TRY = 8
TRY_BATCH = 500
TRIES_PER_MS = 5
BASE_WAIT_MS = 200
MAX_WAIT_MS = 1000
SOON_MS = 20
WATCHED = 100_000


@dataclass(slots=True)
class _Entry:
    line: Line
    rank: tuple[int, int]
    run: QueuedRun
    root_id: int


@dataclass(slots=True)
class _Queue:
    """One line: ranks of its runs in order, when it is tried next, how much of it, and heads whose router is asked."""

    ranks: list[tuple[int, int]] = field(default_factory=list)
    try_at_ms: float = math.inf
    wait_ms: int = BASE_WAIT_MS
    take: int = FIRST_TRY
    is_asked: bool = False
    elsewhere: set[int] = field(default_factory=set)


class DeferredRuns:
    """The lines of deferred runs.

    Thread-safety: :meth:`is_held`, :meth:`has_no_room`, :meth:`ended` and :meth:`arrived` may be called from anywhere:
    they ask dicts and append to deques. Everything else belongs to the tick thread. Of a line that does not fit into
    the limit of runs, the newest stay rows and are found again by reconciling.
    """

    def __init__(self, wake: Callable[[], None], *, limit: int) -> None:
        self.overflowed = 0
        self._wake, self._limit = wake, limit
        self._entries: dict[int, _Entry] = {}
        self._queues: dict[Line, _Queue] = {}
        self._of_job: dict[int, set[int]] = {}
        self._agenda: list[tuple[float, Line]] = []
        self._asked: dict[int, Line] = {}
        self._round_at_ms = 0.0
        self._watched: dict[int, tuple[int, int]] = {}
        self._ended: deque[tuple[int, int]] = deque()
        self._arrived: deque[int] = deque()
        self._is_crowded = False
        self._beyond: dict[int, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def is_held(self, run_id: int) -> bool:
        """Return whether a run is deferred; from any thread."""
        return run_id in self._entries

    def has_no_room(self, run: QueuedRun) -> bool:
        """Return whether a run had no room behind others of its job that still wait; from any thread."""
        if not self._is_crowded or run.job_id not in self._of_job:
            return False
        return (run.due_ms, run.id) >= self._beyond.get(run.job_id, (math.inf, 0))

    def ended(self, run_ids: Iterable[int]) -> None:
        """Try at once what waits for these runs; from any thread."""
        if not self._watched:
            return
        found = [hit for run_id in run_ids if (hit := self._watched.pop(run_id, None)) is not None]
        if found:
            self._ended.extend(found)
            self._wake()

    def arrived(self, group_id: int) -> None:
        """Try at once what waits for an executor of a group; from any thread."""
        self._arrived.append(group_id)
        self._wake()

    def watch(self, shards: Sequence[Shard]) -> None:
        """Note runs whose end lets others go."""
        if len(self._watched) + len(shards) > WATCHED:
            self._watched.clear()  # what waits for them is tried a little later
        self._watched.update((shard.run.id, (shard.job.id, shard.job.group_id)) for shard in shards)

    def defer(self, runs: Sequence[Deferred], now_ms: int) -> None:
        """Take runs that may not go yet."""
        for item in runs:
            run = item.run
            queued = QueuedRun(run.id, run.job_id, run.group_id, run.partition, run.epoch, run.due_ms)
            rank = (run.due_ms if item.until_ms is None else item.until_ms, run.id)
            queue = self._queues.get(item.line)
            if queue is None:
                queue = self._queues[item.line] = _Queue()
                self._try_at(item.line, queue, now_ms + (SOON_MS if item.soon else queue.wait_ms))
            elif run.id in queue.elsewhere or (queue.is_asked and self._asked.get(run.id) == item.line):
                # the head may not go, and so nothing behind it
                self._put_off(item.line, queue, now_ms + (SOON_MS if item.soon else queue.wait_ms))
            if item.until_ms is not None and item.until_ms < queue.try_at_ms:
                self._try_at(item.line, queue, item.until_ms)
            insort(queue.ranks, rank)
            self._entries[run.id] = _Entry(item.line, rank, queued, run.root_id)
            self._of_job.setdefault(run.job_id, set()).add(run.id)
            if len(self._entries) > self._limit:
                self._cut(item.line)

    def asked_elsewhere(self, run_ids: Iterable[int], now_ms: int) -> None:
        """Put off lines whose heads go where their router is asked: only what comes back from there may not go."""
        for run_id in run_ids:
            line = self._asked.get(run_id)
            if line is None or line.kind != "executor" or (queue := self._queues.get(line)) is None:
                continue
            queue.elsewhere.add(run_id)
            if queue.is_asked:
                queue.is_asked = False
                self._try_at(line, queue, now_ms + queue.wait_ms)

    def forget(self, run_ids: Iterable[int]) -> None:
        """Drop runs that will never go."""
        for run_id in run_ids:
            if run_id in self._entries:
                self._remove(run_id)

    def take_ripe(self, now_ms: int) -> list[QueuedRun]:
        """Give the heads of lines whose time has come, oldest due first; :meth:`defer` takes back what may not go."""
        self._drain_news(now_ms)
        if now_ms < self._round_at_ms:
            return []
        self._asked = {}
        ripe: list[QueuedRun] = []
        again: list[Line] = []
        while self._agenda and self._agenda[0][0] <= now_ms and len(ripe) < TRY_BATCH:
            at_ms, line = heapq.heappop(self._agenda)
            queue = self._queues.get(line)
            if queue is None or queue.try_at_ms != at_ms:
                continue  # it has been tried, or will be
            if not queue.ranks:
                del self._queues[line]
                continue
            heads = [run_id for _, run_id in queue.ranks[: queue.take]]
            self._asked.update((run_id, line) for run_id in heads)
            ripe += [self._remove(run_id) for run_id in heads]
            queue.is_asked, queue.try_at_ms = True, math.inf
            queue.elsewhere.clear()
            queue.take = min(queue.take * 2, TRY_BATCH)
            again.append(line)
        for line in again:
            # if none of its heads comes back, those behind them are tried in the next step
            self._try_at(line, self._queues[line], now_ms)
        self._round_at_ms = now_ms + len(ripe) / TRIES_PER_MS
        return sorted(ripe, key=lambda run: (run.due_ms, run.id))

    def next_try_ms(self) -> float:
        """Return when a line is tried next; infinity if there is none."""
        return max(self._agenda[0][0], self._round_at_ms) if self._agenda else math.inf

    def is_behind(self, line: Line, run: Run) -> bool:
        """Return whether an older run than this one waits in a line."""
        queue = self._queues.get(line)
        return queue is not None and bool(queue.ranks) and queue.ranks[0] < (run.due_ms, run.id)

    def older(self, run: Run, kind: str = "") -> list[int]:
        """Return the deferred runs of the same job and another root that are older, in lines of a kind or in all."""
        return [
            entry.run.id
            for entry in self._others(run)
            if kind in ("", entry.line.kind) and (entry.run.due_ms, entry.run.id) < (run.due_ms, run.id)
        ]

    def has_newer(self, run: Run) -> bool:
        """Return whether a newer fire of the same job is deferred, though it has an executor."""
        return any(
            entry.line.kind != "executor"
            and entry.run.id == entry.root_id
            and (entry.run.due_ms, entry.run.id) > (run.due_ms, run.id)
            for entry in self._others(run)
        )

    def drain(self) -> list[QueuedRun]:
        """Forget everything, and return the runs; their rows are planned still."""
        runs = [entry.run for entry in self._entries.values()]
        for held in (self._entries, self._queues, self._of_job, self._agenda, self._watched):
            held.clear()
        self._asked, self._beyond = {}, {}
        self._is_crowded, self._round_at_ms = False, 0.0
        return runs

    def _others(self, run: Run) -> list[_Entry]:
        entries = (self._entries[run_id] for run_id in self._of_job.get(run.job_id, ()))
        return [entry for entry in entries if entry.root_id != run.root_id]

    def _put_off(self, line: Line, queue: _Queue, at_ms: int) -> None:
        queue.is_asked, queue.take = False, FIRST_TRY
        queue.elsewhere.clear()
        self._try_at(line, queue, at_ms)
        queue.wait_ms = min(MAX_WAIT_MS, queue.wait_ms * 2)

    def _try_at(self, line: Line, queue: _Queue, at_ms: float) -> None:
        queue.try_at_ms = at_ms
        heapq.heappush(self._agenda, (at_ms, line))

    def _remove(self, run_id: int) -> QueuedRun:
        entry = self._entries.pop(run_id)
        ranks = self._queues[entry.line].ranks
        del ranks[bisect_left(ranks, entry.rank)]
        siblings = self._of_job[entry.run.job_id]
        siblings.discard(run_id)
        if not siblings:
            del self._of_job[entry.run.job_id]
        if self._is_crowded and len(self._entries) < self._limit * 3 // 4:
            self._is_crowded = False
            self._beyond = {}
        return entry.run

    def _cut(self, line: Line) -> None:
        """Forget the newest run of a line; reconciling finds the row again once there is room."""
        run = self._remove(self._queues[line].ranks[-1][1])
        self.overflowed += 1
        self._is_crowded = True
        first = self._beyond.get(run.job_id)
        self._beyond[run.job_id] = min(first, (run.due_ms, run.id)) if first else (run.due_ms, run.id)

    def _drain_news(self, now_ms: int) -> None:
        lines: set[Line] = set()
        while self._ended:
            job_id, group_id = self._ended.popleft()
            lines |= {Line("job", job_id), Line("group", group_id)}
        groups = {self._arrived.popleft() for _ in range(len(self._arrived))}
        if groups:
            lines |= {line for line in self._queues if line.kind == "executor" and line.owner in groups}
        for line in lines:
            queue = self._queues.get(line)
            if queue is not None:
                queue.wait_ms = BASE_WAIT_MS
                self._try_at(line, queue, now_ms)
                self._round_at_ms = now_ms  # news is worth a try, however much was tried just now
