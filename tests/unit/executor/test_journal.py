"""The journal: group commits, recovery, what a full disk does, and forgetting."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from xwheel.clock import SystemClock
from xwheel.errors import JournalError, LockError
from xwheel.executor import journal as memory
from xwheel.executor.journal import Acceptance, Journal, open_database
from xwheel.model import RunState
from xwheel.wire.messages import CallbackItem, ExecutionState, RunKey

KEYS = [RunKey(number, 7, 1000) for number in range(1, 6)]


def outcome(key: RunKey, message: str = "done") -> CallbackItem:
    return CallbackItem(
        run_id=key.run_id, job_id=key.job_id, created_ms=key.created_ms, code=200, message=message, finished_ms=5
    )


def accept(journal: Journal, keys: Sequence[RunKey], starting: Collection[RunKey] = ()) -> list[Acceptance]:
    found: list[Sequence[Acceptance]] = []
    errors: list[JournalError | None] = []
    written = threading.Event()

    def done(verdicts: Sequence[Acceptance], error: JournalError | None) -> None:
        found.append(verdicts)
        errors.append(error)
        written.set()

    journal.accept(keys, done, starting)
    assert written.wait(10)
    if errors[0] is not None:
        raise errors[0]
    return list(found[0])


def start(journal: Journal, keys: Sequence[RunKey]) -> None:
    written = threading.Event()
    journal.start(lambda: keys, written.set)
    assert written.wait(10)


def finish(journal: Journal, items: Sequence[CallbackItem]) -> None:
    written = threading.Event()
    journal.finish(items, written.set)
    assert written.wait(10)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path, SystemClock())
    yield journal
    journal.close()


def test_a_run_is_new_once(journal: Journal) -> None:
    assert [verdict.new for verdict in accept(journal, [KEYS[0], KEYS[1], KEYS[0]])] == [True, True, False]
    assert [verdict.new for verdict in accept(journal, KEYS[:3])] == [False, False, True]
    other_database = RunKey(1, 7, 2000)
    assert accept(journal, [other_database])[0].new


def test_states_and_outcomes(journal: Journal) -> None:
    accept(journal, KEYS[:3])
    start(journal, KEYS[:2])
    finish(journal, [outcome(KEYS[0])])
    states = [answer.state for answer in journal.lookup(KEYS[:4])]
    assert states == [ExecutionState.FINISHED, ExecutionState.STARTED, ExecutionState.ACCEPTED, ExecutionState.UNKNOWN]
    assert journal.lookup(KEYS[:1])[0].outcome == outcome(KEYS[0])
    assert [journal.is_open(key.run_id) for key in KEYS[:4]] == [False, True, True, None]
    assert journal.pending(10) == [outcome(KEYS[0])]
    journal.acknowledge([outcome(KEYS[0])])
    assert journal.pending(10) == []


def test_a_run_that_ended_does_not_start(journal: Journal) -> None:
    accept(journal, KEYS[:1])
    finish(journal, [outcome(KEYS[0])])
    start(journal, KEYS[:1])
    assert journal.lookup(KEYS[:1])[0].state is ExecutionState.FINISHED


def test_the_first_outcome_stays(journal: Journal) -> None:
    accept(journal, KEYS[:1])
    finish(journal, [outcome(KEYS[0], "first")])
    finish(journal, [outcome(KEYS[0], "second")])
    assert [item.message for item in journal.pending(10)] == ["first"]


def test_a_repeated_run_brings_its_outcome_back(journal: Journal) -> None:
    accept(journal, KEYS[:1])
    finish(journal, [outcome(KEYS[0])])
    journal.acknowledge([outcome(KEYS[0])])
    assert not accept(journal, KEYS[:1])[0].new
    assert journal.pending(10) == [outcome(KEYS[0])]


def test_recovery_closes_what_was_open(tmp_path: Path) -> None:
    first = Journal(tmp_path, SystemClock())
    accept(first, KEYS[:4])
    start(first, KEYS[1:4])
    finish(first, [outcome(KEYS[2]), outcome(KEYS[3])])
    first.acknowledge([outcome(KEYS[3])])
    first.close()
    second = Journal(tmp_path, SystemClock())
    try:
        assert second.recovered == {"not_started": 1, "interrupted": 1}
        assert (second.instance, second.boot != first.boot) == (first.instance, True)
        told = {item.run_id: (item.code, item.state, item.reason) for item in second.pending(10)}
        assert told == {
            1: (500, RunState.FAILED, "not_started"),
            2: (500, RunState.FAILED, "interrupted"),
            3: (200, RunState.SUCCEEDED, ""),
        }
        assert [one.never_started for one in accept(second, KEYS[:3])] == [True, False, False]
    finally:
        second.close()


def after_a_kill(folder: Path, copy: Path) -> Journal:
    """Open what ``kill -9`` would leave behind at this moment."""
    copy.mkdir()
    for name in ("journal.db", "journal.db-wal"):
        shutil.copyfile(folder / name, copy / name)
    return Journal(copy, SystemClock())


def test_a_run_that_starts_at_once_is_on_disk_as_started_with_its_acceptance(journal: Journal, tmp_path: Path) -> None:
    """A crash between this commit and the handler: the handler may have begun, for all that the journal knows."""
    taken = accept(journal, [*KEYS[:3], KEYS[0]], starting={KEYS[0], KEYS[1]})
    assert [one.new for one in taken] == [True, True, True, False]
    states = [answer.state for answer in journal.lookup(KEYS[:3])]
    assert states == [ExecutionState.STARTED, ExecutionState.STARTED, ExecutionState.ACCEPTED]
    next_one = after_a_kill(tmp_path, tmp_path / "copy")
    try:
        assert next_one.recovered == {"not_started": 1, "interrupted": 2}
    finally:
        next_one.close()


def test_a_repeated_run_is_not_started_again(journal: Journal) -> None:
    accept(journal, KEYS[:1])
    assert not accept(journal, KEYS[:1], starting=KEYS[:1])[0].new
    assert journal.lookup(KEYS[:1])[0].state is ExecutionState.ACCEPTED


def test_a_crash_before_the_commit_of_an_acknowledgement_delivers_once_more(journal: Journal, tmp_path: Path) -> None:
    """The acknowledgement waits for the next commit; that of a new run takes it along."""
    accept(journal, KEYS[:2])
    finish(journal, [outcome(KEYS[0])])
    assert journal.pending(10) == [outcome(KEYS[0])]
    journal._turn.acquire()  # as in a crash: nothing is written any more
    journal.acknowledge([outcome(KEYS[0])])
    assert journal.pending(10) == []
    next_one = after_a_kill(tmp_path, tmp_path / "copy")
    try:
        assert outcome(KEYS[0]) in next_one.pending(10)
        next_one.acknowledge([outcome(KEYS[0])])
        accept(next_one, KEYS[2:3])
        last = after_a_kill(tmp_path / "copy", tmp_path / "second")
        assert [item.run_id for item in last.pending(10)] == [2, 3]
        last.close()
    finally:
        next_one.close()
        journal._turn.release()


def test_what_is_acknowledged_while_a_commit_is_under_way_is_written_by_the_next_one(
    journal: Journal, tmp_path: Path
) -> None:
    accept(journal, KEYS[:2])
    finish(journal, [outcome(key) for key in KEYS[:2]])
    journal.acknowledge([outcome(KEYS[0])])

    def late() -> list[RunKey]:
        journal.acknowledge([outcome(KEYS[1])])
        return []

    written = threading.Event()
    journal.start(late, written.set)
    assert written.wait(10)
    journal.settle()
    with contextlib.closing(sqlite3.connect(tmp_path / "journal.db")) as db:
        assert db.execute("SELECT count(*) FROM run WHERE acked_ms IS NOT NULL").fetchone() == (2,)


def test_more_outcomes_than_are_kept_in_memory_are_read_from_the_disk(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.executor.journal.KEPT", 3)
    monkeypatch.setattr("xwheel.executor.journal.LOADED", 2)
    accept(journal, KEYS)
    assert journal.pending(2) == []
    finish(journal, [outcome(key) for key in KEYS])
    assert not journal._pending
    delivered: list[int] = []
    while items := journal.pending(2):
        delivered += [item.run_id for item in items]
        journal.acknowledge(items)
    assert delivered == [1, 2, 3, 4, 5]


def test_an_outcome_that_comes_second_is_never_delivered(journal: Journal) -> None:
    """The first one may be delivered and forgotten by then; the disk still knows it."""
    accept(journal, KEYS[:1])
    finish(journal, [outcome(KEYS[0], "first")])
    journal.acknowledge(journal.pending(10))
    finish(journal, [outcome(KEYS[0], "second"), outcome(KEYS[4], "of a run that is not here")])
    assert journal.pending(10) == []


def test_one_process_at_a_time(journal: Journal, tmp_path: Path) -> None:
    with pytest.raises(LockError, match="another executor process"):
        Journal(tmp_path, SystemClock())


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="cannot use"):
        Journal(tmp_path / "file" / "data", SystemClock())
    (tmp_path / "journal.db").write_bytes(b"this is not a database, whatever its name says" * 100)
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(tmp_path, SystemClock())
    (tmp_path / "journal.db").unlink()
    Journal(tmp_path, SystemClock()).close()


def test_a_full_journal_refuses_all_that_came_together(tmp_path: Path) -> None:
    journal = Journal(tmp_path, SystemClock())
    journal._writer.execute("PRAGMA max_page_count = 16")
    try:
        accepted: list[RunKey] = []
        keys: list[RunKey] = []

        def fill() -> None:
            while True:
                keys[:] = [RunKey(len(accepted) + number, 7, 1000) for number in range(1, 101)]
                accept(journal, keys)
                accepted.extend(keys)

        with pytest.raises(JournalError, match="cannot take more runs: database or disk is full"):
            fill()
        assert journal._full
        assert accepted
        assert [answer.state for answer in journal.lookup(keys)] == [ExecutionState.UNKNOWN] * 100
        start(journal, accepted[:1])
        assert journal.lookup(accepted[:1])[0].state is ExecutionState.STARTED
    finally:
        journal.close()


def test_old_outcomes_are_forgotten(tmp_path: Path) -> None:
    clock = SystemClock()
    journal = Journal(tmp_path, clock)
    try:
        accept(journal, KEYS[:2])
        finish(journal, [outcome(KEYS[0]), outcome(KEYS[1])])
        journal.acknowledge([outcome(KEYS[0])])
        assert not journal.purge(clock.now_ms() + 23 * 3_600_000)
        assert journal.is_open(1) is False
        assert not journal.purge(clock.now_ms() + 25 * 3_600_000)
        assert [journal.is_open(1), journal.is_open(2)] == [None, False]  # no scheduler has the second one yet
    finally:
        journal.close()


def test_forgetting_goes_in_steps(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.executor.journal.PURGE_BATCH", 2)
    accept(journal, KEYS)
    finish(journal, [outcome(key) for key in KEYS])
    journal.acknowledge([outcome(key) for key in KEYS])
    later_ms = SystemClock().now_ms() + 25 * 3_600_000
    assert [journal.purge(later_ms) for _ in range(3)] == [True, True, False]
    assert [journal.is_open(key.run_id) for key in KEYS] == [None] * 5


def test_a_callback_that_fails_harms_no_other(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("no")

    journal.start(lambda: KEYS[:1], fail)
    assert accept(journal, KEYS[:1])[0].new
    assert "a journal callback failed" in caplog.text


@pytest.mark.parametrize("error", [ValueError("odd"), MemoryError(), SystemExit(1)])
def test_r17_a_write_that_breaks_refuses_its_runs_and_no_later_ones(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """R17: the writer's thread survived errors of the database only; then every acceptance waited for ever."""
    real = memory.accept
    broken = iter([error])

    def accept_or_break(*args: Any) -> list[Acceptance]:
        for raised in broken:
            raise raised
        return real(*args)

    monkeypatch.setattr(memory, "accept", accept_or_break)
    with pytest.raises(JournalError, match=type(error).__name__):
        accept(journal, KEYS[:1])
    assert "a write of the journal broke" in caplog.text
    assert accept(journal, KEYS[:2])[1].new
    assert not journal._full


