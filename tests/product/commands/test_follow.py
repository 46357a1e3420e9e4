"""Finding U2: when a run has come to its end, and what decides it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from xwheel_commands.connection import NodeApi
from xwheel_commands.follow import Follower, last_attempts, may_have_log, note_of, why


def run(run_id: int, state: str, **fields: Any) -> dict[str, Any]:
    return {
        "id": run_id, "root_id": 1, "chain_id": 1, "job_id": 1, "shard_index": 0, "shard_total": 1, "attempt": 1,
        "retries_left": 1, "state": state, "origin": "api", "origin_key": run_id, "reason": "", "message": "",
        "address": "http://x:1", "accepted_ms": 1000, "finished_ms": 2500, "due_ms": 1000, "result_code": None,
        "job_name": "nightly", "app_name": "orders", "kill_requested": False, **fields,
    }  # fmt: skip


class Script:
    """A node whose list of runs is another one each time it is read."""

    def __init__(self, *lists: list[dict[str, Any]]) -> None:
        self._lists = iter(lists)

    def pages(self, path: str, params: dict[str, Any]) -> Iterator[dict[str, Any]]:
        assert (path, params) == ("/runs", {"chain_id": 1})
        return iter(next(self._lists))


def follow(*lists: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str], list[float]]:
    said: list[str] = []
    waited: list[float] = []
    node = cast("NodeApi", Script(*lists))
    return Follower(node, said.append, waited.append).follow(run(1, "planned")), said, waited


RETRY = {"origin": "retry", "origin_key": 1, "attempt": 2, "retries_left": 0}


def test_a_list_says_a_reason_or_what_the_last_check_found_or_the_message() -> None:
    assert note_of(run(1, "running", reason="waits:1790000000000", message="of a send")) == "waits"
    assert note_of(run(1, "refused", reason="no_executor", message="none is live")) == "no_executor"
    assert note_of(run(1, "failed", message="x" * 61)) == "x" * 60


def test_a_run_that_waits_on_its_executor_is_said_to_wait_and_took_what_it_took_there() -> None:
    waiting = run(1, "running", reason="waits:1000", began_ms=None, finished_ms=None)
    ended = run(1, "succeeded", began_ms=2000)
    _, said, _ = follow([run(1, "running")], [waiting], [waiting], [run(1, "running")], [ended], [ended])
    assert [line.partition("attempt 1: ")[2] for line in said] == [
        "running on http://x:1",
        "waiting on http://x:1",
        "running on http://x:1",
        "succeeded after 0.5 s",
    ]
    _, said, _ = follow([run(1, "succeeded", began_ms=None)], [run(1, "succeeded", began_ms=None)])
    assert said[-1].endswith("attempt 1: succeeded")


def test_u2_the_end_is_the_end_of_all() -> None:
    runs, said, waited = follow(
        [run(1, "planned")],
        [run(1, "running")],
        [run(1, "failed", message="boom"), run(2, "planned", **RETRY)],
        [run(1, "failed", message="boom"), run(2, "succeeded", **RETRY)],
        [run(1, "failed", message="boom"), run(2, "succeeded", **RETRY)],
    )
    assert [one["state"] for one in runs] == ["failed", "succeeded"]
    assert len(waited) == 4
    assert [re.sub(r" for .*| at .*", "", line) for line in said] == [
        "run 1 of orders/nightly, attempt 1: planned",
        "run 1 of orders/nightly, attempt 1: running on http://x:1",
        "run 1 of orders/nightly, attempt 1: failed after 1.5 s: boom",
        "run 2 of orders/nightly, attempt 2: tries run 1 again",
        "run 2 of orders/nightly, attempt 2: succeeded after 1.5 s",
    ]


def test_u2_a_list_that_is_short_of_a_follow_up_is_read_again() -> None:
    """Keys and rows of a page are read one after the other: a retry may be missing next to the run that it follows."""
    runs, said, _ = follow(
        [run(1, "failed")],
        [run(1, "failed"), run(2, "succeeded", **RETRY)],
        [run(1, "failed"), run(2, "succeeded", **RETRY)],
    )
    assert len(runs) == 2
    assert any("tries run 1 again" in line for line in said)


def test_u2_a_run_that_nothing_follows_says_so() -> None:
    for attempt, words in ((1, "its job has no retries (max_retries)"), (2, "no retries left")):
        last = run(1, "failed", retries_left=0, attempt=attempt)
        _, said, _ = follow([last], [last])
        assert said[-1] == f"  no further attempt: {words}"
    _, said, _ = follow(*[[run(1, "killed", kill_requested=True)]] * 2)
    assert said[-1] == "  no further attempt: a run that was to be killed is never tried again"


def test_u2_a_shard_counts_once_and_a_success_wins() -> None:
    late = run(1, "succeeded", shard_total=2)
    instead = run(3, "failed", shard_total=2, attempt=2, origin="recovery", origin_key=1)
    other = run(2, "failed", shard_index=1, shard_total=2)
    again = run(4, "succeeded", shard_index=1, shard_total=2, attempt=2)
    assert last_attempts([late, other, instead, again]) == [late, again]
    assert last_attempts([late, other, instead]) == [late, other]
    child = run(5, "failed", root_id=5, job_id=2, origin="child")
    assert last_attempts([late, child]) == [late, child]


def test_u2_the_reason_is_in_words_and_moves_no_terminal() -> None:
    assert why(run(1, "refused", reason="no_source")).startswith("the script has no source yet: 'xwheel glue save'")
    assert why(run(1, "failed", reason="odd", message="\x1b[2J")) == "odd: \\x1b[2J"
    assert why(run(1, "succeeded", message="a result")) == ""
    assert why(run(1, "killed", reason="killed", message="by hand")) == "by hand"


def test_u2_a_log_is_looked_for_where_an_executor_took_the_run() -> None:
    assert may_have_log(run(1, "failed"))
    assert may_have_log(run(1, "failed", accepted_ms=None, result_code=500))
    assert not may_have_log(run(1, "failed", accepted_ms=None))
    assert not may_have_log(run(1, "failed", address=None, result_code=500))
