"""What handlers do to the process that they share: each run gets its outcome, and other runs go on."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NoReturn

import pytest

from tests.unit.executor.running.test_worker import House, request
from xwheel.clock import SystemClock
from xwheel.executor import job
from xwheel.executor.handlers import handler_of
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.execution import Execution, describe_error, message_of, traceback_of
from xwheel.executor.running.runners import AsyncRunner, Lifecycles
from xwheel.runtime.signals import StopSignals
from xwheel.wire.messages import CallbackItem

LONG_S = 60


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    began = time.monotonic()
    house.workers.close()
    assert time.monotonic() - began < 5, "what a handler did holds up the end"
    house.logs.close()


def run(house: House, run_id: int, function: Callable[..., object]) -> tuple[int, str]:
    """Run a handler to its end; return code and message."""
    house.workers.accept([(request(run_id), handler_of(function, ""))])
    outcome = house.outcome(run_id)
    return outcome.code, outcome.message


async def leave(error: BaseException) -> NoReturn:
    raise error


async def by_gather(error: BaseException) -> None:
    await asyncio.gather(leave(error))


async def by_task(error: BaseException) -> None:
    task = asyncio.create_task(leave(error))
    await asyncio.sleep(LONG_S)
    await task


async def by_group(error: BaseException) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(leave(error))


async def by_wait_for(error: BaseException) -> None:
    await asyncio.wait_for(leave(error), LONG_S)


async def by_shield(error: BaseException) -> None:
    await asyncio.shield(leave(error))


def throw(error: BaseException) -> NoReturn:
    raise error


async def by_callback(error: BaseException) -> None:
    asyncio.get_running_loop().call_soon(throw, error)
    await asyncio.sleep(LONG_S)


async def by_timer(error: BaseException) -> None:
    asyncio.get_running_loop().call_later(0.001, throw, error)
    await asyncio.sleep(LONG_S)


async def by_done(error: BaseException) -> None:
    asyncio.create_task(asyncio.sleep(0)).add_done_callback(lambda _: throw(error))
    await asyncio.sleep(LONG_S)


async def and_swallow(error: BaseException) -> None:
    try:
        await asyncio.gather(leave(error))
    except BaseException:
        await asyncio.sleep(0)


WAYS = [leave, by_gather, by_task, by_group, by_wait_for, by_shield, by_callback, by_timer, by_done, and_swallow]
EXITS = {
    "exit": (lambda: SystemExit(3), "SystemExit: the handler called sys.exit(3)"),
    "interrupt": (KeyboardInterrupt, "KeyboardInterrupt"),
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", EXITS)
def test_r35_an_exit_on_the_event_loop_fails_its_own_run(
    house: House, way: Callable[[BaseException], Coroutine[Any, Any, object]], kind: str
) -> None:
    make, message = EXITS[kind]
    release = threading.Event()
    others: list[str] = []

    @job("other")
    async def other() -> str:
        others.append("began")
        while not release.is_set():
            await asyncio.sleep(0.001)
        return "as ever"

    @job("hostile")
    async def hostile() -> None:
        while not others:
            await asyncio.sleep(0.001)
        await way(make())

    house.workers.accept([(request(1), handler_of(other, ""))])
    assert run(house, 2, hostile) == (500, message)
    release.set()
    assert house.outcome(1).message == "as ever"
    assert run(house, 3, other) == (200, "as ever")


def test_r35_a_loop_that_is_stopped_goes_on(house: House) -> None:
    @job("stops")
    async def stops() -> str:
        for _ in range(3):
            asyncio.get_running_loop().stop()
            await asyncio.sleep(0.001)
        return "still here"

    assert run(house, 1, stops) == (200, "still here")


class Loop:
    """The event loop of handlers; what is begun while it is held comes to it in one round."""

    def __init__(self, logs: RunLogs, then: Callable[[], object] = lambda: None) -> None:
        self._logs = logs
        self.runner = AsyncRunner(Lifecycles(), SystemClock())
        self.outcomes: SimpleQueue[CallbackItem] = SimpleQueue()
        self.released = threading.Event()
        begun = threading.Event()

        @job("holds")
        async def holds() -> str:
            begun.set()
            self.released.wait(LONG_S)
            await asyncio.sleep(0)  # until those behind it are tasks, of which none has begun
            then()
            return "held"

        self.start(1, holds)
        assert begun.wait(LONG_S)

    def start(self, run_id: int, function: Callable[..., object]) -> Execution:
        asked = request(run_id)
        execution = Execution(asked, handler_of(function, ""), asked.key)
        context = execution.begin(self._logs.open(run_id, 1, 1, lambda: ""), 1)
        self.runner.start(execution, context, lambda _, outcome: self.outcomes.put(outcome))
        return execution

    def ends(self, count: int) -> dict[int, str]:
        """Release the loop, and return what becomes of so many runs."""
        self.released.set()
        found = [self.outcomes.get(timeout=LONG_S) for _ in range(count)]
        self.runner.close()
        assert self.outcomes.empty(), "a run has two outcomes"
        return {item.run_id: item.message for item in found}


@job("never")
async def never_begins() -> None:
    raise AssertionError("it was cancelled before")


def test_r35_a_run_that_is_cancelled_before_its_first_step_ends(house: House) -> None:
    loop = Loop(house.logs)
    loop.runner.cancel(loop.start(2, never_begins))
    assert loop.ends(2) == {1: "held", 2: "CancelledError"}


def test_r35_a_handler_that_cancels_all_tasks_leaves_no_run_open(house: House) -> None:
    def cancel_others() -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    loop = Loop(house.logs, cancel_others)
    loop.start(2, never_begins)
    assert loop.ends(2) == {1: "held", 2: "CancelledError"}


def test_r35_a_task_factory_makes_no_task_of_a_run(house: House) -> None:
    @job("sets")
    async def sets() -> str:
        asyncio.get_running_loop().set_task_factory(lambda *_, **__: throw(SystemExit(1)))
        return "set"

    assert run(house, 1, sets) == (200, "set")
    assert run(house, 2, sets) == (200, "set")


def test_r35_a_loop_that_is_closed_is_replaced(house: House) -> None:
    inits: list[object] = []

    async def init() -> None:
        inits.append(asyncio.get_running_loop())

    @job("waits", init=init)
    async def waits() -> None:
        await asyncio.sleep(0 if len(inits) > 1 else LONG_S)

    @job("closes")
    async def closes() -> None:
        loop = asyncio.get_running_loop()
        while not inits:
            await asyncio.sleep(0.001)
        loop.run_forever = loop.close  # type: ignore[method-assign]
        loop.stop()
        await asyncio.sleep(LONG_S)

    house.workers.accept([(request(1), handler_of(waits, ""))])
    lost = (500, "ExecutorError: a handler closed the event loop")
    assert run(house, 2, closes) == lost
    assert (house.outcome(1).code, house.outcome(1).message) == lost
    assert run(house, 3, waits) == (200, "")
    assert len(set(map(id, inits))) == 2


class NoTextError(Exception):
    def __str__(self) -> str:
        raise SystemExit(1)


class Sly(str):
    """Text with methods of the handler's own."""

    def _fail(self, *_: object) -> NoReturn:
        raise SystemExit(1)

    __len__ = __format__ = __str__ = __repr__ = encode = isascii = _fail  # type: ignore[assignment]


