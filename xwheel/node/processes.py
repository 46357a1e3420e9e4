"""The cores of one machine: nodes of one database in processes of their own, and a supervisor that watches them.

The supervisor binds both listeners and hands them on, so that no connection is refused while a process ends and another
one starts. It asks no database and does nothing of a node's work.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from io import FileIO
from typing import Final

from xwheel.config import Config
from xwheel.errors import ConfigError
from xwheel.runtime.http_server import bind
from xwheel.storage.database.address import parse, place_of

logger = logging.getLogger(__name__)

BEAT_S: Final = 1.0
FROZEN_MS, SILENT_MS = 20_000, 60_000  # between two beats, and until the first one
DRAIN_MS = 60_000  # how long a process may take to end
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 30_000
CALM_MS: Final = 60_000  # one that lived this long is started again at once, however often others died
ENDING: Final = (signal.SIGTERM, signal.SIGINT)
HEARD: Final = (*ENDING, signal.SIGHUP, signal.SIGCHLD)
BEAT, UP = b".", b"!"
HANDED: Final = "XWHEEL_HANDED"
"""In a process's environment: numbers of its descriptors, and which database the others have."""


class NodeProcess(subprocess.Popen[bytes]):
    """A node that this process started; ``is_up`` once it said that it has started."""

    is_up = is_leaving = False
    # by the supervisor's clock: when it was started, and when it is killed unless it says or does something before
    since_ms = silent_ms = late_ms = 0

    def __init__(self, arguments: Sequence[str], listeners: Sequence[socket.socket], database: str) -> None:
        hears, voice = os.pipe()
        os.set_blocking(hears, False)
        self._hears = FileIO(hears)  # closes itself if nothing is started
        handed = [*(one.fileno() for one in listeners), voice]
        try:
            super().__init__(
                [sys.executable, *arguments],
                stdin=subprocess.DEVNULL,
                pass_fds=handed,
                env={**os.environ, HANDED: ",".join([*map(str, handed), database])},
                start_new_session=True,  # Ctrl-C reaches the supervisor alone
            )
        finally:
            os.close(voice)

    def beats(self) -> bool:
        """Return whether it said since the last question that it lives."""
        said = self._hears.read(1024) or b""
        self.is_up |= UP in said
        return bool(said)

    def forget(self) -> None:
        """Close what is left of a process that has ended."""
        self._hears.close()


class Supervisor:
    """Keeps so many processes running: starts them, again if they die or freeze, and rolls one after the other.

    The first one starts alone: what keeps it from starting ends the whole, with its ``status``. ``start_ms`` is how
    long a process may take to start.
    """

    def __init__(self, count: int, start: Callable[[], NodeProcess], start_ms: int) -> None:
        self.status = 0
        self._count, self._start, self._start_ms = count, start, start_ms
        self._running: list[NodeProcess] = []
        self._old: list[NodeProcess] = []  # to be replaced
        self._was_up = self._is_ending = False
        self._again_ms, self._pause_ms, self._now_ms = 0, FIRST_PAUSE_MS, 0

    def step(self, now_ms: int) -> bool:
        """See to all of them; return whether there is anything left to see to."""
        self._now_ms = now_ms
        for one in list(self._running):
            if one.beats():
                one.silent_ms = now_ms + FROZEN_MS
            self._was_up |= one.is_up
            status = one.poll()
            if status is not None:
                self._note_end(one, status, now_ms)
            elif now_ms > one.silent_ms or (now_ms > one.late_ms and (one.is_leaving or not one.is_up)):
                why = "is frozen" if now_ms > one.silent_ms else "does not end" if one.is_leaving else "does not start"
                logger.warning("process %d %s and is killed", one.pid, why)
                one.send_signal(signal.SIGKILL)
        if not self._is_ending:
            self._let_leave()
            self._fill(now_ms)
        return bool(self._running) or not self._is_ending

    def roll(self) -> None:
        """Replace all processes, one after the other, each once its successor is up."""
        self._old = self._staying()
        logger.info("%d processes are replaced, one after the other", len(self._old))

    def end(self) -> None:
        """Let all processes drain and end."""
        self._is_ending = True
        for one in self._running:
            self._leave(one, signal.SIGTERM)

    def _staying(self) -> list[NodeProcess]:
        return [one for one in self._running if not one.is_leaving]

    def _leave(self, one: NodeProcess, number: int) -> None:
        one.is_leaving, one.late_ms = True, self._now_ms + DRAIN_MS
        one.send_signal(number)

    def _note_end(self, one: NodeProcess, status: int, now_ms: int) -> None:
        self._running.remove(one)
        one.forget()
        is_successor = bool(self._old) and not one.is_up and one not in self._old
        self._old = [other for other in self._old if other is not one]
        if one.is_leaving or not self._was_up:
            logger.info("process %d ended with status %d", one.pid, status)
            self._is_ending |= not self._was_up
            self.status = self.status or (status if self._is_ending else 0)
        elif is_successor:
            logger.error("process %d ended with status %d before it was up: the old ones stay", one.pid, status)
            self._old = []
        else:
            if now_ms >= self._again_ms:  # others that die with it wait no longer
                pause_ms = FIRST_PAUSE_MS if now_ms - one.since_ms > CALM_MS else self._pause_ms
                self._pause_ms, self._again_ms = min(2 * pause_ms, LONGEST_PAUSE_MS), now_ms + pause_ms
            wait_ms = self._again_ms - now_ms
            logger.warning("process %d ended with status %d; another one starts in %d ms", one.pid, status, wait_ms)

    def _let_leave(self) -> None:
        staying = self._staying()
        if self._old and len(staying) > self._count and all(one.is_up for one in staying):
            self._leave(self._old.pop(0), signal.SIGHUP)

    def _fill(self, now_ms: int) -> None:
        staying = len(self._staying())
        # one more while old ones are replaced, but for the time in which one of them drains
        wanted = self._count + (bool(self._old) and staying == len(self._running))
        for _ in range((wanted if self._was_up else 1) - staying if now_ms >= self._again_ms else 0):
            try:
                made = self._start()
            except OSError as error:  # no memory, or no process left
                logger.error("no process can be started: %s; another try in %d ms", error, LONGEST_PAUSE_MS)
                self._again_ms = now_ms + LONGEST_PAUSE_MS
                return
            made.since_ms, made.silent_ms, made.late_ms = now_ms, now_ms + SILENT_MS, now_ms + self._start_ms
            self._running.append(made)


