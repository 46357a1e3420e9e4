"""Which connection is late, which one makes room, and what is logged of it: functions of the time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xwheel.config.sections import ConnectionsSection
from xwheel.runtime.http_limits import (
    MOST_PEERS,
    WINDOW_S,
    ConnectionStage,
    ConnectionState,
    Cut,
    CutLog,
    gives_way,
    is_late,
    peer_of,
)

LIMITS = ConnectionsSection(head_s=10, body_s=30, write_s=5, idle_s=90)
NOW = 1000.0


@pytest.mark.parametrize(
    ("stage", "granted_s"),
    [
        (ConnectionStage.NEW, 10),
        (ConnectionStage.HEAD, 10),
        (ConnectionStage.BODY, 30),
        (ConnectionStage.WRITING, 5),
        (ConnectionStage.IDLE, 90),
        (ConnectionStage.DRAINING, 10),
    ],
)
def test_s3_every_stage_has_its_time_and_no_more(stage: ConnectionStage, granted_s: float) -> None:
    assert not is_late(ConnectionState("a", stage, NOW), LIMITS, NOW + granted_s - 0.001)
    assert is_late(ConnectionState("a", stage, NOW), LIMITS, NOW + granted_s)


def test_a_peer_that_waits_for_an_answer_is_never_late() -> None:
    assert not is_late(ConnectionState("a", ConnectionStage.SERVED, 0), LIMITS, 1e9)


def old(stage: ConnectionStage, peer: str = "a", age_s: float = 5) -> ConnectionState:
    return ConnectionState(peer, stage, NOW - age_s)


ORDER = [
    old(ConnectionStage.DRAINING),
    old(ConnectionStage.HEAD),
    old(ConnectionStage.WRITING),
    old(ConnectionStage.IDLE),
    old(ConnectionStage.BODY),
    old(ConnectionStage.HEAD, age_s=0.1),
    old(ConnectionStage.SERVED, age_s=500),
]


def test_s3_stalled_connections_make_room_before_working_ones() -> None:
    left = ORDER[::-1]
    gone = []
    while (place := gives_way(left, NOW)) is not None:
        gone.append(left.pop(place))
    assert gone == ORDER[:-1]
    assert left == [ORDER[-1]]  # none is cut off while it is served


def test_s3_the_peer_with_the_most_connections_gives_one_and_of_those_the_oldest() -> None:
    found = gives_way(
        [
            old(ConnectionStage.IDLE, "few", 80),
            old(ConnectionStage.IDLE, "many", 20),
            old(ConnectionStage.IDLE, "many", 30),
            old(ConnectionStage.IDLE, "many", 10),
        ],
        NOW,
    )
    assert found == 2


def test_without_connections_none_makes_room() -> None:
    assert gives_way([], NOW) is None


@given(
    st.lists(
        st.builds(ConnectionState, st.sampled_from("ab"), st.sampled_from(ConnectionStage), st.floats(NOW - 100, NOW)),
        max_size=20,
    )
)
def test_one_makes_room_unless_all_are_served(states: list[ConnectionState]) -> None:
    place = gives_way(states, NOW)
    if place is None:
        assert {state.stage for state in states} <= {ConnectionStage.SERVED}
    else:
        assert states[place].stage is not ConnectionStage.SERVED


@pytest.mark.parametrize(
    ("host", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("2001:db8:0:1::1", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("localhost", "localhost"),
    ],
)
def test_a_network_of_ipv6_counts_as_one_peer(host: str, peer: str) -> None:
    assert peer_of(host) == peer


def test_s3_the_log_has_one_line_for_a_window() -> None:
    log = CutLog()
    assert log.line(NOW) is None
    for number in range(290):
        log.note(Cut.HEAD, "127.0.0.2", NOW + number / 100)
    log.note(Cut.REFUSED, "127.0.0.3", NOW + 3)
    assert log.line(NOW + WINDOW_S - 1) is None
    assert log.line(NOW + WINDOW_S) == (
        "291 connections in 30 s: 290 without a whole head in time, 1 refused at a limit; 290 of them from 127.0.0.2"
    )
    assert log.line(NOW + 10 * WINDOW_S) is None
    assert (log.cut, log.refused) == (290, 1)
    log.note(Cut.BODY, "127.0.0.2", NOW + 400)
    assert (
        log.line(NOW + 401, ends=True)
        == "1 connections in 1 s: 1 without a whole body in time; 1 of them from 127.0.0.2"
    )


def test_peers_without_number_do_not_fill_the_memory() -> None:
    log = CutLog()
    for number in range(5 * MOST_PEERS):
        log.note(Cut.REFUSED, f"peer-{number}", NOW)
    assert len(log._peers) == MOST_PEERS + 1
    assert log.refused == 5 * MOST_PEERS
