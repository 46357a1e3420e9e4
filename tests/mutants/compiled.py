"""Mistakes in what is compiled: the time ring and the wheel of timeouts."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

MISTAKES: Final = [
    Mistake(
        file="xwheel/_ring.pyx",
        old=(
            "                if line.id != 0:\n"
            "                    self._table.erase(line)\n"
            "        self._sweep_if_stale()\n"
            "        return before"
        ),
        new=(
            "                if line.id != 0:\n"
            "                    line.id = 0\n"
            "                    self._table.count -= 1\n"
            "        self._sweep_if_stale()\n"
            "        return before"
        ),
        why="After a cancelled id the compiled ring would not find others that share its place.",
        tests=("tests/ring/test_time_ring.py::test_what_others_leave_hides_no_id",),
    ),
    Mistake(
        file="xwheel/_ring.pyx",
        old="            if self._table.count == self._limit:",
        new="            if self._table.count > self._limit:",
        why="The compiled ring would hold more than its limit.",
        tests=("tests/ring/test_time_ring.py",),
    ),
    Mistake(
        file="xwheel/_ring.pyx",
        old=(
            "            if self._tick & ((1 << self._bits) - 1) == 0:\n"
            "                self._deal(self._tick >> self._bits)"
        ),
        new=(
            "            if self._tick & ((1 << self._bits) - 1) == 1:\n"
            "                self._deal(self._tick >> self._bits)"
        ),
        why="The compiled ring would deal out a revolution after its first tick.",
        tests=("tests/ring/test_time_ring.py",),
    ),
]