def supervise(count: int, arguments: Sequence[str], load: Callable[[], Config]) -> int:
    """Run nodes until SIGTERM or Ctrl-C, roll them at SIGHUP; return the exit status, and keep these signals blocked.

    ``arguments`` are those of this process's interpreter: each of them runs the same; ``load`` gives the settings.
    Raises ConfigError: a listener cannot be bound, or the database has one node at a time.
    """
    heard = [number for number in HEARD if signal.getsignal(number) is not signal.SIG_IGN]
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else the system keeps no exit status
    with ExitStack() as undo:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, heard)
        undo.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        config = load()
        if config.database.url.startswith("sqlite"):
            raise ConfigError(
                f"--processes {count}: SQLite has one node at a time; use PostgreSQL or MariaDB (database.url), or "
                "leave the option out"
            )
        api = config.api
        listeners = [
            undo.enter_context(bind(api.host, api.port, listens=True)),
            undo.enter_context(bind(api.executor_host, api.executor_port, listens=True)),
        ]
        # it waits for its database that long
        start_ms = 1000 * config.database.wait_s + DRAIN_MS
        supervisor = Supervisor(count, lambda: NodeProcess(arguments, listeners, _place(config)), start_ms)
        while supervisor.step(time.monotonic_ns() // 1_000_000):
            came = signal.sigtimedwait(heard, BEAT_S)
            if came is not None and came.si_signo in ENDING:
                logger.info("%s: %d processes drain and end", signal.Signals(came.si_signo).name, count)
                supervisor.end()
            elif came is not None and came.si_signo == signal.SIGHUP:
                supervisor.roll()
        undo.pop_all()
    return supervisor.status


def _place(config: Config) -> str:
    url = parse(config.database.url)
    return f"{url.get_backend_name()}://{place_of(url)}/{url.database}"


class Inherited:
    """What the supervisor handed to this process: both listeners, and the pipe that says that it lives.

    Raises ConfigError: the settings name another database now than when the supervisor started.
    """

    def __init__(self, handed: str, config: Config) -> None:
        *numbers, place = handed.split(",", 3)
        *listeners, self._voice = map(int, numbers)
        for number in (*listeners, self._voice):
            os.set_inheritable(number, False)
        self.listeners = [socket.socket(fileno=number) for number in listeners]
        threading.Thread(target=self._beat, name="xwheel-beat", daemon=True).start()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        if place != _place(config):
            raise ConfigError(
                "database.url names another database than the other processes have: start the command again"
            )

    def say_up(self) -> None:
        """Say that the node has started."""
        with suppress(OSError):  # without a supervisor it ends anyway
            os.write(self._voice, UP)

    def _beat(self) -> None:
        try:
            while True:
                os.write(self._voice, BEAT)
                time.sleep(BEAT_S)
        except OSError:
            logger.error("the supervisor is gone: draining, then ending")
            os.kill(os.getpid(), signal.SIGTERM)
