"""Let routers that ask executors, or are not trusted, choose off the tick thread: a run leaves it, and comes back."""

from __future__ import annotations

import logging
import math
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Final, NamedTuple

from xwheel.clock import Clock
from xwheel.errors import NoExecutorYetError, RouteError, XwheelError
from xwheel.model import Job, RegisteredExecutor, Run
from xwheel.plugin import Router
from xwheel.plugin.validation import error_words
from xwheel.runtime.foreign import PluginCall, PluginThreads
from xwheel.scheduler.executors.loads import Loads
from xwheel.scheduler.route.probes import Probes
from xwheel.scheduler.route.routers import Executors, route

logger = logging.getLogger(__name__)

THREADS: Final = 4  # threads of one router; as many calls that hang stop it
# executors that are asked at once when one said no: ten dead ones cost little more time than one
AHEAD: Final = 8
ROUTE_MS: Final = 30_000
KEEP_MS: Final = 5000
IDLE_S: Final = 10.0
ASKED_LIMIT: Final = 20_000
NAP_MS: Final = 1000


class Choice(NamedTuple):
    """What a router came to: addresses, or why there are none."""

    addresses: tuple[str, ...] = ()
    error: str = ""
    is_yet: bool = False  # of none: there may be some soon, so that the run may wait
    has_asked: bool = True
    revision: int = 0  # of the job as the router saw it
    until_ms: int = 0


@dataclass(slots=True, eq=False)
class _Case:
    run: Run
    job: Job
    executors: Executors
    # when its router was called, on the monotonic clock; None while it waits for its turn
    began_ms: int | None = None
    call: PluginCall[None] | None = None  # the thread that calls it; None while it waits


@dataclass(slots=True, eq=False)
class _RouterThreads:
    """The threads of one router and the runs that wait for them, in a line for each job so that none overtakes."""

    name: str
    work: threading.Condition
    threads: int = 0  # those that were started, have not ended and are not left behind
    idle: int = 0  # those that wait and were not called since
    called: int = 0  # those that were called and have not woken up yet
    lines: OrderedDict[int, deque[_Case]] = field(default_factory=OrderedDict)
    working: dict[int, _Case] = field(default_factory=dict)  # the run of each job that a thread works on

    def take(self) -> _Case | None:
        """Return the next run of a job that no thread works on; jobs take turns."""
        for job_id in self.lines:
            if job_id not in self.working:
                line = self.lines.pop(job_id)
                case = line.popleft()
                if line:
                    self.lines[job_id] = line
                self.working[job_id] = case
                return case
        return None


