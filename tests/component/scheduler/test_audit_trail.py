"""The record of mutations: what a plugin answers is written with what is done, and one that fails undoes it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event
from xwheel_devtools.testing import ManualClock, wait_until

from tests.support.recorder import NoteRecorder, Notes, noted
from tests.support.rows import NOW
from xwheel.errors import DatabaseUnreachableError, NotRecordedError, PluginError
from xwheel.model.access import NODE, UNKNOWN_ACTOR, Actor, ActorKind, acting, current_actor
from xwheel.model.deeds import AuditOutcome, Deed
from xwheel.plugin.registries import Registry
from xwheel.runtime.foreign import MOST_HANGING, PluginThreads
from xwheel.scheduler.audit_trail import AuditTrail, OpenCall
from xwheel.storage import settings
from xwheel.storage.database.engine import Connection, Database

LONG_S = 20.0
ANN = Actor(kind=ActorKind.ACCOUNT, name="ann", reason="it is late")


def trail_of(db: Database, recorder: object | None, threads: PluginThreads | None = None) -> AuditTrail:
    named = {} if recorder is None else {"notes": recorder}
    plugins: Any = SimpleNamespace(
        recorders=Registry("recorder", named), tables=named if isinstance(recorder, NoteRecorder) else {}
    )
    return AuditTrail(plugins, db, ManualClock(NOW), threads)


def save(db: Database, trail: AuditTrail, name: str = "x") -> None:
    """Do something and record it."""

    def work(conn: Connection) -> None:
        settings.insert_setting(conn, name, "1")
        trail.record(conn, "setting.save", "setting", name, after={"value": "1"})

    db.transaction(work)


def is_saved(db: Database, name: str = "x") -> bool:
    with db.read() as conn:
        return settings.find_setting(conn, name) is not None


def test_what_is_done_is_recorded_with_who_did_it(db: Database) -> None:
    trail = trail_of(db, NoteRecorder())
    with acting(ANN):
        save(db, trail)
    (row,) = noted(db)
    assert (row["action"], row["kind"], row["object_id"]) == ("setting.save", "setting", "x")
    assert (row["actor"], row["reason"], row["outcome"]) == ("ann", "it is late", "done")
    assert row["detail"] == {"after": {"value": "1"}}


def test_without_a_recorder_nothing_is_recorded_and_all_is_done(db: Database) -> None:
    trail = trail_of(db, None)
    save(db, trail)
    trail.note_refused("api", UNKNOWN_ACTOR, "10.0.0.1", "GET /x", "/x", "no")
    assert is_saved(db)


def test_many_deeds_are_one_statement_each_by_its_actor(db: Database) -> None:
    trail = trail_of(db, NoteRecorder())
    statements: list[str] = []
    event.listen(db.engine, "before_cursor_execute", lambda _c, _u, statement, *_: statements.append(statement))
    deeds = [Deed(action="job.start", kind="job", object_id=at, actor=ANN if at % 2 else NODE) for at in range(1000)]
    db.transaction(lambda conn: trail.record_many(conn, deeds))
    assert len([text for text in statements if "INSERT" in text]) == 1
    rows = noted(db)
    assert [row["object_id"] for row in rows] == [str(at) for at in range(1000)]
    assert [row["actor"] for row in rows[:3]] == ["", "ann", ""]


def test_more_deeds_than_fit_are_handed_over_in_parts(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xwheel.scheduler.audit_trail.MOST_AT_ONCE", 10)
    trail = trail_of(db, NoteRecorder())
    deeds = [Deed(action="job.start", kind="job", object_id=at) for at in range(25)]
    db.transaction(lambda conn: trail.record_many(conn, deeds))
    assert [row["object_id"] for row in noted(db)] == [str(at) for at in range(25)]


def test_what_was_refused_can_be_recorded_too(db: Database) -> None:
    trail = trail_of(db, NoteRecorder())
    deed = Deed(action="job.edit", kind="job", object_id=7, outcome=AuditOutcome.REFUSED)
    db.transaction(lambda conn: trail.record_many(conn, [deed]))
    assert [row["outcome"] for row in noted(db)] == ["refused"]


Answer = Callable[[], object]


class Answers(Notes):
    """A book that answers as a test says."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self._answer = answer

    def rows(self, deeds: object, now_ms: int) -> Any:
        del deeds, now_ms
        return self._answer()


def leave() -> object:
    raise SystemExit(3)


