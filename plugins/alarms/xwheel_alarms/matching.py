"""Find the rules that ask for what just happened; without a query, and for a success with one look-up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from xwheel.model import Job, Run, RunState
from xwheel.plugin import Changes, PluginDatabase, Rows, RunEnd

from xwheel_alarms.records import AlarmKind, AlarmRule, AlarmWhen
from xwheel_alarms.storage import alarms as alarm_rows
from xwheel_alarms.storage import rules as alarm_rules
from xwheel_alarms.storage.alarms import NewAlarm
from xwheel_alarms.storage.rules import RuleFilter, RuleVersion
from xwheel_alarms.storage.watch import WatchedJob

KINDS: Final = {
    RunState.FAILED: AlarmKind.FAILED,
    RunState.TIMED_OUT: AlarmKind.FAILED,
    RunState.KILLED: AlarmKind.FAILED,
    RunState.LOST: AlarmKind.LOST,
    RunState.REFUSED: AlarmKind.REFUSED,
    RunState.SKIPPED: AlarmKind.SKIPPED,
}
RETRIED: Final = frozenset({AlarmKind.FAILED, AlarmKind.LOST, AlarmKind.REFUSED})
REFRESH_MS: Final = 1000
OVERLAP_MS: Final = 10_000
"""What changed so long ago is read again: a transaction may commit later than its time says."""

READ_ALL_MS: Final = 60_000
MOST_RULES: Final = 10_000
Rules = tuple[AlarmRule, ...]


class OpenAlarm(NamedTuple):
    """The fire and the shard of the last alarm of a rule about a job that has not recovered since.

    Attributes:
        noted_ms: When this process noted it; 0 if it was read.
    """

    root_id: int | None
    shard_index: int
    noted_ms: int = 0


OpenAlarms = dict[int, dict[int, OpenAlarm]]
"""By job id, then by rule id."""


@dataclass(slots=True)
class _Levels:
    """The rules for one kind of alarm."""

    jobs: dict[int, Rules] = field(default_factory=dict)
    groups: dict[int, Rules] = field(default_factory=dict)
    others: Rules | None = None


class RuleIndex:
    """The rules in memory, and the open alarms of each job.

    Thread-safety: the rules are replaced, never changed. One lock guards changes of open alarms, another lets one
    thread at a time read the database; a look-up needs neither.

    Attributes:
        by_id: Every rule, disabled ones too.
    """

    def __init__(self) -> None:
        self.by_id: Mapping[int, AlarmRule] = {}
        self._version: RuleVersion | None = None
        self._levels: Mapping[AlarmKind, _Levels] = {}
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._open: OpenAlarms = {}
        self._read_ms = 0
        self._read_all_ms = 0

    @property
    def kinds(self) -> Collection[AlarmKind]:
        """The kinds that some enabled rule asks for."""
        return self._levels.keys()

    def rules_for(self, kind: AlarmKind, job_id: int, group_id: int) -> Rules:
        """Return the rules for a kind and a job: the job's own, or else its group's, or else those for all jobs."""
        levels = self._levels.get(kind)
        if levels is None:
            return ()
        found = levels.jobs.get(job_id)
        if found is None:
            found = levels.groups.get(group_id)
        if found is None:
            found = levels.others
        return found or ()

    def enabled(self, kind: AlarmKind) -> list[AlarmRule]:
        """Return the enabled rules that ask for a kind, by id."""
        return [rule for _, rule in sorted(self.by_id.items()) if rule.enabled and kind in rule.kinds]

    def open_alarms(self, job_id: int) -> Mapping[int, OpenAlarm]:
        """Return a job's open alarms by rule id; mostly none."""
        return self._open.get(job_id, {})

    def note(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Note rows of alarms that were written: those that are open now, and recoveries, which close them."""
        with self._lock:
            for row in rows:
                job_id, rule_id = row["job_id"], row["rule_id"]
                known = self._open.get(job_id, {})
                if row["kind"] == AlarmKind.RECOVERED:
                    left = {key: value for key, value in known.items() if key != rule_id}
                    if left:
                        self._open[job_id] = left
                    else:
                        self._open.pop(job_id, None)
                elif len(self._open) < alarm_rows.HINTS:
                    opened = OpenAlarm(row["root_id"], row["shard_index"], row["at_ms"])
                    self._open[job_id] = {**known, rule_id: opened}

    def step(self, db: PluginDatabase, now_ms: int) -> None:
        """Read what other processes changed, at most once a second."""
        if now_ms - self._read_ms >= REFRESH_MS or now_ms < self._read_ms:
            self.refresh(db, now_ms)

    def refresh(self, db: PluginDatabase, now_ms: int) -> None:
        """Read what was changed."""
        with self._reading:
            with db.read() as conn:
                version = alarm_rules.rules_version(conn)
                if version != self._version:
                    self._index(alarm_rules.list_rules(conn, RuleFilter(), limit=MOST_RULES))
                    self._version = version
            if self._levels:
                self._read_open(db, now_ms)
            self._read_ms = now_ms

    def _index(self, rules: Sequence[AlarmRule]) -> None:
        levels: dict[AlarmKind, _Levels] = {}
        for rule in rules:
            if not rule.enabled:
                continue
            # a rule without targets hides those of the levels below, and sends nothing
            found: Rules = (rule,) if rule.targets else ()
            for kind in rule.kinds:
                level = levels.setdefault(kind, _Levels())
                if rule.job_id is not None:
                    level.jobs[rule.job_id] = level.jobs.get(rule.job_id, ()) + found
                elif rule.group_id is not None:
                    level.groups[rule.group_id] = level.groups.get(rule.group_id, ()) + found
                else:
                    level.others = (level.others or ()) + found
        self.by_id = {rule.id: rule for rule in rules}
        self._levels = levels

    def _read_open(self, db: PluginDatabase, now_ms: int) -> None:
        read_all = now_ms - self._read_all_ms >= READ_ALL_MS or now_ms < self._read_all_ms
        with db.read() as conn:
            found = alarm_rows.list_open_episodes(conn, 0 if read_all else self._read_ms - OVERLAP_MS)
        with self._lock:
            fresh = self._recent(now_ms) if read_all else dict(self._open)
            for episode in reversed(found):  # the latest last
                opened = OpenAlarm(episode.root_id, episode.shard_index)
                fresh[episode.key.job_id] = {**fresh.get(episode.key.job_id, {}), episode.key.rule_id: opened}
            self._open = fresh
        if read_all:
            self._read_all_ms = now_ms

    def _recent(self, now_ms: int) -> OpenAlarms:
        """Return what was noted just now, which the database may not show yet."""
        found: OpenAlarms = {}
        for job_id, known in self._open.items():
            for rule_id, opened in known.items():
                if opened.noted_ms > now_ms - OVERLAP_MS:
                    found.setdefault(job_id, {})[rule_id] = opened
        return found


class AlarmMatcher:
    """Writes the alarms that rules ask for.

    Args:
        index: The rules.
        wake: Called when something was written.
    """

    def __init__(self, index: RuleIndex, wake: Callable[[], None]) -> None:
        self._index = index
        self._wake = wake

    def rows(self, changes: Changes) -> Rows:
        """Return the alarms that rules ask for."""
        if not self._index.kinds:
            return {}
        return {"alarm": alarm_rows.rows_of(self.find(changes))}

    def find(self, changes: Changes) -> list[NewAlarm]:
        """Return the alarms that rules ask for."""
        kinds, now_ms = self._index.kinds, changes.now_ms
        found: list[NewAlarm] = []
        for run, end in changes.ended:
            if end.state is not RunState.SUCCEEDED:
                found += self._of_bad_end(run, end, changes.retried, now_ms)
            elif known := self._index.open_alarms(run.job_id):
                found += [
                    _of_run(run, rule_id, AlarmKind.RECOVERED, now_ms)
                    for rule_id, opened in known.items()
                    if _recovers(run, opened)
                ]
        if AlarmKind.SKIPPED in kinds:
            found += [
                _of_run(run, rule.id, AlarmKind.SKIPPED, now_ms, run.reason, run.message)
                for run in changes.inserted
                if run.state is RunState.SKIPPED
                for rule in self._index.rules_for(AlarmKind.SKIPPED, run.job_id, run.group_id)
            ]
        if AlarmKind.SCHEDULE_ERROR in kinds:
            found += [
                of_job(job, rule, AlarmKind.SCHEDULE_ERROR, now_ms, error)
                for job, error in changes.stopped
                for rule in self._index.rules_for(AlarmKind.SCHEDULE_ERROR, job.id, job.group_id)
            ]
        return found

    def committed(self, rows: Rows) -> None:
        """Note the open alarms, and have them grouped."""
        self._index.note(rows["alarm"])
        self._wake()

    def written(self, alarms: Sequence[NewAlarm]) -> None:
        """Note alarms that were written by the watch, and have them grouped."""
        if alarms:
            self.committed({"alarm": alarm_rows.rows_of(alarms)})

    def _of_bad_end(self, run: Run, end: RunEnd, retried: Collection[int], now_ms: int) -> Iterator[NewAlarm]:
        kind = KINDS.get(end.state)
        # what a person wanted to end did not fail
        if kind is None or (end.state is RunState.KILLED and run.kill_requested):
            return
        reason = end.reason or ("" if end.state is RunState.FAILED else str(end.state))
        for rule in self._index.rules_for(kind, run.job_id, run.group_id):
            if rule.when is AlarmWhen.EACH or kind not in RETRIED or run.id not in retried:
                yield _of_run(run, rule.id, kind, now_ms, reason, end.message)


def _recovers(run: Run, opened: OpenAlarm) -> bool:
    """Return False for a success of another shard of the very fire that went wrong."""
    return run.root_id != opened.root_id or run.shard_index == opened.shard_index


def _of_run(run: Run, rule_id: int, kind: AlarmKind, now_ms: int, reason: str = "", message: str = "") -> NewAlarm:
    return NewAlarm(
        rule_id=rule_id,
        job_id=run.job_id,
        group_id=run.group_id,
        partition=run.partition,
        kind=kind,
        at_ms=now_ms,
        run_id=run.id,
        root_id=run.root_id,
        shard_index=run.shard_index,
        reason=reason,
        message=message,
        count=max(1, run.skip_count),
    )


def of_job(job: Job | WatchedJob, rule: AlarmRule, kind: AlarmKind, now_ms: int, reason: str) -> NewAlarm:
    """Return an alarm of a job that is about no run."""
    return NewAlarm(
        rule_id=rule.id,
        job_id=job.id,
        group_id=job.group_id,
        partition=job.partition,
        kind=kind,
        at_ms=now_ms,
        reason=reason,
    )
