"""Write what sends came to, many at a time, and give their places back."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from xwheel.errors import DatabaseRefusedError, DatabaseUnreachableError
from xwheel.model import FAILED_OVER, RunState
from xwheel.scheduler.handover import Delivery, Fate, Outcome
from xwheel.scheduler.ports import Places
from xwheel.storage import changes, runs
from xwheel.storage.engine import Connection, Database

logger = logging.getLogger(__name__)

IDLE_MS = 1000


class AnswerWriter:
    """Turns deliveries into rows.

    A place is given back only after its answers are written, so places also bound what waits here, and answers that
    the database does not take now are kept until it does. Writes that would follow one another closely become one.

    Args:
        db: The database.
        places: The trigger pool.
        finish: Closes refused runs.
        suspect: Told addresses that could not be reached.
        wake: Ends this loop's wait.
        placed: Told that places became free.
        first_check: ``first_check(at_ms, timeout_s)`` tells when an accepted run is looked at.
        has_asked: Tells whether the router of a run asked executors before it chose.
        gather_ms: From one write to the next, at least.
    """

    def __init__(
        self,
        db: Database,
        places: Places,
        finish: Callable[[Sequence[Outcome]], object],
        suspect: Callable[[str, int], None],
        wake: Callable[[], None],
        placed: Callable[[], None],
        first_check: Callable[[int, int], int],
        has_asked: Callable[[int], bool] = lambda _: False,
        *,
        gather_ms: int = 0,
    ) -> None:
        self._db = db
        self._gather_ms = gather_ms
        self._next_ms = 0
        self._places = places
        self._finish = finish
        self._suspect = suspect
        self._wake = wake
        self._placed = placed
        self._first_check = first_check
        self._has_asked = has_asked
        self._inbox: deque[Delivery] = deque()
        self._kept: frozenset[int] = frozenset()

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Take what came back; from any thread."""
        self._inbox.extend(deliveries)
        self._wake()

    def pending(self) -> int:
        """Return how many deliveries wait to be written."""
        return len(self._inbox)

    def step(self, now_ms: int) -> int:
        """Write everything that came back; return how long to wait in milliseconds."""
        if not self._inbox:
            return IDLE_MS
        if 0 < self._next_ms - now_ms <= self._gather_ms:
            return self._next_ms - now_ms
        self._next_ms = now_ms + self._gather_ms
        batch = [self._inbox.popleft() for _ in range(len(self._inbox))]
        try:
            self._write(batch, now_ms)
        except (DatabaseUnreachableError, DatabaseRefusedError):
            self._inbox.extendleft(reversed(batch))
            self._kept = frozenset(shard.run.id for delivery in batch for shard in delivery.parcel.shards)
            raise
        except Exception:
            self._settle(batch, now_ms)  # the rows stay as they are, and are asked about
            raise
        self._settle(batch, now_ms)
        return 0

    def is_kept(self, run_id: int) -> bool:
        """Tell whether the answer about a run waits for the database to take it; from any thread."""
        return run_id in self._kept

    def _settle(self, batch: Sequence[Delivery], now_ms: int) -> None:
        self._kept = frozenset()
        for delivery in batch:
            self._places.release(delivery.parcel.lane, delivery.parcel.executor.address)
            job_ids = [shard.run.job_id for shard in delivery.parcel.shards]
            self._places.record(job_ids, delivery.cost_ms, now_ms)
        self._placed()

    def _write(self, batch: Sequence[Delivery], now_ms: int) -> None:
        accepted: dict[int, list[int]] = {}  # run ids by the time limit of their job
        refused: list[Outcome] = []
        for delivery in batch:
            address = delivery.parcel.executor.address
            is_foreign = delivery.parcel.executor.kind != "xwheel"
            limits = {shard.run.id: shard.job.timeout_s for shard in delivery.parcel.shards}
            if not delivery.reached:
                self._suspect(address, now_ms)
            for answer in delivery.answers:
                if answer.fate is Fate.ACCEPTED:
                    accepted.setdefault(limits[answer.run_id], []).append(answer.run_id)
                elif answer.fate is Fate.REFUSED:
                    goes_on = not delivery.reached and self._has_asked(answer.run_id)
                    refused.append(
                        Outcome(
                            run_id=answer.run_id,
                            state=RunState.REFUSED,
                            reason=FAILED_OVER if goes_on else "executor_refused",
                            message=f"{address}: {answer.message}",
                        )
                    )
                else:
                    logger.warning(
                        "run %d: %s gave no clear answer: %s", answer.run_id, address, answer.message
                    )
                    if is_foreign and delivery.cost_ms:
                        # never sent again under this id: it may run there, and only its callback can tell
                        accepted.setdefault(limits[answer.run_id], []).append(answer.run_id)
        if accepted:
            at_ms = max((delivery.at_ms for delivery in batch), default=now_ms) or now_ms
            self._db.transaction(lambda conn: self._accept(conn, batch, accepted, at_ms))
        if refused:
            self._finish(refused)

    def _accept(
        self,
        conn: Connection,
        batch: Sequence[Delivery],
        accepted: Mapping[int, Sequence[int]],
        at_ms: int,
    ) -> None:
        checks: dict[int, list[int]] = {}
        for timeout_s, ids in accepted.items():
            checks.setdefault(self._first_check(at_ms, timeout_s), []).extend(ids)
        waiting = runs.update_accepted(conn, checks, at_ms)
        shards = (shard.run for delivery in batch for shard in delivery.parcel.shards)
        changes.note_accepted(conn, shards, waiting, at_ms)
