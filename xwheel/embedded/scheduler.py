"""The embedded scheduler as applications see it: jobs, start and stop, runs by hand."""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import sys
import threading
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from xwheel.embedded.declarations import declare
from xwheel.embedded.folder import HOST, Folder
from xwheel.errors import ConfigError, LockError, NotFoundError, StartEndedError, WireError, XwheelError
from xwheel.executor.declarations import Declaration
from xwheel.extras import extra

if TYPE_CHECKING:
    from xwheel.embedded.leader import Leader

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., object])

FOLDER: Final = "xwheel-embedded"
CONTEND_S: Final = 0.5
TRIES: Final = 3
RETRY_S: Final = 5.0
START_S: Final = 60.0
STOP_S: Final = 60.0
CALL_S: Final = 20.0
WAIT_S: Final = 60.0
POLL_S: Final = 0.05
HANDLER_PROCESS: Final = "xwheel.executor.running.child"  # the module that only processes of handlers load


def say(text: str) -> None:
    """Write a line to standard error."""
    print(f"xwheel: {text}", file=sys.stderr, flush=True)  # noqa: T201 - whatever the application does with its log


class EmbeddedScheduler:
    """A scheduler inside the application: jobs are functions, rows are in an SQLite file.

    Of all processes that start one on the same folder, one leads and runs the jobs; the others stand by, may trigger
    runs, and one of them takes over when the leader ends, however it ends.

    Thread-safety: every method may be called by any thread.

    Args:
        folder: Where database, journal, run logs and tokens are kept; made for this user alone.
        settings: Single settings by section, such as ``{"executor": {"workers": 8}}``; the environment is not read.
        announce: Told in a line whether this process leads, and where; None for nothing.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = FOLDER,
        *,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        announce: Callable[[str], None] | None = say,
    ) -> None:
        self._folder = Folder(Path(folder))
        self._settings = dict(settings or {})
        self._announce = announce or (lambda _: None)
        self._declarations: dict[str, Declaration] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._reset()
        _INSTANCES.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._settled = threading.Event()
        self._leader: Leader | None = None
        self._error: Exception | None = None
        self._ended_well = True

    @property
    def leads(self) -> bool:
        """Whether this process runs the jobs."""
        return self._leader is not None

    @property
    def url(self) -> str:
        """Where the leader's management API listens; empty before the first start on this folder."""
        port = self._folder.read_state().api_port
        return f"http://{HOST}:{port}" if port else ""

    @property
    def token_file(self) -> Path:
        """The file with the token of the management API, for this user alone."""
        return self._folder.token_file

    def job(
        self,
        name: str | None = None,
        *,
        cron: str | None = None,
        every: float | str | timedelta | None = None,
        delay: float | str | timedelta | None = None,
        at: datetime | str | None = None,
        handler: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> Callable[[F], F]:
        """Declare a function as a job; the function stays what it was. Takes the arguments of :meth:`add`."""

        def mark(function: F) -> F:
            self.add(function, name, cron=cron, every=every, delay=delay, at=at, handler=handler, **fields)
            return function

        return mark

    def add(
        self,
        function: Callable[..., object],
        name: str | None = None,
        *,
        cron: str | None = None,
        every: float | str | timedelta | None = None,
        delay: float | str | timedelta | None = None,
        at: datetime | str | None = None,
        handler: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Declare a job, before the start.

        Without a schedule it runs by hand only.

        Args:
            function: A plain or an ``async def`` function, of no argument or of the
                :class:`~xwheel.executor.JobContext`.
            name: The job's name; None takes the function's.
            cron: Five fields as in crontab, or six or seven as in Quartz.
            every: A fixed rate: seconds, a timedelta, or a text such as ``500ms``, ``10s``, ``5m``.
            delay: The pause between the end of a run and the next one; written as above.
            at: Once, at that time.
            handler: Options of :func:`xwheel.executor.job`: ``process``, ``parallel``, ``init``, ``destroy``.
            fields: Further fields of the job, by the management API's names: ``timezone``, ``param``, ``max_retries``
                (or ``retries``).

        Raises:
            ConfigError: Says which job, which field and what is allowed.
        """
        schedule = {"cron": cron, "every": every, "delay": delay, "at": at}
        made = declare(function, name, schedule, dict(handler or {}), fields)
        with self._lock:
            if self._thread is not None:
                raise ConfigError(f"job {made.name!r}: jobs are declared before the scheduler starts")
            if made.name in self._declarations:
                raise ConfigError(f"job {made.name!r}: is declared twice; give one of them another name")
            self._declarations[made.name] = made

    def within(self, folder: str | os.PathLike[str]) -> EmbeddedScheduler:
        """Return a scheduler of the same jobs and settings in another folder, as a test wants it; it says nothing."""
        other = EmbeddedScheduler(folder, settings=self._settings, announce=None)
        other._declarations = dict(self._declarations)
        return other

    def start(self, timeout_s: float = START_S) -> None:
        """Lead or stand by, and return then; nothing happens if it has started already.

        In a server that forks, call it in each worker, after the fork: a child of a process that leads never leads.

        Raises ConfigError: a setting or a declared job cannot be used, or a library is missing; XwheelError: it cannot
        start, or not within ``timeout_s``.
        """
        if HANDLER_PROCESS in sys.modules:
            return  # the process of a handler, which loads the application's modules
        if self._folder.path in _INHERITED:
            self._announce(
                f"process {os.getpid()} was forked from one that led in {self._folder.path}: it may trigger runs, and "
                "never takes over; start the scheduler after the fork"
            )
            return
        with self._lock:
            if self._thread is not None:
                return
            self._folder.make()
            self._stopping, self._settled = threading.Event(), threading.Event()
            self._error, self._ended_well = None, True
            thread = self._thread = threading.Thread(
                target=self._contend, args=(self._stopping,), name="xwheel-embedded", daemon=True
            )
            thread.start()
        atexit.register(self.stop)
        in_time = self._settled.wait(timeout_s)
        if in_time and self._error is None:
            return
        error = self._error
        self.stop()
        raise error or XwheelError(f"the scheduler did not start within {timeout_s:g} s")

    def stop(self, timeout_s: float = STOP_S) -> bool:
        """Let what runs end, and leave, for another process that stands by; return whether everything ended well.

        It waits ``timeout_s`` for that; what handlers get of it is ``executor.stop_timeout_s``, 10 s unless the
        settings say otherwise.
        """
        with self._lock:
            thread = self._thread
        atexit.unregister(self.stop)
        if thread is None:
            return True
        self._stopping.set()
        thread.join(timeout_s)
        if thread.is_alive():
            logger.warning("the scheduler did not end within %g s", timeout_s)
            return False
        with self._lock:
            if self._thread is thread:
                self._thread = None
        return self._ended_well

    def run_forever(self) -> bool:
        """Start, wait for SIGTERM, SIGINT or SIGHUP, and return what :meth:`stop` does; for a program's main thread."""
        from xwheel.runtime.signals import StopSignals

        with StopSignals() as signals:
            signals.be_up()
            self.start()
            signals.wait()
            return self.stop()

    def run_now(self, name: str, param: str | None = None, *, key: str | None = None, timeout_s: float = CALL_S) -> int:
        """Plan a run of a declared job, in the leader, which may be another process; return the run's id.

        ``param`` replaces the job's parameter. A second call with the same ``key`` returns the first call's run. Raises
        NotFoundError: there is no such job; WireError: no leader took it within ``timeout_s``, in which another process
        may take over.
        """
        end_s = time.monotonic() + timeout_s
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        body = {} if param is None else {"param": param}
        while True:
            try:
                params = {"name": name, "group_id": self._folder.read_state().group_id or 1}
                found = self.call("GET", "jobs", params=params)["items"]
                if not found:
                    raise NotFoundError("job", name)
                run = self._request("POST", f"jobs/{found[0]['id']}/run", body, headers=headers)
                return int(run["id"])
            except WireError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(POLL_S)

    def wait_for(self, run_id: int, timeout_s: float = WAIT_S) -> dict[str, Any]:
        """Wait until a run has ended, and return it as the management API shows it.

        Raises XwheelError: it did not end in that time, or there is no such run.
        """
        end_s = time.monotonic() + timeout_s
        while True:
            run: dict[str, Any] = self.call("GET", f"runs/{run_id}")
            if run["finished_ms"]:
                return run
            if time.monotonic() > end_s:
                raise XwheelError(f"run {run_id} is {run['state']} still after {timeout_s:g} s")
            time.sleep(POLL_S)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, params: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the leader's management API at a path below ``/api/v1/``, with a body sent as JSON; return its answer.

        Raises XwheelError: the leader refuses, or there is none; the message says why.
        """
        return self._request(method, path, body, params=params)

    def _request(self, method: str, path: str, body: Mapping[str, Any] | None, **options: Any) -> Any:
        from xwheel.wire.http.rest import RestClient

        url = self.url
        if not url:
            raise WireError(f"no process has led in {self._folder.path} yet: start a scheduler there")
        client = RestClient(url, self._folder.management_token())
        return client.call(method, f"/api/v1/{path}", body, **options)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        """Start; coroutine handlers run on this loop."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)
        self._loop = None

    def _contend(self, stopping: threading.Event) -> None:
        stands_by = False
        while not stopping.is_set():
            try:
                self._folder.lock.acquire()
            except LockError:
                pause_s = CONTEND_S
                if not stands_by:
                    stands_by = True
                    self._announce(f"process {os.getpid()} stands by in {self._folder.path}")
                self._settled.set()
            except OSError as error:
                self._error = ConfigError(f"cannot use {self._folder.path}: {error.strerror}")
                self._settled.set()
                return
            else:
                if self._lead(stopping) or not self._settled.is_set():
                    self._settled.set()
                    return
                pause_s = RETRY_S
            stopping.wait(pause_s)

    def _lead(self, stopping: threading.Event) -> bool:
        """Lead until the stop; return False if that could not begin."""
        try:
            self._leader = self._begin(stopping)
            settings = f"XWHEEL_URL={self.url} XWHEEL_TOKEN_FILE={self.token_file}"
            self._announce(f"process {os.getpid()} leads; {settings}")
            self._settled.set()
            stopping.wait()
            self._ended_well = self._leader.stop()
        except StartEndedError as error:
            self._error = error
            self._settled.set()
        except Exception as error:
            self._error = error
            if self._settled.is_set():
                logger.exception("the embedded scheduler cannot lead; another try in %g s", RETRY_S)
            return False
        finally:
            self._leader = None
            self._folder.lock.release()
        return True

    def _begin(self, stopping: threading.Event) -> Leader:
        with extra("server"):
            from xwheel.embedded.leader import Leader
        jobs, tries = list(self._declarations.values()), TRIES
        while True:
            try:
                return Leader(self._folder, jobs, self._settings, self._loop, stopping.wait)
            except (OSError, XwheelError) as error:
                tries -= 1
                if getattr(error.__cause__ or error, "errno", 0) != errno.EADDRINUSE or not tries:
                    raise  # else others took a port since it was found free: another one is chosen

    def _forget_parent(self) -> None:
        """Drop what a fork copied: the parent's threads are not here, and its locks must end with the parent."""
        leader = self._leader
        if self._folder.lock.is_held:
            _INHERITED[self._folder.path] = leader
        self._reset()
        self._folder.lock.release()
        if leader is not None:
            leader.disown()


_INSTANCES: Final[weakref.WeakSet[EmbeddedScheduler]] = weakref.WeakSet()
_INHERITED: Final[dict[Path, Leader | None]] = {}
"""What a forked child keeps, by folder: SQLite's connections, whose locks it believes to have and has not.

To close them could harm the parent's, and a new one to the same file would share their wrong idea of its locks.
"""


def _after_fork() -> None:
    for scheduler in list(_INSTANCES):
        try:
            scheduler._forget_parent()
        except Exception:  # one must not keep the others' locks in this child
            logger.exception("an embedded scheduler could not be let go of after a fork")


os.register_at_fork(after_in_child=_after_fork)