class SlyTextError(Exception):
    def __str__(self) -> str:
        return Sly("quiet")


class Meta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise SystemExit(1)


class NoNameError(Exception, metaclass=Meta):
    pass


class NoClassError(Exception):
    @property
    def __class__(self) -> type:  # type: ignore[override]
        raise SystemExit(1)


ODD = {
    "a syntax error of bytes": (
        lambda: SyntaxError("bad", ("page.html", 3, 1, b"text")),
        "SyntaxError: bad (page.html",
    ),
    "no text": (NoTextError, "NoTextError (its text cannot be shown)"),
    "text of a subclass": (SlyTextError, "SlyTextError: quiet"),
    "no name": (lambda: NoNameError("x"), "something: x"),
    "no class": (lambda: NoClassError("x"), "NoClassError: x"),
    "half a surrogate pair": (lambda: ValueError("a\ud800b"), "ValueError: a?b"),
    "a group": (lambda: ExceptionGroup("g", [NoTextError()]), "ExceptionGroup: g (1 sub-exception)"),
}


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
def test_r36_an_error_that_cannot_be_shown_fails_its_run(house: House, kind: str, is_async: bool) -> None:
    make, message = ODD[kind]

    @job("thread")
    def on_thread() -> None:
        raise make()

    @job("async")
    async def on_loop() -> None:
        raise make()

    code, said = run(house, 1, on_loop if is_async else on_thread)
    assert (code, said.startswith(message)) == (500, True), said
    assert run(house, 2, on_thread)[0] == 500


