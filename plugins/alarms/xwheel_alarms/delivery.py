"""Deliver alarms: write down what came of sends, group what is new, and hand out what is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xwheel.model import ExecutorGroup, Job, Run
from xwheel.plugin import PluginDatabase, PluginPartitions
from xwheel.storage import executors, jobs, runs

from xwheel_alarms.channels import AlarmChannels, Send, Sent
from xwheel_alarms.contract import Alarm
from xwheel_alarms.grouping import SUMMARY, group_alarms, missing_channel
from xwheel_alarms.helpers import shown_time
from xwheel_alarms.matching import RuleIndex
from xwheel_alarms.records import AlarmAttempt, AlarmKind, AlarmRow, AlarmTarget, AttemptState
from xwheel_alarms.settings import AlarmSection
from xwheel_alarms.storage import alarms, lists
from xwheel_alarms.storage import attempts as alarm_attempts
from xwheel_alarms.storage.attempts import EndedAttempt, NewAttempt

BATCH: Final = 500
NAP_MS: Final = 1000
REST_MS: Final = 30_000
ORPHANS_MS: Final = 60_000
LONGEST_RETRY_AFTER_S: Final = 3600
LINES: Final = 50
"""Jobs that a summary names; the others are a number."""

WORDS: Final = {
    AlarmKind.FAILED: "failed",
    AlarmKind.LOST: "was lost",
    AlarmKind.REFUSED: "was refused",
    AlarmKind.SKIPPED: "was skipped",
    AlarmKind.NOT_RUN: "did not run",
    AlarmKind.STILL_RUNNING: "is still running",
    AlarmKind.SCHEDULE_ERROR: "was stopped, its schedule fails",
    AlarmKind.RECOVERED: "is well again",
    AlarmKind.TEST: "test",
}


class AlarmDelivery:
    """Does everything about alarms that is not in the transactions of the pipeline; one thread.

    After a crash between a send and the row that says so the send is repeated, with the same id: an alarm is sent at
    least once, and after a crash perhaps once more.

    Args:
        db: The database.
        partitions: Those that this process holds; only their holder sends alarms about their jobs.
        index: The rules.
        channels: The channels.
        settings: How often an alarm is sent, and the pauses after failures.
        watch: Finds what did not happen; gets the time, and returns how long to wait in milliseconds.
    """

    def __init__(
        self,
        db: PluginDatabase,
        partitions: PluginPartitions,
        index: RuleIndex,
        channels: AlarmChannels,
        settings: AlarmSection,
        watch: Callable[[int], int],
    ) -> None:
        self._db = db
        self._partitions = partitions
        self._index = index
        self._channels = channels
        self._settings = settings
        self._watch = watch
        self._orphans_ms = 0

    def step(self, now_ms: int) -> int:
        """Do one round; return how long to wait in milliseconds."""
        self._index.step(self._db, now_ms)
        check_ms = self._channels.check()
        self._write(now_ms)
        if not self._partitions.held():
            return NAP_MS
        watch_ms = self._watch(now_ms)
        is_full = self._group(now_ms)
        for channel in self._channels.names:
            self._offer(channel, now_ms)
        self._close_orphans(now_ms)
        # once more: what was just handed to a channel that hangs fails at once
        self._channels.check()
        if is_full or self._channels.ended():
            return 0
        # the node says when something is due
        return min(REST_MS, watch_ms, REST_MS if check_ms is None else check_ms)

    def write_ends(self, now_ms: int) -> None:
        """Write down what came of sends, and nothing else; for the stop of the node."""
        while self._channels.ended():
            self._write(now_ms)

    def _write(self, now_ms: int) -> None:
        ended = self._channels.ended()
        if ended:
            self._db.transaction(lambda conn: self._end(conn, ended, now_ms))
            self._channels.forget([sent.attempt.id for sent in ended])

    def _end(self, conn: Any, ended: Sequence[Sent], now_ms: int) -> None:
        """Write ends of attempts that still wait for theirs, and plan the next ones."""
        waiting = alarm_attempts.lock_attempts(conn, {sent.attempt.id for sent in ended})
        mine = [sent for sent in ended if sent.attempt.id in waiting and not sent.is_skipped]
        alarm_attempts.update_attempts(conn, sorted(map(_ended, mine), key=lambda item: item.id))
        retries = (self._retry(sent, now_ms) for sent in mine if not sent.ok)
        alarm_attempts.insert_attempts(conn, [retry for retry in retries if retry is not None])

    def _retry(self, sent: Sent, now_ms: int) -> NewAttempt | None:
        attempt = sent.attempt
        settings = self._settings
        if attempt.number >= settings.attempts or attempt.channel not in self._channels.names:
            return None
        pause_s: float = min(settings.retry_delay_s << min(attempt.number - 1, 32), settings.retry_max_delay_s)
        if sent.retry_after_s is not None:
            pause_s = min(max(sent.retry_after_s, 0), LONGEST_RETRY_AFTER_S)
        return NewAttempt(
            alarm_id=attempt.alarm_id,
            job_id=attempt.job_id,
            group_id=attempt.group_id,
            partition=attempt.partition,
            target=AlarmTarget(channel=attempt.channel, receivers=attempt.receivers),
            number=attempt.number + 1,
            due_ms=now_ms + round(1000 * pause_s),
        )

    def _group(self, now_ms: int) -> bool:
        """Decide about a batch of what is new or held back; return whether there may be more."""
        with self._db.read() as conn:
            found = alarms.find_due_alarms(conn, self._partitions.held(), now_ms, BATCH)
        if found:
            self._db.transaction(lambda conn: self._decide(conn, dict(found), now_ms))
        return len(found) == BATCH

    def _decide(self, conn: Any, found: Mapping[int, int], now_ms: int) -> None:
        ours = self._partitions.lock(conn)
        # only this thread of the partition's holder changes what is held
        ids = {*found, *alarms.find_held(conn, set(found.values()))}
        locked = [item for item in alarms.lock_alarms(conn, ids) if item.row.partition in ours]
        due = [
            item
            for item in locked
            if item.row.id in found and item.row.due_ms is not None and item.row.due_ms <= now_ms
        ]
        episodes = alarms.lock_episodes(conn, {found[item.row.id] for item in due})
        holders = [item for item in locked if item.row.id not in found]
        grouped = group_alarms(due, holders, self._index.by_id, episodes, now_ms, channels=self._channels.names)
        alarms.update_alarms(conn, grouped.changes)
        alarms.save_episodes(conn, grouped.episodes)
        alarm_attempts.insert_attempts(conn, grouped.attempts)

    def _offer(self, channel: str, now_ms: int) -> None:
        """Hand what is due for a channel to it, as much as it takes; the rest stays in its rows."""
        room = self._channels.room(channel)
        if room <= 0:
            return
        known = self._channels.under_way(channel)
        with self._db.read() as conn:
            found = alarm_attempts.find_due_attempts(conn, self._partitions.held(), channel, now_ms, room + len(known))
            fresh = [item for item in found if item.id not in known]
            sends = self._load(conn, sorted(fresh, key=lambda item: (item.due_ms or 0, item.id)))
        self._channels.put(channel, sends)

    def _load(self, conn: Any, attempts: Sequence[AlarmAttempt]) -> list[Send]:
        """Return attempts with everything that a channel gets."""
        if not attempts:
            return []
        rows = alarms.get_alarms(conn, {item.alarm_id for item in attempts})
        sums = {row.id for row in rows.values() if row.note == SUMMARY}
        members = alarms.list_merged(conn, sums, SUMMARY, LINES * len(sums)) if sums else []
        found = [*rows.values(), *members]
        owners = jobs.get_jobs(conn, {row.job_id for row in found if row.job_id is not None})
        known = runs.get_runs(conn, {row.run_id for row in rows.values() if row.run_id is not None})
        names = {job.id: " ".join(job.name.split()) for job in owners.values()}
        groups = executors.get_groups(conn, {job.group_id for job in owners.values()})
        sends: list[Send] = []
        for attempt in attempts:
            row = rows.get(attempt.alarm_id)
            if row is None:
                continue  # deleted by hand: there is nothing left to send
            job = owners.get(row.job_id or 0)
            group = groups.get(job.group_id) if job is not None else None
            run = known.get(row.run_id or 0)
            mine = [item for item in members if item.notice_id == row.id]
            alarm = make_alarm(
                row,
                job,
                group,
                run,
                members=mine,
                names=names,
                receivers=attempt.receivers,
                console_url=self._settings.console_url,
            )
            sends.append(Send(attempt, alarm))
        return sends

    def _close_orphans(self, now_ms: int) -> None:
        """End attempts through channels that were uninstalled since they were planned."""
        if now_ms - self._orphans_ms < ORPHANS_MS:
            return
        names = self._channels.names
        with self._db.read() as conn:
            orphans = alarm_attempts.find_orphans(conn, self._partitions.held(), names, BATCH)
        if orphans:
            ended = [Sent(item, False, missing_channel(item.channel, names)) for item in orphans]
            self._db.transaction(lambda conn: self._end(conn, ended, now_ms))
        if len(orphans) < BATCH:
            self._orphans_ms = now_ms


def make_alarm(
    row: AlarmRow,
    job: Job | None,
    group: ExecutorGroup | None,
    run: Run | None,
    *,
    members: Sequence[AlarmRow] = (),
    names: dict[int, str] | None = None,
    receivers: Sequence[str] = (),
    console_url: str = "",
) -> Alarm:
    """Return what a channel is asked to send.

    Args:
        row: The alarm.
        job: Its job.
        group: Its job's group.
        run: The run that it is about, if it is still there.
        members: For a summary, what else it counts.
        names: Names of the jobs of those, by id.
        receivers: Whose addresses it goes to, in the channel's own words.
        console_url: Where people reach the console; empty if that is not known.
    """
    if len({item.job_id for item in (row, *members)}) > 1:
        job, group, run = None, None, None
    link = _link(console_url, row, job)
    timezone = "UTC" if job is None else job.timezone
    if members:
        title, lines = _summary([row, *members], names or {}, row.count, timezone)
    else:
        title, lines = _title(row, job), _facts(row, job, group, run, timezone)
    text = "\n".join([title, *lines, *([f"Link: {link}"] if link else [])])
    return Alarm(
        id=row.id,
        kind=row.kind,
        at_ms=row.at_ms,
        title=title,
        text=text,
        reason=row.reason,
        job=job,
        group=group,
        run=run,
        count=row.count,
        receivers=tuple(receivers),
        link=link,
    )


def _link(console_url: str, row: AlarmRow, job: Job | None) -> str:
    """Return the console's page of what an alarm is about: of its run, of its job, or of all alarms."""
    base = console_url.rstrip("/")
    if not base:
        return ""
    if job is None:
        return f"{base}/#/alarms"
    return f"{base}/#/jobs/{job.id}" if row.run_id is None else f"{base}/#/runs/{row.run_id}"


