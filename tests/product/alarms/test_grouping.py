"""What is told at once, held back, counted, summed up or dropped: pure, with the time as an argument."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xwheel_alarms import grouping
from xwheel_alarms.grouping import Grouped, group_alarms, quiet_until_ms
from xwheel_alarms.records import AlarmKind, AlarmRow, AlarmRule, AlarmState, AlarmTarget, AlarmWhen
from xwheel_alarms.rules import DEFAULTS
from xwheel_alarms.storage.alarms import DueAlarm, Episode, EpisodeKey
from xwheel_alarms.storage.attempts import NewAttempt

from tests.support.rows import NOW

SECOND = 1000
WINDOW_S = 300


def make_rule(**values: Any) -> AlarmRule:
    given: dict[str, Any] = {
        **DEFAULTS,
        "id": 1,
        "kinds": (AlarmKind.FAILED,),
        "when": AlarmWhen.EACH,
        "targets": (AlarmTarget(channel="pager"),),
        "window_s": WINDOW_S,
        **values,
    }
    return AlarmRule(**given, revision=1, created_ms=NOW, updated_ms=NOW)


class World:
    """The rows, and time; stands for the loop and its database."""

    def __init__(self, *rules: AlarmRule, channels: tuple[str, ...] = ("pager",)) -> None:
        self.rules = {rule.id: rule for rule in rules}
        self.channels = channels
        self.now_ms = NOW
        self.rows: dict[int, AlarmRow] = {}
        self.episodes: dict[EpisodeKey, Episode] = {}
        self.attempts: list[NewAttempt] = []

    def strike(self, *, job: int = 1, kind: AlarmKind = AlarmKind.FAILED, **values: Any) -> int:
        """Let something happen; return its alarm's id."""
        row = AlarmRow(
            id=len(self.rows) + 1,
            rule_id=1,
            job_id=job,
            group_id=1,
            run_id=100 + len(self.rows),
            partition=job % 64,
            kind=kind,
            state=AlarmState.NEW,
            at_ms=self.now_ms,
            last_ms=self.now_ms,
            due_ms=self.now_ms,
            count=1,
            reason="",
            message="",
            notice_id=None,
            note="",
        )
        self.rows[row.id] = dataclasses.replace(row, **values)
        return row.id

    def decide(self, after_s: int = 0) -> Grouped:
        """Let time pass and decide about what is due."""
        self.now_ms += after_s * SECOND
        due = [row for row in self.rows.values() if row.due_ms is not None and row.due_ms <= self.now_ms]
        held = {episode.held_id for episode in self.episodes.values()} - {row.id for row in due}
        found = group_alarms(
            [DueAlarm(row, row.run_id, 0) for row in due],
            [DueAlarm(row, row.run_id, 0) for row in self.rows.values() if row.id in held],
            self.rules,
            self.episodes,
            self.now_ms,
            channels=self.channels,
        )
        for change in found.changes:
            values = {name: getattr(change, name) for name in change.__struct_fields__}
            self.rows[change.id] = dataclasses.replace(self.rows[change.id], **values)
        for number, episode in enumerate(found.episodes):
            known = self.episodes.get(episode.key)
            assert episode.id == (known.id if known else 0)
            fresh = 1000 + len(self.episodes) + number
            self.episodes[episode.key] = episode if episode.id else msgspec.structs.replace(episode, id=fresh)
        self.attempts += found.attempts
        return found

    def told(self) -> list[tuple[str, int]]:
        """Kind and count of what was told, in the order of telling."""
        rows = [self.rows[attempt.alarm_id] for attempt in self.attempts]
        return [(str(row.kind), row.count) for row in rows]


def test_the_first_is_told_at_once_and_the_rest_in_one_notice() -> None:
    world = World(make_rule())
    world.strike()
    world.decide()
    assert world.told() == [("failed", 1)]
    for _ in range(5):
        world.strike(reason="latest")
        world.decide(50)
    assert world.told() == [("failed", 1)]
    world.decide(49)
    assert world.told() == [("failed", 1)]
    world.decide(1)
    assert world.told() == [("failed", 1), ("failed", 5)]
    notice = world.rows[world.attempts[-1].alarm_id]
    assert (notice.run_id, notice.reason) == (105, "latest"), "the latest of them is shown"
    assert (notice.at_ms, notice.last_ms) == (NOW, NOW + 200 * SECOND)
    merged = [row for row in world.rows.values() if row.state is AlarmState.MERGED]
    assert {row.notice_id for row in merged} == {notice.id}


def test_a_notice_at_the_end_of_a_window_opens_the_next_one() -> None:
    world = World(make_rule())
    for _ in range(40):
        world.strike()
        world.decide()
        world.decide(60)
    assert [count for _, count in world.told()] == [1, 4, 5, 5, 5, 5, 5, 5, 5]


def test_a_window_in_which_nothing_more_happens_tells_nothing() -> None:
    world = World(make_rule())
    world.strike()
    world.decide()
    world.decide(WINDOW_S)
    world.strike()
    world.decide(WINDOW_S)
    assert world.told() == [("failed", 1), ("failed", 1)]


