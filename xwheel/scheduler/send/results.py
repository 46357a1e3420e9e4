"""Write what sends came to, many at a time, and give their places back."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Final, NamedTuple

from xwheel.errors import DatabaseRefusedError, DatabaseUnreachableError
from xwheel.model import RunReason, RunState
from xwheel.runtime.repeats import Repeats
from xwheel.scheduler.check.decide import first_check_ms
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.finish.retry import MOST_OVER
from xwheel.scheduler.records import Answer, Delivery, Fate, Outcome, Shard
from xwheel.scheduler.send.not_yet import NotYet, pause_ms
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.scheduler.wakeups import Wakeups
from xwheel.storage import runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.wire import contract

logger = logging.getLogger(__name__)

IDLE_MS = 1000


class _PutOff(NamedTuple):
    """How many runs of a job an executor did not take yet, when it is asked again, and what it said last."""

    sent: int
    wait_ms: int
    message: str


_NONE_PUT_OFF: Final = _PutOff(0, 0, "")


@dataclass(eq=False, repr=False)
class ResultWriter:
    """Turns deliveries into rows.

    A place is given back only after its answers are written, so places also bound what waits here, and answers that
    the database does not take now are kept until it does. Writes that would follow one another closely become one.
    No lease is asked for: the node that sent a run writes what came of it, even if its partition went elsewhere since.
    """

    db: Database
    pool: TriggerPool
    finisher: Finisher
    suspect: Callable[[str, int], None]  # takes an address that could not be reached, and when
    has_asked: Callable[[int], bool]  # whether its router asked executors: AsyncChooser.has_chosen
    not_yet: NotYet
    wakeups: Wakeups
    _: KW_ONLY
    check_after_ms: int  # how long an executor that accepted a run is believed before it is asked
    deadline_grace_ms: int  # how long after a time limit it has to report the end
    gather_ms: int  # from one write to the next, at least

    def __post_init__(self) -> None:
        self._unknown_handlers = Repeats()
        self._next_ms = 0
        self._inbox: deque[Delivery] = deque()
        self._put_off: dict[tuple[int, str], _PutOff] = {}
        self._held: set[int] = set()

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Take what came back; from any thread."""
        for delivery in deliveries:
            self._held.update([shard.run.id for shard in delivery.parcel.shards])
            self._inbox.append(delivery)
        self.wakeups.results.set()

    def pending(self) -> int:
        """Return how many deliveries wait to be written."""
        return len(self._inbox)

    def step(self, now_ms: int) -> int:
        """Write everything that came back; return how long to wait in milliseconds."""
        if not self._inbox:
            return IDLE_MS
        if 0 < self._next_ms - now_ms <= self.gather_ms:
            return self._next_ms - now_ms
        self._next_ms = now_ms + self.gather_ms
        batch = [self._inbox.popleft() for _ in range(len(self._inbox))]
        try:
            self._write(batch, now_ms)
        except (DatabaseUnreachableError, DatabaseRefusedError):
            self._inbox.extendleft(reversed(batch))
            raise
        except Exception:
            self._settle(batch, now_ms)  # the rows stay as they are, and are asked about
            raise
        self._settle(batch, now_ms)
        return 0

    def is_held(self, run_id: int) -> bool:
        """Return whether the answer about a run is here and not written yet; from any thread."""
        return run_id in self._held

    def _settle(self, batch: Sequence[Delivery], now_ms: int) -> None:
        for delivery in batch:
            shards = delivery.parcel.shards
            self._held.difference_update([shard.run.id for shard in shards])
            if not delivery.parcel.rest:  # the last of its place
                self.pool.release(delivery.parcel.lane, delivery.parcel.executor.address)
            self.pool.record([shard.run.job_id for shard in shards], delivery.cost_ms, now_ms)
        self.wakeups.tick.set()

    def _write(self, batch: Sequence[Delivery], now_ms: int) -> None:
        accepted: dict[int, list[int]] = {}  # run ids by the time limit of their job
        refused: list[Outcome] = []
        for delivery in batch:
            address = delivery.parcel.executor.address
            is_foreign = delivery.parcel.executor.kind != "xwheel"
            shards = {shard.run.id: shard for shard in delivery.parcel.shards}
            if delivery.tried and not delivery.reached:
                self.suspect(address, now_ms)
            unknown: list[Answer] = []
            for answer in delivery.answers:
                shard = shards[answer.run_id]
                fate = _fate(answer, delivery, shard, now_ms)
                end = self._end_of(fate, answer, delivery, shard, now_ms)
                if end is not None:
                    refused.append(end)
                elif fate is Fate.ACCEPTED or is_foreign:
                    # a foreign one is never sent again under this id: it may run, and only its callback can tell
                    accepted.setdefault(shard.job.timeout_s, []).append(answer.run_id)
                if fate is Fate.ACCEPTED:
                    self.not_yet.forget(address, shard.job.id)
                elif fate is Fate.UNKNOWN:
                    unknown.append(answer)
            _log_unknown(address, unknown)
        self._log_not_yet()
        if accepted:
            at_ms = max((delivery.at_ms for delivery in batch), default=now_ms) or now_ms
            self.db.transaction(lambda conn: self._accept(conn, batch, accepted, at_ms))
        if refused:
            self.finisher.finish(refused)
            self._log_unknown_handlers(batch)

    def _log_unknown_handlers(self, batch: Iterable[Delivery]) -> None:
        """Log jobs whose handler an executor does not have: nothing else than a person can change that."""
        for delivery in batch:
            jobs = {shard.run.id: shard.job for shard in delivery.parcel.shards}
            for answer in delivery.answers:
                if answer.fate is not Fate.REFUSED or not contract.NO_HANDLER.match(answer.message):
                    continue
                job, address = jobs[answer.run_id], delivery.parcel.executor.address
                if count := self._unknown_handlers.note((job.id, address)):
                    logger.warning(
                        "job %d %s: %s has no handler %r, so run %d is refused, and %d before it",
                        job.id,
                        job.name,
                        address,
                        job.handler,
                        answer.run_id,
                        count - 1,
                    )

    def _end_of(
        self, fate: Fate, answer: Answer, delivery: Delivery, shard: Shard, now_ms: int
    ) -> Outcome | None:
        """Return how a run ended if it was refused, or was surely not sent to where it can never be sent again."""
        if fate is Fate.REFUSED:
            return self._refusal(answer, delivery, shard, now_ms)
        if fate is Fate.UNKNOWN and not delivery.tried and delivery.parcel.executor.kind != "xwheel":
            return _unsent(answer, delivery.parcel.executor.address, shard)
        return None

    def _refusal(self, answer: Answer, delivery: Delivery, shard: Shard, now_ms: int) -> Outcome:
        reason = RunReason.EXECUTOR_REFUSED
        if not delivery.reached:
            run = shard.run
            # a further attempt is not pinned, and may go elsewhere
            wait_ms = 0 if shard.is_pinned else shard.job.wait_for_executor_s * 1000
            goes_on = self.has_asked(run.id) or now_ms < run.due_ms + wait_ms
            is_over = run.attempt >= MOST_OVER or not goes_on
            reason = RunReason.UNREACHABLE if is_over else RunReason.FAILED_OVER
        elif answer.fate is Fate.NOT_YET and self._goes_on(answer, delivery, shard, now_ms):
            reason = RunReason.FAILED_OVER
        return _refused(answer, delivery.parcel.executor.address, reason)

    def _goes_on(self, answer: Answer, delivery: Delivery, shard: Shard, now_ms: int) -> bool:
        """Return whether a run that its executor does not take yet gets a further attempt, after a while."""
        run, address = shard.run, delivery.parcel.executor.address
        if delivery.again or run.attempt >= MOST_OVER or not _waits(shard, now_ms):
            return False
        wait_ms = pause_ms(run.attempt, shard.job.wait_for_executor_s * 1000)
        self.not_yet.note(address, run.job_id, now_ms + wait_ms, answer.message)
        count = self._put_off.get((run.job_id, address), _NONE_PUT_OFF).sent + 1
        self._put_off[run.job_id, address] = _PutOff(count, wait_ms, answer.message)
        return True

    def _log_not_yet(self) -> None:
        """Log which jobs an executor takes no run of yet: one line for each, however many of its runs were sent."""
        for (job_id, address), late in self._put_off.items():
            logger.info(
                "job %d: %s takes no run of it yet (%d were sent), and is asked again in %d ms: %s",
                job_id,
                address,
                late.sent,
                late.wait_ms,
                late.message,
            )
        self._put_off.clear()

    def _accept(
        self, conn: Connection, batch: Sequence[Delivery], accepted: Mapping[int, Sequence[int]], at_ms: int
    ) -> None:
        checks: dict[int, list[int]] = {}
        for timeout_s, ids in accepted.items():
            check_ms = first_check_ms(
                at_ms, timeout_s, check_after_ms=self.check_after_ms, deadline_grace_ms=self.deadline_grace_ms
            )
            checks.setdefault(check_ms, []).extend(ids)
        waiting = runs.update_accepted(conn, checks, at_ms)
        shards = (shard.run for delivery in batch for shard in delivery.parcel.shards)
        changes.note_accepted(conn, shards, waiting, at_ms)


