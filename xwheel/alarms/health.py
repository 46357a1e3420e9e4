"""The alarm rules in memory, and which jobs are not well: what a success costs is a look into a dictionary."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from xwheel.model.alarms import AlarmKind, AlarmRule
from xwheel.storage.alarms import alarms
from xwheel.storage.alarms import rules as alarm_rules
from xwheel.storage.alarms.rules import RuleFilter, RuleVersion
from xwheel.storage.database.engine import Database

REFRESH_MS: Final = 1000
OVERLAP_MS: Final = 10_000
"""What changed so long ago is read again: a transaction may commit later than its time says."""

WHOLE_MS: Final = 60_000
PAGE: Final = 500
Rules = tuple[AlarmRule, ...]


class Spot(NamedTuple):
    """The fire and the shard that a notice was about.

    Attributes:
        noted_ms: When this process took note of it; 0 if it was read.
    """

    root_id: int | None
    shard_index: int
    noted_ms: int = 0


@dataclass(slots=True)
class _Levels:
    """The rules for one kind of alarm."""

    jobs: dict[int, Rules] = field(default_factory=dict)
    groups: dict[int, Rules] = field(default_factory=dict)
    others: Rules | None = None


class AlarmBook:
    """Knows the rules, and which rule was told that a job is not well.

    Thread-safety: the rules are replaced, never changed. One lock guards changes of what jobs are not well, another
    lets one thread at a time read the database; a look needs neither.

    Attributes:
        by_id: Every rule, disabled ones too.

    Args:
        db: The database.
    """

    def __init__(self, db: Database) -> None:
        self.by_id: Mapping[int, AlarmRule] = {}
        self._db = db
        self._version: RuleVersion | None = None
        self._levels: Mapping[AlarmKind, _Levels] = {}
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._unwell: dict[int, dict[int, Spot]] = {}
        self._read_ms = 0
        self._whole_ms = 0

    @property
    def is_empty(self) -> bool:
        """Tell whether nobody asks for anything."""
        return not self._levels

    @property
    def kinds(self) -> Iterable[AlarmKind]:
        """Return the kinds that some rule asks for."""
        return self._levels.keys()

    def rules_for(self, kind: AlarmKind, job_id: int, group_id: int) -> Rules:
        """Return the rules that tell a kind about a job: its own, or else its group's, or else those for all."""
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

    def unwell(self, job_id: int) -> Mapping[int, Spot]:
        """Return the rules that were told that a job is not well, and about which fire; mostly none."""
        return self._unwell.get(job_id, {})

    def note_unwell(self, job_id: int, rule_id: int, spot: Spot) -> None:
        """Remember that a rule is told about a job, so that its next success is told too."""
        with self._lock:
            if len(self._unwell) < alarms.HINTS:
                self._unwell[job_id] = {**self._unwell.get(job_id, {}), rule_id: spot}

    def note_well(self, job_id: int, rule_id: int) -> None:
        """Forget that a rule is told about a job."""
        with self._lock:
            left = {key: spot for key, spot in self._unwell.get(job_id, {}).items() if key != rule_id}
            if left:
                self._unwell[job_id] = left
            else:
                self._unwell.pop(job_id, None)

    def step(self, now_ms: int) -> int:
        """See what other processes changed; return how long to wait in milliseconds."""
        if now_ms - self._read_ms >= REFRESH_MS or now_ms < self._read_ms:
            self.refresh(now_ms)
        return REFRESH_MS

    def refresh(self, now_ms: int) -> None:
        """See now what was changed."""
        with self._reading:
            with self._db.read() as conn:
                version = alarm_rules.rules_version(conn)
            if version != self._version:
                self._take_rules(self._read_rules())
                self._version = version
            if not self.is_empty:
                self._read_unwell(now_ms)
            self._read_ms = now_ms

    def _read_unwell(self, now_ms: int) -> None:
        is_whole = now_ms - self._whole_ms >= WHOLE_MS or now_ms < self._whole_ms
        with self._db.read() as conn:
            found = alarms.list_open_episodes(conn, 0 if is_whole else self._read_ms - OVERLAP_MS)
        self._take_unwell(found, now_ms, is_whole=is_whole)
        if is_whole:
            self._whole_ms = now_ms

    def _read_rules(self) -> list[AlarmRule]:
        found: list[AlarmRule] = []
        while True:
            with self._db.read() as conn:
                after_id = found[-1].id if found else 0
                page = alarm_rules.list_rules(conn, RuleFilter(), after_id=after_id, limit=PAGE)
            found += page
            if len(page) < PAGE:
                return found

    def _take_rules(self, rules: Sequence[AlarmRule]) -> None:
        levels: dict[AlarmKind, _Levels] = {}
        for rule in rules:
            if not rule.enabled:
                continue
            for kind in rule.kinds:
                level = levels.setdefault(kind, _Levels())
                told: Rules = (
                    (rule,) if rule.targets else ()
                )  # one without targets hides those below, and is silent
                if rule.job_id is not None:
                    level.jobs[rule.job_id] = level.jobs.get(rule.job_id, ()) + told
                elif rule.group_id is not None:
                    level.groups[rule.group_id] = level.groups.get(rule.group_id, ()) + told
                else:
                    level.others = (level.others or ()) + told
        self.by_id = {rule.id: rule for rule in rules}
        self._levels = levels

    def _take_unwell(self, episodes: Sequence[alarms.Episode], now_ms: int, *, is_whole: bool) -> None:
        with self._lock:
            fresh = self._recent(now_ms) if is_whole else dict(self._unwell)
            for episode in reversed(episodes):  # the latest last
                spots = fresh.get(episode.key.job_id, {})
                spot = Spot(episode.root_id, episode.shard_index)
                fresh[episode.key.job_id] = {**spots, episode.key.rule_id: spot}
            self._unwell = fresh

    def _recent(self, now_ms: int) -> dict[int, dict[int, Spot]]:
        """Return what was noted just now, which the database may not show yet."""
        found: dict[int, dict[int, Spot]] = {}
        for job_id, spots in self._unwell.items():
            for rule_id, spot in spots.items():
                if spot.noted_ms > now_ms - OVERLAP_MS:
                    found.setdefault(job_id, {})[rule_id] = spot
        return found
