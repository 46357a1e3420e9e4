"""A process that gets a signal to end does so, at any time and however often."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from xwheel.runtime.signals import EACH_S, StopSignals

HEARS = """
import os
from xwheel.runtime.signals import StopSignals

with StopSignals() as signals:
    signals.be_up()
    print("up", flush=True)
    for _ in range(2000):
        signals.wait()
    os._exit(0)
"""


@pytest.mark.processes
def test_signals_may_interrupt_each_other() -> None:
    """With a lock in the handler, one of so many would sooner or later wait for the one that it interrupted."""
    process = subprocess.Popen([sys.executable, "-c", HEARS], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        deadline = time.monotonic() + 100
        while process.poll() is None and time.monotonic() < deadline:
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            time.sleep(0.0001)  # not faster than a handler ends
        assert process.poll() == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


STOPPED = """
import threading
from xwheel.runtime.signals import StopSignals

for _ in range(20):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
with StopSignals() as signals:
    signals.be_up()
    print("up", flush=True)
    {wait}
"""


@pytest.mark.processes
@pytest.mark.parametrize("wait", ["signals.wait()", "signals.heard(100_000)"])
def test_a_signal_that_comes_while_the_process_is_stopped(wait: str) -> None:
    """As it goes on, any of its threads may get the signal."""
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", STOPPED.format(wait=wait)], stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
                process.send_signal(number)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_what_is_not_up_yet_ends_at_once(number: signal.Signals) -> None:
    def be_told() -> None:
        os.kill(os.getpid(), number)
        threading.Event().wait(60)

    with StopSignals(), pytest.raises(SystemExit) as ended:
        be_told()
    assert ended.value.code == 0


def test_what_a_signal_interrupts_does_not_count_as_a_failure() -> None:
    """A plugin that is being loaded, say: whatever it raises then, the start was to end."""

    def load() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(60)
        except BaseException as error:
            raise ValueError("the plugin fails") from error

    with pytest.raises(SystemExit) as ended, StopSignals():
        load()
    assert ended.value.code == 0
    with pytest.raises(ValueError, match="by itself"), StopSignals():
        raise ValueError("by itself")


def test_what_is_up_hears_of_it() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        assert not signals.be_up()
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGTERM)
        signals.wait()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_is_heard_of_again_and_again() -> None:
    with StopSignals() as signals:
        signals.be_up()
        assert not signals.heard(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        assert [signals.heard(60) for _ in range(3)] == [True] * 3


def test_r14_a_signal_that_is_heard_of_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """R14: a node hears of its end through ``heard``, which said nothing."""
    caplog.set_level("INFO", "xwheel.runtime.signals")
    with StopSignals() as signals:
        signals.be_up()
        os.kill(os.getpid(), signal.SIGHUP)
        assert [signals.heard(60) for _ in range(2)] == [True] * 2
    assert signals.number == signal.SIGHUP
    assert caplog.messages == ["SIGHUP: draining, then ending"]


@pytest.mark.processes
def test_a_process_that_ends_stays_deaf() -> None:
    code = (
        "import os, signal; from xwheel.runtime.signals import StopSignals\n"
        "with StopSignals(for_good=True) as signals:\n"
        "    signals.be_up(); os.kill(os.getpid(), signal.SIGTERM); signals.wait()\n"
        "os.kill(os.getpid(), signal.SIGTERM); os.kill(os.getpid(), signal.SIGINT); print('ended')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=100, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"ended\n", b"")


def test_a_signal_that_was_swallowed_is_not_forgotten() -> None:
    with StopSignals() as signals:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(60)
        except SystemExit:
            pass
        assert signals.be_up()


DRAINS = """
import signal, sys
from xwheel.runtime.signals import StopSignals

if "nohup" in sys.argv:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
with StopSignals(for_good=True) as signals:
    signals.be_up()
    print("up", flush=True)
    signals.wait()
    print("drained", signals.number, flush=True)
"""


@pytest.mark.parametrize(("mode", "told"), [("plain", [signal.SIGHUP]), ("nohup", [signal.SIGHUP, signal.SIGTERM])])
@pytest.mark.processes
def test_r14_a_hang_up_drains_unless_it_is_ignored(mode: str, told: list[signal.Signals]) -> None:
    """R14: it ended the process at once; under ``nohup`` it goes on to mean nothing."""
    process = subprocess.Popen([sys.executable, "-c", DRAINS, mode], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        for number in told:
            process.send_signal(number)
        assert process.stdout.readline() == f"drained {told[-1]:d}\n"
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_process_that_waits_gives_back_what_it_needs_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    naps: list[float] = []
    monkeypatch.setattr(StopSignals, "_sleep", lambda _, timeout_s: naps.append(timeout_s))
    calls = 0

    def give_back() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with StopSignals() as signals:
        signals.be_up()
        signals.wait(give_back)
    assert calls == 3
    assert set(naps) == {EACH_S}


TOLD_AT_ONCE = """
import os, signal
# of what runs in a copy at its begin, this comes before what xwheel does
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from xwheel.runtime.signals import StopSignals

with StopSignals() as signals:
    signals.be_up()
    copy = os.fork()
    if copy == 0:
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), signals.heard(0))
"""


@pytest.mark.processes
def test_r37_a_copy_that_is_told_to_end_before_it_has_begun_ends() -> None:
    done = subprocess.run([sys.executable, "-c", TOLD_AT_ONCE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "-15 False\n"
