"""Tell alarms: write down what came of sends, decide about what is new, and hand out what is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from xwheel.alarms.channels import Send, Sent
from xwheel.alarms.grouping import SUMMARY, fold, missing_channel
from xwheel.alarms.matching import RuleIndex
from xwheel.alarms.senders import Senders
from xwheel.alarms.texts import LINES, make_alarm
from xwheel.model import ExecutorGroup, Job, Run
from xwheel.model.alarms import AlarmAttempt, AlarmTarget, AttemptState
from xwheel.scheduler.ports import LeaseView
from xwheel.storage import executors, jobs
from xwheel.storage.alarms import alarms, lists
from xwheel.storage.alarms import attempts as alarm_attempts
from xwheel.storage.alarms.alarms import DueAlarm
from xwheel.storage.alarms.attempts import EndedAttempt, NewAttempt
from xwheel.storage.database.engine import Connection, Database

BATCH: Final = 500
NAP_MS: Final = 1000
ORPHANS_MS: Final = 60_000
LONGEST_RETRY_AFTER_S: Final = 3600


@dataclass(frozen=True, slots=True)
class Patience:
    """How often an alarm is sent, and how long after a failure the next attempt begins.

    Attributes:
        attempts: Attempts through one channel, at most.
        first_ms: The first pause; it doubles.
        longest_ms: No pause is longer.
    """

    attempts: int
    first_ms: int
    longest_ms: int

    def next_ms(self, number: int, now_ms: int, retry_after_s: float | None) -> int | None:
        """Return when to try again after a failed attempt of this number, or None."""
        if number >= self.attempts:
            return None
        if retry_after_s is not None:
            return now_ms + round(1000 * min(max(retry_after_s, 0), LONGEST_RETRY_AFTER_S))
        return now_ms + min(self.first_ms << min(number - 1, 32), self.longest_ms)


class AlarmLoop:
    """Does everything about alarms that is not in the transactions of the pipeline; one thread.

    A crash between a send and the row that says so lets the send be repeated, with the same id: an alarm is told at
    least once, and after a crash perhaps once more.

    Args:
        db: The database.
        lease: Our partitions; only their holder tells about their jobs.
        index: The rules.
        senders: The channels.
        patience: When to try again.
        watch: Looks for what did not happen; gets the time.
    """

    def __init__(
        self,
        db: Database,
        lease: LeaseView,
        index: RuleIndex,
        senders: Senders,
        patience: Patience,
        watch: Callable[[int], int],
    ) -> None:
        self._db = db
        self._lease = lease
        self._index = index
        self._senders = senders
        self._patience = patience
        self._watch = watch
        self._orphans_ms = 0

    def step(self, now_ms: int) -> int:
        """Do one round; return how long to wait in milliseconds."""
        self._index.step(now_ms)
        check_ms = self._senders.check()
        self._write(now_ms)
        if not self._lease.may_act():
            return NAP_MS
        watch_ms = self._watch(now_ms)
        is_full = self._fold(now_ms)
        for channel in self._senders.names:
            self._offer(channel, now_ms)
        self._close_orphans(now_ms)
        # once more: a sender that hangs answers at once for what it was just given
        self._senders.check()
        if is_full or self._senders.ended():
            return 0
        return min(NAP_MS, watch_ms, NAP_MS if check_ms is None else check_ms)

    def write_ends(self, now_ms: int) -> None:
        """Write down what came of sends, and nothing else; for the end of the node."""
        while self._senders.ended():
            self._write(now_ms)

    def _write(self, now_ms: int) -> None:
        ended = self._senders.ended()
        if ended:
            self._db.transaction(lambda conn: self._end(conn, ended, now_ms))
            self._senders.forget([sent.attempt.id for sent in ended])

    def _end(self, conn: Connection, ended: Sequence[Sent], now_ms: int) -> None:
        """Write ends of attempts that still wait for theirs, and plan the next ones."""
        waiting = alarm_attempts.lock_attempts(conn, {sent.attempt.id for sent in ended})
        mine = [sent for sent in ended if sent.attempt.id in waiting and not sent.is_left]
        alarm_attempts.update_attempts(
            conn,
            [
                EndedAttempt(
                    sent.attempt.id,
                    AttemptState.SENT if sent.ok else AttemptState.FAILED,
                    sent.started_ms,
                    sent.took_ms,
                    sent.answer,
                )
                for sent in sorted(mine, key=lambda sent: sent.attempt.id)
            ],
        )
        retries = (self._retry(sent, now_ms) for sent in mine if not sent.ok)
        alarm_attempts.insert_attempts(conn, [retry for retry in retries if retry is not None])

    def _retry(self, sent: Sent, now_ms: int) -> NewAttempt | None:
        attempt = sent.attempt
        due_ms = self._patience.next_ms(attempt.number, now_ms, sent.retry_after_s)
        if due_ms is None or attempt.channel not in self._senders.names:
            return None
        return NewAttempt(
            alarm_id=attempt.alarm_id,
            job_id=attempt.job_id,
            group_id=attempt.group_id,
            partition=attempt.partition,
            target=AlarmTarget(channel=attempt.channel, receivers=attempt.receivers),
            number=attempt.number + 1,
            due_ms=due_ms,
        )

    def _fold(self, now_ms: int) -> bool:
        """Decide about a batch of what is new or held back; tell whether there may be more."""
        with self._db.read() as conn:
            found = alarms.find_due_alarms(conn, self._lease.epochs, now_ms, BATCH)
        if found:
            self._db.transaction(lambda conn: self._decide(conn, dict(found), now_ms))
        return len(found) == BATCH

    def _decide(self, conn: Connection, found: Mapping[int, int], now_ms: int) -> None:
        ours = self._lease.lock(conn)
        # nobody but the holder of the partition, on this thread, changes what is held
        ids = {*found, *alarms.find_held(conn, set(found.values()))}
        locked = [item for item in alarms.lock_alarms(conn, ids) if item.row.partition in ours]
        due = [item for item in locked if item.row.id in found and _is_due(item, now_ms)]
        episodes = alarms.lock_episodes(conn, {found[item.row.id] for item in due})
        holders = [item for item in locked if item.row.id not in found]
        folded = fold(due, holders, self._index.by_id, episodes, now_ms, channels=self._senders.names)
        alarms.update_alarms(conn, folded.changes)
        alarms.save_episodes(conn, folded.episodes)
        alarm_attempts.insert_attempts(conn, folded.attempts)

    def _offer(self, channel: str, now_ms: int) -> None:
        """Hand what is due for a channel to it, as much as it takes; the rest stays in its rows."""
        room = self._senders.room(channel)
        if room <= 0:
            return
        known = self._senders.under_way(channel)
        with self._db.read() as conn:
            found = alarm_attempts.find_due_attempts(
                conn, self._lease.epochs, channel, now_ms, room + len(known)
            )
            fresh = [item for item in found if item.id not in known]
            sends = self._load(conn, sorted(fresh, key=lambda item: (item.due_ms or 0, item.id)))
        for send in sends:
            if not self._senders.put(send):
                return

    def _load(self, conn: Connection, attempts: Sequence[AlarmAttempt]) -> list[Send]:
        """Return attempts with everything that a channel is told."""
        if not attempts:
            return []
        rows = alarms.get_alarms(conn, {item.alarm_id for item in attempts})
        sums = {row.id for row in rows.values() if row.note == SUMMARY}
        members = alarms.list_merged(conn, sums, SUMMARY, LINES * len(sums)) if sums else []
        found = [*rows.values(), *members]
        owners = jobs.get_jobs(conn, {row.job_id for row in found if row.job_id is not None})
        known = lists.get_runs(conn, {row.run_id for row in rows.values() if row.run_id is not None})
        names = {job.id: " ".join(job.name.split()) for job in owners.values()}
        at_home = executors.get_groups(conn, {job.group_id for job in owners.values()})
        sends: list[Send] = []
        for attempt in attempts:
            row = rows.get(attempt.alarm_id)
            if row is None:
                continue  # deleted by hand: nobody knows any more what to tell
            job: Job | None = owners.get(row.job_id or 0)
            group: ExecutorGroup | None = at_home.get(job.group_id) if job is not None else None
            run: Run | None = known.get(row.run_id or 0)
            mine = [item for item in members if item.notice_id == row.id]
            alarm = make_alarm(row, job, group, run, members=mine, names=names, receivers=attempt.receivers)
            sends.append(Send(attempt, alarm))
        return sends

    def _close_orphans(self, now_ms: int) -> None:
        """End attempts through channels that were uninstalled since they were planned."""
        if now_ms - self._orphans_ms < ORPHANS_MS:
            return
        names = self._senders.names
        with self._db.read() as conn:
            orphans = alarm_attempts.find_orphans(conn, self._lease.epochs, names, BATCH)
        if orphans:
            ended = [Sent(item, False, missing_channel(item.channel, names), None, None) for item in orphans]
            self._db.transaction(lambda conn: self._end(conn, ended, now_ms))
        if len(orphans) < BATCH:
            self._orphans_ms = now_ms


def _is_due(item: DueAlarm, now_ms: int) -> bool:
    return item.row.due_ms is not None and item.row.due_ms <= now_ms
