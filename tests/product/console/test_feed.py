"""The feed: who is told what, from where on, and when a cursor is unknown."""

from __future__ import annotations

import pytest
from xwheel_console.live.feed import MOST, EventFeed, EventKind, LiveEvent, LiveScope, Receivers

from xwheel.model.access import ALL, Grant, Grants, Role

VIEWER = Grants(Grant(Role.VIEWER))
OF_ONE = Grants(groups={1: Grant(Role.ADMIN)})
EVERYTHING = LiveScope.of(ALL)


def run(number: int, group_id: int = 1, state: str = "running") -> LiveEvent:
    return LiveEvent(EventKind.RUN, number, 7, group_id, state)


def test_each_event_is_given_once_and_in_order() -> None:
    feed = EventFeed()
    start = feed.after(None, EVERYTHING)
    assert start.events is None
    feed.put([run(1), run(2)])
    first = feed.after(start.cursor, EVERYTHING)
    assert first.events == [run(1), run(2)]
    assert feed.after(first.cursor, EVERYTHING) == ([], first.cursor)
    feed.put([run(3)])
    assert feed.after(first.cursor, EVERYTHING).events == [run(3)]
    assert feed.after(start.cursor, EVERYTHING).events == [run(1), run(2), run(3)]


def test_a_cursor_that_is_unknown_or_too_old_is_said_to_be() -> None:
    feed, other = EventFeed(size=3), EventFeed()
    start = feed.after(None, EVERYTHING).cursor
    feed.put([run(1), run(2), run(3)])
    assert feed.after(start, EVERYTHING).events == [run(1), run(2), run(3)]
    feed.put([run(4)])
    assert feed.after(start, EVERYTHING).events is None
    name = start.partition("-")[0]
    for cursor in (
        f"{other.after(None, EVERYTHING).cursor.partition('-')[0]}-4",
        "",
        "-",
        name,
        f"{name}-",
        f"{name}-5",
        f"{name}--1",
        f"{name}-x",
        f"{name}-²",
        f"{name}-{'9' * 60}",
    ):
        assert feed.after(cursor, EVERYTHING).events is None, cursor
    last = feed.after(None, EVERYTHING).cursor
    assert feed.after(last, EVERYTHING).events == []
    feed.begin()
    assert feed.after(last, EVERYTHING).events is None


@pytest.mark.parametrize(
    ("event", "seen"),
    [
        (run(1, group_id=1), [ALL, VIEWER, OF_ONE]),
        (run(1, group_id=2), [ALL, VIEWER]),
        (LiveEvent(EventKind.PAUSE, receivers=Receivers.READERS), [ALL, VIEWER, OF_ONE]),
        (LiveEvent(EventKind.RULE, 5, receivers=Receivers.ALL), [ALL, VIEWER]),
        (LiveEvent(EventKind.ACCOUNT, receivers=Receivers.ADMINS), [ALL]),
    ],
)
def test_an_event_is_given_to_those_who_may_read_it(event: LiveEvent, seen: list[Grants]) -> None:
    feed = EventFeed()
    start = feed.after(None, EVERYTHING).cursor
    feed.put([event])
    for grants in (ALL, VIEWER, OF_ONE):
        assert feed.after(start, LiveScope.of(grants)).events == ([event] if grants in seen else []), grants


def test_of_what_changed_several_times_the_last_is_given() -> None:
    feed = EventFeed()
    start = feed.after(None, EVERYTHING).cursor
    feed.put([run(1, state="dispatching"), run(2), run(1), run(1, state="failed")])
    assert feed.after(start, EVERYTHING).events == [run(2), run(1, state="failed")]


def test_what_happened_to_several_things_without_an_id_is_given_of_each() -> None:
    feed = EventFeed()
    start = feed.after(None, EVERYTHING).cursor
    away, gone = (LiveEvent(EventKind.NODE, state=state, receivers=Receivers.READERS) for state in ("away", "gone"))
    feed.put([away, gone, away])
    assert feed.after(start, EVERYTHING).events == [gone, away]


def test_of_very_many_it_is_said_that_there_are_many() -> None:
    feed = EventFeed()
    start = feed.after(None, EVERYTHING).cursor
    job = LiveEvent(EventKind.JOB, 1, 1, 1, "edit")
    feed.put([*(run(number) for number in range(1, MOST)), job])
    assert len(feed.after(start, EVERYTHING).events or ()) == MOST
    feed.put([run(MOST)])
    assert feed.after(start, EVERYTHING).events == [LiveEvent(EventKind.RUN, receivers=Receivers.READERS), job]
