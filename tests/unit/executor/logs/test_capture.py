"""What runs share when they print and log: no lock, so that ending one of them takes nothing from the others."""

from __future__ import annotations

import io
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xwheel.clock import SystemClock
from xwheel.errors import JobKilledError
from xwheel.executor.handlers import handler_of
from xwheel.executor.logs.capture import CAPTURE
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.execution import Execution
from xwheel.executor.running.interrupts import functions_of
from xwheel.executor.running.runners import Lifecycles, run_in_thread
from xwheel.wire.messages import CallbackItem, RunKey, TriggerRequest

# where a kill strikes a callback of the garbage collector, Python says so and goes on; the next kill is heard
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

ROUNDS = 200
FOREIGN = logging.Logger("tests.foreign")  # without parents: the handlers of pytest have locks too


class Run:
    """A thread handler as the executor calls it, without the rest of the executor."""

    def __init__(self, logs: RunLogs, run_id: int, function: Callable[[], object]) -> None:
        request = TriggerRequest(run_id=run_id, job_id=run_id, created_ms=1)
        self.execution = Execution(request, handler_of(function, "tried"), RunKey(run_id, run_id, 1))
        self.context = self.execution.begin(logs.open(run_id, 1), 0)
        self.outcome: CallbackItem | None = None
        self.thread = threading.Thread(target=self._call, daemon=True)
        self.thread.start()

    def _call(self) -> None:
        self.outcome = run_in_thread(self.execution, self.context, Lifecycles(), SystemClock())

    @property
    def was_killed(self) -> bool:
        return self.outcome is not None and self.outcome.message.startswith("JobKilledError")

    def where(self) -> str:
        """Return the name of the function that the thread is in now."""
        functions = functions_of(self.thread.ident or 0)
        return functions[0].co_name if functions else ""

    def wait_until_in(self, name: str) -> None:
        deadline = time.monotonic() + 30
        while self.where() != name:
            assert time.monotonic() < deadline, self.where()
            time.sleep(0.0002)

    def kill(self) -> None:
        """Inject until it ended; a thread at a lock may take an injection only later."""
        deadline = time.monotonic() + 30
        while self.thread.is_alive():
            assert time.monotonic() < deadline, self.where()
            self.execution.inject(JobKilledError)
            self.thread.join(0.001)


class Runs:
    """Starts runs while standard output and logging are captured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.logs = RunLogs(folder, SystemClock())
        self._started: list[Run] = []
        self._captures = False

    def start(self, function: Callable[[], object]) -> Run:
        """Start one, as the executor would."""
        if not self._captures:  # not in a fixture: pytest puts its own streams in place after those
            self._captures = True
            CAPTURE.install()
            FOREIGN.addHandler(CAPTURE._handler)
        run = Run(self.logs, len(self._started) + 1, function)
        self._started.append(run)
        return run

    def close(self) -> None:
        """End what still runs, as after a failure, so that the tests that follow have their streams for themselves."""
        for run in self._started:
            run.kill()
        if self._captures:
            CAPTURE.remove()
            FOREIGN.removeHandler(CAPTURE._handler)
        self.logs.close()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    runs = Runs(tmp_path)
    yield runs
    runs.close()


class Foreign(logging.StreamHandler[io.StringIO]):
    """The application's own handler, with the lock that ``logging`` gives it."""

    def is_free(self) -> bool:
        """Return whether the lock can be taken."""
        assert self.lock is not None
        if not self.lock.acquire(blocking=False):
            return False
        self.lock.release()
        return True


@pytest.fixture
def foreign() -> Iterator[Foreign]:
    handler = Foreign(io.StringIO())
    FOREIGN.addHandler(handler)
    yield handler
    FOREIGN.removeHandler(handler)


@pytest.fixture
def often() -> Iterator[None]:
    """Let threads have their turns often, so that an exception meets them at many places."""
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(0.00005)
    yield
    sys.setswitchinterval(before_s)


