"""The order of runs, without threads: who may come in, who is next, who is covered, who leaves."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from xwheel.config.sections import ExecutorSection
from xwheel.errors import JobBlockedError
from xwheel.executor.handlers import Handler, describe
from xwheel.executor.intake.queues import JobQueues, Next
from xwheel.executor.running.execution import KILLED, STOPPED, Execution, Stage
from xwheel.model import BlockStrategy
from xwheel.wire.messages import RunKey, TriggerRequest

DISCARD, COVER = BlockStrategy.DISCARD_LATER, BlockStrategy.COVER_EARLY


def make_queues(**limits: int) -> JobQueues:
    return JobQueues(ExecutorSection(**{"workers": 2, "queue_limit": 3, "waiting_limit": 10, **limits}))


def handler(parallel: int = 1) -> Handler:
    return describe("x", lambda: None, parallel=parallel)


def admit(queues: JobQueues, run_id: int, job_id: int = 1, parallel: int = 1, **fields: Any) -> Execution:
    request = TriggerRequest(run_id=run_id, job_id=job_id, created_ms=1, **fields)
    (found,) = queues.admit([(request, handler(parallel))])
    assert isinstance(found, Execution), found
    return found


def wait(queues: JobQueues, run_id: int, job_id: int = 1, parallel: int = 1, **fields: Any) -> Execution:
    execution = admit(queues, run_id, job_id, parallel, **fields)
    queues.confirm(execution)
    return execution


def refusal(queues: JobQueues, run_id: int, job_id: int = 1, **fields: Any) -> str:
    (found,) = queues.admit([(TriggerRequest(run_id=run_id, job_id=job_id, created_ms=1, **fields), handler())])
    assert isinstance(found, JobBlockedError)
    return str(found)


def ids(executions: list[Execution]) -> list[int]:
    return [execution.key.run_id for execution in executions]


def test_runs_of_a_job_start_in_order() -> None:
    queues = make_queues()
    first, second = wait(queues, 1), wait(queues, 2)
    assert ids(queues.take([1])) == [1]
    assert queues.take([1]) == []
    assert (queues._active, len(queues._live) - queues._active, queues.has(1)) == (1, 1, True)
    queues.leave(first)
    assert queues.take([1]) == [second]
    queues.leave(second)
    assert (queues._active, len(queues._live) - queues._active, queues.has(1)) == (0, 0, False)


def test_a_run_that_is_not_on_disk_holds_back_those_behind_it() -> None:
    queues = make_queues()
    first, second = admit(queues, 1), admit(queues, 2)
    queues.confirm(second)
    assert queues.take([1]) == []
    queues.confirm(first)
    assert queues.take([1]) == [first]


def test_places_are_shared_in_order_of_readiness() -> None:
    queues = make_queues(workers=2)
    runs = [wait(queues, number, job_id=number) for number in range(1, 5)]
    assert ids(queues.take([1, 2, 3, 4])) == [1, 2]
    queues.leave(runs[0])
    assert ids(queues.take([1])) == [3]


def test_parallel_runs_of_a_job() -> None:
    queues = make_queues(workers=9)
    for number in (1, 2, 3):
        wait(queues, number, parallel=2)
    assert ids(queues.take([1])) == [1, 2]


def test_a_run_is_here_once() -> None:
    queues = make_queues()
    admit(queues, 1)
    assert queues.admit([(TriggerRequest(run_id=1, job_id=1, created_ms=1), handler())]) == [None]


def test_queues_are_bounded() -> None:
    queues = make_queues(queue_limit=2, waiting_limit=4)
    running = wait(queues, 1)
    queues.take([1])
    wait(queues, 2), wait(queues, 3)
    assert refusal(queues, 4) == "job 1 has 2 waiting runs, and takes no more"
    assert queues.abandon(running)
    assert "a run whose handler ignores its end" in refusal(queues, 4)
    wait(queues, 5, job_id=2)
    assert refusal(queues, 6, job_id=3) == "the executor has 4 waiting runs and takes no more"
    queues.close("it stops")
    assert refusal(queues, 7, job_id=4) == "it stops"


def test_discard_later_and_cover_early() -> None:
    queues = make_queues()
    running = wait(queues, 1, block_strategy=DISCARD)
    assert "Discard Later" in refusal(queues, 2, block_strategy=DISCARD)
    queues.take([1])
    assert "Discard Later" in refusal(queues, 2, block_strategy=DISCARD)
    waiting = wait(queues, 3)
    cover = admit(queues, 4, block_strategy=COVER)
    later = wait(queues, 5)
    assert queues.confirm(cover) == [waiting, running]
    assert later.ending is None


def test_the_first_reason_to_end_counts() -> None:
    queues = make_queues()
    first = admit(queues, 1)
    assert queues.set_ending(first, KILLED) is Next.NOTHING  # not on disk yet: told once it is
    assert queues.set_ending(first, STOPPED) is Next.NOTHING
    assert first.ending is KILLED
    second = wait(queues, 2, job_id=2)
    assert queues.set_ending(second, KILLED) is Next.REPORT
    queues.leave(second)
    third = wait(queues, 3, job_id=3)
    assert queues.take([3]) == [third]
    assert (
        queues.set_ending(third, KILLED) is Next.NOTHING
    )  # its start is being written: told before the handler is called
    assert queues.begin(third) is KILLED
    fourth = wait(queues, 4, job_id=4)
    queues.take([4])
    assert queues.begin(fourth) is None
    assert queues.set_ending(fourth, KILLED) is Next.PUSH
    assert queues.set_ending(fourth, KILLED) is Next.NOTHING


def test_reports_happen_once_and_abandoned_places_are_free() -> None:
    queues = make_queues(workers=1)
    first, second = wait(queues, 1), wait(queues, 2, job_id=2)
    queues.take([1, 2])
    queues.begin(first)
    assert queues.abandon(first)
    assert not queues.abandon(first)
    assert ids(queues.take([])) == [2]
    queues.end(first)
    queues.leave(first)
    queues.leave(second)
    assert queues._active == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events_keeps_the_books(seed: int) -> None:  # noqa: C901 -- one branch per event
    chance = random.Random(seed)
    queues = make_queues(workers=3, queue_limit=5, waiting_limit=30)
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
            (found,) = queues.admit([(request, handler(chance.choice([1, 1, 2])))])
            if isinstance(found, Execution):
                admitted.append(found)
        elif action == 2 and admitted:
            one = admitted.pop(0)
            if chance.random() < 0.1:
                queues.leave(one)
            else:
                for covered in queues.confirm(one):
                    if queues.set_ending(covered, KILLED) is Next.REPORT:
                        queues.leave(covered)
        elif action == 3:
            for one in queues.take(range(1, 6)):
                assert one.stage is Stage.STARTING
                started.setdefault(one.key.job_id, []).append(one.key.run_id)
                placed.append(one)
        elif placed:
            one = placed.pop(chance.randrange(len(placed)))
            queues.end(one)
            queues.leave(one)
        assert queues._active == len(placed) <= 3
        assert len(queues._live) - queues._active >= 0
    for one in [*placed, *admitted]:
        queues.end(one)
        queues.leave(one)
    for run_ids in started.values():
        assert run_ids == sorted(run_ids)


def test_n31_a_run_that_is_ended_while_it_waits_for_a_place_starts_no_more() -> None:
    queues = make_queues(workers=1)
    first, second, third = (wait(queues, number, job_id=number) for number in (1, 2, 3))
    assert queues.take([1, 2, 3]) == [first]
    assert queues.set_ending(second, KILLED) is Next.REPORT
    queues.leave(first)
    assert queues.take([]) == [third]  # before the killed one has left
    queues.end(second)
    queues.leave(second)
    queues.leave(third)
    assert (queues.take([]), queues._active, queues.all()) == ([], 0, [])


def test_the_last_run_that_leaves_ends_the_wait_of_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    queues = make_queues()
    execution = wait(queues, 1)
    waits = threading.Event()
    real = queues._emptied.wait

    def noted(timeout: float | None = None) -> bool:
        waits.set()  # under the lock, which the other thread needs to let the run leave
        return real(timeout)

    monkeypatch.setattr(queues._emptied, "wait", noted)
    stop = threading.Thread(target=queues.wait_empty, args=(600,), daemon=True)
    stop.start()
    assert waits.wait(30)
    queues.leave(execution)
    stop.join(30)
    assert not stop.is_alive()


def test_runs_with_nothing_before_them_get_their_places_at_once() -> None:
    queues = make_queues(workers=3)
    first, behind, other = admit(queues, 1), admit(queues, 2), admit(queues, 3, job_id=2)
    killed = admit(queues, 4, job_id=3)
    queues.set_ending(killed, KILLED)
    assert queues.reserve([first, behind, other, killed]) == [first, other]
    assert queues._active == 2
    assert queues.set_ending(other, KILLED) is Next.NOTHING  # told before the handler is called
    assert queues.begin(other) is KILLED
    assert queues.leave(first)  # one waits behind it
    assert not queues.leave(other)
    queues.confirm(behind)
    assert queues.take([1]) == [behind]


def test_who_waits_for_a_place_comes_before_who_is_not_on_disk() -> None:
    queues = make_queues(workers=1)
    waiting = wait(queues, 1)
    assert queues.take([1]) == [waiting]
    next_one = wait(queues, 2, job_id=2)
    assert queues.take([2]) == []
    queues.leave(waiting)
    assert queues.reserve([admit(queues, 3, job_id=3)]) == []
    assert queues.take([]) == [next_one]


def test_a_run_that_covers_others_waits_until_it_is_on_disk() -> None:
    queues = make_queues()
    running = wait(queues, 1, parallel=2)
    queues.take([1])
    cover = admit(queues, 2, parallel=2, block_strategy=COVER)
    assert queues.reserve([cover]) == []
    assert queues.confirm(cover) == [running]


def test_only_what_waits_for_its_due_time_is_taken_back() -> None:
    queues = make_queues()
    wait(queues, 1)
    early = admit(queues, 2, due_ms=200, sent_ms=100)
    assert queues.take_back([RunKey(1, 1, 1), early.key]) == []  # it is not on disk
    assert queues.hold([early]) == [early]
    assert queues.take_back([RunKey(1, 1, 1), early.key, RunKey(3, 1, 1)]) == [early]
    assert queues.enter([early]) == []
    assert ids(queues.take([1])) == [1]


def test_what_has_a_place_by_now_ends_as_one_that_runs() -> None:
    queues = make_queues(workers=1)
    placed, waiting, behind = wait(queues, 1), wait(queues, 2, job_id=2), wait(queues, 3)
    assert queues.take([1, 2]) == [placed]
    endings = [queues.set_ending(one, STOPPED, KILLED) for one in (placed, waiting, behind)]
    assert endings == [Next.NOTHING, Next.REPORT, Next.REPORT]
    assert [one.ending for one in (placed, waiting, behind)] == [STOPPED, KILLED, KILLED]
