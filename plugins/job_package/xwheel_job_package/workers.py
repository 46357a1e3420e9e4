"""Processes that run the jobs of packages: one run at a time each, kept for the next run of the same package."""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from xwheel.plugin import ExecutorError

from xwheel_job_package import runner
from xwheel_job_package.contents import PackageContents, PackageJob
from xwheel_job_package.environments import Environment
from xwheel_job_package.failures import Cancel, Write, permanent, transient
from xwheel_job_package.node_options import NodeOptions

CHUNK: Final = 64 * 1024
HEAD: Final = 4
MAX_ANSWER: Final = 1024 * 1024
FORCED_ROUND: Final = 3
"""Round of a kill from which the supervisor is not trusted any more, and its group is killed from here."""

DRAINED: Final = 64
"""Chunks read after the answer; a pipe holds less, so more would come from a process that escaped."""

FAREWELL_MS: Final = 2000
"""What an idle process gets to end by itself."""

REAP_S: Final = 0.005
WAIT_S: Final = 60.0
"""How long a run waits for a process while all of them are busy."""


class Worker:
    """One process and the one that supervises it.

    One thread at a time starts it and gives it runs; any other may end it.

    Args:
        environment: Whose Python it is; released with the process.
        folder: Its working directory, made here and deleted with it.
        options: The node's options.
        variables: Its environment.
        sdk: The folder with the author's module, for packages that do not bring it.
        supervisor: The file that makes it two processes, see :class:`~xwheel.plugin.HostSetup`.
        program: What it runs, where the account can read it.
        account: Ids of the user and the group that it runs as; None for the executor's own.
        cpu_s: Seconds of a processor that it may use; None for any number.
    """

    def __init__(
        self,
        environment: Environment,
        folder: Path,
        options: NodeOptions,
        variables: Mapping[str, str],
        sdk: Path,
        supervisor: Path,
        *,
        program: Path = Path(runner.__file__),
        account: tuple[int, int] | None = None,
        cpu_s: int | None = None,
    ) -> None:
        self.key = environment.key
        self.idle_since_ms = 0
        self.is_started = False
        self._environment = environment
        self._folder = folder
        self._options = options
        self._variables = variables
        self._sdk = sdk
        self._supervisor = supervisor
        self._program = program
        self._account = account
        self._limits = options.limits.model_dump(exclude_none=True) | ({} if cpu_s is None else {"cpu_s": cpu_s})
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._waiting = b""
        self._rounds = -1
        self._is_gone = False

    @property
    def is_alive(self) -> bool:
        """Whether it can take a run: it was not asked to end, and did not end."""
        with self._lock:
            return self._rounds < 0 and self._child is not None and not _has_ended(self._child)

    @property
    def pid(self) -> int:
        """Process id of its supervisor, which leads session and group; 0 if there is none."""
        return self._child.pid if self._child is not None else 0

    @property
    def contents(self) -> PackageContents:
        """What can be run in its environment."""
        return self._environment.contents

    def order(self, job: PackageJob) -> Mapping[str, object]:
        """Return how the process is told which job it shall run."""
        return job.order(str(self._environment.site))

    def start(self) -> None:
        """Start the process, and see that it understands us.

        Raises:
            PackageRunError: ``worker_failed``, ``sdk_mismatch``, or ``killed``.
        """
        self._spawn()
        order = {
            "limits": self._limits,
            "sdk": str(self._sdk),
            "factory": self.contents.factory,
            "fallback": self._options.bean_fallback,
        }
        said: list[str] = []
        answer = self._ask(order, said.append, self._options.start_timeout_s)
        if answer is None:
            if self._rounds >= 0:
                raise transient("killed", "the run was asked to end")
            last = " / ".join([line.strip() for line in "".join(said).splitlines() if line.strip()][-3:])
            raise transient("worker_failed", f"its process {self.end_in_words()}{last and f': {last}'}")
        if answer.get("protocol") != runner.PROTOCOL:
            self.kill()
            raise permanent(
                "sdk_mismatch",
                f"{answer.get('file')} speaks protocol {answer.get('protocol')}, this node {runner.PROTOCOL}: build "
                "the package without its own copy of xwheel_package, or with one of this xwheel",
            )
        self.is_started = True

    def run(
        self, order: Mapping[str, Any], write: Write, limit_s: float | None = None
    ) -> tuple[Mapping[str, Any], bool]:
        """Run a job; return the answer, and whether the process may take another run.

        Args:
            order: What it shall do.
            write: Takes what it prints.
            limit_s: Seconds after which the process is killed; None for the run's own limit, whose end kills it.

        Raises:
            ExecutorError: The process ended without an answer.
        """
        answer = self._ask(order, write, limit_s)
        if answer is None:
            raise ExecutorError(f"the job's process {self.end_in_words()} and without a result")
        return answer, bool(answer.get("keep"))

    def end(self, round_number: int) -> None:
        """Ask its run to end, each round harder."""
        with self._lock:
            self._rounds = max(self._rounds, round_number)
            child = self._child
            if child is None or self._is_gone:
                return
            if round_number == 0:
                _signal_group(child.pid, signal.SIGTERM)
            elif round_number < FORCED_ROUND and child.stdin is not None:
                with contextlib.suppress(OSError, ValueError):
                    os.write(child.stdin.fileno(), b"k")
            else:
                _signal_group(child.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End it and all it started, now."""
        self.end(1)

    def retire(self) -> None:
        """Let it end by itself: there is no further run."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def reap(self) -> bool:
        """Return whether it has ended, and let everything go then."""
        with self._lock:
            if self._is_gone:
                return True
            if self._child is not None:
                if not _has_ended(self._child):
                    return False
                # the zombie keeps its number, so the group cannot be another one
                _signal_group(self._child.pid, signal.SIGKILL)
                self._child.wait()
                for stream in (self._child.stdin, self._child.stdout, self._socket):
                    if stream is not None:
                        stream.close()
            self._is_gone = True
        shutil.rmtree(self._folder, ignore_errors=True)
        self._environment.release()
        return True

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            if self._rounds >= 0:
                ours.close()
                raise transient("killed", "the run was asked to end")
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                user, group = self._account or (None, None)
                if user is not None and group is not None:
                    os.chown(self._folder, user, group)
                self._child = subprocess.Popen(  # noqa: S603 -- the environment's Python and a file of ours
                    [
                        str(self._environment.python),
                        "-I",
                        str(self._program),
                        str(theirs.fileno()),
                        str(self._supervisor),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                    bufsize=0,
                    user=user,
                    group=group,
                    extra_groups=None if user is None else [],
                    cwd=self._folder,
                    env={**self._variables, "TMPDIR": str(self._folder)},
                )
            except OSError as error:
                ours.close()
                raise transient("worker_failed", f"its process does not start: {error}") from None
            self._socket = ours

    def _ask(self, message: Mapping[str, Any], write: Write, limit_s: float | None) -> dict[str, Any] | None:
        """Send a message and wait for its answer, while what is printed goes to the log.

        Returns:
            None if the process ended or broke the rules; it is gone then.
        """
        assert self._child is not None  # noqa: S101 -- it was started
        assert self._child.stdout is not None  # noqa: S101
        assert self._socket is not None  # noqa: S101
        output = self._child.stdout.fileno()
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        watch = _Watch(self._child.pid, self._socket, output)
        end_s = None if limit_s is None else time.monotonic() + limit_s
        data = json.dumps(message).encode()
        try:
            self._socket.settimeout(WAIT_S)
            with contextlib.suppress(OSError):  # it ended already, which the watch sees
                self._socket.sendall(struct.pack(">I", len(data)) + data)
            self._socket.setblocking(False)
            while True:
                ready = watch.wait(end_s)
                if ready is None:
                    self.kill()
                    end_s = None
                    continue
                if output in ready:
                    write(decoder.decode(_read(output)))
                answer = self._receive(ready)
                if answer is not None or watch.child in ready:
                    _drain(output, decoder, write)
                    return answer
        finally:
            watch.close()

    def _receive(self, ready: set[int]) -> dict[str, Any] | None:
        """Take what came through the socket; return a message if it is whole."""
        assert self._socket is not None  # noqa: S101
        if self._socket.fileno() not in ready:
            return None
        with contextlib.suppress(OSError):
            while len(self._waiting) < HEAD + MAX_ANSWER and (data := self._socket.recv(CHUNK)):
                self._waiting += data
        if len(self._waiting) < HEAD:
            return None
        size = struct.unpack(">I", self._waiting[:HEAD])[0]
        if size > MAX_ANSWER:
            self.kill()
            self._waiting = b""
            return None
        if len(self._waiting) < HEAD + size:
            return None
        body, self._waiting = self._waiting[HEAD : HEAD + size], self._waiting[HEAD + size :]
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            self.kill()
            return None
        return found

    def end_in_words(self) -> str:
        """Return how a process that has ended did so, and is not reaped yet, as in "ended with exit status 1"."""
        assert self._child is not None  # noqa: S101
        found = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOWAIT)
        if found is None or found.si_code == os.CLD_EXITED:
            return f"ended with exit status {found.si_status if found else '?'}"
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(found.si_status).name}"
        return f"was ended by signal {found.si_status}"


