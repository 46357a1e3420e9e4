"""Mutants of what follows a send: its answer, its check, its outcome."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Sequence

import falcon
from sqlalchemy import Connection, update

from tests.faults.mutants.patches import Patches
from xwheel.api.http.auth import Caller
from xwheel.api.xxl import executor_calls
from xwheel.api.xxl.executor_calls import ExecutorCalls
from xwheel.model import Reporter, RunState
from xwheel.scheduler.check.loop import CheckLoop
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.records import Delivery, Fate, Outcome
from xwheel.scheduler.send.results import ResultWriter
from xwheel.storage.schema.tables import open_run
from xwheel.wire import codec, contract
from xwheel.wire.messages import Response

logger = logging.getLogger(__name__)


def reroute_unknown(patches: Patches) -> None:
    """A run whose send ended without an answer is planned again, under its id, and routed to who is free now.

    The executor that was asked becomes a suspect, so that another one gets the run, while the first may have it. Shards
    of a broadcast, and sends that a process leaves behind when it ends, are still asked again at the same instance.
    """

    def sort(
        original: Callable[[ResultWriter, Sequence[Delivery], int], None],
    ) -> Callable[[ResultWriter, Sequence[Delivery], int], None]:
        def _sort(self: ResultWriter, batch: Sequence[Delivery], now_ms: int) -> None:
            original(self, batch, now_ms)
            unknown: list[int] = []
            for delivery in batch:
                executor = delivery.parcel.executor
                ids = [answer.run_id for answer in delivery.answers if answer.fate is Fate.UNKNOWN]
                if ids and executor.kind == "xwheel":
                    self.suspect(executor.address, now_ms, False)
                    unknown += ids
            if unknown:
                self.db.transaction(lambda conn: _plan_again(conn, unknown))

        return _sort

    patches.replace(ResultWriter, "_sort", sort)


def _plan_again(conn: Connection, ids: Sequence[int]) -> None:
    fresh = {"state": RunState.PLANNED, "epoch": 0}
    nobody = dict.fromkeys(("address", "instance", "dispatched_ms", "check_ms"))
    # a shard that were planned again would be made into all shards again
    unanswered = (open_run.c.id.in_(ids), open_run.c.state == RunState.DISPATCHING, open_run.c.shard_total == 1)
    conn.execute(update(open_run).where(*unanswered).values(**fresh, **nobody))


def no_check(patches: Patches) -> None:
    """No one asks about open runs: not when they are due for it, nor because their executor left or restarted.

    Kills travel as checks, so runs that were sent are not killed either. Sends without an answer are asked again.
    """

    def read_due(_original: object) -> Callable[[CheckLoop, int], bool]:
        def _read_due(self: CheckLoop, now_ms: int) -> bool:
            del self, now_ms
            return False

        return _read_due

    patches.replace(CheckLoop, "_read_due", read_due)


def outcome_before_commit(patches: Patches) -> None:
    """Outcomes are acknowledged when they arrive, and written afterwards by one thread, which tries each once.

    What ends the process, or keeps the database away, between the two loses outcomes that their executors let go of.
    """
    patches.replace(ExecutorCalls, "_take_outcomes", lambda _original: _acknowledge(Background()))


def _acknowledge(background: Background) -> Callable[[ExecutorCalls, falcon.Request, Caller, bytes], Response]:
    def _take_outcomes(self: ExecutorCalls, _req: falcon.Request, caller: Caller, body: bytes) -> Response:
        items, _ = codec.decode_callbacks(body)
        reporter = Reporter(caller.group_id)
        outcomes = [executor_calls.reported_outcome(item, reporter) for item in items]
        background.finish(self._parts.finisher, outcomes)
        return Response(code=contract.OK)

    return _take_outcomes


class Background:
    """A thread that writes outcomes after their acknowledgement."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[tuple[Finisher, Sequence[Outcome]]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def finish(self, finisher: Finisher, outcomes: Sequence[Outcome]) -> None:
        """Take outcomes, and return at once."""
        self._waiting.put((finisher, outcomes))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mutant-outcomes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while True:
            finisher, outcomes = self._waiting.get()
            try:
                finisher.finish(outcomes)
            except Exception as error:
                logger.warning("%d acknowledged outcomes are lost: %s", len(outcomes), error)
