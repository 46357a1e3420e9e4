"""The order of runs, without threads: who may come in, who is next, who is covered, who leaves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from xwheel.errors import JobBlockedError
from xwheel.executor.handlers import Handler, describe
from xwheel.executor.intake.queues import Lanes, Limits, Next
from xwheel.executor.running.execution import KILLED, STOPPED, Execution, Stage
from xwheel.model import BlockStrategy
from xwheel.wire.messages import TriggerRequest

DISCARD, COVER = BlockStrategy.DISCARD_LATER, BlockStrategy.COVER_EARLY


def make_lanes(**limits: int) -> Lanes:
    return Lanes(Limits(**{"places": 2, "lane": 3, "waiting": 10, "grace_ms": 100, **limits}))


def handler(parallel: int = 1) -> Handler:
    return describe("x", lambda: None, parallel=parallel)


def admit(lanes: Lanes, run_id: int, job_id: int = 1, parallel: int = 1, **fields: Any) -> Execution:
    request = TriggerRequest(run_id=run_id, job_id=job_id, created_ms=1, **fields)
    found = lanes.admit(request, handler(parallel))
    assert isinstance(found, Execution), found
    return found


def wait(lanes: Lanes, run_id: int, job_id: int = 1, parallel: int = 1, **fields: Any) -> Execution:
    execution = admit(lanes, run_id, job_id, parallel, **fields)
    lanes.confirm(execution)
    return execution


def refusal(lanes: Lanes, run_id: int, job_id: int = 1, **fields: Any) -> str:
    found = lanes.admit(TriggerRequest(run_id=run_id, job_id=job_id, created_ms=1, **fields), handler())
    assert isinstance(found, JobBlockedError)
    return str(found)


def ids(executions: list[Execution]) -> list[int]:
    return [execution.key.run_id for execution in executions]


def test_runs_of_a_job_start_in_order() -> None:
    lanes = make_lanes()
    first, second = wait(lanes, 1), wait(lanes, 2)
    assert ids(lanes.take([1])) == [1]
    assert lanes.take([1]) == []
    assert (lanes.running, lanes.waiting, lanes.has(1)) == (1, 1, True)
    lanes.leave(first)
    assert lanes.take([1]) == [second]
    lanes.leave(second)
    assert (lanes.running, lanes.waiting, lanes.has(1)) == (0, 0, False)


def test_a_run_that_is_not_on_disk_holds_back_those_behind_it() -> None:
    lanes = make_lanes()
    first, second = admit(lanes, 1), admit(lanes, 2)
    lanes.confirm(second)
    assert lanes.take([1]) == []
    lanes.confirm(first)
    assert lanes.take([1]) == [first]


def test_places_are_shared_in_order_of_readiness() -> None:
    lanes = make_lanes(places=2)
    runs = [wait(lanes, number, job_id=number) for number in range(1, 5)]
    assert ids(lanes.take([1, 2, 3, 4])) == [1, 2]
    lanes.leave(runs[0])
    assert ids(lanes.take([1])) == [3]


def test_parallel_runs_of_a_job() -> None:
    lanes = make_lanes(places=9)
    for number in (1, 2, 3):
        wait(lanes, number, parallel=2)
    assert ids(lanes.take([1])) == [1, 2]


def test_a_run_is_here_once() -> None:
    lanes = make_lanes()
    admit(lanes, 1)
    assert lanes.admit(TriggerRequest(run_id=1, job_id=1, created_ms=1), handler()) is None


def test_queues_are_bounded() -> None:
    lanes = make_lanes(lane=2, waiting=4)
    running = wait(lanes, 1)
    lanes.take([1])
    wait(lanes, 2), wait(lanes, 3)
    assert refusal(lanes, 4) == "job 1 has 2 waiting runs, and takes no more"
    assert lanes.abandon(running)
    assert "a run whose handler ignores its end" in refusal(lanes, 4)
    wait(lanes, 5, job_id=2)
    assert refusal(lanes, 6, job_id=3) == "the executor has 4 waiting runs and takes no more"
    lanes.close("it stops")
    assert refusal(lanes, 7, job_id=4) == "it stops"


def test_discard_later_and_cover_early() -> None:
    lanes = make_lanes()
    running = wait(lanes, 1, block_strategy=DISCARD)
    assert "Discard Later" in refusal(lanes, 2, block_strategy=DISCARD)
    lanes.take([1])
    assert "Discard Later" in refusal(lanes, 2, block_strategy=DISCARD)
    waiting = wait(lanes, 3)
    cover = admit(lanes, 4, block_strategy=COVER)
    later = wait(lanes, 5)
    assert lanes.confirm(cover) == [waiting, running]
    assert later.ending is None


def test_the_first_reason_to_end_counts() -> None:
    lanes = make_lanes()
    first = admit(lanes, 1)
    assert lanes.doom(first, KILLED) is Next.NOTHING  # not on disk yet: told once it is
    assert lanes.doom(first, STOPPED) is Next.NOTHING
    assert first.ending is KILLED
    second = wait(lanes, 2, job_id=2)
    assert lanes.doom(second, KILLED) is Next.REPORT
    lanes.leave(second)
    third = wait(lanes, 3, job_id=3)
    assert lanes.take([3]) == [third]
    assert (
        lanes.doom(third, KILLED) is Next.NOTHING
    )  # its start is being written: told before the handler is called
    assert lanes.begin(third) is KILLED
    fourth = wait(lanes, 4, job_id=4)
    lanes.take([4])
    assert lanes.begin(fourth) is None
    assert lanes.doom(fourth, KILLED) is Next.PUSH
    assert lanes.doom(fourth, KILLED) is Next.NOTHING


def test_reports_happen_once_and_abandoned_places_are_free() -> None:
    lanes = make_lanes(places=1)
    first, second = wait(lanes, 1), wait(lanes, 2, job_id=2)
    lanes.take([1, 2])
    lanes.begin(first)
    assert lanes.abandon(first)
    assert not lanes.abandon(first)
    assert ids(lanes.take([])) == [2]
    assert (lanes.first_report(first), lanes.first_report(first)) == (True, False)
    lanes.end(first)
    lanes.leave(first)
    lanes.leave(second)
    assert lanes.running == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events_keeps_the_books(seed: int) -> None:  # noqa: C901 -- one branch per event
    chance = random.Random(seed)
    lanes = make_lanes(places=3, lane=5, waiting=30)
    placed: list[Execution] = []
    admitted: list[Execution] = []
    started: dict[int, list[int]] = {}
    for number in range(1, 600):
        action = chance.randrange(5)
        if action <= 1:
            strategy = chance.choice(list(BlockStrategy))
            request = TriggerRequest(
                run_id=number, job_id=chance.randrange(1, 6), created_ms=1, block_strategy=strategy
            )
            found = lanes.admit(request, handler(chance.choice([1, 1, 2])))
            if isinstance(found, Execution):
                admitted.append(found)
        elif action == 2 and admitted:
            one = admitted.pop(0)
            if chance.random() < 0.1:
                lanes.withdraw(one)
            else:
                for covered in lanes.confirm(one):
                    if lanes.doom(covered, KILLED) is Next.REPORT:
                        lanes.leave(covered)
        elif action == 3:
            for one in lanes.take(range(1, 6)):
                assert one.stage is Stage.STARTING
                started.setdefault(one.key.job_id, []).append(one.key.run_id)
                placed.append(one)
        elif placed:
            one = placed.pop(chance.randrange(len(placed)))
            lanes.end(one)
            lanes.leave(one)
        assert lanes.running == len(placed) <= 3
        assert lanes.waiting >= 0
    for one in [*placed, *admitted]:
        lanes.end(one)
        lanes.leave(one)
    for run_ids in started.values():
        assert run_ids == sorted(run_ids)
