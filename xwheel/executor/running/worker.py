"""Starts accepted runs in order, ends them, and hands their outcomes to the journal.

The way of a run: admitted (it has its place in the queue) → on disk as accepted → waiting → on disk as started →
running → ended, with its outcome on disk. Each write to disk is a callback from the journal's thread, so no
thread waits in between and many runs share each write.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from xwheel.clock import Clock
from xwheel.errors import ExecutorError, JournalError, XwheelError
from xwheel.executor.handlers import Handler, HandlerKind
from xwheel.executor.intake.queues import JobQueues, Next, QueueLimits
from xwheel.executor.journal.journal import Acceptance, Journal
from xwheel.executor.logs.run_log import RunLogs
from xwheel.executor.running.execution import (
    COVERED,
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
from xwheel.executor.running.lifecycles import Lifecycles
from xwheel.executor.running.pool import ThreadPool, Timers
from xwheel.executor.running.process import run_in_process
from xwheel.executor.running.runners import AsyncRunner, run_hosted, run_in_thread
from xwheel.wire.messages import CallbackItem, ExecutionState, RunKey, TriggerRequest

logger = logging.getLogger(__name__)

FORCED: Final = (HandlerKind.PROCESS, HandlerKind.HOSTED)  # kinds whose runs end by signals to a process
JOURNAL_WAIT_S: Final = 30.0
"""Longer than any scheduler waits for an answer (10 s), so that what follows is never taken for a refusal."""

MAX_TIMEOUT_S: Final = 10 * 365 * 86_400
INJECT_AGAIN_MS: Final = 20
ABANDON_ROUND: Final = 3
"""Graces after which a handler that will not end is reported; threads were interrupted twice by then."""


@dataclass(kw_only=True, eq=False)
class Workers:
    """Runs what the scheduler sends.

    Thread-safety: every method may be called by any thread. Callbacks come from the journal's thread, the pool, the
    timers and the event loop; the lock is the one of :class:`JobQueues`.
    """

    journal: Journal
    logs: RunLogs
    clock: Clock
    limits: QueueLimits
    may_start: Callable[[TriggerRequest], str]  # returns why a run must not start now, or an empty text
    on_outcome: Callable[[], None]  # called when a new outcome is on disk
    passed: Sequence[str] = ()  # names of variables that programs get

    def __post_init__(self) -> None:
        self.queues = JobQueues(self.limits)
        self._pool = ThreadPool("run")
        self._timers = Timers(self.clock)
        self._lifecycles = Lifecycles()
        self._async = AsyncRunner(self._lifecycles, self.clock)

    def accept(
        self, runs: Sequence[tuple[TriggerRequest, Handler | XwheelError]]
    ) -> list[XwheelError | None]:
        """Accept runs; when it returns, those without an error are on disk. All share one write.

        A run that the journal knows was accepted before, whatever would refuse it now. Each comes with what to call, or
        with why there is nothing to call; the answer to each is why it was refused, or None.

        Raises:
            JournalError: The journal does not answer; what became of the runs is unknown.
        """
        answers: list[XwheelError | None] = [None] * len(runs)
        fresh: list[tuple[int, Execution]] = []
        repeated: list[int] = []
        for index, (request, handler) in enumerate(runs):
            found = self.queues.admit(request, handler)
            if isinstance(found, Execution):
                fresh.append((index, found))
            elif found is None:
                repeated.append(index)
            else:
                answers[index] = found
        written = threading.Event()

        def done(taken: Sequence[Acceptance], error: JournalError | None) -> None:
            problems = self._admitted([execution for _, execution in fresh], taken, error)
            for (index, _), problem in zip(fresh, problems, strict=True):
                answers[index] = problem
            written.set()

        if fresh or repeated:
            # a repeated run may still be on its way to the disk; what is written after it waits for it too
            self.journal.accept([execution.key for _, execution in fresh], done)
            if not written.wait(JOURNAL_WAIT_S):
                raise JournalError(
                    "the executor's journal does not answer; what became of the run is unknown"
                )
        for index in repeated:
            answers[index] = self._unless_lost(runs[index][0])
        self._drop_known(answers, [request for request, _ in runs])
        return answers

    def kill(self, job_id: int, run_id: int = 0) -> bool:
        """End all runs of a job, or one of them; return whether there was something to end."""
        chosen = [e for e in self.queues.of_job(job_id) if run_id in (0, e.key.run_id)]
        for execution in chosen:
            self._end(execution, KILLED)
        return bool(chosen)

    def end_all(self, ending: Ending) -> None:
        """End what waits as not started, and what runs as told."""
        for execution in self.queues.all():
            waits = execution.stage < Stage.STARTING
            self._end(execution, NOT_STARTED if waits else ending)

    def close(self) -> None:
        """Let threads and the event loop end, and call ``destroy`` of the handlers."""
        self._async.close()
        self._pool.close()
        self._lifecycles.close()

    # -- taking in ------------------------------------------------------------------------------------------

    def _admitted(
        self, executions: Sequence[Execution], taken: Sequence[Acceptance], error: JournalError | None
    ) -> list[XwheelError | None]:
        """Continue after the journal's answer; runs on its thread."""
        problems: list[XwheelError | None] = []
        for index, execution in enumerate(executions):
            if error is not None or not taken[index].new:
                self.queues.withdraw(execution)
                problems.append(error or _known_problem(taken[index], execution.key))
                continue
            problems.append(None)
            for covered in self.queues.confirm(execution):
                self._end(covered, COVERED)
            if execution.ending is not None:  # killed before it was on disk
                self._finish(execution, execution.ended(execution.ending, self.clock.now_ms()))
        self._start({execution.key.job_id for execution in executions})
        if not all(acceptance.new for acceptance in taken):
            self.on_outcome()  # the journal lets known outcomes be delivered once more
        return problems

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

    def _unless_lost(self, request: TriggerRequest) -> XwheelError | None:
        """Return None for a run that was here already, or an error if the disk did not take it."""
        if self.journal.lookup([request.key])[0].state is not ExecutionState.UNKNOWN:
            return None
        return JournalError(f"the executor's journal did not take run {request.run_id}")

    # -- starting -------------------------------------------------------------------------------------------

    def _start(self, jobs: Iterable[int]) -> None:
        """Start what may start: heads of queues while there are places."""
        starting = []
        while taken := self.queues.take(jobs):
            jobs = []
            for execution in taken:
                why = self.may_start(execution.request)
                if why:
                    self._close(execution, execution.ended(NOT_STARTED, self.clock.now_ms(), f": {why}"))
                    jobs.append(execution.key.job_id)
                else:
                    starting.append(execution)
        if starting:
            self.journal.start([execution.key for execution in starting], partial(self._launch, starting))

    def _launch(self, executions: Sequence[Execution]) -> None:
        """Call the handlers; their start is on disk. Runs on the journal's thread."""
        for execution in executions:
            try:
                self._pool.submit(partial(self._work, execution))
            except RuntimeError as error:  # no thread left in the system
                why = f": {describe_error(error)}"
                self._finish(execution, execution.ended(NOT_STARTED, self.clock.now_ms(), why))

    def _work(self, execution: Execution) -> None:
        """Run one execution on a thread of the pool."""
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
            limit_s = min(execution.request.timeout_s, MAX_TIMEOUT_S)
            ending = timed_out(limit_s)
            execution.timer = self._timers.after(limit_s * 1000, partial(self._end, execution, ending))
        kind = execution.handler.kind
        if kind is HandlerKind.ASYNC:
            self._async.start(execution, context, self._finish)
            return None
        if kind is HandlerKind.PROCESS:
            return run_in_process(execution, context, log, self.clock, self.passed)
        if execution.handler.hosted is not None:
            return run_hosted(execution, execution.handler.hosted, context, log, self.clock)
        return run_in_thread(execution, context, self._lifecycles, self.clock)

    # -- ending ---------------------------------------------------------------------------------------------

    def _end(self, execution: Execution, ending: Ending) -> None:
        """Make a run end; the first reason counts."""
        step = self.queues.set_ending(execution, ending)
        if step is Next.REPORT:
            self._finish(execution, execution.ended(ending, self.clock.now_ms()))
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
            self._inject(execution, ending, self.limits.grace_ms // INJECT_AGAIN_MS)
        if round_number == ABANDON_ROUND and kind is not HandlerKind.PROCESS:
            self._abandon(execution, ending)
        self._timers.after(self.limits.grace_ms, partial(self._push, execution, ending, round_number + 1))

    def _inject(self, execution: Execution, ending: Ending, tries: int) -> None:
        """Raise an error inside a thread handler; while it stands at a lock, this many times shortly after."""
        if execution.stage is Stage.ENDED or execution.inject(ending.error) or not tries:
            return
        self._timers.after(INJECT_AGAIN_MS, partial(self._inject, execution, ending, tries - 1))

    def _abandon(self, execution: Execution, ending: Ending) -> None:
        """Report a run whose handler will not end. Its job waits for it; its place goes to other jobs."""
        if not self.queues.abandon(execution):
            return
        with suppress(RuntimeError):  # no thread left; the outcome says it too
            self._pool.submit(partial(_warn_of_abandoned, execution.key, ending.reason))
        note = "; the handler ignores it and still runs"
        outcome = execution.ended(ending, self.clock.now_ms(), note)
        if execution.log is not None:
            execution.log.line(closing_line(outcome))
        self._report(execution, outcome)
        self._start(())

    def _finish(self, execution: Execution, outcome: CallbackItem) -> None:
        """Report a run's outcome, and start the next run in its place."""
        self._close(execution, outcome)
        self._start((execution.key.job_id,))

    def _close(self, execution: Execution, outcome: CallbackItem) -> None:
        self.queues.end(execution)
        if execution.timer >= 0:
            self._timers.drop(execution.timer)
        execution.close_log(outcome)
        self._report(execution, outcome)
        self.queues.leave(execution)

    def _report(self, execution: Execution, outcome: CallbackItem) -> None:
        if self.queues.first_report(execution):
            self.journal.finish([outcome], self.on_outcome)


def _warn_of_abandoned(key: RunKey, reason: str) -> None:
    """Warn of a handler that goes on; not on the thread of the timers, since an application's log handlers may hang."""
    text = "run %d of job %d ignores that it was ended (%s); later runs of the job wait for it"
    logger.warning(text, key.run_id, key.job_id, reason)


def _known_problem(acceptance: Acceptance, key: RunKey) -> ExecutorError | None:
    if not acceptance.never_started:
        return None
    return ExecutorError(
        f"run {key.run_id} was accepted before a restart and not started; it will not be run"
    )
