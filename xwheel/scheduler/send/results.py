"""Write what sends came to, many at a time, and give their places back."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple

from xwheel.clock import has_come
from xwheel.errors import DatabaseRefusedError, DatabaseUnreachableError
from xwheel.model import RunReason, RunState
from xwheel.runtime.repeats import Repeats
from xwheel.scheduler.check.decide import first_check_ms
from xwheel.scheduler.finish.acceptances import Acceptances
from xwheel.scheduler.finish.finish import Finisher
from xwheel.scheduler.finish.retry import MOST_OVER
from xwheel.scheduler.records import Answer, Delivery, Fate, Outcome, Shard
from xwheel.scheduler.send.not_yet import NotYet, pause_ms
from xwheel.scheduler.send.pool import TriggerPool
from xwheel.scheduler.wakeups import Wakeups
from xwheel.storage import runs
from xwheel.storage.database import changes
from xwheel.storage.database.engine import Connection, Database
from xwheel.storage.database.rows import chunks
from xwheel.wire import contract

logger = logging.getLogger(__name__)

IDLE_MS = 1000
EARLY_MS: Final = 1000  # how long before it is due a run is accepted, at most: it counts from there
AT_ONCE: Final = 1000  # acceptances in one transaction
MOST_HELD: Final = 5000
"""Accepted runs that wait for their end; with more, all are written."""


class _Taken(NamedTuple):
    shard: Shard
    at_ms: int


@dataclass(eq=False, repr=False)
class ResultWriter:
    """Turns deliveries into rows.

    The end of a run that was accepted comes later: with a callback, to :mod:`xwheel.api.xxl.executor_calls`, or with
    the answer to a question, to :mod:`xwheel.scheduler.check.loop`. Most come soon, so an acceptance is held for
    ``hold_ms``, and what has ended by then is written once: :class:`Finisher` finds in ``acceptances`` when it began.

    The place of what is refused or unclear is given back once it is written, and answers that the database does not
    take now are kept until it does: nothing is fenced and sent meanwhile, which bounds them. Writes that would follow
    one another closely become one. No lease is asked for: the node that sent a run writes what came of it, even if its
    partition went elsewhere since.
    """

    db: Database
    pool: TriggerPool
    finisher: Finisher
    suspect: Callable[[str, int, bool], None]  # takes an address that gave no clear answer, when, and if it was reached
    has_asked: Callable[[int], bool]  # whether its router asked executors: AsyncChooser.has_chosen
    not_yet: NotYet
    wakeups: Wakeups
    acceptances: Acceptances
    _: KW_ONLY
    check_after_ms: int  # how long an executor that has a run is believed before it is asked again
    deadline_grace_ms: int  # how long after a time limit it has to report the end
    gather_ms: int  # from one write to the next, at least
    hold_ms: int  # how long an accepted run is waited for before its acceptance is written

    def __post_init__(self) -> None:
        self._taken: dict[int, _Taken] = {}
        self._unknown_handlers = Repeats()
        self._next_ms = 0
        self._inbox: deque[Delivery] = deque()
        # by job and address what was not taken yet: how long to wait, and what the executor said
        # how many were sent, when they are sent again, and what was said last
        self._put_off: dict[tuple[int, str], tuple[int, int, str]] = {}
        self._held: set[int] = set()

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Take what came back; from any thread."""
        for delivery in deliveries:
            self._held.update([shard.run.id for shard in delivery.parcel.shards])
            due = {shard.run.id: shard.run.due_ms for shard in delivery.parcel.shards}
            taken = [answer.run_id for answer in delivery.answers if answer.fate is Fate.ACCEPTED]
            # what left early is accepted when it is due
            self.acceptances.add({run_id: max(delivery.at_ms, due[run_id]) for run_id in taken})
            self._inbox.append(delivery)
        self.wakeups.results.set()

    def pending(self) -> int:
        """Return how many answers wait to be written; a request is one, and so is an accepted run."""
        return len(self._inbox) + len(self._taken)

    def step(self, now_ms: int) -> int:
        """Write what came back, but for what may end soon; return how long to wait in milliseconds."""
        if self._inbox:
            if 0 < self._next_ms - now_ms <= self.gather_ms:
                return self._next_ms - now_ms
            self._next_ms = now_ms + self.gather_ms
            self._read_inbox(now_ms)
        self._write_taken(now_ms)
        if self._inbox:
            return 0
        first = next(iter(self._taken.values()), None)
        return IDLE_MS if first is None else max(1, min(self.hold_ms, first.at_ms + self.hold_ms - now_ms))

    def _read_inbox(self, now_ms: int) -> None:
        batch = [self._inbox.popleft() for _ in range(len(self._inbox))]
        try:
            self._sort(batch, now_ms)
        except (DatabaseUnreachableError, DatabaseRefusedError):
            self._inbox.extendleft(reversed(batch))
            raise
        except Exception:
            self._settle(batch, now_ms)  # the rows stay as they are, and are asked about
            raise
        self._settle(batch, now_ms)

    def _write_taken(self, now_ms: int) -> None:
        """Write the acceptances that were held long enough, and those held half as long that are written with them."""
        taken = self._taken
        first = next(iter(taken.values()), None)
        is_full = len(taken) >= MOST_HELD
        if first is None or not (is_full or has_come(first.at_ms + self.hold_ms, now_ms, self.hold_ms + EARLY_MS)):
            return
        ripe_ms = now_ms if is_full else now_ms - self.hold_ms // 2
        # the time may have gone back since
        is_ripe = lambda item: not ripe_ms < item.at_ms <= now_ms + EARLY_MS  # noqa: E731
        ripe = list(takewhile(is_ripe, taken.values()))
        for part in chunks(ripe, AT_ONCE):
            open_still = [item for item in part if self.acceptances.find(item.shard.run.id) is not None]
            try:
                if open_still:
                    self.db.transaction(partial(self._accept, taken=open_still, now_ms=now_ms))
            except (DatabaseUnreachableError, DatabaseRefusedError):
                raise  # they are kept
            except Exception:
                self._forget(part)  # the rows stay as they are, and are asked about
                raise
            self._forget(part)

    def _forget(self, written: Sequence[_Taken]) -> None:
        ids = [item.shard.run.id for item in written]
        for run_id in ids:
            self._taken.pop(run_id, None)
        self.acceptances.forget(ids)

    def is_held(self, run_id: int) -> bool:
        """Return whether the answer about a run is here and not written yet; from any thread."""
        return run_id in self._held or run_id in self._taken

    def _settle(self, batch: Sequence[Delivery], now_ms: int) -> None:
        for delivery in batch:
            self._held.difference_update([shard.run.id for shard in delivery.parcel.shards])
        if self.pool.came_back(batch, now_ms):
            self.wakeups.tick.set()

    def _sort(self, batch: Sequence[Delivery], now_ms: int) -> None:
        refused: list[Outcome] = []
        for delivery in batch:
            address = delivery.parcel.executor.address
            is_foreign = delivery.parcel.executor.kind != "xwheel"
            shards = {shard.run.id: shard for shard in delivery.parcel.shards}
            is_clear = delivery.reached and all(answer.fate is not Fate.UNKNOWN for answer in delivery.answers)
            if delivery.tried and not is_clear:
                self.suspect(address, now_ms, delivery.reached)
            unknown: list[Answer] = []
            for answer in delivery.answers:
                shard = shards[answer.run_id]
                fate = _fate(answer, delivery, shard, now_ms)
                end = self._end_of(fate, answer, delivery, shard, now_ms)
                if end is not None:
                    refused.append(end)
                elif fate is Fate.ACCEPTED or is_foreign:
                    # a foreign one is never sent again under this id: it may run, and only its callback can tell
                    at_ms = delivery.at_ms or now_ms
                    self._take(shard, fate, max(at_ms, shard.run.due_ms))
                if fate is Fate.ACCEPTED:
                    self.not_yet.forget(address, shard.job.id)
                elif fate is Fate.UNKNOWN:
                    unknown.append(answer)
            for message, count in Counter(answer.message for answer in unknown).items():
                first = next(answer.run_id for answer in unknown if answer.message == message)
                text = "%s gave no clear answer about %d runs, first run %d: %s"
                logger.warning(text, address, count, first, message)
        self._log_not_yet()
        if refused:
            self.finisher.finish(refused)
            self._log_unknown_handlers(batch)

    def _take(self, shard: Shard, fate: Fate, at_ms: int) -> None:
        """Keep a run that was accepted, or may have been, unless it has ended meanwhile."""
        run_id = shard.run.id
        if fate is not Fate.ACCEPTED:
            self.acceptances.add({run_id: at_ms})
        if self.acceptances.find(run_id) is not None:
            self._taken[run_id] = _Taken(shard, at_ms)

    def _log_unknown_handlers(self, batch: Iterable[Delivery]) -> None:
        """Log jobs whose handler an executor does not have: nothing else than a person can change that."""
        for delivery in batch:
            jobs = {shard.run.id: shard.job for shard in delivery.parcel.shards}
            for answer in delivery.answers:
                if answer.fate is not Fate.REFUSED or not contract.NO_HANDLER.match(answer.message):
                    continue
                job, address = jobs[answer.run_id], delivery.parcel.executor.address
                if count := self._unknown_handlers.note((job.id, address)):
                    text = "job %d %s: %s has no handler %r, so run %d is refused, and %d before it"
                    logger.warning(text, job.id, job.name, address, job.handler, answer.run_id, count - 1)

    def _end_of(self, fate: Fate, answer: Answer, delivery: Delivery, shard: Shard, now_ms: int) -> Outcome | None:
        """Return how a run ended if it was refused, or was surely not sent to where it can never be sent again."""
        run, executor = shard.run, delivery.parcel.executor
        if fate is Fate.UNKNOWN and not delivery.tried and executor.kind != "xwheel":
            # this node has sent nothing of it: its next attempt follows at once
            goes_on = not shard.is_pinned
        elif fate is not Fate.REFUSED:
            return None
        elif delivery.reached:
            goes_on = answer.fate is Fate.NOT_YET and self._goes_on(answer, delivery, shard, now_ms)
        else:
            # a further attempt is not pinned, and may go elsewhere
            goes_on = self.has_asked(run.id) or _waits(shard, now_ms)
        is_over = run.attempt >= MOST_OVER or not goes_on
        refused = RunReason.EXECUTOR_REFUSED if delivery.reached else RunReason.UNREACHABLE
        reason = refused if is_over else RunReason.FAILED_OVER
        message = f"{executor.address}: {answer.message}"
        return Outcome(run_id=answer.run_id, state=RunState.REFUSED, reason=reason, message=message)

    def _goes_on(self, answer: Answer, delivery: Delivery, shard: Shard, now_ms: int) -> bool:
        """Return whether a run that its executor does not take yet gets a further attempt, after a while."""
        run, address = shard.run, delivery.parcel.executor.address
        if delivery.again or run.attempt >= MOST_OVER or not _waits(shard, now_ms):
            return False
        wait_ms = pause_ms(run.attempt, shard.job.wait_for_executor_s * 1000)
        self.not_yet.note(address, run.job_id, now_ms + wait_ms, answer.message)
        count = self._put_off.get((run.job_id, address), (0,))[0] + 1
        self._put_off[run.job_id, address] = (count, wait_ms, answer.message)
        return True

    def _log_not_yet(self) -> None:
        """Log which jobs an executor takes no run of yet: one line for each, however many of its runs were sent."""
        for (job_id, address), late in self._put_off.items():
            text = "job %d: %s takes no run of it yet (%d were sent), and is asked again in %d ms: %s"
            logger.info(text, job_id, address, *late)
        self._put_off.clear()

    def _accept(self, conn: Connection, taken: Sequence[_Taken], now_ms: int) -> None:
        after_ms, grace_ms = self.check_after_ms, self.deadline_grace_ms
        rows = {
            shard.run.id: runs.AcceptedRow(
                at_ms,
                first_check_ms(
                    at_ms, shard.job.timeout_s, after_ms, grace_ms, is_foreign=shard.executor.kind != "xwheel"
                ),
            )
            for shard, at_ms in taken
        }
        waiting = runs.update_accepted(conn, rows, now_ms)
        changes.note_accepted(conn, (shard.run for shard, _ in taken), waiting, now_ms)


def _fate(answer: Answer, delivery: Delivery, shard: Shard, now_ms: int) -> Fate:
    """Return what a send comes to with "not yet" read as what it means here: refused or unknown."""
    if answer.fate is not Fate.NOT_YET:
        return answer.fate
    # the first request about it may still arrive, and be taken: it stays with this executor
    return Fate.UNKNOWN if delivery.again and _waits(shard, now_ms) else Fate.REFUSED


def _waits(shard: Shard, now_ms: int) -> bool:
    """Return whether a run may still wait for an executor; one that was meant for named ones may go nowhere else."""
    return not shard.is_pinned and now_ms < shard.run.due_ms + shard.job.wait_for_executor_s * 1000