def fail() -> object:
    raise ValueError("the ink is dry")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (fail, "recorder notes failed: ValueError: the ink is dry"),
        (leave, "recorder notes failed: SystemExit: 3"),
        (lambda: None, "rows must be a mapping"),
        (dict, "returned no rows for 1 deeds"),
        (lambda: {"notes": []}, "returned no rows for 1 deeds"),
        (lambda: {"job": [{"id": 1}]}, "'job' is none of its own tables"),
        (lambda: {"notes_of_others": [{"id": 1}]}, "notes"),
        (lambda: {"notes": [{"action": {"a": 1}}]}, r"notes\.action must be a text"),
        (lambda: {"notes": [{"no_such": "x"}]}, "no_such"),
    ],
)
def test_a_recorder_that_fails_undoes_what_it_should_record(
    db: Database, answer: Answer, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    trail = trail_of(db, NoteRecorder(Answers(answer)))
    with caplog.at_level(logging.ERROR), pytest.raises(NotRecordedError, match=words) as caught:
        save(db, trail)
    assert str(caught.value).startswith("nothing was done, since setting.save could not be recorded")
    assert "nothing is done, since it could not be recorded" in caplog.text
    assert not is_saved(db)
    assert noted(db) == []


def test_what_the_database_cannot_do_now_is_tried_again(db: Database) -> None:
    """Such as after a deadlock: the transaction as a whole is repeated, or its caller told of the database."""
    trail, tries = trail_of(db, NoteRecorder()), iter(range(1))

    def work(conn: Connection) -> None:
        settings.insert_setting(conn, "x", "1")
        trail.record(conn, "setting.save", "setting", "x")
        if next(tries, None) is not None:
            raise DatabaseUnreachableError("away")

    with pytest.raises(DatabaseUnreachableError):
        db.transaction(work)
    assert noted(db) == []


@pytest.mark.parametrize(
    ("opened", "words"), [(None, "must return a Book, not NoneType"), (fail, "failed: ValueError")]
)
def test_a_recorder_that_cannot_begin_stops_the_start(db: Database, opened: Any, words: str) -> None:
    recorder = SimpleNamespace(name="notes", open=lambda database: opened() if opened else None)
    with pytest.raises(PluginError, match=words):
        trail_of(db, recorder)


def test_refused_calls_are_handed_over_and_a_failure_is_told(db: Database, caplog: pytest.LogCaptureFixture) -> None:
    recorder = NoteRecorder()
    trail = trail_of(db, recorder)
    trail.note_refused("api", ANN, "10.0.0.1", "GET /api/v1/jobs", "/api/v1/jobs", "not you")
    (call,) = recorder.book.refused
    assert (call.listener, call.actor, call.address, call.at_ms) == ("api", ANN, "10.0.0.1", NOW)
    assert (call.route, call.path, call.told) == ("GET /api/v1/jobs", "/api/v1/jobs", "not you")
    recorder.book.failure = KeyboardInterrupt()
    trail.note_refused("api", ANN, "10.0.0.1", "GET /x", "/x", "no")
    assert "a refused call is not recorded: recorder notes failed: KeyboardInterrupt" in caplog.text


def test_a_book_need_not_take_refused_calls(db: Database) -> None:
    book = SimpleNamespace(rows=lambda deeds, now_ms: {})
    trail = trail_of(db, SimpleNamespace(name="notes", open=lambda database: book))
    trail.note_refused("api", ANN, "10.0.0.1", "GET /x", "/x", "no")


def test_s26_a_recorder_that_hangs_holds_a_transaction_for_its_time_and_is_then_left_alone(db: Database) -> None:
    """Rows are locked while it is asked: the lease of the node would wait for them."""
    hangs, asked = threading.Event(), list[int]()

    def answer() -> Any:
        asked.append(1)
        assert hangs.wait(LONG_S)
        return {"notes": [{"action": "late", "detail": "{}"}]}

    recorder = NoteRecorder(Answers(answer))
    threads = PluginThreads(0.05)
    trail = trail_of(db, recorder, threads)
    for _ in range(MOST_HANGING):
        with pytest.raises(NotRecordedError, match="did not answer within 0.05 s"):
            save(db, trail)
    with pytest.raises(NotRecordedError, match="it is not called until one of them comes back"):
        save(db, trail)
    assert len(asked) == MOST_HANGING
    recorder.book.note_refused = lambda call: hangs.wait(LONG_S)
    trail.note_refused("api", ANN, "10.0.0.1", "GET /x", "/x", "no")  # which holds no caller either
    db.transaction(lambda conn: settings.insert_setting(conn, "other", "1"))
    assert is_saved(db, "other")
    hangs.set()
    wait_until(lambda: not threads.hanging())
    save(db, trail)
    assert [row["action"] for row in noted(db)] == ["late"]


def test_s26_a_recorder_on_a_thread_knows_who_acts(db: Database) -> None:
    seen: list[Actor] = []

    def answer() -> Any:
        seen.append(current_actor())
        return {"notes": [{"action": "seen", "detail": "{}"}]}

    with acting(ANN):
        save(db, trail_of(db, NoteRecorder(Answers(answer)), PluginThreads(LONG_S)))
    assert seen == [ANN]


def test_s27_the_row_of_a_call_counts_once_its_transaction_is_committed() -> None:
    rows: list[Any] = []
    call = OpenCall(Deed(action="toy.paint", kind="toy", object_id=5), rows.append)
    lost, kept, later = object(), object(), object()
    call.before_commit(lost)  # whose commit fails: it is done again
    committed = call.before_commit(kept)
    assert committed is not None
    committed()
    assert call.before_commit(later) is None
    assert rows == [lost, kept]