@dataclass(eq=False, repr=False)
class AsyncChooser:
    """Calls such routers, each on few threads of its own, so that one that hangs holds up no other.

    Thread-safety: :meth:`choose` belongs to the tick thread and never waits, :meth:`step` to a thread of its own;
    :meth:`is_held` and :meth:`stop` may be called from anywhere. One lock guards everything and is never held while a
    router or an executor works.
    """

    routers: Mapping[str, Router]
    loads: Loads
    probes: Probes
    # takes runs whose choice is there; they are routed again, and then find it
    give_back: Callable[[Sequence[Run]], None]
    clock: Clock
    _: KW_ONLY
    limit: int = ASKED_LIMIT  # runs that may be out at once; others wait as planned

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[int, _Case] = {}
        self._choices: OrderedDict[int, Choice] = OrderedDict()
        self._threads = PluginThreads(math.inf, most_hanging=THREADS)
        self._groups: dict[str, _RouterThreads] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._pending)

    def choose(self, run: Run, job: Job, executors: Executors, now_ms: int) -> Executors | None:
        """Return the choice for a run if it is there; None if the run was taken, none if there is no room for it.

        Raises what the router came to: NoExecutorYetError, after which the next call asks again, or RouteError.
        """
        with self._lock:
            choice = self._choices.get(run.id)
            if choice is not None and choice.is_yet:
                del self._choices[run.id]
        if choice is not None and choice.revision == job.revision and now_ms < choice.until_ms:
            if choice.is_yet:
                raise NoExecutorYetError(choice.error)
            if choice.error:
                raise RouteError(choice.error)
            live = {item.address: item for item in executors}
            if live.keys() >= set(choice.addresses):
                return [live[address] for address in choice.addresses]
        with self._lock:
            self._choices.pop(run.id, None)
            if run.id in self._pending:
                return None
            if self._stopped or len(self._pending) >= self.limit:
                return ()
            self._take(_Case(run, job, executors))
        return None

    def is_held(self, run_id: int) -> bool:
        """Return whether a run is out; from any thread."""
        return run_id in self._pending

    def has_older(self, run: Run) -> bool:
        """Return whether another run of the same job that was due before is out; from any thread."""
        with self._lock:
            cases = [
                case
                for group in self._groups.values()
                for case in (group.working.get(run.job_id), *group.lines.get(run.job_id, ()))
                if case is not None
            ]
        return any((case.run.due_ms, case.run.id) < (run.due_ms, run.id) for case in cases)

    def has_chosen(self, run_id: int) -> bool:
        """Return whether a run got its executor a moment ago by asking some; from any thread."""
        choice = self._choices.get(run_id)
        return choice is not None and choice.has_asked

    def step(self, now_ms: int) -> int:
        """Give up on calls that last too long, forget old choices; return how long to wait in milliseconds."""
        oldest_ms = self.clock.monotonic_ms() - ROUTE_MS
        failed: list[tuple[_Case, str]] = []
        with self._lock:
            while self._choices and next(iter(self._choices.values())).until_ms <= now_ms:
                self._choices.popitem(last=False)
            for group in self._groups.values():
                failed += self._give_up(group, oldest_ms)
        for case, error in failed:
            logger.warning("run %d: %s", case.run.id, error)
            self._answer(case, Choice(error=error))
        return NAP_MS

    def stop(self) -> None:
        """Call no router any more; runs that are out stay planned."""
        with self._lock:
            self._stopped = True
            for group in self._groups.values():
                group.lines.clear()
                group.work.notify_all()
            self._pending.clear()

    def _take(self, case: _Case) -> None:
        self._pending[case.run.id] = case
        name = case.job.route_strategy
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = _RouterThreads(name, threading.Condition(self._lock))
        group.lines.setdefault(case.job.id, deque()).append(case)
        self._staff(group)

    def _staff(self, group: _RouterThreads) -> None:
        if group.idle:
            group.idle -= 1
            group.called += 1
            group.work.notify()
        elif group.threads < THREADS:
            title = f"xwheel-route-{group.name}"
            begun = self._threads.start(
                group.name, partial(self._work, group), title, lambda _: self._staff_again(group)
            )
            group.threads += begun is not None

    def _staff_again(self, group: _RouterThreads) -> None:
        """Go on with what waits, now that a call that was left behind came back."""
        with self._lock:
            if group.lines and not self._stopped:
                self._staff(group)

    def _work(self, group: _RouterThreads, call: PluginCall[None]) -> None:
        while (case := self._next(group, call)) is not None:
            if not self._call(group, case, call):
                return

    def _next(self, group: _RouterThreads, call: PluginCall[None]) -> _Case | None:
        """Wait for a run whose router is to be called; None ends the thread."""
        with self._lock:
            while not self._stopped:
                case = group.take()
                if case is not None:
                    case.began_ms, case.call = self.clock.monotonic_ms(), call
                    return case
                group.idle += 1
                group.work.wait(IDLE_S)
                if group.called:
                    group.called -= 1
                    continue
                group.idle -= 1
                if not group.lines:
                    break
            group.threads -= 1
            return None

    def _call(self, group: _RouterThreads, case: _Case, call: PluginCall[None]) -> bool:
        asked = _Asked(case, self.probes, self._deadline_s)
        try:
            chosen = route(
                case.job,
                case.executors,
                self.routers,
                beat=asked.beat,
                idle_beat=asked.idle_beat,
                load=self.loads.load,
                now_ms=self.clock.now_ms(),
            )
            choice = Choice(tuple(executor.address for executor in chosen))
            asked.spend(choice.addresses)
        except XwheelError as error:
            choice = Choice(error=str(error), is_yet=isinstance(error, NoExecutorYetError))
        except BaseException as error:  # nothing else would ever answer this run
            choice = Choice(error=f"job {case.job.id}: router {group.name}: {error_words(error)}")
        with self._lock:
            if call.is_left:
                return False
            del group.working[case.job.id]
        self._answer(case, choice._replace(has_asked=asked.has_asked))
        return True

    def _deadline_s(self, case: _Case) -> float:
        began_ms = case.began_ms or 0
        return max(0.0, (began_ms + ROUTE_MS - self.clock.monotonic_ms()) / 1000)

    def _give_up(self, group: _RouterThreads, oldest_ms: int) -> list[tuple[_Case, str]]:
        """Return the runs whose router hangs, and those that wait for it in vain, with the reasons."""
        failed: list[tuple[_Case, str]] = []
        for job_id, case in list(group.working.items()):
            if case.began_ms is not None and case.began_ms < oldest_ms:
                del group.working[job_id]
                if case.call is not None and self._threads.leave(case.call):
                    group.threads -= 1
                text = f"router {group.name} did not choose within {ROUTE_MS // 1000} s"
                failed.append((case, f"job {job_id}: {text}"))
        hanging = self._threads.hanging()[group.name]
        if hanging >= THREADS:
            text = f"router {group.name} hangs in {hanging} calls"
            text += ": jobs that name it are refused until one comes back"
            waiting = [case for line in group.lines.values() for case in line]
            failed += [(case, f"job {case.job.id}: {text}") for case in waiting]
            group.lines.clear()
        elif group.lines:
            for _ in failed:
                self._staff(group)
        return failed

    def _answer(self, case: _Case, choice: Choice) -> None:
        choice = choice._replace(revision=case.job.revision, until_ms=self.clock.now_ms() + KEEP_MS)
        with self._lock:
            if self._stopped:
                return
            self._choices.pop(case.run.id, None)
            self._choices[case.run.id] = choice
            if len(self._choices) > self.limit:
                self._choices.popitem(last=False)  # that run asks again
            self._pending.pop(case.run.id, None)
        self.give_back([case.run])


