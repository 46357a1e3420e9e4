"""U18: the demonstration says when its first fire was."""

from __future__ import annotations

from typing import Any

from xwheel_devtools.quickstart.view import Board

BEGAN = 1_767_225_600_000  # midnight


def run(number: int, sent_ms: int | None) -> dict[str, Any]:
    state = "planned" if sent_ms is None else "succeeded"
    return {"id": number, "job_id": number % 2, "state": state, "due_ms": BEGAN, "dispatched_ms": sent_ms}


def test_u18_the_first_fire_is_said_with_its_time() -> None:
    board = Board(began_ms=BEGAN)
    board.update([], [run(1, None)], is_all=True)
    assert board.first_fire() is None
    board.update([], [run(4, BEGAN + 8300), run(3, BEGAN + 7250), run(2, None)], is_all=True)
    assert board.first_fire() == "first fire         00:00:07 UTC, 7.2 s after the start"
    board.update([], [run(5, BEGAN + 9000)], is_all=True)
    assert board.first_ms == BEGAN + 7250


def test_u18_the_first_fire_is_not_named_while_it_may_be_among_runs_that_were_not_seen() -> None:
    board = Board(began_ms=BEGAN)
    board.update([], [run(8, BEGAN + 8300), run(7, BEGAN + 7250)], is_all=False)
    assert board.first_fire() is None
    board.end([(BEGAN + 8000, 40), (BEGAN + 7000, 30)])
    assert board.first_fire() == "first fire         00:00:07 UTC, 7.0 s after the start"


def test_u18_the_first_fire_that_was_seen_is_the_one_at_the_end() -> None:
    board = Board(began_ms=BEGAN)
    board.end([])
    assert board.first_fire() is None
    board.update([], [run(1, BEGAN + 7250)], is_all=True)
    board.end([(BEGAN + 7000, 400)])
    assert board.first_ms == BEGAN + 7250