def _title(row: AlarmRow, job: Job | None) -> str:
    if row.kind is AlarmKind.TEST:
        return "Test of an alarm channel"
    name = " ".join(job.name.split()) if job is not None else ""
    title = f"Job {row.job_id}{f' ({name})' if name else ''} {WORDS[row.kind]}"
    if row.kind is AlarmKind.RECOVERED:
        return title
    return f"{title} {row.count} times" if row.count > 1 else title


def _facts(row: AlarmRow, job: Job | None, group: ExecutorGroup | None, run: Run | None, timezone: str) -> list[str]:
    if row.kind is AlarmKind.TEST:
        return ["Nothing happened: this tests whether alarms arrive."]
    is_end = row.kind is AlarmKind.RECOVERED
    facts = [
        ("At", shown_time(row.at_ms, timezone)),
        ("Last", shown_time(row.last_ms, timezone) if row.last_ms > row.at_ms else ""),
        ("Was told before" if is_end else "Reason", row.reason),
        ("Not told since", str(row.count - 1) if is_end and row.count > 1 else ""),
        ("Message", row.message),
        ("Run", str(row.run_id or "")),
        *(_run_facts(run, timezone) if run is not None else ()),
        ("Group", group.app_name if group is not None else ""),
        ("Handler", job.handler if job is not None else ""),
    ]
    return [f"{name}: {value}" for name, value in facts if value]