@pytest.mark.parametrize("kind", ODD)
def test_r36_what_can_be_said_of_an_error_is_plain_text(kind: str) -> None:
    make, message = ODD[kind]
    try:
        raise make()
    except BaseException as error:
        lines, line = traceback_of(error), describe_error(error)
    assert (type(lines), type(line)) == (str, str)
    assert __file__ in lines
    assert line.startswith(message.replace("?", "\ud800"))


RESULTS: dict[str, Callable[[], object]] = {
    "text of a subclass": lambda: Sly("quiet"),
    "a list of it": lambda: [Sly("quiet")],
    "no text": NoTextError,
    "no name": NoNameError,
    "no class": NoClassError,
}


@pytest.mark.parametrize("kind", RESULTS)
def test_r36_a_result_is_plain_text(kind: str) -> None:
    assert type(message_of(RESULTS[kind]())) is str


def end_of_copy(status: int) -> int:
    """Return what became of the copy that a handler forked: its exit status, or a signal below 0."""
    return os.waitstatus_to_exitcode(status)


@pytest.mark.parametrize("how", ["returns", "raises", "exits"])
@pytest.mark.parametrize("is_async", [False, True], ids=["thread", "async"])
def test_r37_a_copy_that_comes_back_has_no_part_in_the_run(house: House, how: str, is_async: bool) -> None:
    def fork() -> str:
        pid = os.fork()
        if pid == 0:
            sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115
            if how == "raises":
                raise ValueError(how)
            if how == "exits":
                sys.exit(7)
            return "from the copy"
        return str(end_of_copy(os.waitpid(pid, 0)[1]))

    @job("thread")
    def on_thread() -> str:
        return fork()

    @job("async")
    async def on_loop() -> str:
        return fork()

    status = {"returns": "0", "raises": "1", "exits": "7"}[how]
    assert run(house, 1, on_loop if is_async else on_thread) == (200, status)
    assert run(house, 2, on_thread) == (200, status)


def test_r37_a_copy_that_comes_back_to_the_event_loop_ends(house: House) -> None:
    @job("waits")
    async def waits() -> str:
        never = asyncio.get_running_loop().create_future()
        pid = os.fork()
        if pid == 0:
            house.workers.disown()  # as the executor does in each copy
            await never
        return str(end_of_copy(os.waitpid(pid, 0)[1]))

    assert run(house, 1, waits) == (200, "0")


def sleep_up(up: Connection) -> None:
    up.send_bytes(b"up")
    time.sleep(LONG_S)


@pytest.mark.parametrize(
    ("number", "at_once"),
    # Python loses a SIGINT that comes to a copy while functions of os.register_at_fork run there
    [(signal.SIGTERM, True), (signal.SIGTERM, False), (signal.SIGINT, False)],
)
def test_r37_what_a_handler_forks_ends_when_it_is_told_to(number: int, at_once: bool) -> None:
    forks = multiprocessing.get_context("fork")
    here, there = forks.Pipe()
    process = forks.Process(target=sleep_up, args=(there,))
    with StopSignals() as signals:
        signals.be_up()
        process.start()
        assert at_once or here.poll(LONG_S)
        os.kill(process.pid or 0, number)
        process.join(LONG_S / 2)
        assert not signals.heard(0)
    assert process.exitcode is not None
    process.close()