def _fate(answer: Answer, delivery: Delivery, shard: Shard, now_ms: int) -> Fate:
    """Return what a send comes to with "not yet" read as what it means here: refused or unknown."""
    if answer.fate is not Fate.NOT_YET:
        return answer.fate
    # the first request about it may still arrive, and be taken: it stays with this executor
    return Fate.UNKNOWN if delivery.again and _waits(shard, now_ms) else Fate.REFUSED


def _unsent(answer: Answer, address: str, shard: Shard) -> Outcome:
    """Return the end of a run of which this node has sent nothing; its next attempt follows at once."""
    is_over = shard.is_pinned or shard.run.attempt >= MOST_OVER
    return _refused(answer, address, RunReason.UNREACHABLE if is_over else RunReason.FAILED_OVER)


def _refused(answer: Answer, address: str, reason: RunReason) -> Outcome:
    message = f"{address}: {answer.message}"
    return Outcome(run_id=answer.run_id, state=RunState.REFUSED, reason=reason, message=message)


def _waits(shard: Shard, now_ms: int) -> bool:
    """Return whether a run may still wait for an executor; one that was meant for named ones may go nowhere else."""
    return not shard.is_pinned and now_ms < shard.run.due_ms + shard.job.wait_for_executor_s * 1000


def _log_unknown(address: str, unknown: Sequence[Answer]) -> None:
    """Log the runs without a clear answer, those with the same message in one line."""
    for message, count in Counter(answer.message for answer in unknown).items():
        logger.warning(
            "%s gave no clear answer about %d runs, first run %d: %s",
            address,
            count,
            next(answer.run_id for answer in unknown if answer.message == message),
            message,
        )