def test_r17_a_write_that_breaks_spares_those_that_came_with_it(journal: Journal) -> None:
    """R17: one that can never be written is dropped, and its neighbours reach the disk."""
    accept(journal, KEYS[:2])
    journal.finish(cast(Any, [object()]))
    finish(journal, [outcome(KEYS[1])])
    assert journal.lookup(KEYS[1:2])[0].state is ExecutionState.FINISHED


def test_n20_each_connection_syncs_before_a_commit_is_told(tmp_path: Path) -> None:
    """N20: in WAL mode only ``synchronous = FULL`` (2) or more syncs the log with each commit."""
    db = open_database(tmp_path / "journal.db")
    try:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert db.execute("PRAGMA synchronous").fetchone()[0] >= 2
    finally:
        db.close()


def test_n20_an_acceptance_is_told_after_its_commit(journal: Journal) -> None:
    """N20: the writer itself runs with that setting, and has no transaction open when it answers."""
    seen: list[tuple[int, bool]] = []
    told = threading.Event()

    def done(_verdicts: Sequence[Acceptance], _error: JournalError | None) -> None:
        writer = journal._writer
        seen.append((writer.execute("PRAGMA synchronous").fetchone()[0], writer.in_transaction))
        told.set()

    journal.accept(KEYS[:1], done)
    assert told.wait(10)
    assert seen == [(2, False)]