def test_jobs_and_kinds_have_windows_of_their_own() -> None:
    world = World(make_rule(kinds=(AlarmKind.FAILED, AlarmKind.LOST)))
    for job in (1, 2):
        for kind in (AlarmKind.FAILED, AlarmKind.LOST):
            world.strike(job=job, kind=kind)
    world.decide()
    assert len(world.told()) == 4


def test_without_a_window_each_is_told() -> None:
    world = World(make_rule(window_s=0))
    for _ in range(3):
        world.strike()
    world.decide()
    assert world.told() == [("failed", 1)] * 3


def test_a_recovery_takes_along_what_was_counted() -> None:
    world = World(make_rule())
    for _ in range(4):
        world.strike()
    world.decide()
    world.strike(kind=AlarmKind.RECOVERED)
    world.decide(10)
    assert world.told() == [("failed", 1), ("recovered", 4)]
    assert world.rows[world.attempts[-1].alarm_id].reason == "failed"
    world.decide(WINDOW_S)
    assert len(world.told()) == 2


def test_a_job_that_flaps_is_told_once_a_window() -> None:
    world = World(make_rule())
    for _ in range(10):
        world.strike()
        world.decide(20)
        world.strike(kind=AlarmKind.RECOVERED)
        world.decide(10)
    assert world.told() == [("failed", 1), ("recovered", 1)]
    world.decide(30)
    assert world.told()[2:] == [("failed", 9)]
    world.strike(kind=AlarmKind.RECOVERED)
    world.decide(1)
    assert world.told()[3:] == [("recovered", 1)]


def test_a_recovery_from_nothing_is_dropped_and_says_so() -> None:
    world = World(make_rule())
    world.strike(kind=AlarmKind.RECOVERED)
    world.decide()
    assert world.told() == []
    assert (world.rows[1].state, world.rows[1].note) == (AlarmState.DROPPED, grouping.NOTHING_OPEN)


def test_a_rule_without_recovery_closes_in_silence_and_still_tells_what_it_held() -> None:
    world = World(make_rule(recovery=False))
    world.strike()
    world.strike()
    world.decide()
    world.strike(kind=AlarmKind.RECOVERED)
    world.decide(10)
    world.decide(WINDOW_S)
    assert world.told() == [("failed", 1), ("failed", 1)]
    assert world.rows[3].note == grouping.NO_RECOVERY


def test_n23_an_episode_ends_although_its_rule_wants_no_notice() -> None:
    """N23: one left open would make each later success a recovery, and the first one told once a rule asks."""
    world = World(make_rule(recovery=False))
    world.strike()
    world.decide()
    world.strike(kind=AlarmKind.RECOVERED)
    world.decide(10)
    assert not world.episodes[EpisodeKey(1, 1, AlarmKind.FAILED)].is_open
    world.rules[1] = make_rule(recovery=True)
    again = world.strike(kind=AlarmKind.RECOVERED)
    world.decide(10)
    assert world.told() == [("failed", 1)]
    assert world.rows[again].note == grouping.NOTHING_OPEN


def test_a_recovery_of_one_kind_leaves_the_others() -> None:
    world = World(make_rule(kinds=(AlarmKind.FAILED, AlarmKind.NOT_RUN)))
    world.strike()
    world.strike(kind=AlarmKind.NOT_RUN)
    world.decide()
    world.strike(kind=AlarmKind.RECOVERED, reason="not_run")
    world.decide(1)
    assert world.told()[2:] == [("recovered", 1)]
    assert world.episodes[EpisodeKey(1, 1, AlarmKind.FAILED)].is_open
    assert not world.episodes[EpisodeKey(1, 1, AlarmKind.NOT_RUN)].is_open


def test_a_recovery_for_one_rule_leaves_the_alarms_of_others() -> None:
    world = World(make_rule(), make_rule(id=2))
    world.strike()
    world.strike(rule_id=2)
    world.decide()
    world.strike(kind=AlarmKind.RECOVERED)
    world.decide(1)
    assert world.told()[2:] == [("recovered", 1)]
    assert not world.episodes[EpisodeKey(1, 1, AlarmKind.FAILED)].is_open
    assert world.episodes[EpisodeKey(1, 2, AlarmKind.FAILED)].is_open


@pytest.mark.parametrize(
    ("rules", "note"),
    [
        ((), grouping.NO_RULE),
        ((make_rule(enabled=False),), grouping.NO_RULE),
        ((make_rule(targets=()),), grouping.NO_CHANNEL),
    ],
)
def test_what_no_rule_asks_for_any_more_is_dropped_with_the_reason(rules: tuple[AlarmRule, ...], note: str) -> None:
    world = World(*rules)
    world.strike()
    world.decide()
    assert (world.rows[1].state, world.rows[1].note, world.told()) == (AlarmState.DROPPED, note, [])


def test_what_was_held_for_a_deleted_rule_is_dropped() -> None:
    world = World(make_rule())
    world.strike()
    world.strike()
    world.decide()
    world.rules.clear()
    world.decide(WINDOW_S)
    assert (world.rows[2].state, world.rows[2].note) == (AlarmState.DROPPED, grouping.NO_RULE)


