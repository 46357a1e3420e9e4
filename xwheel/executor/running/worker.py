"""Starts accepted runs in order, ends them, and hands their outcomes to the journal.

The way of a run: admitted (it has its place in the queue) → on disk as accepted → waiting → on disk as started →
running → ended, with its outcome on disk. Each write to disk is a callback from the journal's thread, so no
thread waits in between and many runs share each write.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from xwheel.clock import Clock
from xwheel.config.sections import ExecutorSection
from xwheel.errors import ExecutorError, JournalError, XwheelError
from xwheel.executor.handlers import Handler, HandlerKind
from xwheel.executor.intake.early import SchedulersClock
from xwheel.executor.intake.queues import JobQueues, Next
from xwheel.executor.journal import Acceptance, Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.execution import (
    COVERED,
    GIVEN_BACK,
    KILLED,
    NOT_STARTED,
    Ending,
    Execution,
    Stage,
    closing_line,
    describe_error,
    opening_line,
    timed_out,
)
from xwheel.executor.running.pool import ThreadPool
from xwheel.executor.running.process import run_in_process
from xwheel.executor.running.runners import AsyncRunner, Lifecycles, run_hosted, run_in_thread
from xwheel.timer import WheelTimer
from xwheel.wire.messages import CallbackItem, ExecutionState, RunKey, TriggerRequest

logger = logging.getLogger(__name__)

FORCED: Final = (HandlerKind.PROCESS, HandlerKind.HOSTED)  # kinds whose runs end by signals to a process
# longer than any scheduler waits for an answer (10 s), so that what follows is never taken for a refusal
JOURNAL_WAIT_S: Final = 30.0
# longer than the change takes for which a run is given back
GIVEN_BACK_S: Final = 5.0
# how long before it is due an early run is written as started, if it has a place
PREPARE_MS: Final = 20
INJECT_AGAIN_S: Final = 0.02
# graces after which a handler that will not end is reported; threads were interrupted twice by then
ABANDON_ROUND: Final = 3


@dataclass(kw_only=True, eq=False, repr=False)
class Workers:
    """Runs what the scheduler sends.

    Thread-safety: every method may be called by any thread. Callbacks come from the journal's thread, the pool, the
    timers and the event loop; the lock is the one of :class:`JobQueues`.
    """

    journal: Journal
    logs: RunLogs
    clock: Clock
    settings: ExecutorSection
    # returns why a run for this instance must not start now, or an empty text
    may_start: Callable[[str], str]
    on_outcome: Callable[[], None]  # called when a new outcome is on disk: OutcomeDelivery.wake

    def __post_init__(self) -> None:
        self.queues = JobQueues(self.settings)
        self._due: deque[int] = deque()  # jobs whose next run may start
        self._is_start_queued = False
        self._pool = ThreadPool("run")
        self._timer = WheelTimer(slots=512, name="xwheel-timers", clock=self._monotonic_s)
        self._starts = WheelTimer(tick_s=0.001, slots=1024, name="xwheel-starts", clock=self._monotonic_s)
        self._schedulers = SchedulersClock()
        self._given_back: deque[Sequence[Execution]] = deque()
        self._lifecycles = Lifecycles()
        self._async = AsyncRunner(self._lifecycles, self.clock)

    def accept(
        self, runs: Sequence[tuple[TriggerRequest, Handler | XwheelError]], received_ms: int | None = None
    ) -> list[XwheelError | None]:
        """Accept runs; when it returns, those without an error are on disk. All share one write.

        What is not due yet waits for its time, counted from when it was received by the monotonic clock. A run that the
        journal knows was accepted before, whatever would refuse it now. Each comes with what to call, or
        with why there is nothing to call; the answer to each is why it was refused, or None. Raises JournalError: the
        journal does not answer; what became of the runs is unknown.
        """
        answers: list[XwheelError | None] = [None] * len(runs)
        fresh: list[tuple[int, Execution]] = []
        repeated: list[int] = []
        for index, found in enumerate(self.queues.admit(runs)):
            if isinstance(found, Execution):
                fresh.append((index, found))
            elif found is None:
                repeated.append(index)
            else:
                answers[index] = found
        written = threading.Event()
        executions = [execution for _, execution in fresh]
        self._note_start(executions, received_ms)
        refusals = self._refusals(executions)
        # these get places at once: they may start as soon as they are on disk
        placed = self.queues.reserve(one for one in executions if one.request.instance not in refusals)
        starting = {execution.key for execution in placed}

        def done(taken: Sequence[Acceptance], error: JournalError | None) -> None:
            problems = self._admitted(executions, taken, error, starting)
            for (index, _), problem in zip(fresh, problems, strict=True):
                answers[index] = problem
            written.set()

        if fresh or repeated:
            # a repeated run may still be on its way to the disk; what is written after it waits for it too
            self.journal.accept([execution.key for execution in executions], done, starting)
            if not written.wait(JOURNAL_WAIT_S):
                raise JournalError("the executor's journal does not answer; what became of the run is unknown")
        for index in repeated:
            request = runs[index][0]
            if self.journal.lookup([request.key])[0].state is ExecutionState.UNKNOWN:
                answers[index] = JournalError(f"the executor's journal did not take run {request.run_id}")
        self._drop_known(answers, [request for request, _ in runs])
        return answers

    def kill(self, job_id: int, run_id: int = 0) -> bool:
        """End all runs of a job, or one of them; return whether there was something to end."""
        chosen = [e for e in self.queues.of_job(job_id) if run_id in (0, e.key.run_id)]
        for execution in chosen:
            self._end(execution, KILLED)
        return bool(chosen)

    def recall(self, keys: Sequence[RunKey]) -> list[int]:
        """Give runs back that are not due yet; return the ids of those that were here and will not start.

        A while later they are reported as given back: a scheduler that has not cancelled them tries them again.
        """
        taken = self.queues.take_back(keys)
        if taken:
            self._given_back.append(taken)
            self._timer.schedule(GIVEN_BACK_S, self.report_given_back, 1)
        return [execution.key.run_id for execution in taken]

    def report_given_back(self, most: int | None = None) -> None:
        """Report what was given back first, so many times, or all of it: the executor stops."""
        for _ in range(len(self._given_back) if most is None else most):
            with suppress(IndexError):  # it stops, and has reported them
                now_ms, taken = self.clock.now_ms(), self._given_back.popleft()
                self.journal.finish([one.ended(GIVEN_BACK, now_ms) for one in taken], self.on_outcome)

    def end_all(self, ending: Ending) -> None:
        """End what waits as not started, and what runs as told."""
        for execution in self.queues.all():
            self._end(execution, ending, NOT_STARTED)

    def disown(self) -> None:
        """In a forked child: go on with no run of the parent's."""
        self._async.disown()

    def close(self) -> None:
        """Let threads and the event loop end, and call ``destroy`` of the handlers."""
        self._async.close()
        self._pool.close()
        self._lifecycles.close()
        if self.queues.wait_empty(0):  # else what pushes a run that will not end goes on
            self._timer.stop()
            self._starts.stop()

    def _refusals(self, executions: Sequence[Execution]) -> dict[str, str]:
        instances = {execution.request.instance for execution in executions}
        return {instance: why for instance in instances if (why := self.may_start(instance))}

    def _admitted(
        self,
        executions: Sequence[Execution],
        taken: Sequence[Acceptance],
        error: JournalError | None,
        starting: Collection[RunKey],
    ) -> list[XwheelError | None]:
        """Continue after the journal's answer; those that are starting are written as started. Runs on its thread."""
        problems: list[XwheelError | None] = [error] * len(executions)
        begun: list[Execution] = []
        waiting: set[int] = set()
        early = set(self.queues.hold(one for one, known in zip(executions, taken, strict=False) if known.new))
        for index, execution in enumerate(executions):
            is_new = error is None and taken[index].new
            if is_new and execution.key in starting:
                begun.append(execution)
                continue
            if execution not in early:
                waiting.add(execution.key.job_id)
            if not is_new:
                self.queues.leave(execution)
                problems[index] = error or _known_problem(execution.key, taken[index])
                continue
            if execution not in early:
                for covered in self.queues.confirm(execution):
                    self._end(covered, COVERED)
            if execution.ending is not None:  # killed before it was on disk
                self._finish(execution, execution.ended(execution.ending, self.clock.now_ms()))
        self._launch(begun)
        self._at_start(early, PREPARE_MS, self._come_due)
        if waiting:
            self._start(waiting)
        if not all(acceptance.new for acceptance in taken):
            self.on_outcome()  # the journal lets known outcomes be delivered once more
        return problems

    def _come_due(self, executions: Sequence[Execution]) -> None:
        """Let early runs wait for a place like any other; one that has it before its time is started at its time."""
        self._start({execution.key.job_id for execution in self.queues.enter(executions)})

    def _note_start(self, executions: Iterable[Execution], received_ms: int | None) -> None:
        for execution in executions:
            if execution.request.due_ms:
                now_ms = self.clock.monotonic_ms() if received_ms is None else received_ms
                execution.start_ms = self._schedulers.start_ms(execution.request, now_ms)

    def _at_start(
        self, executions: Iterable[Execution], ahead_ms: int, call: Callable[[Sequence[Execution]], None]
    ) -> None:
        """Do something with runs this long before they are due, together with those that are due at the same time."""
        together: dict[int, list[Execution]] = {}
        for execution in executions:
            together.setdefault(execution.start_ms, []).append(execution)
        now_ms = self.clock.monotonic_ms()
        for start_ms, due in together.items():
            self._starts.schedule(max(0, start_ms - ahead_ms - now_ms) / 1000, call, due)

    def _monotonic_s(self) -> float:
        return self.clock.monotonic_ms() / 1000

    def _drop_known(self, answers: list[XwheelError | None], requests: Sequence[TriggerRequest]) -> None:
        """Drop refusals of runs that the journal knows, unless they never started."""
        refused = [index for index, answer in enumerate(answers) if answer is not None]
        keys = [requests[index].key for index in refused]
        for index, key, found in zip(refused, keys, self.journal.lookup(keys) if keys else (), strict=True):
            if found.state is ExecutionState.UNKNOWN:
                continue
            if found.outcome is not None:
                self.journal.revive(key, self.on_outcome)
                if found.outcome.reason == NOT_STARTED.reason:
                    continue
            answers[index] = None

    def _start(self, jobs: Iterable[int]) -> None:
        """Let the journal start what may start then: heads of queues while there are places."""
        self._due.extend(jobs)
        if not self._is_start_queued:
            self._is_start_queued = True
            starting: list[Execution] = []
            self.journal.start(partial(self._choose, starting), partial(self._launch, starting))

    def _choose(self, starting: list[Execution]) -> list[RunKey]:
        """Give places to what may start now, and add it to ``starting``; runs on the journal's thread."""
        self._is_start_queued = False  # first: what comes due from here on is for the next write
        jobs = [self._due.popleft() for _ in range(len(self._due))]
        while taken := self.queues.take(jobs):
            jobs = []
            for execution in taken:
                why = self.may_start(execution.request.instance)
                if why:
                    self._close(execution, self._not_started(execution, why))
                    jobs.append(execution.key.job_id)
                else:
                    starting.append(execution)
        return [execution.key for execution in starting]

    def _launch(self, executions: Sequence[Execution]) -> None:
        """Call the handlers; their start is on disk. Runs on the journal's thread."""
        refusals = self._refusals(executions)  # asked again: the machine may have slept since then
        due: list[Execution] = []
        for execution in executions:
            if why := refusals.get(execution.request.instance):
                self._finish(execution, self._not_started(execution, why))
            else:
                due.append(execution)
        now_ms = self.clock.monotonic_ms()
        if early := [execution for execution in due if execution.start_ms > now_ms]:
            self._at_start(early, 0, self._launch)
            due = [execution for execution in due if execution.start_ms <= now_ms]
        if not due:
            return
        try:
            self._pool.submit(*[partial(self._work, execution) for execution in due])
        except RuntimeError as error:  # no thread left in the system
            for execution in due:
                self._finish(execution, self._not_started(execution, describe_error(error)))

    def _not_started(self, execution: Execution, why: str) -> CallbackItem:
        return execution.ended(NOT_STARTED, self.clock.now_ms(), f": {why}")

    def _work(self, execution: Execution) -> None:
        try:
            outcome = self._run(execution)
        except BaseException as error:  # a mistake of ours must not keep the job's queue shut
            logger.exception("run %d of job %d", execution.key.run_id, execution.key.job_id)
            outcome = execution.failed(error, self.clock.now_ms())
        if outcome is not None:
            self._finish(execution, outcome)

    def _run(self, execution: Execution) -> CallbackItem | None:
        """Call the handler; return its outcome, or None if the event loop will tell it."""
        now_ms = self.clock.now_ms()
        opening = partial(opening_line, execution.request)
        log = self.logs.open(execution.key.run_id, execution.key.created_ms, now_ms, opening)
        context = execution.begin(log, now_ms)
        ending = self.queues.begin(execution)
        if ending is not None:
            return execution.ended(ending, self.clock.now_ms())
        if execution.request.timeout_s:
            limit_s = execution.request.timeout_s
            execution.timer = self._timer.schedule(limit_s, self._end, execution, timed_out(limit_s))
        kind = execution.handler.kind
        if kind is HandlerKind.ASYNC:
            self._async.start(execution, context, self._finish)
            return None
        if kind is HandlerKind.PROCESS:
            return run_in_process(execution, context, log, self.clock, self.settings.script_environment)
        if execution.handler.hosted is not None:
            return run_hosted(execution, execution.handler.hosted, context, log, self.clock)
        return run_in_thread(execution, context, self._lifecycles, self.clock)

    def _end(self, execution: Execution, ending: Ending, unplaced: Ending | None = None) -> None:
        step = self.queues.set_ending(execution, ending, unplaced)
        if step is Next.REPORT:
            self._finish(execution, execution.ended(unplaced or ending, self.clock.now_ms()))
        elif step is Next.PUSH:
            if execution.context is not None:
                execution.context.cancel(ending.error)
            self._push(execution, ending, 0)

    def _push(self, execution: Execution, ending: Ending, round_number: int) -> None:
        """Ask a running handler to end, each round harder, until it does."""
        if execution.stage is Stage.ENDED:
            return
        kind = execution.handler.kind
        if kind is HandlerKind.ASYNC:
            self._async.cancel(execution)
        elif kind in FORCED:
            with execution.lock:
                if execution.force is not None:
                    execution.force(round_number)
        elif round_number > 0:
            self._inject(execution, ending, int(self.settings.kill_grace_s / INJECT_AGAIN_S))
        if round_number == ABANDON_ROUND and kind is not HandlerKind.PROCESS:
            self._abandon(execution, ending)
        self._timer.schedule(self.settings.kill_grace_s, self._push, execution, ending, round_number + 1)

    def _inject(self, execution: Execution, ending: Ending, tries: int) -> None:
        """Raise an error inside a thread handler; while it stands at a lock, this many times shortly after."""
        if execution.stage is Stage.ENDED or execution.inject(ending.error) or not tries:
            return
        self._timer.schedule(INJECT_AGAIN_S, self._inject, execution, ending, tries - 1)

    def _abandon(self, execution: Execution, ending: Ending) -> None:
        """Report a run whose handler will not end. Its job waits for it; its place goes to other jobs."""
        if not self.queues.abandon(execution):
            return
        note = "; the handler ignores it and still runs"
        outcome = execution.ended(ending, self.clock.now_ms(), note)
        # first: should the handler end now after all, no one else writes it
        self.journal.finish([outcome], self.on_outcome)
        # not on the thread of the timers, which is this one: an application's log handlers may hang
        text = "run %d of job %d ignores that it was ended (%s); later runs of the job wait for it"
        warn = partial(logger.warning, text, execution.key.run_id, execution.key.job_id, ending.reason)
        with suppress(RuntimeError):  # no thread left; the outcome says it too
            self._pool.submit(warn)
        if execution.log is not None:
            execution.log.line(closing_line(outcome))
        self._start(())

    def _finish(self, execution: Execution, outcome: CallbackItem) -> None:
        if self._close(execution, outcome):
            self._start((execution.key.job_id,))

    def _close(self, execution: Execution, outcome: CallbackItem) -> bool:
        self.queues.end(execution)
        if execution.timer is not None:
            execution.timer.cancel()
        execution.close_log(outcome)
        if not execution.abandoned:
            self.journal.finish([outcome], self.on_outcome)
        return self.queues.leave(execution)


def _known_problem(key: RunKey, taken: Acceptance) -> ExecutorError | None:
    if not taken.never_started:
        return None
    return ExecutorError(f"run {key.run_id} was accepted before a restart and not started; it will not be run")
