"""Mistakes in an executor's intake, queues, journal, reports, processes and logs."""

from __future__ import annotations

from typing import Final

from tests.mutants import Mistake

EXECUTOR: Final = "tests/unit/executor"
QUEUES: Final = (f"{EXECUTOR}/intake/test_queues.py",)
CALLS: Final = (f"{EXECUTOR}/intake/test_endpoints.py",)
JOURNAL: Final = (f"{EXECUTOR}/test_journal.py",)
SHIPPING: Final = (f"{EXECUTOR}/reporting/test_log_shipping.py",)
OUTCOMES: Final = (f"{EXECUTOR}/reporting/test_outcomes.py",)
PROCESS: Final = (f"{EXECUTOR}/running/test_process.py",)
WORKER: Final = (f"{EXECUTOR}/running/test_worker.py",)
EXECUTION: Final = (f"{EXECUTOR}/running/test_execution.py",)
HOSTILE: Final = (f"{EXECUTOR}/running/test_hostile.py",)
HOSTILE_WHOLE: Final = ("tests/integration/test_executor_hostile.py",)

MISTAKES: Final = [
    Mistake(
        file="xwheel/executor/running/worker.py",
        old="            execution.log.line(closing_line(outcome))\n        self._start(())\n",
        new="            execution.log.line(closing_line(outcome))\n",
        why="(N40) A run that ignores its end keeps its place.",
        tests=WORKER,
    ),
    Mistake(
        file="xwheel/executor/running/child.py",
        old="    flush_streams()\n    status = 1\n",
        new="    status = 1\n",
        why="What a process handler printed into a stream that it put in the place of sys.stdout is lost.",
        tests=HOSTILE_WHOLE,
    ),
    Mistake(
        file="xwheel/executor/running/runners.py",
        old="        execution.task.add_done_callback(lambda _: self._end(",
        new="        (lambda _: self._end(",
        why="A run that is killed before the first step of its task stays open, and its job's queue is shut (R35).",
        tests=HOSTILE,
    ),
    Mistake(
        file="xwheel/executor/running/runners.py",
        old="        while not (self._is_closing or self._loop.is_closed()):",
        new="        for _ in range(1):",
        why="An exit in an inner task ends the event loop, and with it every async handler (R35).",
        tests=HOSTILE,
    ),
    Mistake(
        file="xwheel/executor/running/runners.py",
        old="        self._end(execution, self._exits.pop(execution, failure), value)",
        new="        self._end(execution, failure, value)",
        why="A run whose callback called sys.exit is told to have been cancelled (R35).",
        tests=HOSTILE,
    ),
    Mistake(
        file="xwheel/executor/running/execution.py",
        old="    return str.__str__(text)",
        new="    return text",
        why="Text of a handler's own class goes on with its own methods (R36).",
        tests=HOSTILE,
    ),
    Mistake(
        file="xwheel/executor/running/child.py",
        old="        leave_copy(pid, error)\n",
        new="",
        why="A copy that a process handler forked and that raises reports in its place (R37).",
        tests=HOSTILE_WHOLE,
    ),
    Mistake(
        file="xwheel/runtime/signals.py",
        old="            signal.signal(number, signal.SIG_DFL)\n",
        new="            pass\n",
        why="What a handler forks hears no signal to end (R37).",
        tests=HOSTILE,
    ),
    Mistake(
        file="xwheel/runtime/signals.py",
        old="    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)",
        new="    _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())",
        why="A copy that is told to end as soon as it is there does not hear that (R37).",
        tests=("tests/unit/runtime/test_signals.py",),
    ),
    Mistake(
        file="xwheel/__main__.py",
        old="    os._exit(status)",
        new="    return",
        why="A process that a handler left keeps an executor from ending (R37).",
        tests=HOSTILE_WHOLE,
    ),
    Mistake(
        file="xwheel/executor/parts.py",
        old="settings.data_dir.absolute()",
        new="settings.data_dir",
        why="A handler that changes the folder takes the logs of later runs along (R38).",
        tests=HOSTILE_WHOLE,
    ),
    Mistake(
        file="xwheel/executor/logs/capture.py",
        old="        if self.original is not None:\n            self.original.flush()",
        new="        self.original.flush()",
        why="A line that is flushed at once fails a run of an executor without standard output (R39).",
        tests=HOSTILE_WHOLE,
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="        if key in self._live:\n            return None\n",
        new="",
        why="A run that is sent again while it waits runs twice.",
        tests=QUEUES,
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="        if execution.placed and not execution.abandoned:\n",
        new="        if execution.placed:\n",
        why="A handler that ignores its end frees its place twice.",
        tests=(*QUEUES, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="            before = before[: before.index(execution)]\n",
        new="",
        why="A run that covers others ends itself and those that came after it.",
        tests=(*QUEUES, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="busy >= handler.parallel:",
        new="busy > handler.parallel:",
        why="A run that is to be discarded waits behind one that runs.",
        tests=(*QUEUES, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old=" and queue.waiting[0].stage is not Stage.ADMITTED:",
        new=":",
        why="A run starts before it is on disk.",
        tests=(*QUEUES, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="            if execution.ending is not None or execution.stage is Stage.ENDED:\n",
        new="            if execution.stage is Stage.ENDED:\n",
        why="A kill that follows a time limit says why the run ended.",
        tests=(*QUEUES, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/intake/queues.py",
        old="        if not self._live:\n            self._emptied.notify_all()\n",
        new="",
        why="A stop waits out its whole time though the last run has ended.",
        tests=(*QUEUES, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/intake/endpoints.py",
        old="            if item.run_id and self.journal.is_open(item.run_id) is None\n",
        new="            if item.run_id\n",
        why="A re-asked send that cannot be read is refused though its run is here.",
        tests=CALLS,
    ),
    Mistake(
        file="xwheel/executor/intake/endpoints.py",
        old="        self._check_instance(instance)\n        return Response(code=OK, data=codec.state_payload",
        new="        return Response(code=OK, data=codec.state_payload",
        why="An executor that replaced another one says that it does not know the other's runs.",
        tests=CALLS,
    ),
    Mistake(
        file="xwheel/executor/intake/endpoints.py",
        old="        if app_name and app_name != self.app_name:\n",
        new="        if app_name and not app_name.startswith(self.app_name):\n",
        why="A call for another group is taken in.",
        tests=CALLS,
    ),
    Mistake(
        file="xwheel/executor/intake/endpoints.py",
        old="is_end=not live)",
        new="is_end=live is None)",
        why="Readers of a log that was never written wait without end.",
        tests=CALLS,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old='pending = 1 WHERE {_KEY} AND state < 3"""',
        new='pending = 1 WHERE {_KEY}"""',
        why="A second outcome replaces the first, which the scheduler may have.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old='f"UPDATE run SET pending = 1, acked_ms = NULL WHERE {_KEY} AND state = 3"',
        new='f"UPDATE run SET pending = 1, acked_ms = NULL WHERE {_KEY}"',
        why="A run that is still going is reported as failed because the scheduler asks again.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old='"SELECT state FROM run WHERE run_id = ? ORDER BY created_ms DESC LIMIT 1"',
        new='"SELECT state FROM run WHERE run_id = ? ORDER BY created_ms LIMIT 1"',
        why="An earlier run with the same id says whether the log of the newest one grows.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old="WHERE acked_ms < ? LIMIT ?)",
        new="WHERE finished_ms < ? LIMIT ?)",
        why="Outcomes that no scheduler has are forgotten after a day.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old="ORDER BY accepted_ms LIMIT ?",
        new="ORDER BY finished_ms DESC LIMIT ?",
        why="Under load the oldest outcomes are never delivered.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old="        db.execute(_REVIVE, _key_of(key))  # the scheduler asks again",
        new="        pass  # the scheduler asks again",
        why="The outcome of a run that is sent again is not delivered again.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old="        group, self._stuck = self._stuck + group, []\n",
        new="        group, self._stuck = group + self._stuck, []\n",
        why="After a full disk an outcome is written before the start of its run.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old="return [operation for operation in group if not operation.may_fail]",
        new="return group",
        why="A run that was refused for a full disk is accepted later, and never runs.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/journal.py",
        old="(now_ms - KEEP_MS, PURGE_BATCH)",
        new="(now_ms - KEEP_MS // 1000, PURGE_BATCH)",
        why="A run that is sent again two minutes after its end runs again.",
        tests=JOURNAL,
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="live=not is_over)\n                if not lines:\n                    is_end = is_over\n",
        new="live=not is_over)\n                if not lines:\n                    is_end = shipment.is_over\n",
        why="The last lines that are written while a log is read are never shipped (N36).",
        tests=SHIPPING,
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="elif receipt.next_line == one.next_line and not shipment.is_asked:",
        new="elif receipt.next_line >= shipment.line and not shipment.is_asked:",
        why="Lines that the scheduler did not take are skipped.",
        tests=SHIPPING,
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="skip_lines(shipment.path, line - 1)",
        new="skip_lines(shipment.path, line)",
        why="A line is lost each time the scheduler says where to go on.",
        tests=SHIPPING,
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="            self._is_begun = False  # what ended",
        new="            self._is_begun = is_wanted  # what ended",
        why="Logs that ended while the scheduler had no store are not asked about.",
        tests=SHIPPING,
    ),
    Mistake(
        file="xwheel/executor/reporting/log_shipping.py",
        old="            self._logs.move_to_end(shipment.key)\n",
        new="",
        why="A log that grows fast keeps all others waiting.",
        tests=SHIPPING,
    ),
    Mistake(
        file="xwheel/executor/reporting/outcomes.py",
        old="pending(self._batch + len(self._parked))",
        new="pending(self._batch)",
        why="Refused outcomes hold up those behind them.",
        tests=OUTCOMES,
    ),
    Mistake(
        file="xwheel/executor/reporting/outcomes.py",
        old="proven=0 < before < len(settled)",
        new="proven=0 < before <= len(settled)",
        why="A scheduler that fails in the middle proves that the outcome is at fault.",
        tests=OUTCOMES,
    ),
    Mistake(
        file="xwheel/executor/reporting/outcomes.py",
        old="        if wait_ms > 0:\n            return wait_ms  # woken",
        new="        if wait_ms > LONGEST_PAUSE_MS:\n            return wait_ms  # woken",
        why="Each new outcome asks a scheduler that is down at once.",
        tests=OUTCOMES,
    ),
    Mistake(
        file="xwheel/executor/reporting/outcomes.py",
        old="                if settled:\n                    break  # the next step",
        new="                if settled and refused:\n                    break  # the next step",
        why="Outcomes that were taken before the scheduler went away are delivered twice.",
        tests=OUTCOMES,
    ),
    Mistake(
        file="xwheel/executor/running/execution.py",
        old="        if ending is not None:\n            push(0)\n",
        new="",
        why="A kill that comes before the process is started waits for the next round.",
        tests=(*PROCESS, *WORKER),
    ),
    Mistake(
        file="xwheel/executor/running/process.py",
        old="{status if status > 0 else 128 - status}",
        new="{status if status > 0 else 128 + status}",
        why="A program that a signal ended is reported with a status that no shell gives.",
        tests=PROCESS,
    ),
    Mistake(
        file="xwheel/executor/running/process.py",
        old="        if not name.startswith(ENV_PREFIX) and any(",
        new="        if any(",
        why="A pattern of the passed environment gives programs xwheel's own secrets.",
        tests=PROCESS,
    ),
    Mistake(
        file="xwheel/executor/running/supervisor.py",
        old="        if status is None:\n            status = _reap(worker)\n    _sweep(worker)\n",
        new="        if status is None:\n            status = _reap(worker)\n",
        why="What a handler leaves running outlives it.",
        tests=PROCESS,
    ),
    Mistake(
        file="xwheel/executor/running/supervisor.py",
        old="            if pid == worker:\n                status = found\n",
        new="            status = found\n",
        why="The end of a grandchild counts as the end of the handler.",
        tests=PROCESS,
    ),
    Mistake(
        file="xwheel/executor/running/execution.py",
        old='        """Return the outcome of a handler that returned."""\n        if self.ending is not None:\n'
        "            return self.ended(self.ending, now_ms)\n",
        new='        """Return the outcome of a handler that returned."""\n',
        why="A handler that swallows its kill and returns counts as succeeded.",
        tests=EXECUTION,
    ),
    Mistake(
        file="xwheel/executor/running/execution.py",
        old="            thread_id, self.thread_id = self.thread_id, 0\n",
        new="            thread_id = self.thread_id\n",
        why="A kill hits the run that the thread takes up next.",
        tests=EXECUTION,
    ),
]