QUIET = make_rule(quiet_from="22:00", quiet_to="07:00", quiet_timezone="UTC", window_s=0)


def test_quiet_hours_end_in_one_summary_of_the_rule() -> None:
    world = World(QUIET)  # it is midnight
    for job in (1, 2, 3):
        world.strike(job=job)
        world.strike(job=job)
    world.decide()
    world.decide(7 * 3600 - 1)
    assert world.told() == []
    found = world.decide(1)
    assert len(found.attempts) == 1
    assert world.told() == [("failed", 6)]
    summary = world.rows[found.attempts[0].alarm_id]
    assert summary.note == grouping.SUMMARY
    members = [row for row in world.rows.values() if row.note == grouping.SUMMARY and row.id != summary.id]
    assert {(row.job_id, row.count, row.notice_id) for row in members} == {(2, 2, summary.id), (3, 2, summary.id)}


def test_kinds_that_pass_are_told_in_quiet_hours() -> None:
    world = World(dataclasses.replace(QUIET, quiet_pass=(AlarmKind.LOST,)))
    world.strike()
    world.strike(kind=AlarmKind.LOST)
    world.decide()
    assert world.told() == [("lost", 1)]


def test_a_window_that_ends_in_quiet_hours_is_told_at_their_end() -> None:
    world = World(dataclasses.replace(QUIET, window_s=7200, quiet_from="01:00"))
    world.strike()
    world.strike()
    world.decide()
    world.decide(7200)
    assert world.told() == [("failed", 1)]
    world.decide(5 * 3600)
    assert world.told() == [("failed", 1), ("failed", 1)]


def test_a_missing_channel_is_an_attempt_that_failed() -> None:
    world = World(
        make_rule(targets=(AlarmTarget(channel="fax"), AlarmTarget(channel="pager"))), channels=("pager", "sms")
    )
    world.strike()
    world.decide()
    first, second = world.attempts
    assert (first.due_ms, first.answer) == (None, "channel fax is not installed; installed: pager, sms")
    assert (second.due_ms, second.answer) == (NOW, "")


@given(
    st.lists(
        st.tuples(st.sampled_from(["failed", "failed", "lost", "recovered"]), st.integers(1, 3), st.integers(0, 200)),
        max_size=40,
    ),
    st.sampled_from([0, 60, 300]),
    st.booleans(),
    st.booleans(),
)
def test_nothing_is_lost_whatever_happens(
    events: list[tuple[str, int, int]], window_s: int, recovery: bool, quiet: bool
) -> None:
    hours = {"quiet_from": "00:10", "quiet_to": "00:30"} if quiet else {}
    world = World(make_rule(window_s=window_s, recovery=recovery, **hours))
    for kind, job, after_s in events:
        world.strike(job=job, kind=AlarmKind(kind))
        world.decide(after_s)
    for _ in range(5):
        world.decide(3600)
    assert not [row for row in world.rows.values() if row.due_ms is not None]
    told = [attempt.alarm_id for attempt in world.attempts]
    assert len(told) == len(set(told)), "each notice is told once"
    for row in world.rows.values():
        if row.state is AlarmState.DROPPED:
            assert row.kind is AlarmKind.RECOVERED
            continue
        notice = row
        while notice.notice_id is not None:
            notice = world.rows[notice.notice_id]
        assert notice.id in told
    dropped = sum(row.state is AlarmState.DROPPED for row in world.rows.values())
    assert sum(world.rows[item].count for item in told) == len(events) - dropped


def _at(text: str, place: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(place)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("begin", "end", "now", "until"),
    [
        ("22:00", "07:00", "2026-03-10 21:59", None),
        ("22:00", "07:00", "2026-03-10 22:00", "2026-03-11 07:00"),
        ("22:00", "07:00", "2026-03-11 06:59", "2026-03-11 07:00"),
        ("22:00", "07:00", "2026-03-11 07:00", None),
        ("12:00", "13:30", "2026-03-10 13:29", "2026-03-10 13:30"),
        ("12:00", "13:30", "2026-03-10 11:59", None),
        # clocks go forward in that night, and the end is in the hour that is not there
        ("22:00", "02:30", "2026-03-29 01:30", "2026-03-29 03:30"),
    ],
)
def test_quiet_hours_are_local(begin: str, end: str, now: str, until: str | None) -> None:
    rule = make_rule(quiet_from=begin, quiet_to=end, quiet_timezone="Europe/Berlin")
    found = quiet_until_ms(rule, AlarmKind.FAILED, _at(now, "Europe/Berlin"))
    assert found == (None if until is None else _at(until, "Europe/Berlin"))


def test_quiet_hours_end_once_the_clock_was_set_back() -> None:
    rule = make_rule(quiet_from="22:00", quiet_to="02:30", quiet_timezone="Europe/Berlin")
    second_time = int(datetime(2026, 10, 25, 2, 15, tzinfo=ZoneInfo("Europe/Berlin"), fold=1).timestamp() * 1000)
    assert quiet_until_ms(rule, AlarmKind.FAILED, second_time) == second_time + 15 * 60_000
