"""A local node: the marked functions of a package that can be imported, fired in this process by their own crons.

For development, and for one machine that needs no more: there is no database, network, console or history. The package
is imported, which a store of packages never does.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import pkgutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, Final

from xwheel.cron import parse
from xwheel.plugin import ConfigError, ScheduleError

from xwheel_job_package.runner import hear
from xwheel_package import JobParameter

logger = logging.getLogger(__name__)

INSIDE: Final = "XWHEEL_PACKAGE_NODE"
"""Set where a package node runs jobs: a package that starts a local node when it is imported starts none there."""

LONGEST_WAIT_MS: Final = 1000
AT_ONCE: Final = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalJob:
    """A marked function.

    Attributes:
        name: Module, class if any, and function, with dots between.
        cron: When it runs, of Quartz's kind; empty for by hand only.
        time_zone: Of the cron.
        call: Calls it, with its parameters if it takes any.
    """

    name: str
    cron: str
    time_zone: str
    call: Callable[[], object]


def find_jobs(names: Sequence[str]) -> list[LocalJob]:
    """Return the marked functions of packages and modules, and of all that is in them, but those that are disabled.

    Raises:
        ConfigError: One cannot be imported, or has a cron that is none.
    """
    found: dict[str, LocalJob] = {}
    for name in names:
        for module in _modules(name):
            for job in _jobs_of(module):
                found[job.name] = job
    for job in found.values():
        try:
            if job.cron:
                parse(job.cron, timezone=job.time_zone)
        except ScheduleError as error:
            raise ConfigError(f"{job.name}: {error}") from None
    return [found[name] for name in sorted(found)]


def _modules(name: str) -> Iterator[ModuleType]:
    try:
        module = import_module(name)
        yield module
        for item in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            if not item.name.endswith("__main__"):
                yield import_module(item.name)
    except Exception as error:
        raise ConfigError(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def _jobs_of(module: ModuleType) -> Iterator[LocalJob]:
    for item in list(vars(module).values()):
        if inspect.isfunction(item) and item.__module__ == module.__name__:
            yield from _job(module.__name__, item, item)
        elif inspect.isclass(item) and item.__module__ == module.__name__ and not _is_disabled(item):
            yield from _methods(module.__name__, item)


def _is_disabled(marked: object) -> bool:
    return bool(getattr(marked, "__xwheel_disabled__", False))


def _methods(module: str, owner: type) -> Iterator[LocalJob]:
    for name, item in vars(owner).items():
        marked = getattr(item, "__func__", item)
        if inspect.isfunction(marked):
            is_bound = isinstance(item, staticmethod | classmethod)
            target = getattr(owner, name) if is_bound else _Method(owner, marked)
            yield from _job(f"{module}.{owner.__name__}", marked, target)


class _Method:
    """A method of an object that is made when it is first called."""

    def __init__(self, owner: type, function: Callable[..., object]) -> None:
        self._owner = owner
        self._function = function
        self._object: Any = None

    def __call__(self, *arguments: object) -> object:
        if self._object is None:
            self._object = self._owner()
        return self._function(self._object, *arguments)


def _job(group: str, marked: Callable[..., object], target: Callable[..., object]) -> Iterator[LocalJob]:
    facts = marked.__dict__.get("__xwheel_schedule__")
    if facts is None or _is_disabled(marked):
        return
    names = [name for name in inspect.signature(marked).parameters if name not in {"self", "cls"}]

    def call() -> object:
        result = target(JobParameter({})) if names else target()
        return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result

    yield LocalJob(
        name=f"{group}.{marked.__name__}", cron=facts["cron"], time_zone=facts["time_zone"] or "UTC", call=call
    )


async def _awaited(value: Any) -> object:
    return await value


class LocalNode:
    """Fires the marked functions of packages.

    Args:
        names: Packages and modules to look in.
        drain_s: How long runs under way get at the end.
    """

    def __init__(self, *names: str, drain_s: float = 10) -> None:
        self._names = names
        self._drain_s = drain_s
        self._stopping = threading.Event()
        self._due: dict[str, int | None] = {}
        self._running: dict[str, threading.Thread] = {}
        self.jobs: list[LocalJob] = []

    def open(self, now_ms: int) -> None:
        """Find the jobs, and when each runs first.

        Raises:
            ConfigError: As of :func:`find_jobs`.
        """
        self.jobs = find_jobs(self._names)
        for job in self.jobs:
            self._due[job.name] = _next_ms(job, now_ms)
            logger.info("%s: %s", job.name, job.cron or "by hand")

    def step(self, now_ms: int) -> int:
        """Begin what is due, and return how long to wait in milliseconds."""
        for job in self.jobs:
            due_ms = self._due.get(job.name)
            if due_ms is not None and due_ms <= now_ms:
                self._due[job.name] = _next_ms(job, max(now_ms, due_ms))
                self._begin(job)
        waits = [due_ms - now_ms for due_ms in self._due.values() if due_ms is not None]
        return max(0, min([LONGEST_WAIT_MS, *waits]))

    def run(self) -> int:
        """Fire until SIGTERM or Ctrl-C, then let runs end; a second signal ends at once. Returns the exit status."""
        if os.environ.get(INSIDE):
            logger.warning("no local node is started: this process is a package node's")
            return 0
        self.open(_now_ms())
        before = {number: hear(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self.step(_now_ms()) / 1000)
            logger.info("no job is fired any more; runs under way get %g s", self._drain_s)
            self.drain()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return 0

    def run_once(self, name: str) -> int:
        """Run one job, and return the exit status: 0 if it succeeded.

        Raises:
            ConfigError: There is no such job.
        """
        self.jobs = find_jobs(self._names)
        for job in self.jobs:
            if job.name == name:
                return 0 if _run(job) else 1
        known = ", ".join(job.name for job in self.jobs) or "none"
        raise ConfigError(f"there is no job {name}; there are: {known}")

    def drain(self) -> None:
        """Wait for runs under way, as long as they get."""
        end = time.monotonic() + self._drain_s
        for name, thread in self._running.items():
            thread.join(max(0, end - time.monotonic()))
            if thread.is_alive():
                logger.warning("%s did not end within %g s", name, self._drain_s)

    def _begin(self, job: LocalJob) -> None:
        before = self._running.get(job.name)
        if before is not None and before.is_alive():
            logger.warning("%s still runs: this fire is skipped", job.name)
            return
        thread = threading.Thread(target=_run, args=(job,), name=f"xwheel-{job.name}", daemon=True)
        self._running[job.name] = thread
        thread.start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._stopping.is_set():
            os._exit(AT_ONCE)
        self._stopping.set()


def _run(job: LocalJob) -> bool:
    """Run a job; what it raises is logged, and its schedule stays."""
    try:
        result = job.call()
    except BaseException:
        logger.exception("%s failed", job.name)
        return False
    logger.info("%s succeeded%s", job.name, "" if result is None else f": {result!r:.200}")
    return True


def _next_ms(job: LocalJob, after_ms: int) -> int | None:
    return parse(job.cron, timezone=job.time_zone).next_ms(after_ms) if job.cron else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