@dataclass(eq=False, repr=False)
class _Asked:
    case: _Case
    probes: Probes
    deadline_s: Callable[[_Case], float]

    def __post_init__(self) -> None:
        self._executors = {item.address: item for item in self.case.executors}
        self._idle: set[str] = set()
        self.has_asked = False

    def beat(self, address: str) -> bool:
        """Return whether an executor lives."""
        return self._ask(address, self.probes.beat)

    def idle_beat(self, address: str) -> bool:
        """Return whether the job is idle there."""
        job_id = self.case.job.id
        answer = self._ask(address, lambda executor: self.probes.idle_beat(executor, job_id))
        if answer:
            self._idle.add(address)
        return answer

    def spend(self, chosen: Sequence[str]) -> None:
        """Note that the answers of those who were chosen for being idle served their purpose."""
        for address in self._idle.intersection(chosen):
            self.probes.spend(self._executors[address], self.case.job.id)

    def _ask(self, address: str, put: Callable[[RegisteredExecutor], Future[bool]]) -> bool:
        self.has_asked = True
        executor = self._executors.get(address)
        if executor is None:
            raise RouteError(f"it asks {address}, which is no live executor of the job's group")
        try:
            answer = put(executor).result(self.deadline_s(self.case))
        except TimeoutError:
            raise RouteError(f"{address} gave no answer in time") from None
        if not answer:
            place = list(self._executors).index(address) + 1
            for other in list(self._executors.values())[place : place + AHEAD]:
                put(other)
        return answer
