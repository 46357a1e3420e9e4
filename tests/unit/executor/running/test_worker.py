"""The worker at its edges: what is not on disk yet, threads that cannot start, hooks that block, repeated asks."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from xwheel.clock import SystemClock
from xwheel.config.sections import ExecutorSection
from xwheel.errors import HandlerNotFoundError, JobKilledError, JournalError, XwheelError
from xwheel.executor.handlers import Handler, describe, job
from xwheel.executor.journal import NEW, Acceptance, Done, Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.execution import KILLED
from xwheel.executor.running.runners import Lifecycles
from xwheel.executor.running.worker import Workers
from xwheel.model import BlockStrategy
from xwheel.wire.messages import CallbackItem, ExecutionState, RunKey, StateAnswer, TriggerRequest


class HeldJournal:
    """Stands in for the journal: keeps acceptances until the test lets them go, writes the rest at once."""

    def __init__(self) -> None:
        self.held: list[tuple[list[RunKey], Done]] = []
        self.hold = False
        self.written: set[RunKey] = set()
        self.outcomes: dict[RunKey, CallbackItem] = {}
        self.revived: list[RunKey] = []
        self.changed = threading.Condition()

    def accept(self, keys: Sequence[RunKey], done: Done, _starting: object = ()) -> None:
        with self.changed:
            self.held.append((list(keys), done))
            self.changed.notify_all()
        if not self.hold:
            self.let_go()

    def let_go(self, error: JournalError | None = None) -> None:
        held, self.held = self.held, []
        for keys, done in held:
            verdicts = [Acceptance(new=False) if key in self.written else NEW for key in keys]
            if error is None:
                self.written.update(keys)
            done(() if error else verdicts, error)

    def start(self, choose: Callable[[], Sequence[RunKey]], done: Callable[[], None]) -> None:
        choose()
        done()

    def finish(self, items: Sequence[CallbackItem], done: Callable[[], None]) -> None:
        with self.changed:
            self.outcomes.update({RunKey(item.run_id, item.job_id, item.created_ms): item for item in items})
            self.changed.notify_all()
        done()

    def revive(self, key: RunKey, done: Callable[[], None]) -> None:
        self.revived.append(key)
        done()

    def lookup(self, keys: Sequence[RunKey]) -> list[StateAnswer]:
        return [self._state(key) for key in keys]

    def _state(self, key: RunKey) -> StateAnswer:
        if key in self.outcomes:
            return StateAnswer(run_id=key.run_id, state=ExecutionState.FINISHED, outcome=self.outcomes[key])
        known = key in self.written
        return StateAnswer(run_id=key.run_id, state=ExecutionState.ACCEPTED if known else ExecutionState.UNKNOWN)

    def wait_for(self, done: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(done, 10)


class House:
    def __init__(self, folder: Path) -> None:
        self.journal = HeldJournal()
        self.delivered = 0
        self.silence = ""  # why nothing may start
        self.logs = RunLogs(folder, SystemClock())
        self.workers = Workers(
            journal=cast(Journal, self.journal),
            logs=self.logs,
            clock=SystemClock(),
            settings=ExecutorSection(workers=4, queue_limit=10, waiting_limit=100, kill_grace_s=0.02),
            may_start=lambda _instance: self.silence,
            on_outcome=self._note,
        )

    def _note(self) -> None:
        self.delivered += 1

    def outcome(self, run_id: int) -> CallbackItem:
        key = key_of(run_id)
        self.journal.wait_for(lambda: key in self.journal.outcomes)
        return self.journal.outcomes[key]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.workers.close()
    house.logs.close()


def key_of(run_id: int) -> RunKey:
    return RunKey(run_id, run_id, 1)


def request(run_id: int, **fields: Any) -> TriggerRequest:
    return TriggerRequest(run_id=run_id, job_id=run_id, created_ms=1, **fields)


def handler_of(function: Any) -> Handler:
    return cast(Handler, function.__xwheel_job__)


@job("noop")
def noop() -> None:
    pass


NOOP = handler_of(noop)


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    return thread, found


@pytest.mark.parametrize("error", [None, JournalError("full")])
def test_a_repeated_ask_is_not_answered_before_the_first_is_on_disk(house: House, error: JournalError | None) -> None:
    """Two schedulers ask for one run at the same time; the disk then takes it, or refuses it for both."""
    house.journal.hold = True
    first, told_first = in_thread(lambda: house.workers.accept([(request(1), NOOP)]))
    house.journal.wait_for(lambda: len(house.journal.held) == 1)
    second, told_second = in_thread(lambda: house.workers.accept([(request(1), NOOP)]))
    house.journal.wait_for(lambda: len(house.journal.held) == 2)
    assert told_second == []
    house.journal.let_go(error)
    first.join(10)
    second.join(10)
    answers: list[XwheelError | None] = [*told_first[0], *told_second[0]]
    assert [answer is None for answer in answers] == [error is None] * 2


def test_a_repeated_ask_wakes_the_delivery(house: House) -> None:
    """Its outcome is to be delivered once more, and not only when the delivery wakes by itself."""
    assert house.workers.accept([(request(1), NOOP)]) == [None]
    house.outcome(1)
    house.journal.wait_for(lambda: not house.workers.queues.has(1))
    before = house.delivered
    assert house.workers.accept([(request(1), NOOP)]) == [None]
    assert house.delivered == before + 1


def test_a_repeated_ask_that_would_be_refused_brings_the_outcome_once_more(house: House) -> None:
    release = threading.Event()
    holder = handler_of(job("holds")(lambda: release.wait(10)))
    assert house.workers.accept([(request(1), NOOP)]) == [None]
    house.outcome(1)
    later = TriggerRequest(run_id=2, job_id=1, created_ms=1)
    house.journal.wait_for(lambda: not house.workers.queues.has(1))
    assert house.workers.accept([(later, holder)]) == [None]
    again = request(1, block_strategy=BlockStrategy.DISCARD_LATER)
    assert house.workers.accept([(again, NOOP)]) == [None]
    release.set()
    assert house.journal.revived == [key_of(1)]


NOT_FOUND = HandlerNotFoundError("job handler [gone] not found")


def test_r10_the_journal_is_asked_before_a_run_that_cannot_be_built_is_refused(house: House) -> None:
    """R10: after a redeploy without the handler, a run that was executed here is not refused."""
    assert house.workers.accept([(request(1), NOOP)]) == [None]
    house.outcome(1)
    house.journal.wait_for(lambda: not house.workers.queues.has(1))
    before = house.delivered
    answers = house.workers.accept([(request(1), NOT_FOUND), (request(2), NOT_FOUND)])
    assert answers == [None, NOT_FOUND]
    assert house.journal.revived == [key_of(1)]  # and its outcome is delivered once more
    assert house.delivered == before + 1


def test_r10_a_full_journal_refuses_nothing_that_it_knows(house: House) -> None:
    """R10: whatever would refuse a repeated id, what was accepted before stays accepted."""
    assert house.workers.accept([(request(1), NOOP)]) == [None]
    house.outcome(1)
    house.journal.wait_for(lambda: not house.workers.queues.has(1))
    house.journal.hold = True
    thread, told = in_thread(lambda: house.workers.accept([(request(1), NOOP), (request(2), NOOP)]))
    house.journal.wait_for(lambda: len(house.journal.held) == 1)
    full = JournalError("full")
    house.journal.let_go(full)
    thread.join(10)
    assert told == [[None, full]]


@pytest.mark.parametrize("error", [None, JournalError("full")])
def test_r10_a_run_that_is_on_its_way_to_the_disk_is_known(house: House, error: JournalError | None) -> None:
    """R10: it is waited for, and then there or not."""
    house.journal.hold = True
    first, told_first = in_thread(lambda: house.workers.accept([(request(1), NOOP)]))
    house.journal.wait_for(lambda: len(house.journal.held) == 1)
    second, told_second = in_thread(lambda: house.workers.accept([(request(1), NOT_FOUND)]))
    house.journal.wait_for(lambda: len(house.journal.held) == 2)
    house.journal.let_go(error)
    first.join(10)
    second.join(10)
    assert [answer is None for answer in (*told_first[0], *told_second[0])] == [error is None] * 2


def test_a_run_does_not_start_if_the_scheduler_fell_silent_while_it_was_written(house: House) -> None:
    """The machine slept, or its disk stood still: the scheduler may have given it up, and runs it elsewhere."""
    begun: list[int] = []
    house.journal.hold = True
    accepting = threading.Thread(
        target=house.workers.accept, args=([(request(1), describe("noop", lambda: begun.append(1)))],)
    )
    accepting.start()
    house.journal.wait_for(lambda: len(house.journal.held) == 1)
    house.silence = "no beat"
    house.journal.let_go()
    accepting.join(10)
    outcome = house.outcome(1)
    assert (outcome.reason, begun) == ("not_started", [])
    assert outcome.message.endswith(": no beat")


def test_an_outcome_is_delivered_at_once_when_its_run_is_sent_again_next_to_a_new_one(house: House) -> None:
    assert house.workers.accept([(request(1), handler_of(noop))]) == [None]
    house.outcome(1)
    end = threading.Event()

    @job("goes on")
    def goes_on() -> None:
        end.wait(10)

    told: list[str] = []
    house.workers.on_outcome = lambda: told.append("told")
    try:
        again = [(request(1), handler_of(noop)), (request(2), handler_of(goes_on))]
        assert house.workers.accept(again) == [None, None]
        assert told == ["told"]  # the new run has no outcome that would tell it
    finally:
        end.set()
    house.outcome(2)


def fail_to_start(monkeypatch: pytest.MonkeyPatch, prefix: str) -> list[str]:
    """Let threads of this name fail to start, as when the system has no more of them."""
    real = threading.Thread.start
    failed: list[str] = []

    def start(self: threading.Thread) -> None:
        if self.name.startswith(prefix) and not failed:
            failed.append(self.name)
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    return failed


@job("coroutine")
async def coroutine() -> str:
    return "ok"


@pytest.mark.parametrize(
    ("prefix", "function", "reason"),
    [("xwheel-run", noop, "not_started"), ("xwheel-timers", noop, ""), ("xwheel-async", coroutine, "")],
)
def test_a_thread_that_cannot_start_fails_the_run_and_not_the_executor(
    house: House, monkeypatch: pytest.MonkeyPatch, prefix: str, function: Any, reason: str
) -> None:
    failed = fail_to_start(monkeypatch, prefix)
    handler = handler_of(function)
    house.workers.accept([(request(1, timeout_s=100), handler)])
    outcome = house.outcome(1)
    assert failed
    assert (outcome.code, outcome.reason) == (500, reason)
    assert "can't start new thread" in outcome.message
    house.workers.accept([(request(2, timeout_s=100), handler)])
    assert house.outcome(2).code == 200
    assert not house.workers.queues.has(1)


def test_an_init_that_blocks_holds_up_its_own_handler_only(house: House) -> None:
    inside, release = threading.Event(), threading.Event()

    def block() -> None:
        inside.set()
        release.wait(10)

    slow = handler_of(job("slow", init=block)(lambda: "slow"))
    quick = handler_of(job("quick", init=lambda: None)(lambda: "quick"))
    house.workers.accept([(request(1), slow)])
    assert inside.wait(10)
    house.workers.accept([(request(2), quick)])
    assert house.outcome(2).message == "quick"
    release.set()
    assert house.outcome(1).message == "slow"


def test_covering_a_run_whose_init_still_runs(house: House) -> None:
    """The first run is covered while its init works; the second one waits for that init and then runs."""
    inside, release = threading.Event(), threading.Event()
    calls: list[str] = []

    def block() -> None:
        calls.append("init")
        inside.set()
        release.wait(10)

    for kind in ("thread", "async"):
        inside.clear()
        release.clear()
        calls.clear()

        def plain() -> None:
            calls.append("run")

        async def waiting() -> None:
            calls.append("run")

        function = plain if kind == "thread" else waiting
        handler = handler_of(job(f"covered-{kind}", init=block)(function))
        base = 10 if kind == "thread" else 20
        house.workers.accept([(TriggerRequest(run_id=base, job_id=base, created_ms=1), handler)])
        assert inside.wait(10)
        second = TriggerRequest(run_id=base + 1, job_id=base, created_ms=1, block_strategy=BlockStrategy.COVER_EARLY)
        house.workers.accept([(second, handler)])
        release.set()
        house.journal.wait_for(lambda base=base: RunKey(base + 1, base, 1) in house.journal.outcomes)  # type: ignore[misc]
        assert house.journal.outcomes[RunKey(base, base, 1)].reason == "covered"
        assert house.journal.outcomes[RunKey(base + 1, base, 1)].code == 200
        assert calls[-1] == "run"
        assert calls.count("run") == 1


def test_coroutine_hooks_work_on_the_loop_of_their_handler(house: House) -> None:
    loops: list[tuple[str, int]] = []

    def note(word: str) -> None:
        loops.append((word, id(asyncio.get_running_loop())))

    async def init() -> None:
        note("init")

    async def destroy() -> None:
        note("destroy")

    @job("loop", init=init, destroy=destroy)
    async def handler() -> None:
        note("run")

    house.workers.accept([(request(1), handler_of(handler))])
    house.outcome(1)
    house.workers.accept([(request(2), handler_of(handler))])
    house.outcome(2)
    house.workers.close()
    assert [word for word, _ in loops] == ["init", "run", "run", "destroy"]
    assert len({loop for _, loop in loops}) == 1


def test_a_destroy_that_blocks_does_not_hold_up_the_end(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xwheel.executor.running.runners.DESTROY_S", 0.05)
    release = threading.Event()
    done: list[str] = []
    lifecycles = Lifecycles()
    lifecycles.prepare(handler_of(job("quick", destroy=lambda: done.append("quick"))(lambda: None)))
    lifecycles.prepare(handler_of(job("blocks", destroy=lambda: release.wait(10))(lambda: None)))
    lifecycles.close()
    release.set()
    assert done == ["quick"]
    assert "destroy" in caplog.text


def test_a_run_killed_while_it_is_written_down_ends_once(house: House) -> None:
    house.journal.hold = True
    thread, told = in_thread(lambda: house.workers.accept([(request(1), NOOP)]))
    house.journal.wait_for(lambda: len(house.journal.held) == 1)
    assert house.workers.kill(1)
    house.journal.let_go()
    thread.join(10)
    assert told == [[None]]
    assert house.outcome(1).reason == KILLED.reason
    assert not house.workers.queues.has(1)


def test_n40_the_place_of_a_run_that_ignores_its_end_goes_to_other_jobs(house: House) -> None:
    begun, release = threading.Semaphore(0), threading.Event()

    def ignore() -> None:
        begun.release()
        while not release.is_set():
            with contextlib.suppress(JobKilledError):
                release.wait(0.01)

    ignoring = handler_of(job("ignores")(ignore))
    try:
        places = range(1, house.workers.settings.workers + 1)
        assert house.workers.accept([(request(number), ignoring) for number in places]) == [None] * len(places)
        assert all(begun.acquire(timeout=10) for _ in places)
        waits = len(places) + 1
        assert house.workers.accept([(request(waits), NOOP)]) == [None]
        assert key_of(waits) not in house.journal.outcomes
        house.workers.kill(1)
        house.outcome(waits)
        assert house.outcome(1).message.endswith("ignores it and still runs")
        assert house.workers.queues.has(1)
    finally:
        release.set()


def test_r6_kills_and_time_limits_go_on_while_a_log_handler_hangs(house: House) -> None:
    """R6: that a handler ignores its end is logged, which may take as long as the application's handlers like."""
    begun, inside, release = threading.Event(), threading.Event(), threading.Event()

    class Hangs(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            inside.set()
            release.wait(30)

    def ignore() -> None:
        while not release.is_set():
            with contextlib.suppress(JobKilledError):
                begun.set()
                release.wait(0.01)

    def loop() -> None:
        begun.set()
        while not release.is_set():
            threading.Event().wait(0.001)

    hangs = Hangs()
    logger = logging.getLogger("xwheel.executor.running.worker")
    logger.addHandler(hangs)
    try:
        house.workers.accept([(request(1), handler_of(job("ignores")(ignore)))])
        assert begun.wait(10)
        house.workers.kill(1)
        assert house.outcome(1).message.endswith("ignores it and still runs")
        assert inside.wait(10)
        house.workers.accept([(request(2, timeout_s=1), handler_of(job("loops")(loop)))])
        begun.clear()
        house.workers.accept([(request(3), handler_of(job("loops")(loop)))])
        assert begun.wait(10)
        house.workers.kill(3)
        assert house.outcome(3).reason == KILLED.reason
        assert house.outcome(2).reason == "timed_out"
        house.journal.wait_for(lambda: not house.workers.queues.has(2) and not house.workers.queues.has(3))
    finally:
        release.set()
        logger.removeHandler(hangs)
