"""Random operations on both rings at once, compared with a sorted list."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from xwheel import _ring, _ring_py

IDS = st.one_of(st.integers(1, 12), st.integers(1, (1 << 53) - 1))
# a revolution of these rings is 64 to 160 ms, so that the larger steps are stalls and the far dues are laps ahead
DELTAS = st.one_of(st.integers(-50, 200), st.integers(0, 30_000))


class RingMachine(RuleBasedStateMachine):
    """The model is a list of (due, sequence, id), and does everything the slow way."""

    @initialize(start=st.integers(-1_000, 10**12), tick_ms=st.integers(1, 20), limit=st.integers(5, 40))
    def start(self, start: int, tick_ms: int, limit: int) -> None:
        self.rings = [made.TimeRing(start, tick_ms, 8, limit) for made in (_ring, _ring_py)]
        self.limit = limit
        self.now = start
        self.entries: list[tuple[int, int, int]] = []
        self.sequence = 0

    def both(self, call):
        first, second = (call(ring) for ring in self.rings)
        assert first == second
        return first

    def put(self, run_id: int, due: int) -> bool:
        kept = [entry for entry in self.entries if entry[2] != run_id]
        if len(kept) == len(self.entries) >= self.limit:
            return False
        self.sequence += 1
        self.entries = sorted([*kept, (due, self.sequence, run_id)])
        return True

    @rule(run_id=IDS, delta=DELTAS)
    def push(self, run_id: int, delta: int) -> None:
        due = self.now + delta
        assert self.both(lambda ring: ring.push(run_id, due)) == self.put(run_id, due)

    @rule(pairs=st.lists(st.tuples(IDS, DELTAS), max_size=30))
    def push_many(self, pairs: list[tuple[int, int]]) -> None:
        ids = [run_id for run_id, _ in pairs]
        dues = [self.now + delta for _, delta in pairs]
        taken = 0
        for run_id, due in zip(ids, dues, strict=True):
            if not self.put(run_id, due):
                break
            taken += 1
        assert self.both(lambda ring: ring.push_many(ids, dues)) == taken

    @rule(run_id=IDS)
    def cancel(self, run_id: int) -> None:
        kept = [entry for entry in self.entries if entry[2] != run_id]
        assert self.both(lambda ring: ring.cancel(run_id)) == (len(kept) < len(self.entries))
        self.entries = kept

    @rule(ids=st.lists(IDS, max_size=12))
    def cancel_many(self, ids: list[int]) -> None:
        kept = [entry for entry in self.entries if entry[2] not in ids]
        assert self.both(lambda ring: ring.cancel_many(ids)) == len(self.entries) - len(kept)
        self.entries = kept

    @rule(delta=DELTAS)
    def advance(self, delta: int) -> None:
        now = self.now + delta
        due = []
        if now >= self.now:
            due = [run_id for due, _, run_id in self.entries if due <= now]
            self.entries = self.entries[len(due) :]
            self.now = now
        assert self.both(lambda ring: ring.advance(now)) == due

    @rule()
    def drain(self) -> None:
        rest = [(due, run_id) for due, _, run_id in self.entries]
        assert self.both(lambda ring: ring.drain()) == rest
        self.entries = []

    @invariant()
    def agree(self) -> None:
        if not hasattr(self, "rings"):
            return
        for ring in self.rings:
            assert len(ring) == len(self.entries)
            next_due = ring.next_due_ms()
            assert (next_due is None) == (not self.entries)
            if next_due is not None:
                assert next_due <= self.entries[0][0]
            assert all(run_id in ring for _, _, run_id in self.entries)


TestRings = RingMachine.TestCase
TestRings.settings = settings(stateful_step_count=40)