def test_an_outcome_is_delivered_again_only_of_a_run_that_has_one(journal: Journal) -> None:
    accept(journal, KEYS[:1])
    journal.revive(KEYS[0], lambda: None)
    journal.settle(10)
    assert journal.pending(10) == []


def test_the_newest_run_with_an_id_says_whether_it_is_open(journal: Journal) -> None:
    accept(journal, KEYS[:1])
    finish(journal, [outcome(KEYS[0])])
    accept(journal, [RunKey(1, 7, 2000)])
    assert journal.is_open(1) is True


def test_the_oldest_outcomes_come_first(journal: Journal, tmp_path: Path) -> None:
    accept(journal, KEYS)
    items = [msgspec.structs.replace(outcome(key), finished_ms=10 - key.run_id) for key in KEYS]
    finish(journal, items)
    assert [item.run_id for item in journal.pending(2)] == [5, 4]
    next_one = after_a_kill(tmp_path, tmp_path / "copy")
    try:
        assert [item.run_id for item in next_one.pending(2)] == [5, 4]
    finally:
        next_one.close()


def test_what_a_full_disk_held_back_is_written_in_its_order(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    accept(journal, KEYS[:1])
    real = journal._write
    broken = threading.Semaphore(0)

    def full(_: object) -> Any:
        broken.release()
        raise sqlite3.OperationalError("disk is full")

    monkeypatch.setattr(journal, "_write", full)
    journal.finish([outcome(KEYS[0], "first")])
    assert broken.acquire(timeout=30)
    assert broken.acquire(timeout=30)  # it is tried once more without what may be refused
    journal.finish([outcome(KEYS[0], "second")])
    monkeypatch.setattr(journal, "_write", real)
    journal.settle(30)
    assert [item.message for item in journal.pending(10)] == ["first"]
