"""News that plugins bring: what is told of them, and what one that fails costs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sqlalchemy import text
from xwheel_console.live import sources
from xwheel_console.live.feed import EventKind, LiveEvent, Receivers
from xwheel_console.live.sources import AGAIN_MS, COMMIT_MS

from tests.component.api.conftest import Api
from tests.product.console.test_reader import Live, News
from tests.support.rows import NOW
from xwheel.errors import DatabaseUnreachableError
from xwheel.plugin import BringsNews, NewsItem
from xwheel.storage.database.engine import Database


class Toys:
    """Brings news of jobs and alarms, or raises."""

    name = "toys"
    news_kinds = ("job", "alarm", "toy")

    def __init__(self) -> None:
        self.rows: list[NewsItem] = []
        self.fails: BaseException | None = None
        self.statement = ""
        self.asked: list[int] = []

    def newest(self, conn: Any) -> int:
        self._fail(conn)
        return max((row.id for row in self.rows), default=0)

    def news(self, conn: Any, after: int, limit: int) -> list[NewsItem]:
        self._fail(conn)
        self.asked.append(after)
        return sorted((row for row in self.rows if row.id > after), reverse=True)[:limit]

    def _fail(self, conn: Any) -> None:
        if self.statement:
            conn.execute(text(self.statement))
        if self.fails is not None:
            raise self.fails

    def add(self, number: int, kind: str = "job", object_id: int | None = 3, state: str = "edit") -> None:
        self.rows.append(NewsItem(number, kind, object_id, 1, state, 3 if kind == "job" else None))


@pytest.fixture
def toys() -> Toys:
    return Toys()


@pytest.fixture
def live(db: Database, toys: Toys) -> Live:
    found = Live(db, [News(), toys])
    assert found.ask() is None
    return found


def edited(number: int, state: str = "edit") -> LiveEvent:
    return LiveEvent(EventKind.JOB, number, 3, 1, state)


def any_of(*kinds: EventKind) -> list[LiveEvent]:
    return [LiveEvent(kind, receivers=Receivers.READERS) for kind in kinds]


def test_what_a_plugin_brings_is_told_once(live: Live, toys: Toys) -> None:
    toys.add(5)
    toys.add(6, "alarm", 6, "new")
    assert live.news() == [edited(3), LiveEvent(EventKind.ALARM, 6, None, 1, "new")]
    assert live.news() == []
    toys.rows[1] = toys.rows[1]._replace(state="sent")
    assert live.news() == [LiveEvent(EventKind.ALARM, 6, None, 1, "sent")]


def test_only_of_kinds_that_it_brings_and_pages_know(live: Live, toys: Toys) -> None:
    for number, kind in enumerate(["calendar", "toy", "", "job"], 1):
        toys.add(number, kind)
    assert live.news() == [edited(3)]


def test_what_was_there_before_is_no_news(db: Database, toys: Toys) -> None:
    toys.add(5)
    live = Live(db, [toys])
    assert live.ask() is None
    assert live.news() == []


@pytest.mark.parametrize("failure", [ValueError("no toys"), SystemExit("enough"), DatabaseUnreachableError("away")])
def test_one_that_fails_costs_its_own_news_and_no_other(
    live: Live, toys: Toys, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    live.news()
    toys.fails = failure
    toys.add(5)
    live.record("job.edit", "job", 9, 1)
    assert live.news() == [LiveEvent(EventKind.JOB, 9, 9, 1, "edit")]
    # what it could not say is told when it answers again
    toys.fails = None
    assert live.news() == [edited(3)]
    (said,) = [record for record in caplog.records if record.name == sources.logger.name]
    assert "toys" in said.getMessage()
    assert str(failure) in said.getMessage()


def test_a_statement_that_the_database_refuses_spoils_no_other(live: Live, toys: Toys) -> None:
    live.news()
    toys.statement = "SELECT nothing FROM nowhere"
    for number in (7, 8):
        live.record("job.edit", "job", number, 1)
        assert live.news() == [LiveEvent(EventKind.JOB, number, number, 1, "edit")]


def test_failures_are_logged_once_a_minute(live: Live, toys: Toys, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, sources.logger.name)
    toys.fails = ValueError("no toys")
    for _ in range(AGAIN_MS // 1000):
        live.news()
    assert len(caplog.records) == 1
    live.news()
    assert len(caplog.records) == 2


def test_of_one_that_cannot_be_asked_at_first_anything_may_have_changed(db: Database, toys: Toys) -> None:
    toys.fails = ValueError("no toys")
    live = Live(db, [toys])
    toys.add(5)
    assert live.ask() is None
    assert live.news() == []
    toys.fails = None
    toys.add(6)
    assert live.news() == any_of(EventKind.ALARM, EventKind.JOB)
    assert live.news() == []
    toys.add(7)
    assert live.news() == [edited(3)]


def test_very_much_of_one_is_one_event_of_each_kind_that_it_brings(
    live: Live, toys: Toys, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.news()
    monkeypatch.setattr(sources, "NEWS", 3)
    for number in range(1, 5):
        toys.add(number)
    assert live.news() == any_of(EventKind.ALARM, EventKind.JOB)
    assert live.news() == []


def test_rows_are_asked_for_until_transactions_are_over(live: Live, toys: Toys) -> None:
    toys.add(500)
    live.news()
    for _ in range(COMMIT_MS // 1000 + 2):
        live.news()
    assert toys.asked[0] == 0
    assert toys.asked[-1] == 500


def test_nothing_is_asked_while_nobody_wants_to_know(live: Live, toys: Toys) -> None:
    live.news()
    before = len(toys.asked)
    live.clock.advance(60_000)
    for _ in range(5):
        live.clock.advance(live.reader.step(live.clock.now_ms()))
    assert len(toys.asked) == before


def test_what_plugins_bring_is_offered_to_it(api: Api) -> None:
    from xwheel.api.plugins.site import RouteSite

    assert [item.name for item in RouteSite(api.parts).offering(BringsNews)] == ["accounts", "alarm"]
    assert api.clock.now_ms() == NOW
