"""The time ring against its twin, plain dictionaries of lists, and heapq: push, cancel half, advance.

Rows come as lists of ints, as a database driver gives them; dues are spread evenly over 60 s or 1 h; ids are random
53-bit numbers; time passes in ticks of 20 ms, each looked at when it is over, until all is out.
"""

from __future__ import annotations

import ctypes
import gc
import heapq
import os
import random
import subprocess
import sys
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks._report import Report, timed
from xwheel import _ring, _ring_py

TICK_MS = 20
SPANS = {"60s": 60_000, "1h": 3_600_000}
GOALS = {"twin": 8.0, "heapq": 25.0, "twin_from_arrays": 15.0, "plain_over_twin": 1.0}


class PlainRing:
    """The least that can push, cancel and tick: a dictionary of lists; within a tick in any order."""

    def __init__(self) -> None:
        self.slots: dict[int, list[int]] = {}
        self.ticks: dict[int, int] = {}
        self.tick = 0

    def push_many(self, ids: Sequence[int], dues: Sequence[int]) -> None:
        slots, ticks = self.slots, self.ticks
        for run_id, due_ms in zip(ids, dues, strict=True):
            tick = due_ms // TICK_MS
            ticks[run_id] = tick
            if tick in slots:
                slots[tick].append(run_id)
            else:
                slots[tick] = [run_id]

    def cancel_many(self, ids: Sequence[int]) -> None:
        pop = self.ticks.pop
        for run_id in ids:
            pop(run_id, None)

    def advance(self, now_ms: int) -> list[int]:
        out = []
        pop = self.ticks.pop
        for tick in range(self.tick, (now_ms + 1) // TICK_MS):
            out += [run_id for run_id in self.slots.pop(tick, ()) if pop(run_id, None) is not None]
        self.tick = (now_ms + 1) // TICK_MS
        return out


class OrderedPlainRing(PlainRing):
    """The same, giving what is due in order of due time, as both rings promise."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: dict[int, list[tuple[int, int]]] = {}

    def push_many(self, ids: Sequence[int], dues: Sequence[int]) -> None:
        pairs, ticks = self.pairs, self.ticks
        for pair in zip(dues, ids, strict=True):
            tick = pair[0] // TICK_MS
            ticks[pair[1]] = tick
            if tick in pairs:
                pairs[tick].append(pair)
            else:
                pairs[tick] = [pair]

    def advance(self, now_ms: int) -> list[int]:
        out: list[int] = []
        pop = self.ticks.pop
        for tick in range(self.tick, (now_ms + 1) // TICK_MS):
            if tick in self.pairs:
                pairs = sorted(self.pairs.pop(tick))
                out += [run_id for _, run_id in pairs if pop(run_id, None) is not None]
        self.tick = (now_ms + 1) // TICK_MS
        return out


class HeapTimer:
    """heapq with lazy cancel."""

    def __init__(self) -> None:
        self.heap: list[tuple[int, int]] = []
        self.cancelled: set[int] = set()

    def push_many(self, ids: Sequence[int], dues: Sequence[int]) -> None:
        push, heap = heapq.heappush, self.heap
        for pair in zip(dues, ids, strict=True):
            push(heap, pair)

    def cancel_many(self, ids: Sequence[int]) -> None:
        self.cancelled.update(ids)

    def advance(self, now_ms: int) -> list[int]:
        out = []
        heap, cancelled, pop = self.heap, self.cancelled, heapq.heappop
        while heap and heap[0][0] <= now_ms:
            run_id = pop(heap)[1]
            if run_id in cancelled:
                cancelled.remove(run_id)
            else:
                out.append(run_id)
        return out


def rows(count: int, span_ms: int) -> tuple[list[int], ...]:
    """Return ids, their due times, and the half of the ids that is cancelled."""
    source = random.Random(1)
    ids = list({source.getrandbits(53) | 1 << 52 for _ in range(count)})
    source.shuffle(ids)
    dues = [source.randrange(span_ms) for _ in ids]
    half = source.sample(ids, len(ids) // 2)
    # a driver makes new ints, row after row, so they lie in memory in this order
    return tuple(array("q", column).tolist() for column in (ids, dues, half))


def stages(make: Callable[[], object], data: tuple, span_ms: int) -> list[float]:
    """Return the seconds of push, cancel and advance, and their sum."""
    ids, dues, half = data
    ring = make()
    out = 0

    def run_out() -> None:
        nonlocal out
        for now in range(TICK_MS - 1, span_ms + 2 * TICK_MS, TICK_MS):
            out += len(ring.advance(now))

    times = [timed(lambda: ring.push_many(ids, dues)), timed(lambda: ring.cancel_many(half)), timed(run_out)]
    assert out == len(ids) - len(half), out
    return [*times, sum(times)]


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def print_memory(count: int, span_ms: int) -> None:
    """Print how many bytes the process grows by for each entry; run in a process of its own."""
    ids, dues, _ = rows(count, span_ms)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # else the ring moves into what making the rows left behind
    before = resident()
    ring = _ring.TimeRing(0, TICK_MS)
    ring.push_many(ids, dues)
    ctypes.CDLL(None).malloc_trim(0)
    print((resident() - before) / len(ring))


def main() -> None:
    report = Report("Time ring: push, cancel half, advance", repeats=3)
    report.parser.add_argument("--count", type=int, default=1_000_000, help="entries")
    report.parser.add_argument("--memory", type=int, help="only print bytes an entry, over a span in ms")
    args = report.parse()
    if args.memory:
        print_memory(args.count, args.memory)
        return
    for name, span_ms in SPANS.items():
        lists = rows(args.count, span_ms)
        arrays = tuple(array("q", column) for column in lists)
        peers = {
            "ring": (lambda: _ring.TimeRing(0, TICK_MS), lists),
            "ring_from_arrays": (lambda: _ring.TimeRing(0, TICK_MS), arrays),
            "twin": (lambda: _ring_py.TimeRing(0, TICK_MS), lists),
            "plain": (PlainRing, lists),
            "ordered": (OrderedPlainRing, lists),
            "heapq": (HeapTimer, lists),
        }
        runs: dict[str, list[list[float]]] = {peer: [] for peer in peers}
        for _ in range(args.repeats):
            for peer, (make, data) in peers.items():
                stages(make, data, span_ms)  # so that caches and heap are its own, not the last peer's
                runs[peer].append(stages(make, data, span_ms))
        for peer, samples in runs.items():
            for at, stage in enumerate(("push", "cancel", "advance", "total")):
                report.figure(f"{name}.{peer}.{stage}", [1000 * sample[at] for sample in samples], "ms")
        total = {peer: [sample[3] for sample in samples] for peer, samples in runs.items()}
        report.ratio(f"{name}.twin_over_ring", total["twin"], total["ring"], goal=GOALS["twin"])
        report.ratio(f"{name}.heapq_over_ring", total["heapq"], total["ring"], goal=GOALS["heapq"])
        report.ratio(
            f"{name}.twin_over_ring_from_arrays",
            total["twin"],
            total["ring_from_arrays"],
            goal=GOALS["twin_from_arrays"],
        )
        report.ratio(f"{name}.unordered_plain_over_twin", total["plain"], total["twin"])
        report.note(f"{name}.unordered_plain_over_twin", "no goal: it keeps no order")
        report.ratio(f"{name}.plain_over_twin", total["ordered"], total["twin"], goal=GOALS["plain_over_twin"])
        memory = [
            float(
                subprocess.run(
                    [sys.executable, "-m", "benchmarks.ring", "--memory", str(span_ms), "--count", str(args.count)],
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
            )
            for _ in range(3)
        ]
        report.figure(f"{name}.bytes_per_entry", memory, "B")
    report.finish()


if __name__ == "__main__":
    main()