class _Watch:
    """Waits for a process, its socket and its output at once."""

    def __init__(self, pid: int, channel: socket.socket, output: int) -> None:
        self.child = os.pidfd_open(pid)
        self._poll = select.poll()
        for descriptor in (self.child, channel.fileno(), output):
            self._poll.register(descriptor, select.POLLIN)
        self._quiet = (channel.fileno(), output)

    def wait(self, end_s: float | None) -> set[int] | None:
        """Return the descriptors that have something; None once the time is over."""
        left_ms = None if end_s is None else max(0, int((end_s - time.monotonic()) * 1000))
        events = self._poll.poll(left_ms)
        if not events:
            return None
        for descriptor, what in events:
            # its other end is closed: it would be ready again and again until the process has ended
            if descriptor in self._quiet and not what & select.POLLIN:
                self._poll.unregister(descriptor)
        return {descriptor for descriptor, _ in events}

    def close(self) -> None:
        os.close(self.child)


class WorkerPool:
    """The processes of a node.

    Thread-safety: any thread. One lock; nothing waits while it is held.

    Args:
        make: Makes a process that is not started yet.
        most: How many there may be.
        idle_ms: How long one waits for its next run.
        clock: Milliseconds that only rise.
    """

    def __init__(
        self, make: Callable[[Environment], Worker], most: int, idle_ms: int, clock: Callable[[], int]
    ) -> None:
        self._make = make
        self._most = most
        self._idle_ms = idle_ms
        self._clock = clock
        self._changed = threading.Condition()
        self._idle: list[Worker] = []
        self._busy: set[Worker] = set()
        self._leaving: list[tuple[int, Worker]] = []
        self._is_closed = False

    @property
    def idle(self) -> list[Worker]:
        """Those that wait for a run, the one that waits for longest first."""
        with self._changed:
            return list(self._idle)

    @property
    def leaving(self) -> int:
        """How many are about to end."""
        with self._changed:
            return len(self._leaving)

    @property
    def has_room(self) -> bool:
        """Whether there can be one more, and none has to end for it."""
        with self._changed:
            return len(self._busy) + len(self._idle) < self._most and not self._is_closed

    def find(self, key: str) -> Worker | None:
        """Take a process that waits for a run of this environment; None if there is none."""
        with self._changed:
            for index in reversed(range(len(self._idle))):
                if self._idle[index].key != key:
                    continue
                worker = self._idle.pop(index)
                if worker.is_alive:
                    self._busy.add(worker)
                    return worker
                self._let_go(worker)
        return None

    def add(self, environment: Environment, cancel: Cancel) -> Worker:
        """Return a new process, not started yet; of those that wait, one ends if there would be too many.

        Raises:
            PackageRunError: ``no_worker``: all are busy and stay so; or ``killed``.
        """
        with self._changed:
            end_s = time.monotonic() + WAIT_S
            while len(self._busy) + len(self._idle) >= self._most and not self._idle:
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    raise transient("no_worker", f"all {self._most} processes are busy (option max_workers)")
                cancel.check()
                self._changed.wait(min(left_s, 0.1))
            if len(self._busy) + len(self._idle) >= self._most:
                self._let_go(self._idle.pop(0))
            if self._is_closed:
                raise transient("no_worker", "the executor is stopping")
            worker = self._make(environment)
            self._busy.add(worker)
            return worker

    def give_back(self, worker: Worker, *, keep: bool) -> None:
        """Take a process back after its run."""
        with self._changed:
            self._busy.discard(worker)
            if keep and self._idle_ms > 0 and worker.is_alive and not self._is_closed:
                worker.idle_since_ms = self._clock()
                self._idle.append(worker)
            else:
                self._let_go(worker)
            self._changed.notify()
        self._reap(self._clock())

    def step(self, now_ms: int) -> None:
        """End those that wait for long, and see off those that end."""
        with self._changed:
            while self._idle and self._idle[0].idle_since_ms <= now_ms - self._idle_ms:
                self._let_go(self._idle.pop(0))
        self._reap(now_ms)

    def close(self) -> None:
        """End all of them; those that wait are gone when this returns, others when their runs see it."""
        with self._changed:
            self._is_closed = True
            for worker in self._busy:
                worker.kill()
            leaving = [*self._idle, *(worker for _, worker in self._leaving)]
            self._idle, self._leaving = [], []
        for worker in leaving:
            worker.kill()
        end_s = time.monotonic() + FAREWELL_MS / 1000
        while leaving := [worker for worker in leaving if not worker.reap()]:
            if time.monotonic() > end_s:
                for worker in leaving:
                    worker.end(FORCED_ROUND)
                end_s += FAREWELL_MS
            time.sleep(REAP_S)

    def _let_go(self, worker: Worker) -> None:
        worker.retire()
        self._leaving.append((self._clock() + FAREWELL_MS, worker))

    def _reap(self, now_ms: int) -> None:
        with self._changed:
            leaving, self._leaving = self._leaving, []
        left = []
        for end_ms, worker in leaving:
            if worker.reap():
                continue
            if now_ms >= end_ms:
                worker.end(1 if now_ms < end_ms + FAREWELL_MS else FORCED_ROUND)
            left.append((end_ms, worker))
        with self._changed:
            self._leaving += left


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Return whether a process has ended; it is not reaped by that."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _read(descriptor: int) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return os.read(descriptor, CHUNK)
    return b""


def _drain(descriptor: int, decoder: codecs.IncrementalDecoder, write: Write) -> None:
    """Read what is left in a pipe: all of it was written before the answer was."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    for _ in range(DRAINED):
        if not any(what & select.POLLIN for _, what in poll.poll(0)) or not (data := _read(descriptor)):
            break
        write(decoder.decode(data))
    if rest := decoder.decode(b"", True):
        write(rest)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
