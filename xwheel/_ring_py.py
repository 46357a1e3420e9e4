"""The time ring and the pool selector in Python; :mod:`xwheel._ring` is the same, compiled.

Here a slot is a list of ids under the number of its tick, so that nothing ever lies a lap ahead: the slot count is
checked and otherwise unused. One dictionary knows the due time that counts for each id. An id that was cancelled
or moved stays behind in its old list, and is dropped when that tick is visited, or by a sweep.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import itemgetter

FAST = 0
SLOW = 1

SPARE = 4096  # stale ids that are never worth a sweep
_BOUND = 1 << 63


class TimeRing:
    """Ids waiting for their due times.

    Args:
        start_ms: Where time stands now, in epoch milliseconds.
        tick_ms: Width of a slot in milliseconds.
        slots: Number of slots. One revolution is ``tick_ms * slots``; entries may lie further ahead.
        limit: Most entries that may be held; None for no limit.

    Raises:
        ValueError: If a width, count or limit is not positive.

    Thread-safety:
        None of its own. One thread owns the ring, or one lock guards every call; no call waits for anything.
    """

    def __init__(self, start_ms: int, tick_ms: int = 20, slots: int = 4096, limit: int | None = None) -> None:
        if tick_ms < 1 or slots < 1 or (limit is not None and limit < 1):
            raise ValueError("tick_ms, slots and limit must be at least 1")
        self._tick_ms = tick_ms
        self._limit = _BOUND if limit is None else limit
        self._now = start_ms
        self._tick = start_ms // tick_ms
        self._dues: dict[int, int] = {}
        self._slots: dict[int, list[int]] = {}
        self._stored = 0

    def push(self, run_id: int, due_ms: int) -> bool:
        """Hold an id (above 0, below 2**63) until its due time in epoch milliseconds; an id that is held is moved.

        What is past is due at the next :meth:`advance`. Returns False if the limit is reached and nothing was taken.
        """
        return self.push_many((run_id,), (due_ms,)) == 1

    def push_many(self, ids: Sequence[int], dues: Sequence[int]) -> int:
        """Push pairs in order, up to the limit; return how many were taken: the first ones.

        Lists and tuples of ints do, and contiguous buffers of signed 64-bit integers. A wrong length or id is a
        ValueError, and nothing is taken.
        """
        if len(ids) != len(dues):
            raise ValueError(f"{len(ids)} ids but {len(dues)} due times")
        if not ids:
            return 0
        if array("q", ids) and min(ids) < 1:  # an array refuses what is no integer, or is too large
            raise ValueError(f"run_id must be at least 1, not {min(ids)}")
        if array("q", dues) and len(self._dues) + len(ids) > self._limit:
            taken = self._room(ids)
            ids, dues = ids[:taken], dues[:taken]
        self._put_many(ids, dues)
        return len(ids)

    def _put_many(self, ids: Sequence[int], dues: Sequence[int]) -> None:
        held, slots, tick_ms, first = self._dues, self._slots, self._tick_ms, self._tick
        late = first * tick_ms
        for run_id, due_ms in zip(ids, dues, strict=True):
            held[run_id] = due_ms
            tick = due_ms // tick_ms if due_ms >= late else first
            try:
                slots[tick].append(run_id)
            except KeyError:
                slots[tick] = [run_id]
        self._stored += len(ids)
        self._sweep_if_stale()

    def _room(self, ids: Sequence[int]) -> int:
        new: set[int] = set()
        room = self._limit - len(self._dues)
        for taken, run_id in enumerate(ids):
            if run_id not in self._dues:
                new.add(run_id)
                if len(new) > room:
                    return taken
        return len(ids)

    def cancel(self, run_id: int) -> bool:
        """Forget an id; return whether it was held."""
        found = self._dues.pop(run_id, None) is not None
        self._sweep_if_stale()
        return found

    def cancel_many(self, ids: Sequence[int]) -> int:
        """Forget ids; return how many of them were held."""
        held = self._dues
        before = len(held)
        pop = held.pop
        for run_id in ids:
            pop(run_id, None)
        self._sweep_if_stale()
        return before - len(held)

    def _sweep_if_stale(self) -> None:
        """Drop stale ids once they outnumber the living: constant work for each push and cancel."""
        if self._stored - len(self._dues) <= len(self._dues) + SPARE:
            return
        for tick in list(self._slots):
            kept = [run_id for run_id in self._slots.pop(tick) if self._home(run_id) == tick]
            if kept:
                self._slots[tick] = list(dict.fromkeys(reversed(kept)))[::-1]
        self._stored = sum(map(len, self._slots.values()))

    def _home(self, run_id: int) -> int | None:
        due_ms = self._dues.get(run_id)
        return None if due_ms is None else max(due_ms // self._tick_ms, self._tick)

    def _take(self, tick: int, now_ms: int) -> list[int]:
        """Take what is due from one tick, in order; leave the rest.

        From the back, since of two equal ids the later one counts: it was cancelled or moved, and pushed again.
        """
        slot = self._slots.pop(tick)
        end_ms = (tick + 1) * self._tick_ms
        if end_ms > now_ms + 1:  # the tick is not over
            get = self._dues.get
            due = [run_id for run_id in slot if get(run_id, end_ms) <= now_ms]
            if len(due) < len(slot):
                taken = set(due)
                self._slots[tick] = [run_id for run_id in slot if run_id not in taken] if due else slot
            slot = due
        self._stored -= len(slot)
        slot.reverse()
        pop = self._dues.pop
        pairs = [(due_ms, run_id) for run_id in slot if (due_ms := pop(run_id, None)) is not None]
        # sorting backwards what stands backwards, and turning it round, keeps ties in the order of their pushes
        if len(pairs) > 1:
            pairs.sort(key=_due_of, reverse=True)
            pairs.reverse()
        while pairs and pairs[-1][0] >= end_ms:  # moved to a later tick, where it stands too
            due_ms, run_id = pairs.pop()
            self._dues[run_id] = due_ms
        return [run_id for _, run_id in pairs]

    def advance(self, now_ms: int) -> list[int]:
        """Let time pass; return the ids due at or before ``now_ms``, by due time, then in order of their pushes.

        Before the last time given, nothing happens.
        """
        if now_ms < self._now:
            return []
        last = now_ms // self._tick_ms
        slots = self._slots
        ticks: Iterable[int] = range(self._tick, last + 1)
        if last - self._tick > len(slots):
            ticks = sorted(tick for tick in slots if tick <= last)
        ids: list[int] = []
        for tick in ticks:
            if tick in slots:
                ids += self._take(tick, now_ms)
        self._now = now_ms
        self._tick = last
        return ids

    def next_due_ms(self) -> int | None:
        """Return a time before which nothing is due, in epoch milliseconds, or None if nothing is held.

        It is the earliest due time, or earlier where a cancelled or moved entry stood there.
        """
        if not self._dues:
            return None
        tick = min(self._slots)
        end_ms = (tick + 1) * self._tick_ms
        dues = [due for due in map(self._dues.get, self._slots[tick]) if due is not None and due < end_ms]
        return min(dues) if dues else min(self._dues.values())

    def drain(self) -> list[tuple[int, int]]:
        """Take everything out: (due time in epoch milliseconds, id), in order; for the stop."""
        rest: list[tuple[int, int]] = []
        for tick, slot in self._slots.items():
            here = [run_id for run_id in reversed(slot) if self._home(run_id) == tick]
            rest += [(self._dues[run_id], run_id) for run_id in reversed(dict.fromkeys(here))]
        rest.sort(key=_due_of)
        self._slots.clear()
        self._dues.clear()
        self._stored = 0
        return rest

    def __len__(self) -> int:
        return len(self._dues)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._dues


_due_of = itemgetter(0)


class PoolSelector:
    """Which trigger pool a job's sends belong in, by XXL-JOB's rule.

    A send that took longer than the threshold counts against its job; a job with more than ``count`` of them is
    slow. All counters start again when a send finishes in another window than the last one did, so memory holds
    at most the jobs that were slow within one window.

    Args:
        threshold_ms: A send that took longer is a slow one.
        count: A job with more slow sends than this goes to the slow pool.
        window_ms: Length of a window; windows start at multiples of it since the epoch.

    Raises:
        ValueError: If the window is not positive, or the threshold or count is negative.

    Thread-safety:
        None of its own. One thread owns the selector, or one lock guards every call.
    """

    def __init__(self, threshold_ms: int = 500, count: int = 10, window_ms: int = 60_000) -> None:
        if window_ms < 1 or threshold_ms < 0 or count < 0:
            raise ValueError("window_ms must be at least 1, threshold_ms and count at least 0")
        self._threshold_ms = threshold_ms
        self._count = count
        self._window_ms = window_ms
        self._window = 0
        self._slow: dict[int, int] = {}

    def choose(self, job_id: int) -> int:
        """Return :data:`FAST` or :data:`SLOW` for the job's next send."""
        return SLOW if self._slow.get(job_id, 0) > self._count else FAST

    def record(self, job_id: int, cost_ms: int, now_ms: int) -> None:
        """Count a send of a job that took ``cost_ms`` and finished at ``now_ms``, in epoch milliseconds."""
        window = now_ms // self._window_ms
        if window != self._window:
            self._window = window
            self._slow.clear()
        if cost_ms > self._threshold_ms:
            self._slow[job_id] = self._slow.get(job_id, 0) + 1