def test_r6_a_run_that_formats_holds_up_no_other(runs: Runs) -> None:
    """R6: the log record of a run may take for ever to be formatted; others log meanwhile."""
    inside, release = threading.Event(), threading.Event()

    class Slow:
        def __str__(self) -> str:
            inside.set()
            release.wait(30)
            return "slow"

    slow = runs.start(lambda: FOREIGN.warning("%s", Slow()))
    assert inside.wait(30)
    quick = runs.start(lambda: FOREIGN.warning("quick"))
    quick.thread.join(10)
    was_held_up = quick.thread.is_alive()
    release.set()
    slow.thread.join(30)
    assert not was_held_up


def test_r6_a_kill_of_a_run_that_waits_for_a_log_handler_leaves_its_lock_free(runs: Runs, foreign: Foreign) -> None:
    """R6: the exception would come between taking the lock and the block that gives it back."""
    leaked = 0
    for _ in range(ROUNDS):
        foreign.acquire()
        try:
            run = runs.start(lambda: FOREIGN.warning("waits"))
            run.wait_until_in("acquire")
            run.execution.inject(JobKilledError)
        finally:
            foreign.release()
        run.kill()
        if not foreign.is_free():
            leaked += 1
            foreign.createLock()
    assert leaked == 0


def test_r6_kills_that_come_at_any_moment_leave_the_lock_free(
    runs: Runs, foreign: Foreign, often: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R6: three runs contend for the handler's lock until each is killed, wherever it is just then."""

    def log_for_ever() -> None:
        while True:
            FOREIGN.warning("again")

    monkeypatch.setattr(foreign, "handleError", lambda _record: None)  # it swallows what strikes inside it
    monkeypatch.setattr(sys, "unraisablehook", lambda _what: None)  # one that strikes inside a weakref's callback
    leaked = killed = 0
    for _ in range(ROUNDS // 10):
        contenders = [runs.start(log_for_ever) for _ in range(3)]
        for run in contenders:
            run.wait_until_in("acquire")
        for run in contenders:
            run.kill()
        killed += sum(run.was_killed for run in contenders)
        if not foreign.is_free():
            leaked += 1
            foreign.createLock()
    assert (leaked, killed) == (0, 3 * (ROUNDS // 10))


def test_r6_kills_of_runs_that_print_leave_their_logs_writable(runs: Runs) -> None:
    """R6: what a run writes goes through its log, whose lock the flushing thread needs as well."""

    begun = threading.Event()

    def print_for_ever() -> None:
        while True:
            print("again")
            begun.set()

    for _ in range(ROUNDS // 10):
        begun.clear()
        run = runs.start(print_for_ever)
        assert begun.wait(30)
        run.kill()
        assert run.was_killed
        run.context.log("after the kill")
        assert run.execution.log is not None
        run.execution.log.close()
        lines = run.execution.log.path.read_text().splitlines()
        assert lines[0] == "again"
        assert lines[-1].endswith("after the kill")


def test_r6_a_condition_that_a_killed_run_waited_to_enter_is_free_again(runs: Runs) -> None:
    """R6: queues, events and semaphores of the standard library are entered by a function of Python's own."""
    condition = threading.Condition()

    def enter() -> None:
        with condition:
            pass

    leaked = 0
    for _ in range(ROUNDS // 10):
        condition = threading.Condition()
        with condition:
            run = runs.start(enter)
            run.wait_until_in("__enter__")
            run.execution.inject(JobKilledError)
        run.kill()
        leaked += not condition.acquire(blocking=False)
    assert leaked == 0


def test_r6_lines_that_find_no_room_do_not_hang_the_run_that_writes_them(
    runs: Runs, caplog: pytest.LogCaptureFixture
) -> None:
    """R6: the warning about a run's log is written while that log's lock is held, and is no line of that log."""

    def print_much() -> None:
        for _ in range(3):
            print("x" * 70_000)

    for day in ("1969-12-31", "1970-01-01"):
        (runs.folder / day).write_text("in the way")
    run = runs.start(print_much)
    run.thread.join(10)
    assert not run.thread.is_alive()
    runs.logs.close()
    assert caplog.text.count("lines are lost") == 1