def _run_facts(run: Run, timezone: str) -> list[tuple[str, str]]:
    return [
        ("Due", shown_time(run.due_ms, timezone)),
        ("Attempt", str(run.attempt)),
        ("Shard", f"{run.shard_index} of {run.shard_total}" if run.shard_total > 1 else ""),
        ("Executor", run.address or ""),
    ]


def _summary(rows: Sequence[AlarmRow], names: dict[int, str], count: int, timezone: str) -> tuple[str, list[str]]:
    title = f"Quiet hours are over: {count} alarms of {len({row.job_id for row in rows})} jobs"
    lines = [
        f"Job {row.job_id}{f' ({name})' if (name := names.get(row.job_id or 0, '')) else ''} {WORDS[row.kind]}, "
        f"last at {shown_time(row.last_ms, timezone)}{f': {row.reason}' if row.reason else ''}"
        for row in rows[:LINES]
    ]
    if len(rows) > LINES:
        lines.append(f"and {len(rows) - LINES} more")
    return title, lines


def send_test(
    db: PluginDatabase,
    channels: AlarmChannels,
    now_ms: int,
    channel: str,
    receivers: Sequence[str],
    also: Callable[[Any, int], None] = lambda _conn, _alarm_id: None,
) -> AlarmAttempt:
    """Send a test through an installed channel now, and keep it; return the attempt with what came of it.

    ``also`` is called in the transaction that makes the alarm, with its id.

    Raises:
        ConflictError: Another test of the channel is under way.
    """

    def begin(conn: Any) -> AlarmRow:
        alarm_id = alarms.insert_test(conn, now_ms)
        also(conn, alarm_id)
        return lists.get_alarm(conn, alarm_id)

    row = db.transaction(begin)
    target = AlarmTarget(channel=channel, receivers=tuple(receivers))
    draft = AlarmAttempt(
        id=0,
        alarm_id=row.id,
        job_id=None,
        group_id=None,
        partition=row.partition,
        channel=channel,
        receivers=target.receivers,
        number=1,
        state=AttemptState.WAITING,
        due_ms=None,
        started_ms=None,
        took_ms=None,
        answer="",
    )
    sent = channels.test(draft, make_alarm(row, None, None, None, receivers=receivers))
    new = NewAttempt(row.id, None, None, row.partition, target, 1, None)
    return db.transaction(lambda conn: lists.get_attempt(conn, alarm_attempts.insert_ended(conn, new, _ended(sent))))


def _ended(sent: Sent) -> EndedAttempt:
    state = AttemptState.SENT if sent.ok else AttemptState.FAILED
    return EndedAttempt(sent.attempt.id, state, sent.started_ms, sent.took_ms, sent.answer)
