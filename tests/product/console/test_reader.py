"""The reader: which changes become events, how often it asks the database, and what it counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, update
from xwheel_accounts.audit.news import AuditNews
from xwheel_accounts.tables import audit
from xwheel_alarms.records import AlarmKind
from xwheel_alarms.service import Alarms
from xwheel_alarms.storage import alarms
from xwheel_alarms.tables import alarm
from xwheel_console.live import reader as module
from xwheel_console.live import sources
from xwheel_console.live.feed import EventKind, LiveCounts, LiveEvent, LiveScope, Receivers
from xwheel_console.live.reader import ASKED_MS, FORGET_MS, MOST_ANSWERS, LiveReader
from xwheel_console.live.sources import COMMIT_MS
from xwheel_reports import storage as reports
from xwheel_reports.storage import HOUR_MS, Counts, JobHour

from tests.product.accounts.trails import trail_of
from tests.support.rows import NOW, make_executor, make_run
from xwheel.clock import ManualClock
from xwheel.config import build_config
from xwheel.errors import DatabaseUnreachableError, StorageError
from xwheel.model import RegisteredExecutor, Run, RunState
from xwheel.model.access import ALL, Grant, Grants, Role
from xwheel.model.deeds import AuditOutcome, Deed
from xwheel.plugin.news import BringsNews
from xwheel.storage import leases, runs, settings
from xwheel.storage.database.engine import Database
from xwheel.storage.schema.tables import open_run as run_table


class News(AuditNews):
    name = "audit"


class Live:
    """A reader over a database, and somebody who asks it."""

    def __init__(self, db: Database, bringers: Sequence[BringsNews] = (News(), Alarms(build_config({})))) -> None:
        self.db = db
        self.clock = ManualClock(NOW)
        self.trail = trail_of(db, self.clock)
        self.executors: list[RegisteredExecutor] = []
        self.reader = LiveReader(db, self.clock, lambda: self.executors, lambda: bringers)
        self.cursor: str | None = None
        self.asked = 0
        event.listen(db.engine, "before_cursor_execute", self._count)

    def _count(self, _conn: object, _cursor: object, statement: str, *_: object) -> None:
        self.asked += not statement.startswith("BEGIN")

    def news(self, grants: Grants = ALL) -> list[LiveEvent] | None:
        """Let a second pass, and return what is told then."""
        self.clock.advance(self.reader.step(self.clock.now_ms()))
        self.reader.step(self.clock.now_ms())
        return self.ask(grants)

    def ask(self, grants: Grants = ALL) -> list[LiveEvent] | None:
        told = self.reader.ask(self.cursor, LiveScope.of(grants))
        self.cursor = told.news.cursor
        return None if told.news.events is None else list(told.news.events)

    def counts(self) -> LiveCounts:
        return self.reader.ask(self.cursor, LiveScope.of(ALL)).counts

    def insert(self, *made: Run) -> None:
        self.db.transaction(lambda conn: runs.insert_runs(conn, made))

    def change(self, run_id: int, **values: Any) -> None:
        self.db.transaction(lambda conn: conn.execute(update(run_table).where(run_table.c.id == run_id).values(values)))

    def record(self, action: str, kind: str, object_id: object, group_id: int | None = None) -> None:
        self.db.transaction(lambda conn: self.trail.record(conn, action, kind, object_id, group_id=group_id))


@pytest.fixture
def live(db: Database) -> Live:
    found = Live(db)
    assert found.ask() is None
    return found


def of_run(number: int, state: str, job_id: int = 1, group_id: int = 1) -> LiveEvent:
    return LiveEvent(EventKind.RUN, number, job_id, group_id, state, chain_id=number)


def sent(number: int, **changes: Any) -> Run:
    return make_run(number, state=RunState.RUNNING, check_ms=NOW, address="http://a", **changes)


def test_a_run_is_followed_from_its_plan_to_its_end(live: Live) -> None:
    live.insert(make_run(5, due_ms=NOW + 500))
    assert live.news() == [of_run(5, "planned")]
    assert live.news() == []
    live.change(5, state="dispatching", check_ms=NOW)
    assert live.news() == [of_run(5, "dispatching")]
    live.change(5, state="running")
    assert live.news() == [of_run(5, "running")]
    assert live.news() == []
    live.change(5, state="failed", check_ms=None)
    assert live.news() == [of_run(5, "failed")]
    assert live.news() == []


def test_a_retry_names_the_chain_that_it_belongs_to(live: Live) -> None:
    live.insert(make_run(6, due_ms=NOW, root_id=6, chain_id=3))
    assert live.news() == [of_run(6, "planned")._replace(chain_id=3)]


def test_a_run_that_ended_long_after_it_was_due_is_found(live: Live) -> None:
    live.insert(sent(5, due_ms=NOW - 10**9), sent(6, due_ms=NOW - 10**9))
    assert live.news() == [of_run(5, "running"), of_run(6, "running")]
    live.change(5, state="succeeded", check_ms=None)
    assert live.news() == [of_run(5, "succeeded")]
    live.db.transaction(lambda conn: conn.execute(run_table.delete().where(run_table.c.id == 6)))
    assert live.news() == [of_run(6, "running")._replace(state=None)]


def test_a_run_between_two_looks_is_found(live: Live) -> None:
    live.insert(make_run(5, due_ms=NOW + 200, state=RunState.SUCCEEDED))
    assert live.news() == [of_run(5, "succeeded")]
    assert live.news() == []


def test_runs_that_were_there_before_are_no_news(db: Database) -> None:
    live = Live(db)
    live.insert(sent(5), make_run(6, due_ms=NOW), make_run(7, state=RunState.FAILED, due_ms=NOW))
    live.record("job.edit", "job", 3, 1)
    assert live.ask() is None
    assert live.news() == []


def test_more_runs_than_are_compared_are_one_event(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OPEN", 3)
    live.insert(*(sent(number, due_ms=1) for number in range(1, 5)))
    many = [LiveEvent(EventKind.RUN, receivers=Receivers.READERS)]
    assert live.news() == many
    live.change(1, state="failed", check_ms=None)
    # it is not known what the first look missed
    assert live.news() == many
    assert live.news() == []
    monkeypatch.setattr(module, "GONE", 1)
    for number in (2, 3):
        live.change(number, state="failed", check_ms=None)
    assert live.news() == many
    monkeypatch.setattr(module, "RECENT", 1)
    live.insert(*(make_run(number, state=RunState.SKIPPED, due_ms=live.clock.now_ms()) for number in (8, 9)))
    assert live.news() == many


def test_changes_that_people_make_are_told(live: Live) -> None:
    live.insert(sent(5))
    live.news()
    live.record("job.edit", "job", 3, 1)
    live.record("group.create", "group", 9, 9)
    live.record("schedule.pause", "schedule", "all")
    live.record("calendar.save", "calendar", "feasts")
    live.record("alarm_rule.delete", "alarm_rule", 4)
    live.record("alarm_rule.edit", "alarm_rule", 4, 1)
    live.record("account.create", "account", "alice")
    live.record("token.create", "token", "x")
    live.record("run.kill", "run", 5, 1)
    live.record("run.create", "run", 77, 1)
    assert [(item.kind, item.id, item.job_id, item.group_id, item.state) for item in live.news() or ()] == [
        ("job", 3, 3, 1, "edit"),
        ("group", 9, None, 9, "create"),
        ("pause", None, None, None, "pause"),
        ("calendar", None, None, None, "save"),
        ("rule", 4, None, 1, "edit"),
        ("account", None, None, None, "create"),
        ("run", 5, 1, 1, "running"),
        ("run", 77, None, 1, None),
    ]
    assert live.news() == []
    live.record("rule.delete", "alarm_rule", 4)
    assert live.news(Grants(groups={1: Grant(Role.ADMIN)})) == []


def test_what_was_refused_changed_nothing(live: Live) -> None:
    entry = Deed(action="job.edit", kind="job", object_id=3, outcome=AuditOutcome.REFUSED)
    live.db.transaction(lambda conn: live.trail.record_many(conn, [entry]))
    assert live.news() == []


def test_a_row_of_the_audit_that_commits_late_is_told(live: Live) -> None:
    def write(number: int, at: int) -> None:
        live.record("job.edit", "job", number, 1)
        query = update(audit).where(audit.c.object_id == str(number)).values(id=at)
        live.db.transaction(lambda conn: conn.execute(query))

    for _ in range(2 * COMMIT_MS // 1000):
        live.news()
    write(3, 1000)
    assert [item.id for item in live.news() or ()] == [3]
    write(4, 999)
    assert [item.id for item in live.news() or ()] == [4]
    for _ in range(COMMIT_MS // 1000 - 5):
        assert live.news() == []
    write(5, 998)
    assert [item.id for item in live.news() or ()] == [5]
    assert live.news() == []


def test_very_many_changes_are_one_event_of_each_kind(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "NEWS", 3)
    for number in range(1, 5):
        live.record("job.edit", "job", number, 1)
    assert {(item.kind, item.id) for item in live.news() or ()} == {
        (kind, None) for kind in EventKind if kind not in {"executor", "node", "alarm"}
    }
    assert live.news() == []


def test_alarms_are_told_and_what_becomes_of_them(live: Live) -> None:
    new = alarms.NewAlarm(rule_id=1, job_id=3, group_id=1, partition=3, kind=AlarmKind.FAILED, at_ms=NOW)
    live.db.transaction(lambda conn: alarms.insert_alarms(conn, [new]))
    (first,) = live.news() or ()
    assert (first.kind, first.job_id, first.group_id, first.state) == ("alarm", 3, 1, "new")
    assert live.news() == []
    live.db.transaction(lambda conn: conn.execute(update(alarm).values(state="sent")))
    assert live.news() == [first._replace(state="sent")]


def test_executors_come_and_go(live: Live) -> None:
    one = make_executor(id=4, group_id=2)
    live.executors = [one]
    assert live.news() == [LiveEvent(EventKind.EXECUTOR, 4, None, 2, "live")]
    live.executors = [dataclasses.replace(one, seen_ms=NOW + 900)]
    assert live.news() == []
    live.executors = [dataclasses.replace(one, suspect_until_ms=NOW + 9000)]
    assert live.news() == [LiveEvent(EventKind.EXECUTOR, 4, None, 2, "suspect")]
    live.executors = []
    assert live.news() == [LiveEvent(EventKind.EXECUTOR, 4, None, 2, "gone")]


def test_nodes_come_drain_and_go(live: Live) -> None:
    def renew(until_ms: int, **options: Any) -> None:
        live.db.transaction(lambda conn: leases.renew_node(conn, "n1", NOW, until_ms, **options))

    def states() -> list[str | None]:
        found = live.news() or ()
        assert {item.kind for item in found} <= {"node"}
        return [item.state for item in found]

    renew(NOW + 5000)
    assert states() == ["alive"]
    assert (live.counts().nodes, live.counts().nodes_away) == (1, 0)
    live.db.transaction(lambda conn: leases.take_all_leases(conn, "n1"))
    assert states() == ["partitions"]
    renew(NOW + 5000, draining=True)
    assert states() == ["draining"]
    live.clock.advance(5000)
    assert states() == ["away"]
    assert (live.counts().nodes, live.counts().nodes_away) == (0, 1)
    live.db.transaction(lambda conn: leases.delete_node(conn, "n1"))
    assert states() == ["gone"]


def test_it_counts_by_group(live: Live) -> None:
    live.insert(
        sent(1),
        sent(2, group_id=2),
        make_run(3, state=RunState.DISPATCHING, check_ms=NOW),
        make_run(4, due_ms=NOW + 900),
        make_run(5, due_ms=NOW + 60_000),
        make_run(6, due_ms=NOW - 40_000, group_id=2),
        make_run(7, due_ms=NOW + 20_000),
    )
    live.executors = [make_executor(id=4, group_id=2)]
    row = JobHour(1, 2, Counts(failed=2, timed_out=3, lost=5, refused=7, killed=11, succeeded=13))
    old = JobHour(1, 2, Counts(failed=100))
    hour_ms = NOW // HOUR_MS * HOUR_MS

    def work(conn: Any) -> None:
        reports.replace_hour(conn, hour_ms, [], [row])
        reports.replace_hour(conn, hour_ms - 25 * HOUR_MS, [], [old])
        settings.insert_setting(conn, settings.PAUSED, "1234")

    live.db.transaction(work)
    for _ in range(31):
        live.news()
    counts = live.counts()
    # a Counter that counts nothing of a group is as good as one that does not know it
    assert {name: count for name, count in counts.running.items() if count} == {1: 2, 2: 1}
    assert {name: count for name, count in counts.waiting.items() if count} == {1: 2, 2: 1}
    assert {name: count for name, count in counts.late.items() if count} == {1: 1, 2: 1}
    assert (counts.failed, counts.executors) == ({2: 17}, {2: 1})
    assert counts.paused_since_ms == 1234


def test_a_second_costs_a_few_statements(live: Live) -> None:
    live.news()
    before = live.asked
    live.clock.advance(1000)
    live.reader.step(live.clock.now_ms())
    # runs that wait, were sent and were due; nodes, leases, the pause; and one for each plugin that brings news
    assert live.asked - before == 6 + 2


def test_an_answer_asks_nothing_of_the_database(live: Live) -> None:
    live.news()
    before = live.asked
    for _ in range(50):
        assert live.ask() == []
    assert live.asked == before


def test_the_loop_asks_only_while_somebody_wants_to_know(live: Live) -> None:
    live.news()
    before = live.asked
    live.clock.advance(ASKED_MS)
    live.reader.step(live.clock.now_ms())
    assert live.asked > before
    before = live.asked
    for _ in range(20):
        live.clock.advance(live.reader.step(live.clock.now_ms()) or 1)
    assert live.asked == before
    # what happened meanwhile is found by the one who asks again
    live.insert(make_run(5, due_ms=live.clock.now_ms() - 15_000, state=RunState.FAILED))
    assert live.ask() == [of_run(5, "failed")]
    live.clock.advance(FORGET_MS + 1)
    assert live.ask() is None
    assert live.ask() == []


def test_without_a_loop_who_asks_reads_once_a_second(db: Database) -> None:
    live = Live(db)
    live.ask()
    before = live.asked
    live.clock.advance(999)
    live.ask()
    assert live.asked == before
    live.clock.advance(1)
    live.ask()
    once = live.asked - before
    assert once > 0
    live.ask()
    assert live.asked == before + once


def test_who_may_know_the_same_gets_one_answer_and_nobody_else_does(live: Live) -> None:
    start = live.reader.ask(None, LiveScope.of(ALL)).news.cursor
    live.insert(make_run(5, group_id=1), make_run(6, group_id=2))
    live.news()
    wide = [ALL, Grants(Grant(Role.ADMIN, script=True))]
    viewers = [Grants(Grant(Role.VIEWER)), Grants(Grant(Role.EDITOR), {1: Grant(Role.ADMIN)})]
    of_one = [Grants(groups={1: Grant(Role.ADMIN)}), Grants(groups={1: Grant(Role.VIEWER)})]
    told = [[live.reader.ask(start, LiveScope.of(grants)) for grants in same] for same in (wide, viewers, of_one)]
    assert all(one is other for one, other in told)
    assert len({id(one) for one, _ in told}) == 3
    assert [event.id for event in told[2][0].news.events or ()] == [5]
    assert live.reader.ask(told[0][0].news.cursor, LiveScope.of(ALL)).news.events == []
    # what others ask for does not stay in memory, and an answer lasts until the next look
    for number in range(2 * MOST_ANSWERS):
        live.reader.ask(f"x-{number}", LiveScope.of(ALL))
    assert len(live.reader._answers) == MOST_ANSWERS
    live.news()
    assert not [key for key, kept in live.reader._answers.items() if kept in told[0]]


def test_an_outage_is_said_and_is_asked_once_a_second(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = 0

    @contextmanager
    def away() -> Iterator[Any]:
        nonlocal tries
        tries += 1
        raise DatabaseUnreachableError("the database is away")
        yield

    with monkeypatch.context() as patched:
        patched.setattr(live.db, "read", away)
        live.clock.advance(1000)
        with pytest.raises(DatabaseUnreachableError):
            live.reader.step(live.clock.now_ms())
        # what was read a moment ago is good enough
        assert live.ask() == []
        live.clock.advance(3000)
        with pytest.raises(DatabaseUnreachableError, match="away"):
            live.ask()
        for _ in range(5):
            with pytest.raises(StorageError, match="away"):
                live.ask()
        assert tries == 2
    live.insert(make_run(5, due_ms=live.clock.now_ms() - 2500, state=RunState.FAILED))
    live.clock.advance(1000)
    assert live.ask() == [of_run(5, "failed")]
